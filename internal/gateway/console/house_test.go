package console_test

import (
	"context"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/access"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/console"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

// house is a gateway with the console, over a runtime that follows a script. Its transcripts have what was answered, as the real one's
// have, and its events take time.
type house struct {
	*gatewaytest.Runtime

	url     string
	catalog *gatewaytest.Catalog
	ledger  *ledger
	keeper  *keeper
	trail   *gatewaytest.Trail
	config  gateway.Config
	gateway *gateway.Gateway
	ill     []gateway.Dependency // what Health says; nil: that all is well

	mu    sync.Mutex
	times map[agent.TurnID][]time.Duration // when the events of a turn happened; those that are missing took 120 ms
	said  map[agent.TurnID][]agent.Message // what a turn left in the transcript besides the question
	cuts  map[agent.TurnID]chan struct{}   // closed to end the streams of a turn
	forks map[agent.SessionID]agent.Fork   // what sessions begin with
}

// theDoor is one for all tests: compressing its files takes a while.
var theDoor = sync.OnceValues(func() (*console.Door, error) {
	return console.New(console.Config{UIURL: "http://127.0.0.1:8233/", Namespace: "prod"})
})

// address is where the first server listened. Those after it listen there too, so that the browser has the console's files already.
var address = "127.0.0.1:0"

func build(t *testing.T, auth access.Authenticator) *house {
	t.Helper()
	h := &house{
		Runtime: gatewaytest.New(), catalog: exampleCatalog(), ledger: &ledger{}, keeper: &keeper{}, trail: &gatewaytest.Trail{},
		times: map[agent.TurnID][]time.Duration{}, said: map[agent.TurnID][]agent.Message{}, cuts: map[agent.TurnID]chan struct{}{},
		forks: map[agent.SessionID]agent.Fork{},
	}
	door, err := theDoor()
	require.NoError(t, err)
	ports := gatewaytest.Ports(h.Runtime, h.catalog)
	ports.Turns, ports.Sessions, ports.Health = h, h, h
	ports.Usage, ports.Schedules, ports.SchedulePlans, ports.Audit = h.ledger, h.keeper, h.keeper, h.trail
	h.config = gateway.Config{
		HTTPAddr: address, Ports: ports, Doors: []gateway.Door{door}, Auth: auth, Version: "1.2.3",
		Limits: gateway.Limits{Heartbeat: time.Second},
	}
	if err := h.listen(t); err != nil { // another server of the same test is there
		h.config.HTTPAddr = "127.0.0.1:0"
		h.start(t)
	}
	address = h.config.HTTPAddr
	t.Cleanup(h.stop)
	return h
}

// start starts the server, again at the address that it had.
func (h *house) start(t *testing.T) {
	t.Helper()
	require.NoError(t, h.listen(t))
}

func (h *house) listen(t *testing.T) error {
	t.Helper()
	var err error
	h.gateway, err = gateway.New(h.config)
	require.NoError(t, err)
	if err := h.gateway.Start(t.Context()); err != nil {
		return err
	}
	h.config.HTTPAddr = h.gateway.HTTPAddr()
	h.url = "http://" + h.config.HTTPAddr
	return nil
}

// stop stops the server; a page may hold on to its connections.
func (h *house) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = h.gateway.Shutdown(ctx)
}

// Follow gives events the times at which they are said to have happened, and ends with an error when it is cut.
func (h *house) Follow(ctx context.Context, id agent.TurnID, after int64) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		cut := h.knife(id)
		go func() {
			select {
			case <-cut:
			case <-ctx.Done():
			}
			cancel()
		}()
		for e, err := range h.Runtime.Follow(ctx, id, after) {
			select {
			case <-cut:
				err = agent.Errorf(agent.CodeUnavailable, "", "the log is away")
			default:
			}
			e.Meta.Time = gatewaytest.Epoch().Add(h.at(id, int(e.Meta.EventIndex)-1))
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

func (h *house) knife(id agent.TurnID) chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cuts[id] == nil {
		h.cuts[id] = make(chan struct{})
	}
	return h.cuts[id]
}

// cut breaks the streams of a turn off; those that come after it stand.
func (h *house) cut(id agent.TurnID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.cuts[id]; c != nil {
		close(c)
	}
	h.cuts[id] = nil
}

func (h *house) at(id agent.TurnID, i int) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	times := h.times[id]
	if i >= 0 && i < len(times) {
		return times[i]
	}
	return time.Duration(max(i, 0)) * 120 * time.Millisecond
}

// Health says what a test wants, or that all is well.
func (h *house) Health(ctx context.Context) gateway.Health {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ill == nil {
		return h.Runtime.Health(ctx)
	}
	down := slices.ContainsFunc(h.ill, func(d gateway.Dependency) bool { return d.State == gateway.HealthDown })
	return gateway.Health{OK: !down, Dependencies: h.ill}
}

func (h *house) sicken(ill ...gateway.Dependency) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ill = ill
}

// leave puts messages into the transcript of a turn that ends.
func (h *house) leave(id agent.TurnID, messages ...agent.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.said[id] = append(h.said[id], messages...)
}

// ForkSession notes what a new session begins with.
func (h *house) ForkSession(ctx context.Context, tenant string, f agent.Fork) (agent.SessionForked, error) {
	forked, err := h.Runtime.ForkSession(ctx, tenant, f)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forks[f.SessionID] = f
	return forked, err
}

