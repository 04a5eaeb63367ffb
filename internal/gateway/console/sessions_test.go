package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

// choose waits for a select element and chooses an option.
func (p *tab) choose(label, value string) {
	p.t.Helper()
	p.until(`document.querySelector('select[aria-label=` + quoted(label) + `]')`)
	p.do(setSelect(label, value))
}

// testConversations lists the conversations of all users in a browser that started none of them.
func testConversations(t *testing.T, b *browser) {
	h := newServer(t, nil)
	for i := range 52 {
		h.runTurn(t, fmt.Sprintf("s-%d", i), "ann", fmt.Sprintf("question %d", i), agent.TurnCompleted)
	}
	h.runTurn(t, "s-broken", "bob", "a broken one", agent.TurnFailed)
	running := h.runTurn(t, "s-running", "bob", "what runs", "")
	p := b.open(t, h.url, "/")
	titles := `[...document.querySelectorAll('.conversations .title')].map((e) => e.textContent).join()`
	p.until(titles + `.startsWith('what runs,a broken one,question 51,question 50,')`)
	require.Equal(t, 50, eval[int](p, `document.querySelectorAll('.conversations a').length`), "one page")
	p.press("Older")
	p.until(titles + ` === 'question 3,question 2,question 1,question 0'`)
	p.press("Newest")
	p.until(titles + `.startsWith('what runs')`)

	// Search and filters.
	p.do(chromedp.Focus(chromedp.CSS(`input[aria-label="Search conversations"]`)))
	p.write("QUESTION 7")
	p.until(titles + ` === 'question 7'`)
	p.do(runJS(`document.activeElement.select()`))
	p.key([]rune(kb.Backspace)[0])
	p.choose("Status of the conversations", "failed")
	p.until(titles + ` === 'a broken one'`)
	p.choose("Status of the conversations", "")
	p.choose("Agent of the conversations", "clerk")
	p.sees("Nothing matches.")
	p.choose("Agent of the conversations", "")

	// The transcript of another user's session, and its title, which all browsers show.
	p.until(titles + `.startsWith('what runs,a broken')`)
	p.click(`[data-session="s-51"] a`)
	p.until(`document.querySelector('.said p')?.textContent === 'question 51' && document.querySelector('.prose').innerText.trim() === 'Here you are.'`)
	p.do(chromedp.Focus(chromedp.CSS(`[data-session="s-51"] a`)))
	rename := func(title string) {
		p.key([]rune(kb.F2)[0])
		p.until(`document.activeElement.ariaLabel === 'Title'`)
		p.write(title)
		p.key('\r')
	}
	rename("My favourite")
	p.until(`document.querySelector('[data-session="s-51"] .title').textContent === 'My favourite' && document.title.startsWith('My favourite')`)
	require.NoError(t, h.SetTitle(t.Context(), agent.DefaultTenant, "s-0", "Not on <b>\u202ethis\u202c page", "bob"))
	other := b.open(t, h.url, "/#/chat/s-0") // has no state of the first tab
	other.until(`document.querySelector('[data-session="s-51"] .title')?.textContent === 'My favourite'`)
	other.until(`document.title.startsWith('Not on <b>\\u202ethis\\u202c page')`)
	other.choose("Status of the conversations", "completed")
	other.do(chromedp.Focus(chromedp.CSS(`input[aria-label="Search conversations"]`)))
	other.write("FAVOURITE")
	other.until(titles + ` === 'My favourite'`)
	p.do(chromedp.Focus(chromedp.CSS(`[data-session="s-51"] a`)))
	rename(" ")
	p.until(`document.querySelector('[data-session="s-51"] .title').textContent === 'question 51' && document.title.startsWith('question 51')`)

	// A title that the server refuses stays in its field, with the reason.
	_, err := h.DeleteSession(t.Context(), agent.DefaultTenant, "s-50")
	require.NoError(t, err)
	p.do(chromedp.Focus(chromedp.CSS(`[data-session="s-50"] a`)))
	rename("Lost")
	p.until(`document.querySelector('[data-session="s-50"] [role=alert]')?.textContent.includes('s-50')`)
	p.key([]rune(kb.Escape)[0])

	// A running turn is followed by its session alone. An unknown session is an error.
	p.visit("/#/chat/s-running")
	p.reload()
	p.until(`document.querySelector('.turn.running .said p')?.textContent === 'what runs'`)
	h.Emit(running, token("model/1", "Still at it."))
	p.sees("Still at it.")
	p.goTo("chat/s-unknown")
	p.sees("There is no conversation s-unknown")
	require.False(t, eval[bool](p, `document.body.innerText.includes('What should be done?')`))
}

