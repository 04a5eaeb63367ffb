package pictures_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// chromium is the browser of Debian's package of that name.
const chromium = "/usr/bin/chromium"

// patience is how long a page may take on a machine that has other things to do.
const patience = time.Minute

// width of all pictures, in pixels.
const width = 1440

// largest is what a picture may have in bytes.
const largest = 250 << 10

// browser is one process; pages of it share nothing.
type browser struct {
	ctx context.Context
	dir string // where pictures go
}

func browse(t *testing.T, dir string) *browser {
	t.Helper()
	_, err := os.Stat(chromium)
	require.NoError(t, err, "a browser is needed: install the package chromium (apt-get install chromium)")
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WSURLReadTimeout(patience),
		chromedp.Flag("headless", "new"), chromedp.Flag("hide-scrollbars", true), chromedp.Flag("lang", "en-US"),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
		chromedp.UserDataDir(t.TempDir()),
	)
	ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	require.NoError(t, chromedp.Do(ctx), "start %s", chromium)
	return &browser{ctx: ctx, dir: dir}
}

// tab is a page in a profile of its own.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string
	dir  string
}

// open opens a page of a server, and runs script in it before the server's own scripts.
func (b *browser) open(t *testing.T, base, script string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	p := &tab{t: t, ctx: ctx, base: base, dir: b.dir}
	_, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
	require.NoError(t, err)
	p.do(chromedp.EmulateViewport(width, 1600)) // the Web UI draws what is in sight alone
	return p
}

func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	require.NoError(p.t, chromedp.Do(ctx, steps...))
}

// visit goes to a path and waits for a condition there.
func (p *tab) visit(path, condition string) {
	p.t.Helper()
	p.do(chromedp.Navigate(p.base + path))
	p.until(condition)
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

// until waits until an expression is true on the page, across navigations, and says what the page shows instead when that never happens.
func (p *tab) until(expression string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	look := fmt.Sprintf(`(() => { const text = () => %s; return !!(%s) })()`, shown, expression)
	for {
		if seen, err := chromedp.Run(ctx, chromedp.Evaluate[bool](look)); err == nil && seen {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			require.Fail(p.t, "it never came true", "%s\n%s", expression, eval[string](p, `location.href + '\n' + document.body.innerText.slice(-1500)`))
		}
	}
}

// shown is the text that is seen: the Web UI draws timelines, and Markdown in frames of its own.
const shown = `[document.body, ...document.querySelectorAll('svg text'), ...[...document.querySelectorAll('iframe')].map((f) => f.contentDocument?.body)]
	.map((e) => e?.innerText ?? e?.textContent ?? '').join('\n')`

// says is a condition: the page's text has all of these.
func says(texts ...string) string {
	list, _ := json.Marshal(texts) // strings
	return fmt.Sprintf(`%s.every((part) => text().includes(part))`, list)
}

// click waits for the element that an expression returns, and clicks it.
func (p *tab) click(element string) {
	p.t.Helper()
	p.until(element)
	p.do(chromedp.Evaluate[chromedp.Void](element + `.setAttribute('data-test', 'clicked')`))
	p.do(chromedp.Click(chromedp.CSS(`[data-test="clicked"]`)))
}

// settled is a promise: fonts are there, frames have their sizes, and what was resized is drawn.
const settled = `document.fonts.ready.then(() => new Promise((r) => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(r)), 500)))`

// picture writes what the page shows, down to a height, into a file.
func (p *tab) picture(name string, height int64) {
	p.t.Helper()
	p.do(chromedp.EmulateViewport(width, height), chromedp.Evaluate[chromedp.Void](settled, chromedp.EvalAwaitPromise))
	data, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	require.NoError(p.t, err)
	data = smaller(p.t, data)
	require.Less(p.t, len(data), largest, "%s is too large to be kept", name)
	require.NoError(p.t, os.WriteFile(filepath.Join(p.dir, name), data, 0o644))
}

// smaller is a picture with its 256 most frequent colours, which is all that can be told apart of a page of text.
func smaller(t *testing.T, data []byte) []byte {
	t.Helper()
	decoded, err := png.Decode(bytes.NewReader(data))
	require.NoError(t, err)
	area := decoded.Bounds()
	shown := image.NewRGBA(area) // of one type, so that the loops need no interfaces
	draw.Draw(shown, area, decoded, area.Min, draw.Src)
	seen := map[color.RGBA]int{}
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			seen[shown.RGBAAt(x, y)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(seen), func(a, b color.RGBA) int { return seen[b] - seen[a] })
	var palette color.Palette
	for _, c := range colours[:min(256, len(colours))] {
		palette = append(palette, c)
	}
	out := image.NewPaletted(area, palette)
	nearest := make(map[color.RGBA]uint8, len(colours))
	for _, c := range colours {
		nearest[c] = uint8(palette.Index(c))
	}
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			out.SetColorIndex(x, y, nearest[shown.RGBAAt(x, y)])
		}
	}
	var file bytes.Buffer
	require.NoError(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&file, out))
	return file.Bytes()
}
