package console_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

// usageReports is a port of usage reports with rows for each requested day. While hold is set, requests wait until they are cancelled.
type usageReports struct {
	mu   sync.Mutex
	hold chan error // receives the errors of the cancelled requests
	last agent.UsageQuery
}

func (l *usageReports) Usage(ctx context.Context, q agent.UsageQuery) (agent.UsagePage, error) {
	l.mu.Lock()
	hold := l.hold
	l.last = q
	l.mu.Unlock()
	if hold != nil {
		<-ctx.Done()
		hold <- ctx.Err()
		return agent.UsagePage{}, ctx.Err()
	}
	page := agent.UsagePage{Since: q.Since, Until: time.Now(), Group: q.Group, Totals: &agent.UsageSums{}}
	models := []string{"gpt-4o", "claude-sonnet-4-5", "turnstone-offline"}
	for day := q.Since; day.Before(page.Until); day = day.AddDate(0, 0, 1) {
		for i, model := range models {
			n := int64(day.YearDay()%7+2) * int64(3-i)
			r := agent.UsageRow{Day: new(day.Format(time.DateOnly)), Model: &models[i], UsageSums: agent.UsageSums{Calls: n, InputTokens: n * 5200, OutputTokens: n * 310}}
			if model == "turnstone-offline" {
				r.UnpricedCalls = n
			} else {
				r.CostUSD = float64(n) * 0.0161
			}
			page.Rows = append(page.Rows, r)
			page.Totals.Calls += n
			page.Totals.InputTokens += r.InputTokens
			page.Totals.OutputTokens += r.OutputTokens
			page.Totals.CostUSD += r.CostUSD
			page.Totals.UnpricedCalls += r.UnpricedCalls
		}
	}
	return page, nil
}

func (l *usageReports) setHold(hold chan error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hold = hold
}

