package turns_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/admission"
	"github.com/turnstone-run/turnstone/internal/direct"
	"github.com/turnstone-run/turnstone/internal/middleware"
	"github.com/turnstone-run/turnstone/internal/postgres"
	"github.com/turnstone-run/turnstone/internal/schema"
	"github.com/turnstone-run/turnstone/internal/stream/pgstream"
	"github.com/turnstone-run/turnstone/internal/turns"
	"github.com/turnstone-run/turnstone/workflows"
)

// office is an inbox on a real database. It is also what else a request meets: the model, Temporal, the limits and
// the trail.
type office struct {
	*turns.Inbox
	t       *testing.T
	store   *postgres.Store
	log     *pgstream.Log
	catalog *fakeCatalog
	acts    *turns.Turns
	turns.Upkeep

	mu       sync.Mutex
	pool     *pgxpool.Pool
	started  map[string]agent.TurnRequest
	closed   map[string]bool  // workflows that have ended
	busy     map[string]bool  // workflows that have a task to do
	signals  map[string][]any // by workflow and signal: what they were told
	admitted []agent.TurnID
	left     []agent.TurnID // places that were given back
	refuse   error          // of the limits
	away     error          // of Temporal
	answer   error          // of Temporal, for a turn that it has started
	broken   int            // writes of the event log that fail
	begins   []error        // of the store's next answers to Begin, which does its work first unless they are certain
	trail    []agent.AuditRecord
}

func newOffice(t *testing.T, change ...func(o *office, c *turns.InboxConfig)) *office {
	t.Helper()
	pool, store, log := database(t)
	o := &office{
		t: t, store: store, log: log, pool: pool, started: map[string]agent.TurnRequest{},
		closed: map[string]bool{}, busy: map[string]bool{}, signals: map[string][]any{}, catalog: newFakeCatalog(t, clerk("clerk")),
	}
	set, err := middleware.NewSet(middleware.Builtin(0, nil)...)
	require.NoError(t, err)
	runs := temporal{o: o}
	o.acts, err = turns.New(turns.Config{
		Registry: o.catalog, Models: o, Tools: &fakeTool{}, Middleware: set, Store: losingStore{o.store, o}, Log: breakingLog{o.log, o},
		Blobs: &fakeBlobs{}, Runs: runs, Schemas: schema.New(), Knowledge: &fakeLibrary{},
	})
	require.NoError(t, err)
	o.Upkeep = turns.Upkeep{Turns: o.acts, Store: o.store}
	driver, err := direct.New(direct.Config{Turns: o.acts, MaxTurns: 4, Start: func(ctx context.Context, t *turns.TurnRef, _ *workflows.Carry) error {
		return runs.Start(ctx, *t)
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, driver.Stop(context.Background())) })
	c := turns.InboxConfig{Turns: o.acts, Driver: driver, Admission: o, Capacity: admission.NewCapacity(0), Audit: o}
	for _, f := range change {
		f(o, &c)
	}
	o.Inbox = turns.NewInbox(c)
	return o
}

// employ adds an agent.
func (o *office) employ(name string, change func(*agent.Plan)) {
	o.t.Helper()
	p := clerk(name)
	change(&p)
	o.catalog.put(p)
}

func clerk(name string) agent.Plan {
	return agent.Plan{
		Agent: name, InstanceID: name + "@1", Models: []agent.PlanModel{{Profile: "p", Model: "m"}},
		Tools: []agent.PlanTool{
			{Spec: agent.ToolSpec{Name: "look", InherentlySafe: true}, Toolkit: "kit"}, {Spec: agent.ToolSpec{Name: "pay", InherentlySafe: true}, Toolkit: "kit"},
		},
	}
}

func (o *office) Admit(_ context.Context, turn agent.TurnID, _, _, _ string, _ agent.RateLimits) (func(context.Context), error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.refuse != nil {
		return nil, o.refuse
	}
	o.admitted = append(o.admitted, turn)
	return func(context.Context) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.left = append(o.left, turn)
	}, nil
}

func (o *office) Record(r agent.AuditRecord) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.trail = append(o.trail, r)
}

// noted is the last line of the trail, and how many there are.
func (o *office) noted() (agent.AuditRecord, int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.trail) == 0 {
		return agent.AuditRecord{}, 0
	}
	return o.trail[len(o.trail)-1], len(o.trail)
}

func (o *office) places() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.admitted)
}

func (o *office) input(id agent.TurnID) (agent.TurnRequest, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r, ok := o.started[id.WorkflowID()]
	return r, ok
}