// testFindingTurns goes with the keyboard from the list of turns to the arguments of a call.
func testFindingTurns(t *testing.T, b *browser) {
	h := newServer(t, nil)
	for i := range 60 {
		h.runTurn(t, fmt.Sprintf("s-%d", i), "ann", fmt.Sprintf("question %d", i), agent.TurnCompleted)
	}
	id := h.longTurn(t)
	p := b.open(t, h.url, "/#/turns")
	rows := `document.querySelectorAll('.rows tbody tr').length`
	p.until(rows + ` === 50`)
	p.press("Next page")
	p.until(rows + ` === 11 && location.hash.includes('after=')`)
	p.press("First page")
	p.until(rows + ` === 50`)
	p.do(chromedp.Focus(chromedp.CSS(`.filters [name="text"]`)))
	p.write("cheapest")
	p.key('\r')
	p.until(rows + ` === 1 && location.hash === '#/turns?text=cheapest'`)
	p.reload() // the filter is in the address
	p.until(rows + ` === 1 && document.querySelector('.filters [name="text"]').value === 'cheapest'`)
	p.do(chromedp.Focus(chromedp.CSS(`.rows .rowlink`)))
	p.key('\r')
	p.until(`location.hash === '#/turns/` + string(id) + `' && document.querySelectorAll('.step').length === 8`)
	require.Equal(t, []string{"prepare retrieve", "model model/1 repeated", "event model/1 started again", "model gpt-4o", "tool execute_pipeline", "tool execute_pipeline failed", "wait approval of book_flight", "model gpt-4o"},
		eval[[]string](p, `[...document.querySelectorAll('.step .name')].map((e) => e.textContent.trim())`))
	require.Equal(t, []string{"280 ms", "580 ms", "at 1.2 s", "1.4 s", "1.4 s", "1.5 s", "4.9 s", "1.1 s"}, eval[[]string](p, `[...document.querySelectorAll('.step .took')].map((e) => e.textContent.trim())`))
	require.Equal(t, []string{"$0.0024", "$0.0047"}, eval[[]string](p, `[...document.querySelectorAll('.step .price')].map((e) => e.textContent.trim()).filter(Boolean)`))
	p.do(chromedp.Focus(chromedp.CSS(`.step.tool.failed summary`)))
	p.key('\r')
	p.until(`document.querySelector('.step.tool.failed .inside')?.innerText.includes('no such host') && document.querySelector('.step.tool.failed .inside code').textContent.includes('seats')`)
	p.click(".step.wait summary")
	p.until(`document.querySelector('.step.wait .inside')?.innerText.includes('approve by celeste')`)
	p.click(".crumb a")
	p.until(rows + ` === 50`)

	// A running turn gets its new steps on its page.
	running := h.runTurn(t, "s-now", "ann", "now", "")
	p.goTo("turns/" + string(running))
	p.until(`document.querySelector('.status.running')`)
	h.Emit(running, toolEvent(agent.EventToolStart, "c9", agent.Event{Input: json.RawMessage(`{}`)}))
	p.until(`document.querySelector('.step.tool.open .took')?.textContent === 'running'`)
	h.Finish(running, agent.TurnFailed, "")
	p.until(`document.querySelector('h1 ~ .status.failed') && document.querySelector('.page .broken').innerText.includes('the provider said no')`)
}

// testLeavingUsage checks that leaving the view of usage cancels its request, and that the view shows a plot otherwise.
func testLeavingUsage(t *testing.T, b *browser) {
	h := newServer(t, nil)
	hold := make(chan error, 8)
	h.usage.setHold(hold)
	p := b.open(t, h.url, "/#/usage")
	p.until(`document.querySelector('.page .working')`)
	require.Eventually(t, func() bool { return !h.usage.lastQuery().Since.IsZero() }, testTimeout, 5*time.Millisecond)
	p.goTo("audit")
	select {
	case err := <-hold:
		require.ErrorIs(t, err, context.Canceled) // not its time limit
	case <-time.After(testTimeout):
		require.Fail(t, "the request goes on after its view was left")
	}
	h.usage.setHold(nil)
	p.goTo("usage")
	p.until(`document.querySelectorAll('.chart rect').length === 60 && document.querySelector('.legend').innerText.includes('not priced')`)
	p.press("calls")
	p.until(`document.querySelectorAll('.chart rect').length === 90 && location.hash.includes('measure=calls')`)
	p.choose("Period", "7 days")
	p.until(`document.querySelectorAll('.chart text[text-anchor="middle"]').length === 7`)
	p.choose("Group by", "agent")
	p.until(`document.querySelector('.rows th:nth-child(2)')?.textContent === 'Agent'`)
	query := h.usage.lastQuery()
	require.Equal(t, []agent.UsageKey{agent.UsageDay, agent.UsageAgent}, query.Group)
	require.Equal(t, time.Now().UTC().AddDate(0, 0, -6).Format(time.DateOnly), query.Since.Format(time.DateOnly))
}

