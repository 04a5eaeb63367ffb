package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/storage"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// chromium is the browser of Debian's package of that name.
const chromium = "/usr/bin/chromium"

// patience is how long a condition may take on a machine that has other things to do.
const patience = 60 * time.Second

// browser is one process for all tests; each test has a page of its own, which finds nothing of the page before it but the console's files.
type browser struct{ ctx context.Context }

func launch(t *testing.T) *browser {
	t.Helper()
	_, err := os.Stat(chromium)
	require.NoError(t, err, "a browser is needed: install the package chromium (apt-get install chromium)")
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WSURLReadTimeout(patience),
		chromedp.Flag("headless", "new"), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("hide-scrollbars", true), chromedp.Flag("force-prefers-reduced-motion", true), chromedp.Flag("lang", "en-US"),
		// No name is ever looked up: what the pages must not ask for, they do not get either.
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
		chromedp.UserDataDir(t.TempDir()),
	)
	ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	require.NoError(t, chromedp.Do(ctx), "start %s", chromium)
	return &browser{ctx: ctx}
}

// tab is a page that was opened, and what happened on it.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string

	mu       sync.Mutex
	requests []string
	errors   []string
}

// witness notes on a page what must not happen: errors, refusals of the policy, and code of a model that runs.
const witness = `window.__bad = []; window.__refused = [];
window.canary = (why) => __bad.push('canary: ' + why); window.alert = window.prompt = window.confirm = () => canary('dialog');
addEventListener('error', (e) => __bad.push('error: ' + e.message));
addEventListener('unhandledrejection', (e) => __bad.push('rejection: ' + (e.reason?.stack ?? e.reason)));
document.addEventListener('securitypolicyviolation', (e) => __refused.push(e.violatedDirective + ' ' + e.blockedURI));`

// open opens a page of its own at a path of the gateway.
func (b *browser) open(t *testing.T, base, path string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	t.Cleanup(cancel)
	p := &tab{t: t, ctx: ctx, base: base}
	require.NoError(t, chromedp.Listen(ctx, p.note))
	_, err := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	require.NoError(t, err)
	_, err = chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: witness})
	require.NoError(t, err)
	_, err = chromedp.Call(ctx, storage.ClearDataForOrigin, storage.ClearDataForOriginParams{Origin: base, StorageTypes: "local_storage"})
	require.NoError(t, err)
	p.size(1280, 800, 1)
	p.visit(path)
	t.Cleanup(func() { p.clean() })
	return p
}

func (p *tab) note(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		p.requests = append(p.requests, e.Request.URL)
	case *runtime.EventExceptionThrown:
		p.errors = append(p.errors, fmt.Sprint(e.ExceptionDetails.Text, e.ExceptionDetails.Exception))
	}
}

// clean is what holds of every page at its end: no error, nothing that the policy had to refuse, no request to another host.
func (p *tab) clean() {
	if p.t.Failed() || p.ctx.Err() != nil {
		return
	}
	require.Empty(p.t, eval[[]string](p, `__bad`))
	require.Empty(p.t, eval[[]string](p, `__refused`))
	p.onlyHome()
}

func (p *tab) onlyHome() {
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Empty(p.t, p.errors)
	for _, address := range p.requests {
		u, err := url.Parse(address)
		require.NoError(p.t, err)
		if u.Scheme != "data" && u.Scheme != "blob" {
			require.True(p.t, strings.HasPrefix(address, p.base+"/"), "a request left the server: %s", address)
		}
	}
}

func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	require.NoError(p.t, chromedp.Do(ctx, steps...))
}

func (p *tab) visit(path string) {
	p.t.Helper()
	p.do(chromedp.Navigate(p.base + path))
}

func (p *tab) size(width, height int64, scale float64) {
	p.t.Helper()
	p.do(chromedp.EmulateViewport(width, height, chromedp.EmulateScale(scale)))
}

func (p *tab) dark(on bool) {
	p.t.Helper()
	value := "light"
	if on {
		value = "dark"
	}
	_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: value}},
	})
	require.NoError(p.t, err)
}

// eval is the value of an expression, awaited where it is a promise.
func eval[T any](p *tab, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(p.t, err, expression)
	return v
}

