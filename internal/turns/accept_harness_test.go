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

// inboxHarness is an inbox on a real database. It is also the fake of everything else that a request meets: the model, Temporal, the
// limits and the audit trail.
type inboxHarness struct {
	*turns.Inbox
	t       *testing.T
	store   *postgres.Store
	log     *pgstream.Log
	catalog *fakeCatalog
	acts    *turns.Turns
	turns.Upkeep

	mu            sync.Mutex
	pool          *pgxpool.Pool
	started       map[string]agent.TurnRequest
	closed        map[string]bool  // workflows that have ended
	busy          map[string]bool  // workflows that have a task to do
	signals       map[string][]any // the arguments of signals, by workflow and signal
	admitted      []agent.TurnID
	returned      []agent.TurnID // the places that were given back
	admitErr      error          // returned by Admit
	temporalErr   error          // returned by all calls of Temporal
	startErr      error          // returned by Start after it has started the turn
	failingWrites int            // the number of writes of the event log that fail
	beginErrs     []error        // the errors of the next calls of Begin; if the outcome is unknown, the call has its effect
	audits        []agent.AuditRecord
}

func newInboxHarness(t *testing.T, change ...func(o *inboxHarness, c *turns.InboxConfig)) *inboxHarness {
	t.Helper()
	pool, store, log := database(t)
	o := &inboxHarness{
		t: t, store: store, log: log, pool: pool, started: map[string]agent.TurnRequest{},
		closed: map[string]bool{}, busy: map[string]bool{}, signals: map[string][]any{}, catalog: newFakeCatalog(t, agentPlan("clerk")),
	}
	set, err := middleware.NewSet(middleware.Builtin(0, nil)...)
	require.NoError(t, err)
	runs := fakeWorkflows{o: o}
	o.acts, err = turns.New(turns.Config{
		Registry: o.catalog, Models: o, Tools: &fakeTool{}, Middleware: set, Store: flakyStore{o.store, o}, Log: failingLog{o.log, o},
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

// addAgent adds an agent to the catalog.
func (o *inboxHarness) addAgent(name string, change func(*agent.Plan)) {
	o.t.Helper()
	p := agentPlan(name)
	change(&p)
	o.catalog.put(p)
}

func agentPlan(name string) agent.Plan {
	return agent.Plan{
		Agent: name, InstanceID: name + "@1", Models: []agent.PlanModel{{Profile: "p", Model: "m"}},
		Tools: []agent.PlanTool{
			{Spec: agent.ToolSpec{Name: "look", InherentlySafe: true}, Toolkit: "kit"}, {Spec: agent.ToolSpec{Name: "pay", InherentlySafe: true}, Toolkit: "kit"},
		},
	}
}

func (o *inboxHarness) Admit(_ context.Context, turn agent.TurnID, _, _, _ string, _ agent.RateLimits) (func(context.Context), error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.admitErr != nil {
		return nil, o.admitErr
	}
	o.admitted = append(o.admitted, turn)
	return func(context.Context) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.returned = append(o.returned, turn)
	}, nil
}

func (o *inboxHarness) Record(r agent.AuditRecord) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.audits = append(o.audits, r)
}

// lastAudit returns the last record of the audit trail, and the number of records.
func (o *inboxHarness) lastAudit() (agent.AuditRecord, int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.audits) == 0 {
		return agent.AuditRecord{}, 0
	}
	return o.audits[len(o.audits)-1], len(o.audits)
}

func (o *inboxHarness) places() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.admitted)
}

func (o *inboxHarness) input(id agent.TurnID) (agent.TurnRequest, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r, ok := o.started[id.WorkflowID()]
	return r, ok
}

func (o *inboxHarness) Model(context.Context, agent.PlanModel) (agent.Model, error) { return o, nil }

// Generate answers with the names of the tools in the request.
func (*inboxHarness) Generate(_ context.Context, req agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
	text := "tools:"
	for i := range req.Tools {
		text += " " + req.Tools[i].Name
	}
	if err := emit(agent.Delta{Text: text}); err != nil {
		return agent.ModelReply{}, err
	}
	return agent.ModelReply{Blocks: []agent.Block{agent.Text(text)}, FinishReason: agent.FinishStop, Model: "m"}, nil
}

