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

// server is a gateway with the console. Its runtime does what each test says. Unlike [gatewaytest.Runtime] it has transcripts with answers,
// and its events have different times.
type server struct {
	*gatewaytest.Runtime

	url       string
	catalog   *gatewaytest.Catalog
	usage     *usageReports
	schedules *schedules
	trail     *gatewaytest.Trail
	config    gateway.Config
	gateway   *gateway.Gateway
	unhealthy []gateway.Dependency // the dependencies that Health returns; nil: those of the runtime, which are healthy

	mu         sync.Mutex
	eventTimes map[agent.TurnID][]time.Duration // times of the first events of a turn; the other events are 120 ms apart
	transcript map[agent.TurnID][]agent.Message // messages after the question; without an entry, the answer
	cuts       map[agent.TurnID]chan struct{}   // a closed channel ends the turn's streams
	forks      map[agent.SessionID]agent.Fork
}

// sharedDoor is used by all tests, because compressing its files takes a while.
var sharedDoor = sync.OnceValues(func() (*console.Door, error) {
	return console.New(console.Config{UIURL: "http://127.0.0.1:8233/", Namespace: "prod"})
})

// address is the address of the first server. Later servers listen there too, so that the browser has the console's files in its cache.
var address = "127.0.0.1:0"

func newServer(t *testing.T, auth access.Authenticator) *server {
	t.Helper()
	h := &server{
		Runtime: gatewaytest.New(), catalog: exampleCatalog(), usage: &usageReports{}, schedules: &schedules{}, trail: &gatewaytest.Trail{},
		eventTimes: map[agent.TurnID][]time.Duration{}, transcript: map[agent.TurnID][]agent.Message{}, cuts: map[agent.TurnID]chan struct{}{},
		forks: map[agent.SessionID]agent.Fork{},
	}
	door, err := sharedDoor()
	require.NoError(t, err)
	ports := gatewaytest.Ports(h.Runtime, h.catalog)
	ports.Turns, ports.Sessions, ports.Health = h, h, h
	ports.Usage, ports.Schedules, ports.SchedulePlans, ports.Audit = h.usage, h.schedules, h.schedules, h.trail
	h.config = gateway.Config{
		HTTPAddr: address, Ports: ports, Doors: []gateway.Door{door}, Auth: auth, Version: "1.2.3",
		Limits: gateway.Limits{Heartbeat: time.Second},
	}
	if err := h.listen(t); err != nil { // another server of the same test listens there
		h.config.HTTPAddr = "127.0.0.1:0"
		h.start(t)
	}
	address = h.config.HTTPAddr
	t.Cleanup(h.stop)
	return h
}

// start starts the server. After stop it listens at the same address.
func (h *server) start(t *testing.T) {
	t.Helper()
	require.NoError(t, h.listen(t))
}

func (h *server) listen(t *testing.T) error {
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

// stop stops the server. It does not wait long, because a page may keep its connections.
func (h *server) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = h.gateway.Shutdown(ctx)
}

// Follow sets the times of events, and ends with an error after cutStreams.
func (h *server) Follow(ctx context.Context, id agent.TurnID, after int64) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		cut := h.cutSignal(id)
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
				err = agent.Errorf(agent.CodeUnavailable, "", "the log cannot be reached")
			default:
			}
			e.Meta.Time = gatewaytest.Epoch().Add(h.eventTime(id, int(e.Meta.EventIndex)-1))
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// cutSignal returns the channel that the next cutStreams closes.
func (h *server) cutSignal(id agent.TurnID) chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cuts[id] == nil {
		h.cuts[id] = make(chan struct{})
	}
	return h.cuts[id]
}

// cutStreams ends the current streams of a turn with an error. Later streams are not affected.
func (h *server) cutStreams(id agent.TurnID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.cuts[id]; c != nil {
		close(c)
	}
	h.cuts[id] = nil
}

func (h *server) eventTime(id agent.TurnID, i int) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	times := h.eventTimes[id]
	if i >= 0 && i < len(times) {
		return times[i]
	}
	return time.Duration(max(i, 0)) * 120 * time.Millisecond
}

func (h *server) Health(ctx context.Context) gateway.Health {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.unhealthy == nil {
		return h.Runtime.Health(ctx)
	}
	down := slices.ContainsFunc(h.unhealthy, func(d gateway.Dependency) bool { return d.State == gateway.HealthDown })
	return gateway.Health{OK: !down, Dependencies: h.unhealthy}
}

func (h *server) setHealth(unhealthy ...gateway.Dependency) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unhealthy = unhealthy
}

// addMessages adds messages to the transcript, where they replace the turn's answer.
func (h *server) addMessages(id agent.TurnID, messages ...agent.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.transcript[id] = append(h.transcript[id], messages...)
}

func (h *server) ForkSession(ctx context.Context, tenant string, f agent.Fork) (agent.SessionForked, error) {
	forked, err := h.Runtime.ForkSession(ctx, tenant, f)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forks[f.SessionID] = f
	return forked, err
}

// Messages returns the messages of finished turns. A forked session has those of its original.
func (h *server) Messages(ctx context.Context, tenant string, s agent.SessionID, after int64, limit int) (gateway.MessagePage, error) {
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
		said := h.transcript[v.TurnID]
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