// until waits on the page until an expression is true. It says what the page shows when that never happens.
func (p *tab) until(expression string) {
	p.t.Helper()
	failure := eval[string](p, fmt.Sprintf(`new Promise((done) => {
		const end = performance.now() + %d;
		(function look() {
			let why = 'false';
			try { if (%s) return done(''); } catch (err) { why = String(err); }
			if (performance.now() > end) return done(why + '\n' + document.body.innerText.slice(0, 3000) + '\n' + JSON.stringify(__bad));
			setTimeout(look, 15);
		})();
	})`, (patience-10*time.Second).Milliseconds(), expression))
	require.Empty(p.t, failure, "never came true: %s", expression)
}

// sees waits until the page shows a text.
func (p *tab) sees(text string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`document.body.innerText.includes(%s)`, quoted(text)))
}

func quoted(v any) string {
	text, _ := json.Marshal(v) // strings and numbers
	return string(text)
}

// click clicks as a mouse does what a selector finds, or the button of a label.
func (p *tab) click(selector string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`document.querySelector(%s)?.disabled === false || document.querySelector(%[1]s)?.disabled === undefined && document.querySelector(%[1]s)`,
		quoted(selector)))
	p.do(chromedp.Click(chromedp.CSS(selector)))
}

func (p *tab) press(label string) {
	p.t.Helper()
	find := fmt.Sprintf(`[...document.querySelectorAll('button')].filter((b) => (b.textContent.trim() || b.ariaLabel) === %s && !b.disabled && b.checkVisibility()).at(-1)`, quoted(label))
	p.until(find)
	p.do(chromedp.Evaluate[chromedp.Void](find + ".setAttribute('data-test', 'pressed')"))
	p.click(`[data-test="pressed"]`)
	p.do(chromedp.Evaluate[chromedp.Void](`document.querySelector('[data-test="pressed"]')?.removeAttribute('data-test')`))
}

// key presses one key as a keyboard does: what the key writes comes with its going down, so that a page can prevent it.
func (p *tab) key(key rune, modifiers ...kb.Modifier) {
	p.t.Helper()
	events := kb.Encode(key)
	down, up := *events[0], *events[len(events)-1]
	for _, m := range modifiers {
		down.Modifiers, up.Modifiers = down.Modifiers|int64(m), up.Modifiers|int64(m)
	}
	if len(events) == 3 && down.Modifiers&^int64(kb.ModifierShift) == 0 {
		down.Text, down.UnmodifiedText = events[1].Text, events[1].UnmodifiedText
	}
	for _, e := range []input.DispatchKeyEventParams{down, up} {
		_, err := chromedp.Call(p.ctx, input.DispatchKeyEvent, e)
		require.NoError(p.t, err)
	}
}

// write puts text where the cursor is.
func (p *tab) write(text string) {
	p.t.Helper()
	_, err := chromedp.Call(p.ctx, input.InsertText, input.InsertTextParams{Text: text})
	require.NoError(p.t, err)
}

// say writes a message as a person does and sends it with Enter.
func (p *tab) say(text string) {
	p.t.Helper()
	p.until(`document.getElementById('message')`)
	p.do(chromedp.Focus(chromedp.CSS("#message")))
	p.write(text)
	p.until(`document.getElementById('message').value === ` + quoted(text))
	p.key([]rune(kb.Enter)[0])
	p.until(`document.getElementById('message').value === ''`)
}

func (p *tab) reload() {
	p.t.Helper()
	p.do(chromedp.Reload())
}

// picture writes what the page shows into a file of docs/images.
func (p *tab) picture(dir, name string) {
	p.t.Helper()
	p.do(chromedp.Evaluate[chromedp.Void](`new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)))`, chromedp.EvalAwaitPromise))
	data, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	require.NoError(p.t, err)
	require.NoError(p.t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
}

// shift and control are held while a key is pressed.
const (
	shift   = kb.ModifierShift
	control = kb.ModifierCtrl
)

// eval0 runs an expression for what it does.
func eval0(expression string) chromedp.Action[chromedp.Void] {
	return chromedp.Evaluate[chromedp.Void](expression)
}

// setSelect picks an option of the choice that has a label.
func setSelect(label, value string) chromedp.Action[chromedp.Void] {
	return eval0(fmt.Sprintf(`(() => { const e = document.querySelector('select[aria-label=' + JSON.stringify(%s) + ']'); e.value = %s;
		if (e.value !== %[2]s) throw new Error('no such option'); e.dispatchEvent(new Event('change', { bubbles: true })); })()`, quoted(label), quoted(value)))
}