// testWorkflowPatches asks for an approval of a change of a workflow.
func testWorkflowPatches(t *testing.T, b *browser) {
	h := newServer(t, nil)
	key := agent.WorkflowKey{Tenant: agent.DefaultTenant, Owner: "ann", Tag: "fares"}
	_, err := h.PutWorkflow(t.Context(), gateway.WorkflowPut{WorkflowKey: key, By: "ann", Definition: json.RawMessage(
		`{"description":"old words","nodes":[{"id":"look","type":"agent","config":{"agent":"analyst","message":"Fares"}}],"edges":[]}`)})
	require.NoError(t, err)
	p := b.open(t, h.url, "/")
	args := `{"workflow_tag":"fares","patch_spec":{"description":"daily","operations":[{"op":"replace","path":"/nodes/0/config/message","value":"Fares b\u202eelow $200"},` +
		`{"op":"add","path":"/nodes/-","value":{"id":"tell","limit":12345678901234567890}},{"op":"remove","path":"/description"}]}}`
	h.askApproval(t, p, 1, agent.Approval{
		ApprovalID: "a1", ToolName: "patch_workflow", Args: json.RawMessage(args), Rule: "not inherently safe",
		Description: "Tool execution requires approval\n\nTool: patch_workflow\nArgs: " + args,
	})
	p.until(`document.querySelector('.patch .muted')?.textContent === 'version 1'`)
	require.Equal(t, []string{
		"removed −\"Fares\"\n", "added +\"Fares b\\u202eelow $200\"\n", "added +{\n", "added +  \"id\": \"tell\",\n", "added +  \"limit\": 12345678901234567890\n", "added +}\n", "removed −\"old words\"\n",
	}, eval[[]string](p, `[...document.querySelectorAll('.diff > span')].map((e) => e.textContent)`))
	p.sees("You are asked because patch_workflow is not marked as safe, and the agent does not let it run without a person.")
	require.False(t, eval[bool](p, `document.querySelector('.approval').innerText.includes('Args:')`), "the call is shown once")
	require.Equal(t, []string{"rgb(226, 243, 231)", "rgb(253, 233, 231)"}, eval[[]string](p, `['.add', '.remove'].map((c) => getComputedStyle(document.querySelector('.diff ' + c)).backgroundColor)`))
	p.resize(390, 800, 1)
	p.requireFits(390)
}

// testRestart stops and starts the server: the health is shown, and the open stream goes on within three seconds.
func testRestart(t *testing.T, b *browser) {
	h, p, id := startTurn(t, b, "go on")
	h.Emit(id, token("model/1", "before"))
	p.sees("before")
	p.until(`document.querySelector('.health.ok')`)
	p.do(runJS(`Math.random = () => 100`)) // the stream would retry after half a minute: only the health check notices the server in time
	h.stop()
	p.until(`document.querySelector('.health.failing')?.innerText.trim() === 'cannot be reached'`)
	p.until(`document.querySelector('.working')?.textContent.includes('Connection lost')`)
	h.Emit(id, token("model/1", " and after"))
	h.start(t)
	started := time.Now()
	p.until(`document.querySelector('.health.ok')?.innerText.trim() === 'all is well' && document.querySelector('.prose').innerText.trim() === 'before and after'`)
	require.Less(t, time.Since(started), 3*time.Second)
	require.Len(t, h.Submitted(), 1)
	h.Finish(id, agent.TurnCompleted, "before and after")
	p.until(`document.querySelector('.turn.completed')`)
}

// testCitations checks that the numbers in a text are those of the sources.
func testCitations(t *testing.T, b *browser) {
	h, p, id := startTurn(t, b, "how long?")
	text := "Leave is 30 days [3]. 😀 Sick leave is separate [1, 3], `a[1]` is code, [9] is nothing."
	at := func(marker string, title, address string) agent.Annotation {
		before, _, _ := strings.Cut(text, marker)
		start := len([]rune(before))
		return agent.Annotation{Type: "citation", Title: title, URL: address, StartIndex: new(start), EndIndex: new(start + len(marker)), CitedText: "as it says in " + title}
	}
	rules, leave := "Sick leave", "Leave"
	h.Emit(id, gatewaytest.Status(agent.StatusRunning), token("model/1", text),
		event("citations/1", agent.Event{Type: agent.EventContent, ContentBlocks: []agent.Block{{Type: agent.BlockText, Annotations: []agent.Annotation{
			at("[3]", leave, ""), at("[1, 3]", rules, "https://rules.example/sick"), at("[1, 3]", leave, ""),
		}}}}))
	h.Finish(id, agent.TurnCompleted, text)
	p.until(`document.querySelectorAll('.prose .cite').length === 3`)
	require.Equal(t, []string{"3 Leave", "1 Sick leave", "3 Leave"}, eval[[]string](p, `[...document.querySelectorAll('.prose .cite')].map((e) => e.textContent + ' ' + e.title)`))
	require.Equal(t, []string{"1 Sick leave", "3 Leave"}, eval[[]string](p, `[...document.querySelectorAll('.sources li')].map((e) => e.value + ' ' + e.firstElementChild.textContent)`))
	require.Equal(t, "https://rules.example/sick", eval[string](p, `document.querySelector('.prose a.cite').href`))
	require.Equal(t, text, strings.ReplaceAll(eval[string](p, `document.querySelector('.prose').innerText.trim()`), "a[1]", "`a[1]`"))
	p.click(".prose button.cite")
	p.until(`document.activeElement.matches('.sources li') && document.activeElement.value === 3`)
}