func (l *usageReports) lastQuery() agent.UsageQuery {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// schedules is a port of schedules with one schedule that runs each morning and a paused one.
type schedules struct{ gateway.Schedules }

func (k *schedules) Resolve(context.Context, string, string) (agent.Plan, string, error) {
	return agent.Plan{}, "", nil
}

func (k *schedules) Get(context.Context, string, string) (agent.Schedule, error) {
	return agent.Schedule{
		Name: "morning-report", Description: "The numbers of the night, before the office opens.", Agent: "analyst", Message: "Summarise the incidents of the night, worst first.",
		Cron: []string{"0 7 * * 1-5"}, TimeZone: "Europe/Berlin", UpdatedBy: "ann", Revision: 3,
		Next: []time.Time{gatewaytest.Epoch().Add(18 * time.Hour), gatewaytest.Epoch().Add(42 * time.Hour)},
	}, nil
}

func (k *schedules) List(context.Context, string, agent.Page) (agent.SchedulePage, error) {
	s, _ := k.Get(context.Background(), "", "")
	s.Next = nil
	paused := agent.Schedule{Name: "watch-prices", Kind: "heartbeat", Message: "Are there fares below $200?", Every: "15m", Paused: true, UpdatedBy: "bob"}
	return agent.SchedulePage{Schedules: []agent.Schedule{s, paused}}, nil
}

func (k *schedules) Runs(context.Context, string, string, agent.Page) (agent.ScheduleRunPage, error) {
	end := gatewaytest.Epoch().Add(9 * time.Second)
	return agent.ScheduleRunPage{Runs: []agent.ScheduleRun{{
		RunID: "r-1", Status: "completed", TurnID: "turn-3", Output: "Two incidents, both closed.", StartedAt: gatewaytest.Epoch(), EndedAt: &end,
		Notices: []agent.ScheduleNotice{{Kind: "email", Target: "ops@example.com", Status: agent.NoticeSent}},
	}}}, nil
}

// runTurn starts a turn as another client would, and ends it unless status is empty.
func (h *server) runTurn(t *testing.T, session, user, message string, status agent.TurnStatus) agent.TurnID {
	t.Helper()
	r, err := h.Submit(t.Context(), agent.Envelope{Request: agent.TurnRequest{
		TurnID: agent.TurnID(fmt.Sprintf("turn-%d", len(h.Submitted())+1)), SessionID: agent.SessionID(session), Message: message, Channel: "telegram", Context: agent.InvocationContext{Tenant: agent.DefaultTenant, UserID: user},
	}})
	require.NoError(t, err)
	h.Emit(r.TurnID, gatewaytest.Status(agent.StatusRunning))
	if status != "" {
		h.Emit(r.TurnID, token("model/1", "Here you are."))
		h.Finish(r.TurnID, status, "Here you are.")
	}
	return r.TurnID
}

// fillInstallation adds sessions, a long turn, a workflow with a run, a document and an audit trail. It returns the long turn.
func (h *server) fillInstallation(t *testing.T) agent.TurnID {
	t.Helper()
	for i, message := range []string{
		"Summarise the open incidents", "Which customers have not paid since August? List them with the amount, the oldest first, and say whom to call about it.",
		"Book the cheapest flight to Oslo on Friday", "¿Cuántos días de vacaciones me quedan?", "Reconcile the invoices of October", "Draft the answer to ticket 4711",
	} {
		status := agent.TurnCompleted
		if i == 2 {
			status = agent.TurnFailed
		}
		h.runTurn(t, fmt.Sprintf("desk-%d", i+1), []string{"ann", "bob", "celeste@example.com"}[i%3], message, status)
	}
	definition := `{"description":"Tells the desk when a fare is low.","nodes":[{"id":"look","type":"agent","config":{"agent":"analyst","message":"Fares NYC to LAX"}},` +
		`{"id":"tell","type":"task","config":{"action":"email","to":"desk@example.com","subject":"Low fare","body":"{{text}}"}}],"edges":[{"from":"look","to":"tell"}],"schedules":[{"id":"hourly","cron":"0 * * * *"}]}`
	key := agent.WorkflowKey{Tenant: agent.DefaultTenant, Owner: "ann", Tag: "fares"}
	_, err := h.PutWorkflow(t.Context(), gateway.WorkflowPut{WorkflowKey: key, Definition: json.RawMessage(definition), Description: "first version", By: "ann"})
	require.NoError(t, err)
	receipt, err := h.StartRun(t.Context(), agent.RunRequest{RunID: "run-1", Owner: "ann", Tag: "fares", Input: json.RawMessage(`{"below":200}`), Context: agent.InvocationContext{Tenant: agent.DefaultTenant}}, "")
	require.NoError(t, err)
	end := gatewaytest.Epoch().Add(4 * time.Second)
	h.EndRun(receipt.RunID, agent.RunFailed, &agent.Failure{Type: "unavailable", Message: "mail.example.com refused the connection"},
		agent.RunStep{NodeID: "look", Visit: 1, Type: "agent", Status: agent.RunCompleted, TurnID: "turn-1", Output: json.RawMessage(`{"text":"AU164 is $189"}`), StartedAt: gatewaytest.Epoch(), FinishedAt: &end},
		agent.RunStep{NodeID: "tell", Visit: 1, Type: "task", Status: agent.RunFailed, Error: &agent.Failure{Message: "mail.example.com refused the connection"}, StartedAt: end, FinishedAt: &end})
	h.Collections = []string{"handbook"}
	_, err = h.AddKnowledge(t.Context(), gateway.KnowledgeAdd{Tenant: agent.DefaultTenant, Collection: "handbook", ID: "leave", Title: "Leave and holidays", Source: "https://handbook.example/leave", MIMEType: "text/markdown", Body: strings.NewReader("30 days")})
	require.NoError(t, err)
	for i, outcome := range []string{agent.AuditAllowed, agent.AuditDenied, agent.AuditFailed} {
		h.trail.Record(agent.AuditRecord{At: gatewaytest.Epoch(), Tenant: agent.DefaultTenant, Subject: "ann", Method: "key", Action: "turns.run", Resource: fmt.Sprintf("turn/turn-%d", i+1), Outcome: outcome, Channel: "http", Remote: "10.1.2.3:40812", Detail: json.RawMessage(`{"mode":"durable"}`)})
	}
	return h.longTurn(t)
}

// longTurn runs a turn with everything that a timeline shows: preparation, a repeated model call, tools and an approval.
func (h *server) longTurn(t *testing.T) agent.TurnID {
	t.Helper()
	id := h.runTurn(t, "trip-1", "ann", "Fetch flights from NYC to LAX, sort by price, and book the cheapest one for Ann.", "")
	ms := func(all ...int) (at []time.Duration) {
		for _, n := range all {
			at = append(at, time.Duration(n)*time.Millisecond)
		}
		return at
	}
	h.setEventTimes(id, ms(0, 20, 40, 320, 900, 1200, 1300, 1900, 2600, 2700, 2720, 4100, 4200, 4300, 9200, 9250, 9900, 10400, 10500)...)
	prepare := func(kind agent.EventType, e agent.Event) agent.Event {
		e.Type, e.ToolCallID, e.ToolName, e.SourceNodeName = kind, "prepare/retrieve", "retrieve", "prepare"
		return event("prepare", e)
	}
	usage := func(producer string, in, out int64, cost float64) agent.Event {
		return event(producer, agent.Event{Type: agent.EventUsage, Model: "gpt-4o", Usage: &agent.Usage{InputTokens: in, OutputTokens: out, CachedTokens: in / 2, CostUSD: cost}})
	}
	asked := agent.Approval{ApprovalID: "ap-1", TurnID: id, ToolName: "book_flight", Args: json.RawMessage(`{"flight":"AU164","passenger":"Ann Lee"}`), Rule: "not inherently safe"}
	decided := asked
	decided.Decision, decided.By = agent.DecisionApprove, "celeste"
	h.Emit(id,
		event("turn", agent.Event{Type: agent.EventRoute, Route: json.RawMessage(`{"agent":"analyst","reason":"rule","rule":"travel","revision":5}`)}),
		prepare(agent.EventToolStart, agent.Event{Input: json.RawMessage(`{"query":"flights NYC LAX"}`)}),
		prepare(agent.EventToolEnd, agent.Event{Output: json.RawMessage(`{"passages":2}`)}),
		token("model/1", "I will lo"),
		event("model/1", agent.Event{Type: agent.EventReset, Producer: "model/1", FromIndex: 5}),
		token("model/1", "I will fetch them "), token("model/1", "with one pipeline."), usage("model/1", 1184, 71, 0.0024),
		toolEvent(agent.EventToolStart, "c1", agent.Event{Input: json.RawMessage(`{"pipeline":[{"step":"http_request","url":"https://flights.example/search"}]}`), SourceNodeName: "pipeline"}),
		toolEvent(agent.EventToolStart, "c2", agent.Event{Input: json.RawMessage(`{"pipeline":[{"step":"seats"}]}`)}),
		toolEvent(agent.EventToolEnd, "c1", agent.Event{Output: json.RawMessage(`{"rows":3}`)}),
		toolEvent(agent.EventToolEnd, "c2", agent.Event{Output: json.RawMessage(`"no such host"`), Failed: true}),
		event("approval/1", agent.Event{Type: agent.EventApprovalRequested, Approval: &asked}),
		event("approval/1", agent.Event{Type: agent.EventApprovalResolved, Approval: &decided}),
		gatewaytest.Status(agent.StatusRunning),
		token("model/2", "Booked **AU164** for Ann [1]."), usage("model/2", 1515, 169, 0.0047))
	h.endTurn(id, agent.TurnCompleted, func(o *agent.AgentStepOutput) {
		o.Output, o.Model, o.ExecutionTimeMS = "Booked **AU164** for Ann.", "gpt-4o", 10500
		o.Usage = agent.Usage{InputTokens: 2699, OutputTokens: 240, CachedTokens: 1349, CostUSD: 0.0071}
		o.ToolCalls = []agent.ToolCallNote{{ID: "c1", Tool: "execute_pipeline"}, {ID: "c2", Tool: "execute_pipeline"}, {ID: "c3", Tool: "book_flight"}}
	})
	return id
}

// runRerun runs a turn again with another answer.
func (h *server) runRerun(t *testing.T, of agent.TurnID) agent.TurnID {
	t.Helper()
	r, err := h.Rerun(t.Context(), of, agent.Envelope{Request: agent.TurnRequest{
		TurnID: "again-1", SessionID: "again-1", Model: "offline", Context: agent.InvocationContext{Tenant: agent.DefaultTenant}, Rerun: &agent.Rerun{FromStep: 2},
	}})
	require.NoError(t, err)
	h.Emit(r.TurnID, gatewaytest.Status(agent.StatusRunning), token("model/1", "Nothing was booked."))
	h.endTurn(r.TurnID, agent.TurnCompleted, func(o *agent.AgentStepOutput) {
		o.Output = "Nothing was booked. The cheapest flight is **AU164** at $234, and it leaves at 08:15."
		o.Model, o.ExecutionTimeMS, o.Usage = "offline", 1400, agent.Usage{InputTokens: 900, OutputTokens: 12}
	})
	return r.TurnID
}

// operatorViews are the views of an installation and the texts that each shows after [server.fillInstallation]. {turn} is the id of the long
// turn, {rerun} that of its rerun.
var operatorViews = []struct {
	path string
	has  []string
}{
	{"turns", []string{"Fetch flights from NYC", "celeste@example.com", "telegram", "failed", "$0.0071"}},
	{"turns?status=failed", []string{"Book the cheapest flight to Oslo"}},
	{"turns?agent=nobody", []string{"Nothing matches."}},
	{"turns/{turn}", []string{"completed", "trip-1", "2,699 in", "$0.0071", "end_turn", "Started", "ann", "telegram", "book_flight", "execute_pipeline", "retrieve", "repeated"}},
	{"turns/none", []string{"There is no turn none"}},
	{"usage", []string{"claude-sonnet-4-5", "not priced", "Model calls"}},
	{"workflows", []string{"fares", "Tells the desk when a fare is low.", "ann"}},
	{"workflows/fares", []string{"mail.example.com refused", "first version", "hourly"}},
	{"workflows/nothing", []string{"No workflow nothing"}},
	{"runs", []string{"fares", "failed"}},
	{"runs/run-1", []string{"look", "tell", "turn-1", "AU164 is $189"}},
	{"schedules", []string{"morning-report", "0 7 * * 1-5 Europe/Berlin", "paused", "every 15m"}},
	{"schedules/morning-report", []string{"Next run", "2026-11-22", "Two incidents, both closed.", "ops@example.com"}},
	{"knowledge", []string{"handbook", "What new colleagues ask."}},
	{"knowledge/handbook", []string{"Leave and holidays", "text/markdown"}},
	{"audit", []string{"turns.run", "denied", "10.1.2.3"}},
	{"audit?outcome=denied", []string{"turn/turn-2"}},
	{"turns/{turn}?again=2", []string{"Run again", "the same: gpt-4o"}},
	{"turns/{rerun}", []string{"Beside the original", "execute_pipeline ×2", "900 in, 12 out", "Nothing was booked"}},
	{"catalog/agents/analyst", []string{"execute_pipeline", "Edit"}},
	{"catalog/edit/AgentInstance/analyst?tenant=*", []string{"Text, YAML or JSON", "Reason", "Chat with analyst"}},
	{"catalog/edit", []string{"New document", "Creates"}},
	{"routes", []string{"Dry run"}},
	{"approvals", []string{"Nothing waits"}},
	{"chat/trip-1", []string{"Booked"}},
}

var viewPictures = flag.String("views", "", "a folder for pictures of every view")

// testViews opens every view of an installation, wide and light, then narrow and dark.
func testViews(t *testing.T, b *browser) {
	h := newServer(t, nil)
	h.withAnalyst()
	id := h.fillInstallation(t)
	rerun := h.runRerun(t, id)
	ids := strings.NewReplacer("{turn}", string(id), "{rerun}", string(rerun))
	p := b.open(t, h.url, "/#/turns")
	for _, narrow := range []bool{false, true} {
		width := 1400
		if narrow {
			width = 390
		}
		p.resize(int64(width), 800, 1)
		p.setDark(narrow)
		for _, v := range operatorViews {
			p.goTo(ids.Replace(v.path))
			p.until(`document.querySelector('.page, .chat') && !document.querySelector('main .working')`)
			for _, text := range v.has {
				p.until(`document.querySelector('.page, .chat').innerText.includes(` + quoted(text) + `)`)
			}
			p.requireFits(width)
			p.requireLabels()
			if *viewPictures != "" {
				name := strings.NewReplacer("{turn}", "one", "{rerun}", "rerun", "/", "-", "?", "-", "=", "-", "*", "all").Replace(v.path)
				p.setDark(!narrow)
				p.screenshot(*viewPictures, fmt.Sprintf("%s-%d-%t.png", name, width, !narrow))
				p.setDark(narrow)
				p.screenshot(*viewPictures, fmt.Sprintf("%s-%d-%t.png", name, width, narrow))
			}
		}
	}
}

// requireFits checks that nothing is cut off on the right.
func (p *tab) requireFits(width int) {
	p.t.Helper()
	p.until(fmt.Sprintf(`document.documentElement.scrollWidth <= %d`, width))
	require.Empty(p.t, eval[[]string](p, fmt.Sprintf(`[...document.querySelectorAll('main *')].filter((e) => e.getBoundingClientRect().right > %d && !e.closest('.table, pre, .args, .tabs, .listing, .track, .hidden, td, .name'))
		.map((e) => e.outerHTML.slice(0, 200))`, width+1)))
}
