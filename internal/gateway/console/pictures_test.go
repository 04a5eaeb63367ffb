package console_test

import (
	"encoding/json"
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

var pictures = flag.Bool("pictures", false, "take the pictures of docs/images anew")

const question = "Fetch flights from NYC to LAX, sort by price, show the three cheapest as a table, and plot nothing."

const answer = `Found **3 flights** from NYC to LAX, cheapest first:

| id | airline | departs | price |
|---|---|---|--:|
| AU164 | Aurora Air | 08:15 | $234 |
| SK902 | Skylark | 11:40 | $251 |
| NW017 | Northwind | 17:05 | $279 |

The pipeline behind it, should you want to keep it:

` + "```yaml\npipeline:\n  - step: http_request\n    url: https://flights.example/search?from=NYC&to=LAX\n  - step: sort\n    by: price\n  - step: limit\n    n: 3\n```" + `

Prices were read [1] a minute ago. The cheapest is *Aurora Air* at 08:15.
`

// testPictures takes the pictures of the documentation. Without -pictures it goes through the same views, and the pictures are thrown away.
func testPictures(t *testing.T, b *browser) {
	dir := t.TempDir()
	if *pictures {
		dir = "../../../docs/images"
	}
	h := newServer(t, nil)
	h.withAnalyst()
	h.Script = func(rt *gatewaytest.Runtime, id agent.TurnID, r agent.TurnRequest) {
		if strings.HasPrefix(r.Message, "What") || strings.HasPrefix(r.Message, "Summarise") {
			rt.Say(id, "Here you are.")
		}
	}
	p := b.open(t, h.url, "/")
	for _, message := range []string{"What changed in the handbook this week?", "Summarise the open incidents"} {
		p.say(message)
		p.until(`document.querySelector('.turn.completed')`)
		p.key('j', control)
		p.until(`!document.querySelector('.turn')`)
	}
	p.screenshot(dir, "console-idle.png")

	p.say(question)
	flights := h.nthTurn(t, 3)
	sec := time.Second
	h.setEventTimes(flights, 0, sec/50, sec/10, sec/2, sec, sec*11/10, sec*13/10, sec*2, sec*25/10, sec*29/10, sec*31/10)
	h.Emit(flights, gatewaytest.Status(agent.StatusRunning),
		event("turn", agent.Event{Type: agent.EventRoute, Route: json.RawMessage(`{"agent":"analyst","reason":"default","revision":5}`)}),
		event("model/1", agent.Event{Type: agent.EventContent, ContentBlocks: []agent.Block{{Type: agent.BlockReasoning, Reasoning: "The user wants flights. One pipeline does: request, sort, limit."}}}),
		token("model/1", "I will fetch them with one pipeline."),
		event("model/1", agent.Event{Type: agent.EventUsage, Model: "gpt-4o", Usage: &agent.Usage{InputTokens: 1184, OutputTokens: 71, CachedTokens: 1024, CostUSD: 0.0024}}),
		toolEvent(agent.EventToolStart, "call_93440f92", agent.Event{
			Input:          json.RawMessage(`{"pipeline":[{"step":"http_request","url":"https://flights.example/search?from=NYC&to=LAX"},{"step":"sort","by":"price"},{"step":"limit","n":3}]}`),
			SourceNodeName: "pipeline",
		}),
		toolEvent(agent.EventToolProgress, "call_93440f92", agent.Event{Text: "step 2 of 3: sort, 48 rows"}),
		toolEvent(agent.EventToolEnd, "call_93440f92", agent.Event{Output: json.RawMessage(`{"type":"dataset","row_count":3,"sample":[{"id":"AU164","price":234}]}`), Ref: "cas://sha256:5d6f29ab"}))
	cut := strings.Index(answer, "    by: price")
	h.Emit(flights, token("model/2", answer[:cut]))
	p.until(`document.querySelector('.tail figure.code')`)
	p.screenshot(dir, "console-streaming.png")

	h.Emit(flights, token("model/2", answer[cut:]),
		event("model/2", agent.Event{Type: agent.EventUsage, Model: "gpt-4o", Usage: &agent.Usage{InputTokens: 1515, OutputTokens: 169, CachedTokens: 1024, CostUSD: 0.0047}}),
		event("citations/2", agent.Event{Type: agent.EventContent, ContentBlocks: []agent.Block{{Type: agent.BlockText, Annotations: []agent.Annotation{{Type: "citation", Title: "flights.example: fares", URL: "https://flights.example/fares", CitedText: "Fares are refreshed every minute."}}}}}))
	h.endTurn(flights, agent.TurnCompleted, func(o *agent.AgentStepOutput) {
		o.Model, o.ExecutionTimeMS, o.ResultRef = "gpt-4o", 3100, "artifact://5d6f29ab-3824-49a4-bc98-d659c557b032"
		o.Usage = agent.Usage{InputTokens: 2699, OutputTokens: 240, CachedTokens: 2048, CostUSD: 0.0071}
		o.Output, o.ToolCalls = answer, []agent.ToolCallNote{{ID: "call_93440f92", Tool: "execute_pipeline"}}
	})
	p.until(`document.querySelector('.turn.completed .code .hljs-attr')`)
	p.press("Timeline")
	p.until(`document.querySelectorAll('.spans .step').length === 3`)
	p.do(runJS(`document.querySelector('.timeline').scrollIntoView({ block: 'end' })`))
	p.screenshot(dir, "console-timeline.png")

	p.key('j', control)
	p.until(`!document.querySelector('.turn')`)
	p.say("Book the cheapest one for Ann.")
	id := h.nthTurn(t, 4)
	h.Emit(id, gatewaytest.Status(agent.StatusRunning), token("model/1", "I would book **AU164** (Aurora Air, 08:15) for Ann, $234. That charges the company card, so I need your word."),
		event("approval/1", agent.Event{Type: agent.EventApprovalRequested, Approval: &agent.Approval{
			ApprovalID: "ap-1", TurnID: id, ToolName: "book_flight", Rule: "human_in_the_loop: interrupt_on.book_flight.when", Description: "Charges the company card at once. A cancellation costs $40.",
			Args: json.RawMessage(`{"flight":"AU164","passenger":"Ann Lee","price_usd":234,"card":"company"}`), Remember: agent.RememberTool, ExpiresAt: new(time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)), OnExpiry: "reject",
		}}), event("approval/1", agent.Event{Type: agent.EventStatus, Status: agent.StatusWaiting, Reason: "awaiting_approval"}))
	p.until(`document.querySelector('[data-decision]') && document.querySelector('nav .badge')`)
	p.screenshot(dir, "console-approval.png")
	p.setDark(true)
	p.screenshot(dir, "console-approval-dark.png")
	p.resize(360, 740, 2)
	p.until(`document.documentElement.scrollWidth <= 360`)
	p.do(runJS(`document.querySelector('.log').scrollTop = 1e6`))
	p.screenshot(dir, "console-phone-dark.png")
	p.setDark(false)
	p.do(runJS(`location.hash = document.querySelectorAll('.conversations a')[1].hash`))
	p.until(`document.querySelector('.turn.completed table')`)
	p.do(runJS(`document.querySelector('.log').scrollTop = 0`))
	p.screenshot(dir, "console-phone.png")
	p.resize(1280, 800, 1)

	p.key('j', control)
	p.until(`!document.querySelector('.turn')`)
	p.say("How many seats are left on AU164?")
	id = h.nthTurn(t, 5)
	h.Emit(id, gatewaytest.Status(agent.StatusRunning), token("model/1", "Let me look at the seat map."),
		toolEvent(agent.EventToolStart, "call_1", agent.Event{Input: json.RawMessage(`{"pipeline":[{"step":"http_request","url":"https://flights.example/seats/AU164"}]}`)}),
		toolEvent(agent.EventToolEnd, "call_1", agent.Event{Output: json.RawMessage(`"http_request: flights.example answered 503 three times"`), Failed: true}))
	h.endTurn(id, agent.TurnFailed, func(o *agent.AgentStepOutput) {
		o.Model = "gpt-4o"
		o.Error.Message = "the provider is overloaded (529): tried four times in 20 s"
	})
	p.until(`document.querySelector('.broken')`)
	p.click(".tool summary")
	p.until(`document.querySelector('.tool .inside')`)
	p.screenshot(dir, "console-error.png")

	p.do(chromedp.Navigate(h.url + "/#/routes"))
	p.until(`document.querySelector('[name="ui_page"]')`)
	p.do(chromedp.Focus(chromedp.CSS(`[name="ui_page"]`)))
	p.write("/reports/sales")
	p.press("Dry run")
	p.sees("clerk answers")
	p.screenshot(dir, "console-routes.png")
	p.goTo("catalog/agents/analyst")
	p.until(`document.querySelector('.detail')`)
	p.screenshot(dir, "console-catalog.png")
	p.goTo("catalog/edit/AgentInstance/analyst?tenant=*")
	p.replaceText("Answer in one sentence.", "Answer in a table, and say how old the numbers are.")
	p.fill("comment", "readers compare the numbers")
	p.until(`document.querySelector('.outcome .diff .add') && document.querySelector('.trial select')`)
	p.fill("message", "Which fares went up this week?")
	p.press("Try the draft")
	tried := h.nthTurn(t, 6)
	h.Say(tried, "| fare | change |\n|---|--:|\n| AU164 | +$12 |\n\nThe numbers are two minutes old.")
	p.until(`document.querySelector('.tried .turn.completed table')`)
	p.screenshot(dir, "console-editor.png")
	p.press("Discard the edit")
	p.until(`!document.querySelector('.outcome .diff')`)

	rerun := h.runRerun(t, flights)
	p.goTo("turns/" + string(rerun))
	p.until(`document.querySelector('.compare') && document.querySelector('.beside .prose strong')`)
	p.screenshot(dir, "console-rerun.png")
}

// endTurn ends a turn with a changed result.
func (h *server) endTurn(id agent.TurnID, status agent.TurnStatus, change func(o *agent.AgentStepOutput)) {
	out := h.Output(id, status, "")
	change(out)
	h.Emit(id, agent.Event{Type: agent.EventStatus, Status: agent.TerminalStatus(status), Reason: string(out.StopReason), Result: out})
}

// setEventTimes sets the times of a turn's events.
func (h *server) setEventTimes(id agent.TurnID, at ...time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.eventTimes[id] = at
}
