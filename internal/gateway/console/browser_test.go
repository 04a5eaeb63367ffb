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

// chromium is the browser of Debian's package chromium.
const chromium = "/usr/bin/chromium"

// testTimeout allows for a busy machine.
const testTimeout = 60 * time.Second

// browser is one process for all tests. Each test opens its own tab, which has no state of earlier tabs but the cached files.
type browser struct{ ctx context.Context }

func startBrowser(t *testing.T) *browser {
	t.Helper()
	_, err := os.Stat(chromium)
	require.NoError(t, err, "a browser is needed: install the package chromium (apt-get install chromium)")
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WSURLReadTimeout(testTimeout),
		chromedp.Flag("headless", "new"), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("hide-scrollbars", true), chromedp.Flag("force-prefers-reduced-motion", true), chromedp.Flag("lang", "en-US"),
		// No host name resolves, so that pages get nothing from other hosts.
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

// tab is a tab of the browser. It records the requests and exceptions.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string

	mu       sync.Mutex
	requests []string
	errors   []string
}

// observerScript records what must not happen on a page: errors, violations of the policy, and calls of canary by a model's text.
const observerScript = `window.__bad = []; window.__violations = [];
window.canary = (why) => __bad.push('canary: ' + why); window.alert = window.prompt = window.confirm = () => canary('dialog');
addEventListener('error', (e) => __bad.push('error: ' + e.message));
addEventListener('unhandledrejection', (e) => __bad.push('rejection: ' + (e.reason?.stack ?? e.reason)));
document.addEventListener('securitypolicyviolation', (e) => __violations.push(e.violatedDirective + ' ' + e.blockedURI));`

// open opens a new tab at a path of the gateway.
func (b *browser) open(t *testing.T, base, path string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	t.Cleanup(cancel)
	p := &tab{t: t, ctx: ctx, base: base}
	require.NoError(t, chromedp.Listen(ctx, p.record))
	_, err := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	require.NoError(t, err)
	_, err = chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: observerScript})
	require.NoError(t, err)
	_, err = chromedp.Call(ctx, storage.ClearDataForOrigin, storage.ClearDataForOriginParams{Origin: base, StorageTypes: "local_storage"})
	require.NoError(t, err)
	p.resize(1280, 800, 1)
	p.visit(path)
	t.Cleanup(func() { p.requireClean() })
	return p
}

func (p *tab) record(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		p.requests = append(p.requests, e.Request.URL)
	case *runtime.EventExceptionThrown:
		p.errors = append(p.errors, fmt.Sprint(e.ExceptionDetails.Text, e.ExceptionDetails.Exception))
	}
}

// requireClean checks that a page had no error, no violation of the policy, and no request to another host. open calls it after the test.
func (p *tab) requireClean() {
	if p.t.Failed() || p.ctx.Err() != nil {
		return
	}
	require.Empty(p.t, eval[[]string](p, `__bad`))
	require.Empty(p.t, eval[[]string](p, `__violations`))
	p.requireLocalRequests()
}

func (p *tab) requireLocalRequests() {
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Empty(p.t, p.errors)
	for _, address := range p.requests {
		u, err := url.Parse(address)
		require.NoError(p.t, err)
		if u.Scheme != "data" && u.Scheme != "blob" {
			require.True(p.t, strings.HasPrefix(address, p.base+"/"), "a request to another host: %s", address)
		}
	}
}

func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, testTimeout)
	defer cancel()
	require.NoError(p.t, chromedp.Do(ctx, steps...))
}

func (p *tab) visit(path string) {
	p.t.Helper()
	p.do(chromedp.Navigate(p.base + path))
}

// goTo opens a view of the console without loading the page again.
func (p *tab) goTo(view string) {
	p.t.Helper()
	p.do(runJS(`location.hash = ` + quoted("#/"+view)))
}

func (p *tab) resize(width, height int64, scale float64) {
	p.t.Helper()
	p.do(chromedp.EmulateViewport(width, height, chromedp.EmulateScale(scale)))
}

func (p *tab) setDark(on bool) {
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

// eval evaluates an expression, and waits if its value is a promise.
func eval[T any](p *tab, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, testTimeout)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(p.t, err, expression)
	return v
}

// until waits until an expression is true on the page. If it stays false, the test fails with the page's text.
func (p *tab) until(expression string) {
	p.t.Helper()
	failure := eval[string](p, fmt.Sprintf(`new Promise((done) => {
		const end = performance.now() + %d;
		(function check() {
			let why = 'false';
			try { if (%s) return done(''); } catch (err) { why = String(err); }
			if (performance.now() > end) return done(why + '\n' + document.body.innerText.slice(0, 3000) + '\n' + JSON.stringify(__bad));
			setTimeout(check, 15);
		})();
	})`, (testTimeout-10*time.Second).Milliseconds(), expression))
	require.Empty(p.t, failure, "stayed false: %s", expression)
}

// sees waits until the page shows a text.
func (p *tab) sees(text string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`document.body.innerText.includes(%s)`, quoted(text)))
}

// quoted returns v as a JavaScript literal.
func quoted(v any) string {
	text, _ := json.Marshal(v) // values of tests, which can be encoded
	return string(text)
}

// click clicks with the mouse on the element of a selector.
func (p *tab) click(selector string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`document.querySelector(%s)?.disabled === false || document.querySelector(%[1]s)?.disabled === undefined && document.querySelector(%[1]s)`,
		quoted(selector)))
	p.do(chromedp.Click(chromedp.CSS(selector)))
}

// press clicks the last visible button with a label.
func (p *tab) press(label string) {
	p.t.Helper()
	button := fmt.Sprintf(`[...document.querySelectorAll('button')].filter((b) => (b.textContent.trim() || b.ariaLabel) === %s && !b.disabled && b.checkVisibility()).at(-1)`, quoted(label))
	p.until(button)
	p.do(chromedp.Evaluate[chromedp.Void](button + ".setAttribute('data-test', 'pressed')"))
	p.click(`[data-test="pressed"]`)
	p.do(chromedp.Evaluate[chromedp.Void](`document.querySelector('[data-test="pressed"]')?.removeAttribute('data-test')`))
}

// key presses a key. As with a keyboard, the character belongs to the keydown event, so that a page can prevent it.
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

// write inserts text at the cursor.
func (p *tab) write(text string) {
	p.t.Helper()
	_, err := chromedp.Call(p.ctx, input.InsertText, input.InsertTextParams{Text: text})
	require.NoError(p.t, err)
}

// say types a message and sends it with Enter.
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

// screenshot writes a picture of the page into a file.
func (p *tab) screenshot(dir, name string) {
	p.t.Helper()
	p.do(chromedp.Evaluate[chromedp.Void](`new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)))`, chromedp.EvalAwaitPromise))
	data, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	require.NoError(p.t, err)
	require.NoError(p.t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
}

// Modifiers of [tab.key].
const (
	shift   = kb.ModifierShift
	control = kb.ModifierCtrl
)

// runJS runs an expression without a result.
func runJS(expression string) chromedp.Action[chromedp.Void] {
	return chromedp.Evaluate[chromedp.Void](expression)
}

// setSelect chooses an option of the select element with a label.
func setSelect(label, value string) chromedp.Action[chromedp.Void] {
	return runJS(fmt.Sprintf(`(() => { const e = document.querySelector('select[aria-label=' + JSON.stringify(%s) + ']'); e.value = %s;
		if (e.value !== %[2]s) throw new Error('no such option'); e.dispatchEvent(new Event('change', { bubbles: true })); })()`, quoted(label), quoted(value)))
}
