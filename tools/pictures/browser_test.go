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

// chromium is the browser in Debian's package chromium.
const chromium = "/usr/bin/chromium"

// pageTimeout bounds each step on a page.
const pageTimeout = time.Minute

// width is the width of all pictures in pixels.
const width = 1440

// maxPicture is the largest size of a picture in bytes.
const maxPicture = 250 << 10

// browser is a browser process. Its pages share no state.
type browser struct {
	ctx context.Context
	dir string // folder of the pictures
}

func browse(t *testing.T, dir string) *browser {
	t.Helper()
	_, err := os.Stat(chromium)
	require.NoError(t, err, "a browser is needed: install the package chromium (apt-get install chromium)")
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WSURLReadTimeout(pageTimeout),
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

// tab is a page with its own profile.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string
	dir  string
}

// open opens an empty page. Each page of the server at base runs the script before its own scripts.
func (b *browser) open(t *testing.T, base, script string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	p := &tab{t: t, ctx: ctx, base: base, dir: b.dir}
	_, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
	require.NoError(t, err)
	p.do(chromedp.EmulateViewport(width, 1600)) // the Web UI draws only what is in the viewport
	return p
}

func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, pageTimeout)
	defer cancel()
	require.NoError(p.t, chromedp.Do(ctx, steps...))
}

// visit opens a path and waits until a condition is true.
func (p *tab) visit(path, condition string) {
	p.t.Helper()
	p.do(chromedp.Navigate(p.base + path))
	p.until(condition)
}

// eval returns the value of an expression. If it is a promise, eval awaits it.
func eval[T any](p *tab, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, pageTimeout)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(p.t, err, expression)
	return v
}

// until waits until an expression is true on the page. If it does not become true, the test fails with the text of the page.
func (p *tab) until(expression string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, pageTimeout)
	defer cancel()
	look := fmt.Sprintf(`(() => { const text = () => %s; return !!(%s) })()`, visibleText, expression)
	for {
		if isTrue, err := chromedp.Run(ctx, chromedp.Evaluate[bool](look)); err == nil && isTrue {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			require.Fail(p.t, "it never came true", "%s\n%s", expression, eval[string](p, `location.href + '\n' + document.body.innerText.slice(-1500)`))
		}
	}
}

// visibleText is an expression for the text on a page, including that of drawings and frames.
const visibleText = `[document.body, ...document.querySelectorAll('svg text'), ...[...document.querySelectorAll('iframe')].map((f) => f.contentDocument?.body)]
	.map((e) => e?.innerText ?? e?.textContent ?? '').join('\n')`

// says returns a condition that is true if the page has all of the texts.
func says(texts ...string) string {
	list, _ := json.Marshal(texts) // strings always encode
	return fmt.Sprintf(`%s.every((part) => text().includes(part))`, list)
}

// click waits for the element that an expression returns, and clicks it.
func (p *tab) click(element string) {
	p.t.Helper()
	p.until(element)
	p.do(chromedp.Evaluate[chromedp.Void](element + `.setAttribute('data-test', 'clicked')`))
	p.do(chromedp.Click(chromedp.CSS(`[data-test="clicked"]`)))
}

// drawn is a promise that resolves when fonts are loaded, frames have their sizes, and the page is drawn.
const drawn = `document.fonts.ready.then(() => new Promise((r) => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(r)), 500)))`

// picture writes a screenshot of the top of the page to a file.
func (p *tab) picture(name string, height int64) {
	p.t.Helper()
	p.do(chromedp.EmulateViewport(width, height), chromedp.Evaluate[chromedp.Void](drawn, chromedp.EvalAwaitPromise))
	data, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	require.NoError(p.t, err)
	data = smaller(p.t, data)
	require.Less(p.t, len(data), maxPicture, "%s is too large", name)
	require.NoError(p.t, os.WriteFile(filepath.Join(p.dir, name), data, 0o644))
}

// smaller returns a picture with its 256 most frequent colors, which are enough for a page of text.
func smaller(t *testing.T, data []byte) []byte {
	t.Helper()
	decoded, err := png.Decode(bytes.NewReader(data))
	require.NoError(t, err)
	area := decoded.Bounds()
	source := image.NewRGBA(area) // faster than the interface image.Image
	draw.Draw(source, area, decoded, area.Min, draw.Src)
	counts := map[color.RGBA]int{}
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			counts[source.RGBAAt(x, y)]++
		}
	}
	colors := slices.SortedFunc(maps.Keys(counts), func(a, b color.RGBA) int { return counts[b] - counts[a] })
	var palette color.Palette
	for _, c := range colors[:min(256, len(colors))] {
		palette = append(palette, c)
	}
	out := image.NewPaletted(area, palette)
	nearest := make(map[color.RGBA]uint8, len(colors))
	for _, c := range colors {
		nearest[c] = uint8(palette.Index(c))
	}
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			out.SetColorIndex(x, y, nearest[source.RGBAAt(x, y)])
		}
	}
	var file bytes.Buffer
	require.NoError(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&file, out))
	return file.Bytes()
}