func (o *office) Model(context.Context, agent.PlanModel) (agent.Model, error) { return o, nil }

// Generate answers with the names of the tools that it was told of.
func (*office) Generate(_ context.Context, req agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
	text := "tools:"
	for i := range req.Tools {
		text += " " + req.Tools[i].Name
	}
	if err := emit(agent.Delta{Text: text}); err != nil {
		return agent.ModelReply{}, err
	}
	return agent.ModelReply{Blocks: []agent.Block{agent.Text(text)}, FinishReason: agent.FinishStop, Model: "m"}, nil
}

// ended waits for a turn's result.
func (o *office) ended(id agent.TurnID) agent.AgentStepOutput {
	o.t.Helper()
	for e, err := range o.log.Follow(o.t.Context(), string(id), 0) {
		require.NoError(o.t, err)
		if e.Terminal() {
			return *e.Result
		}
	}
	o.t.Fatal("no terminal event")
	return agent.AgentStepOutput{}
}

// temporal is a server that starts and runs nothing.
type temporal struct {
	turns.Runs // only the methods below are called

	o *office
}

func (f temporal) Start(_ context.Context, t turns.TurnRef) error {
	f.o.mu.Lock()
	defer f.o.mu.Unlock()
	id := t.TurnID.WorkflowID()
	if _, ok := f.o.started[id]; ok || f.o.away != nil {
		return f.o.away
	}
	f.o.started[id] = agent.TurnRequest{TurnID: t.TurnID, SessionID: t.SessionID, Context: agent.InvocationContext{Tenant: t.Tenant}}
	return f.o.answer
}

func (f temporal) Look(_ context.Context, id string) (turns.WorkflowState, error) {
	f.o.mu.Lock()
	defer f.o.mu.Unlock()
	_, ok := f.o.started[id]
	return turns.WorkflowState{Exists: ok, Running: ok && !f.o.closed[id], Busy: f.o.busy[id]}, nil
}

func (f temporal) signal(id, name string, arg any) error {
	f.o.mu.Lock()
	defer f.o.mu.Unlock()
	f.o.signals[id+" "+name] = append(f.o.signals[id+" "+name], arg)
	return nil
}

func (f temporal) Ready(_ context.Context, id string) error { return f.signal(id, "ready", nil) }

func (f temporal) Interrupt(_ context.Context, id string, c agent.CancelRequest) error {
	return f.signal(id, "cancel", c)
}

func (f temporal) Resolved(_ context.Context, id string, a *agent.Approval) error {
	return f.signal(id, "resolved", a.ApprovalID)
}

// breakingLog is the event log with writes that fail.
type breakingLog struct {
	*pgstream.Log

	o *office
}

func (l breakingLog) Append(ctx context.Context, f agent.Fence, batch int64, events []agent.Event) (agent.Appended, error) {
	l.o.mu.Lock()
	breaks := l.o.broken > 0
	if breaks {
		l.o.broken--
	}
	l.o.mu.Unlock()
	if breaks {
		return agent.Appended{}, agent.Errorf(agent.CodeUnavailable, "append", "broken")
	}
	return l.Log.Append(ctx, f, batch, events)
}

// losingStore is the store with answers that get lost.
type losingStore struct {
	*postgres.Store

	o *office
}

func (s losingStore) Begin(ctx context.Context, r agent.TurnRecord) (agent.Begun, error) {
	s.o.mu.Lock()
	var lost error
	if len(s.o.begins) > 0 {
		lost, s.o.begins = s.o.begins[0], s.o.begins[1:]
	}
	s.o.mu.Unlock()
	if lost != nil && !errors.Is(lost, agent.ErrOutcomeUnknown) {
		return agent.Begun{}, lost
	}
	begun, err := s.Store.Begin(ctx, r)
	if lost != nil {
		return agent.Begun{}, lost
	}
	return begun, err
}

// holder is a caller with a key of acme.
func holder(scopes ...string) agent.Principal {
	return agent.Principal{Method: agent.MethodKey, Tenant: "acme", Subject: "u1", Scopes: slices.Concat([]string{"turns.read"}, scopes), Credential: "k1"}
}

// hello is a request of acme.
func hello(change func(*agent.TurnRequest)) agent.TurnRequest {
	r := agent.TurnRequest{Message: "hello", Context: agent.InvocationContext{Tenant: "acme", UserID: "u1"}}
	if change != nil {
		change(&r)
	}
	return r
}
