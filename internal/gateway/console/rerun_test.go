package console_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

// testRerun runs a turn again from one of its steps with another prompt, compares the turns, and forks the conversation.
func testRerun(t *testing.T, b *browser) {
	h := newServer(t, nil)
	h.withAnalyst()
	id := h.longTurn(t)
	p := b.open(t, h.url, "/#/turns/"+string(id))
	p.until(`document.querySelectorAll('.step.model').length === 3`)
	p.do(runJS(`[...document.querySelectorAll('.step.model summary')].at(-1).click()`))
	p.click(`.step .inside a[href$="?again=2"]`)
	p.until(`document.querySelector('[name="from_step"]')?.value === '2'`)
	p.do(runJS(`(() => { const e = document.querySelector('[name="model"]'); e.value = 'offline'; e.dispatchEvent(new Event('change', { bubbles: true })); })()`))
	p.press("Begin with the prompt of analyst")
	p.until(`document.querySelector('[name="prompt"]').value.startsWith('You are an analyst.')`)
	p.fill("prompt", "Book nothing.")
	p.press("Run again")
	rerun := h.nthTurn(t, 2)
	asked := h.Submitted()[1].Request
	require.Equal(t, []any{id, 2, "Book nothing.", "offline", "http"}, []any{asked.Rerun.Of, asked.Rerun.FromStep, asked.Rerun.Prompt, asked.Model, asked.Channel})
	p.until(`location.hash === '#/turns/` + string(rerun) + `' && document.querySelector('.compare')`)
	p.sees("The rerun is not over yet.")
	h.Emit(rerun, gatewaytest.Status(agent.StatusRunning), token("model/1", "Booked **nothing** for Ann."))
	h.endTurn(rerun, agent.TurnCompleted, func(o *agent.AgentStepOutput) {
		o.Output, o.Model, o.ExecutionTimeMS, o.Usage = "Booked **nothing** for Ann.", "offline", 1400, agent.Usage{InputTokens: 900, OutputTokens: 12}
	})
	row := func(name string) string {
		return `[...document.querySelectorAll('.compare tbody tr')].find((r) => r.cells[0].textContent === ` + quoted(name) + `)`
	}
	p.until(row("Tokens") + `?.cells[2].textContent === '900 in, 12 out'`)
	for name, want := range map[string][]string{
		"Model": {"gpt-4o", "offline"}, "Tools": {"book_flight, execute_pipeline ×2", "–"}, "Tokens": {"2,699 in (1,349 cached), 240 out", "900 in, 12 out"}, "Time": {"11 s", "1.4 s"}, "Cost": {"$0.0071", "–"},
	} {
		require.Equal(t, want, eval[[]string](p, `[...`+row(name)+`.cells].slice(1).map((c) => c.textContent)`), name)
		require.True(t, eval[bool](p, row(name)+`.matches('.differs')`), name)
	}
	p.until(`[...document.querySelectorAll('.beside .prose strong')].map((e) => e.textContent).join() === 'AU164,nothing'`)
	p.press("difference")
	p.until(`document.querySelector('.page .diff')?.textContent === 'removed −Booked **AU164** for Ann.\nadded +Booked **nothing** for Ann.\n'`)
	p.goTo("turns/" + string(id))
	p.until(`document.querySelector('[aria-label="Reruns"] a[href="#/turns/` + string(rerun) + `"]')`)
	p.goTo("turns")
	p.until(`document.querySelectorAll('.rows .tag').length === 1 && !document.querySelector('.turnpage')`)

	// The conversation links to the rerun, and can be forked.
	p.goTo("chat/trip-1/" + string(id))
	p.until(`document.querySelector('.meta a[href="#/turns/` + string(id) + `?again=0"]')`)
	p.do(runJS(`document.querySelector('.chat').dataset.original = 'yes'`))
	p.press("Fork")
	p.until(`!location.hash.includes('trip-1') && !document.querySelector('.chat').dataset.original && document.querySelector('.said')?.innerText.includes('Fetch flights')`)
	p.say("and on Sunday?")
	h.nthTurn(t, 3)
	require.Equal(t, agent.SessionID(eval[string](p, `location.hash.split('/')[2]`)), h.Submitted()[2].Request.SessionID)
}