// Messages has the messages of finished turns, with what they answered. A forked session has those of the session that it was forked from.
func (h *house) Messages(ctx context.Context, tenant string, s agent.SessionID, after int64, limit int) (gateway.MessagePage, error) {
	h.mu.Lock()
	if f, ok := h.forks[s]; ok {
		s = f.From
	}
	h.mu.Unlock()
	page := gateway.MessagePage{SessionID: s, Next: after}
	var all []gateway.SessionMessage
	for _, e := range h.Submitted() {
		v, err := h.Turn(ctx, tenant, e.Request.TurnID)
		if err != nil || e.Request.SessionID != s || v.Output == nil {
			continue
		}
		h.mu.Lock()
		said := h.said[v.TurnID]
		h.mu.Unlock()
		if said == nil {
			said = []agent.Message{{Role: agent.RoleAssistant, Blocks: v.Output.Blocks}}
		}
		for _, m := range append(e.Request.Input(), said...) {
			all = append(all, gateway.SessionMessage{
				Position: int64(len(all) + 1), TurnID: v.TurnID, CreatedAt: gatewaytest.Epoch(), Role: m.Role, Blocks: m.Blocks,
			})
		}
	}
	if len(all) == 0 {
		return page, agent.Errorf(agent.CodeNotFound, "", "no session %q", s)
	}
	for _, m := range all[min(after, int64(len(all))):] {
		if page.More = len(page.Messages) == limit; page.More {
			break
		}
		page.Messages = append(page.Messages, m)
		page.Next = m.Position
	}
	return page, nil
}

func event(producer string, e agent.Event) agent.Event {
	e.Meta.Producer, e.Meta.Attempt = producer, 1
	return e
}

func token(producer, text string) agent.Event {
	return event(producer, agent.Event{Type: agent.EventToken, Text: text})
}

func exampleCatalog() *gatewaytest.Catalog {
	tools := []agent.ToolInfo{{
		Name: "execute_pipeline", Description: "Runs a pipeline of steps over data.", Toolkit: "pipeline", NodeID: "pipeline", NodeVersion: "1",
		SourceNodeName: "pipeline", IsFromToolkit: true, Parameters: []byte(`{"type":"object","properties":{"pipeline":{"type":"array"}},"required":["pipeline"]}`),
	}}
	return &gatewaytest.Catalog{
		AgentList: []agent.AgentInfo{
			{
				Name: "analyst", Tenant: agent.SharedTenant, InstanceID: "analyst@1", Description: "Fetches and computes data, and answers with numbers.", Default: true,
				NodeID: "agent", NodeVersion: "1", PlanHash: "sha256:5d6f29ab", Models: []string{"offline", "gpt-4o"}, Tools: tools,
				Capabilities: []string{"approvals", "streaming", "tools"}, Source: agent.SourceBuiltin, Revision: 3,
			},
			{Name: "clerk", InstanceID: "clerk@2", Description: "Books flights. Asks before it pays.", NodeID: "agent", NodeVersion: "1", Models: []string{"offline"}, Tools: tools},
			{Name: "guide", InstanceID: "guide@1", Description: "Answers from the handbook, and says where it stands.", NodeID: "agent", NodeVersion: "1", Models: []string{"offline"}},
		},
		NodeList: []agent.NodeInfo{{NodeID: "pipeline", Version: "1", Type: "toolkit", Description: "Ten primitives over data.", Tools: tools, Source: agent.SourceBuiltin}},
		DocumentList: []agent.Document{
			{
				DocumentKey: agent.DocumentKey{Kind: agent.KindKnowledge, Tenant: agent.DefaultTenant, Name: "handbook"}, Source: agent.SourceAPI, Revision: 4, UpdatedBy: "ann",
				Body: []byte(`{"kind":"KnowledgeCollection","name":"handbook","description":"What new colleagues ask."}`),
			},
			{
				DocumentKey: agent.DocumentKey{Kind: agent.KindModel, Tenant: agent.SharedTenant, Name: "gpt-4o"}, Source: agent.SourceConfig, Revision: 2,
				Body: []byte(`{"kind":"ModelProfile","name":"gpt-4o","provider":"openai","model":"gpt-4o","price":{"input_per_mtok":2.5,"output_per_mtok":10},"note":"<b>yes</b>: no"}`),
			},
			{
				DocumentKey: agent.DocumentKey{Kind: agent.KindAgent, Tenant: "default", Name: "clerk"}, Source: agent.SourceAPI, Revision: 5, UpdatedBy: "ann",
				Body: []byte(`{"kind":"AgentInstance","name":"clerk","node_id":"agent","node_version":"1","parameters":{"system_message":"You book flights.\nAsk before you pay."},"tools":["pipeline"]}`),
			},
		},
		Decide: func(r agent.RouteContext) (agent.RouteDecision, error) {
			if r.UIPage == "/nowhere" {
				return agent.RouteDecision{}, agent.FieldErrorf(agent.CodeNotFound, "agent", "no rule matches, and there is no default agent")
			}
			reports := r.UIPage == "/reports/sales"
			d := agent.RouteDecision{Agent: "analyst", Reason: agent.RouteDefault, Revision: 5, Rules: []agent.RuleVerdict{
				{Table: "default/main", Rule: "reports", Priority: 10, Matched: reports, Chosen: reports, Reason: "page \"" + r.UIPage + "\" against /reports*", Agent: "clerk", Model: "gpt-4o"},
				{Table: "default/main", Rule: "beta", Priority: 5, Reason: "flag beta is not set", Agent: "guide"},
			}}
			if reports {
				d.Agent, d.Reason, d.Rule, d.Table, d.Model = "clerk", agent.RouteRuled, "reports", "default/main", "gpt-4o"
			}
			return d, nil
		},
	}
}
