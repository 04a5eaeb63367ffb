package e2e_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone"
	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/llmtest"
	"github.com/turnstone-run/turnstone/turnstonetest"
)

// deskAnswers asks for the tool on "note it", and says what the prompt asks for.
func deskAnswers(x *turnstonetest.Exchange) {
	switch {
	case strings.Contains(x.Body, `"role":"tool"`):
		turnstonetest.Say("noted, in full")(x)
	case strings.Contains(x.Body, "note it"):
		turnstonetest.Call("note", `{}`)(x)
	case strings.Contains(x.Body, "Be brief."):
		turnstonetest.Say("brief")(x)
	default:
		turnstonetest.Say("at length")(x)
	}
}

const deskAgent = `
kind: ModelProfile
name: desk-model
provider: openai
model: desk
base_url: %s
---
kind: AgentInstance
name: desk
node_id: agent
node_version: "1"
parameters: {system_message: Take your time.}
models: [desk-model]
tools: [effects]
middleware: [{name: human_in_the_loop, options: {default: ask}}]
`

// consolePage is the console in a browser.
type consolePage struct {
	t   *testing.T
	ctx context.Context
}

// openConsole opens the console of a service in a browser of its own.
func openConsole(t *testing.T, address string) *consolePage {
	t.Helper()
	const browser = "/usr/bin/chromium"
	_, err := os.Stat(browser)
	require.NoError(t, err, "a browser is needed: install the package chromium")
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(browser), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.WSURLReadTimeout(time.Minute), chromedp.Flag("headless", "new"), chromedp.UserDataDir(t.TempDir()))
	allocator, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	p := &consolePage{t: t, ctx: ctx}
	require.NoError(t, chromedp.Do(ctx, chromedp.Navigate("http://"+address+"/")))
	return p
}

// until waits until an expression is true on the page, and says what the page shows if it never is.
func (p *consolePage) until(expression string) {
	p.t.Helper()
	shown, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](fmt.Sprintf(`new Promise((done) => {
		const end = performance.now() + 60000;
		(function look() {
			try { if (%s) return done(''); } catch { /* not there yet */ }
			if (performance.now() > end) return done(document.body.innerText.slice(0, 3000));
			setTimeout(look, 20);
		})();
	})`, expression), chromedp.EvalAwaitPromise))
	require.NoError(p.t, err)
	require.Empty(p.t, shown, "never came true: %s", expression)
}

// sees waits until the page shows a text.
func (p *consolePage) sees(text string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`document.body.innerText.includes(%q)`, text))
}

// press clicks the last button of a label.
func (p *consolePage) press(label string) {
	p.t.Helper()
	button := fmt.Sprintf(`[...document.querySelectorAll('button, a')].filter((b) => (b.textContent.trim() || b.ariaLabel) === %q && !b.disabled).at(-1)`, label)
	p.until(button)
	require.NoError(p.t, chromedp.Do(p.ctx, chromedp.Evaluate[chromedp.Void](button+`.click()`)))
}

// write puts a text into the field that a selector finds, in place of what it has.
func (p *consolePage) write(selector, text string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`document.querySelector(%q)`, selector))
	require.NoError(p.t, chromedp.Do(p.ctx, chromedp.Evaluate[chromedp.Void](fmt.Sprintf(
		`(() => { const e = document.querySelector(%q); e.value = %q; e.dispatchEvent(new Event('input', { bubbles: true })); })()`, selector, text))))
}

// visit goes to a view of the console.
func (p *consolePage) visit(view string) {
	p.t.Helper()
	require.NoError(p.t, chromedp.Do(p.ctx, chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`location.hash = %q`, view))))
}

// TestConsole is an operator's day in a real browser: a message, an approval, the turn in the list and step by step, the turn run again with another
// prompt and both compared, a draft that is tried and applied, usage and audit trail.
func TestConsole(t *testing.T) {
	t.Parallel()
	provider := turnstonetest.NewModel(t, deskAnswers)
	noted := &effects{calls: map[agent.TurnID]int{}}
	s := startService(t, turnstone.Config{Settings: turnstonetest.Settings(t), Toolkits: []agent.Toolkit{noted}})
	s.apply(fmt.Sprintf(deskAgent, llmtest.OpenAI{}.BaseURL(provider.URL())))
	out, _ := s.run(agent.TurnRequest{Agent: "desk", Message: "how was the day?", SessionID: "yesterday"})
	require.Equal(t, "at length", out.Output, "%+v", out.Error)

	p := openConsole(t, s.HTTPAddr())
	p.visit("#/catalog/edit/AgentInstance/desk")
	p.press("Chat with desk")
	p.write("#message", "note it")
	p.press("Send")
	p.press("Approve")
	p.sees("noted, in full")

	p.visit("#/turns")
	p.sees("how was the day?")
	p.visit("#/turns/" + string(out.TurnID))
	p.until(`document.querySelectorAll('.step.model').length === 1`)
	p.press("Run again")
	p.write(`[name="prompt"]`, "Be brief.")
	p.until(`[...document.querySelectorAll('form button')].some((b) => b.textContent.trim() === 'Run again')`)
	p.press("Run again")
	p.until(`document.querySelector('.beside')?.textContent.includes('at length') && document.querySelector('.beside').textContent.includes('brief')`)

	p.visit("#/catalog/edit/AgentInstance/desk")
	p.until(`document.querySelector('[name="text"]')?.value.includes('Take your time.')`)
	_, document, _ := strings.Cut(deskAgent, "---\n")
	p.write(`[name="text"]`, strings.Replace(document, "Take your time.", "Be brief.", 1))
	p.write(`[name="message"]`, "how was it?")
	p.press("Try the draft")
	p.until(`document.querySelector('.tried')?.textContent.includes('brief')`)
	again, _ := s.run(agent.TurnRequest{Agent: "desk", Message: "and now?"})
	require.Equal(t, "at length", again.Output, "a draft is not applied")
	p.press("Apply")
	require.Eventually(t, func() bool {
		out, _ := s.run(agent.TurnRequest{Agent: "desk", Message: "and now?"})
		return out.Output == "brief"
	}, 30*time.Second, 100*time.Millisecond)

	p.visit("#/usage")
	p.sees("desk")
	p.visit("#/audit")
	p.sees("catalog.write")
}