// submit submits a request that must be accepted.
func (o *inboxHarness) submit(e agent.Envelope) agent.Receipt {
	o.t.Helper()
	receipt, err := o.Submit(o.t.Context(), e)
	require.NoError(o.t, err)
	return receipt
}

// turn returns the stored state of a turn.
func (o *inboxHarness) turn(id agent.TurnID) agent.TurnState {
	o.t.Helper()
	t, err := o.store.Turn(o.t.Context(), id)
	require.NoError(o.t, err)
	return t
}

// waitForResult waits until a turn ends, and returns its output.
func (o *inboxHarness) waitForResult(id agent.TurnID) agent.AgentStepOutput {
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

// fakeWorkflows is a Temporal server that records starts and signals, and runs nothing.
type fakeWorkflows struct {
	turns.Runs // only the methods below are called

	o *inboxHarness
}

func (f fakeWorkflows) Start(_ context.Context, t turns.TurnRef) error {
	f.o.mu.Lock()
	defer f.o.mu.Unlock()
	id := t.TurnID.WorkflowID()
	if _, ok := f.o.started[id]; ok || f.o.temporalErr != nil {
		return f.o.temporalErr
	}
	f.o.started[id] = agent.TurnRequest{TurnID: t.TurnID, SessionID: t.SessionID, Context: agent.InvocationContext{Tenant: t.Tenant}}
	return f.o.startErr
}

func (f fakeWorkflows) Look(_ context.Context, id string) (turns.WorkflowState, error) {
	f.o.mu.Lock()
	defer f.o.mu.Unlock()
	_, ok := f.o.started[id]
	return turns.WorkflowState{Exists: ok, Running: ok && !f.o.closed[id], Busy: f.o.busy[id]}, nil
}

func (f fakeWorkflows) signal(id, name string, arg any) error {
	f.o.mu.Lock()
	defer f.o.mu.Unlock()
	f.o.signals[id+" "+name] = append(f.o.signals[id+" "+name], arg)
	return nil
}

func (f fakeWorkflows) Ready(_ context.Context, id string) error { return f.signal(id, "ready", nil) }

func (f fakeWorkflows) Interrupt(_ context.Context, id string, c agent.CancelRequest) error {
	return f.signal(id, "cancel", c)
}

func (f fakeWorkflows) Resolved(_ context.Context, id string, a *agent.Approval) error {
	return f.signal(id, "resolved", a.ApprovalID)
}

// failingLog is the event log, with writes that can fail.
type failingLog struct {
	*pgstream.Log

	o *inboxHarness
}

func (l failingLog) Append(ctx context.Context, f agent.Fence, batch int64, events []agent.Event) (agent.Appended, error) {
	l.o.mu.Lock()
	breaks := l.o.failingWrites > 0
	if breaks {
		l.o.failingWrites--
	}
	l.o.mu.Unlock()
	if breaks {
		return agent.Appended{}, agent.Errorf(agent.CodeUnavailable, "append", "broken")
	}
	return l.Log.Append(ctx, f, batch, events)
}

// flakyStore is the store, with a Begin whose answers can be lost.
type flakyStore struct {
	*postgres.Store

	o *inboxHarness
}

func (s flakyStore) Begin(ctx context.Context, r agent.TurnRecord) (agent.Begun, error) {
	s.o.mu.Lock()
	var lost error
	if len(s.o.beginErrs) > 0 {
		lost, s.o.beginErrs = s.o.beginErrs[0], s.o.beginErrs[1:]
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

// keyCaller returns a caller who has an API key of the tenant acme.
func keyCaller(scopes ...string) agent.Principal {
	return agent.Principal{Method: agent.MethodKey, Tenant: "acme", Subject: "u1", Scopes: slices.Concat([]string{"turns.read"}, scopes), Credential: "k1"}
}

// helloRequest returns a request of the tenant acme.
func helloRequest(change func(*agent.TurnRequest)) agent.TurnRequest {
	r := agent.TurnRequest{Message: "hello", Context: agent.InvocationContext{Tenant: "acme", UserID: "u1"}}
	if change != nil {
		change(&r)
	}
	return r
}
