// Package gatewaytest has the ports of a gateway in memory, for tests of doors and clients. Turns follow a script, or the test itself drives
// them event by event.
package gatewaytest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

// Epoch is when everything in this runtime happens, so that what clients print does not depend on the clock.
func Epoch() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

// Runtime is a scripted runtime. Set its fields before it is used.
type Runtime struct {
	// Script is run in a goroutine of its own for every new turn; nil leaves the turn to the test.
	Script func(rt *Runtime, id agent.TurnID, r agent.TurnRequest)
	// Refuse may refuse a request before a turn starts.
	Refuse func(e agent.Envelope) error
	// Decided, Provided and Cancelled are told of what reached a turn; an error is the answer. Nil accepts.
	Decided   func(id agent.TurnID, d agent.Decision) error
	Provided  func(id agent.TurnID, r agent.ProvidedResult) error
	Cancelled func(id agent.TurnID, c agent.CancelRequest) error
	// Collections are the knowledge collections that the catalog has.
	Collections []string
	// Examine is what Doctor does; nil reports nothing.
	Examine func(ctx context.Context, agentName, profile string, report func(gateway.DoctorCheck)) error

	// Promoted are the composite tools.
	Promoted []agent.Composite
	// OnRun is run in a goroutine of its own for every new run of a workflow; nil leaves the run to the test.
	OnRun func(rt *Runtime, runID string)

	mu       sync.Mutex
	broken   string // the dependency that Health reports as down
	kept     int64  // events before this index have expired
	hidden   map[agent.TurnID]bool
	turns    map[agent.TurnID]*turn
	order    []agent.TurnID
	titles   map[agent.SessionID]string
	byKey    map[string]agent.TurnID
	results  map[string][]byte
	datasets map[string]rowsOf
	follows  int
	seen     []agent.Envelope

	approvals []agent.Approval // in the order in which they were asked for
	knowledge map[string][]knowledge

	flows   []*flow
	changes map[string]agent.WorkflowPatchResult // by idempotency key
	runs    []agent.Run
	runKeys map[string]string
}

type turn struct {
	request agent.TurnRequest
	events  []agent.Event
	changed chan struct{} // closed and replaced whenever something changes
	output  *agent.AgentStepOutput
	pauses  gateway.PauseWatch
	state   string
}

// Ports returns the ports of a gateway over a runtime and a catalog.
func Ports(rt *Runtime, c *Catalog) gateway.Ports {
	return gateway.Ports{
		Turns: rt, Results: rt, Sessions: rt, Finder: rt, Approvals: rt, Knowledge: rt, Workflows: rt, Runs: rt, Composites: rt, Doctor: rt, Health: rt,
		Agents: c, Documents: c,
	}
}

// New makes an empty runtime.
func New() *Runtime {
	return &Runtime{
		turns: map[agent.TurnID]*turn{}, titles: map[agent.SessionID]string{}, byKey: map[string]agent.TurnID{}, results: map[string][]byte{}, datasets: map[string]rowsOf{},
		knowledge: map[string][]knowledge{}, changes: map[string]agent.WorkflowPatchResult{}, runKeys: map[string]string{},
	}
}

// Submit implements [agent.Inbox]. Turn ids count from turn-1.
func (rt *Runtime) Submit(_ context.Context, e agent.Envelope) (agent.Receipt, error) {
	if rt.Refuse != nil {
		if err := rt.Refuse(e); err != nil {
			return agent.Receipt{}, err
		}
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.seen = append(rt.seen, e)
	r := e.Request
	id := r.TurnID
	if known, ok := rt.byKey[r.IdempotencyKey]; ok && r.IdempotencyKey != "" {
		id = known
	}
	if t, ok := rt.turns[id]; ok && id != "" {
		return agent.Receipt{TurnID: id, SessionID: t.request.SessionID, StreamID: string(id), Joined: true}, nil
	}
	if id == "" {
		id = agent.TurnID(fmt.Sprintf("turn-%d", len(rt.turns)+1))
	}
	if r.SessionID == "" {
		r.SessionID = agent.SessionID(id)
	}
	if r.IdempotencyKey != "" {
		rt.byKey[r.IdempotencyKey] = id
	}
	rt.turns[id] = &turn{request: r, changed: make(chan struct{}), state: agent.StateRunning}
	rt.order = append(rt.order, id)
	if rt.Script != nil {
		go rt.Script(rt, id, r)
	}
	return agent.Receipt{TurnID: id, SessionID: r.SessionID, StreamID: string(id)}, nil
}

// Submitted returns the envelopes that arrived.
func (rt *Runtime) Submitted() []agent.Envelope {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	return append([]agent.Envelope(nil), rt.seen...)
}

// Followers returns how many follow loops run.
func (rt *Runtime) Followers() int {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	return rt.follows
}

// Hide makes a turn one that began so short a time ago that nobody knows yet whose it is, or ends that.
func (rt *Runtime) Hide(id agent.TurnID, hidden bool) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.hidden == nil {
		rt.hidden = map[agent.TurnID]bool{}
	}
	rt.hidden[id] = hidden
}

// Turn implements [gateway.Turns].
func (rt *Runtime) Turn(_ context.Context, tenant string, id agent.TurnID) (gateway.TurnView, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	t, ok := rt.turns[id]
	if ok && rt.hidden[id] {
		return gateway.TurnView{TurnID: id, StreamID: string(id), State: agent.StateQueued}, nil
	}
	if !ok || (tenant != agent.AnyTenant && tenant != t.request.Context.Tenant) {
		return gateway.TurnView{}, agent.Errorf(agent.CodeNotFound, "", "no turn %q", id)
	}
	v := gateway.TurnView{
		TurnID: id, SessionID: t.request.SessionID, StreamID: string(id), Tenant: t.request.Context.Tenant, Agent: cmp.Or(t.request.Agent, "analyst"),
		UserID: t.request.Context.UserID, State: t.state, StartedAt: Epoch(), Pending: slices.Clone(t.pauses.Pending), Output: t.output,
		Tail: agent.StreamTail{LastIndex: int64(len(t.events)), FirstIndex: max(rt.kept, 1), Closed: t.output != nil},
	}
	if len(t.events) == 0 {
		v.Tail.FirstIndex = 0
	}
	v.Draft = t.request.Draft != nil
	if r := t.request.Rerun; r != nil {
		v.RerunOf, v.FromStep = r.Of, r.FromStep
	}
	return v, nil
}

// Decide implements [agent.Inbox].
func (rt *Runtime) Decide(_ context.Context, id agent.TurnID, d agent.Decision) error {
	if rt.Decided != nil {
		return rt.Decided(id, d)
	}
	return nil
}

// Provide implements [gateway.Turns].
func (rt *Runtime) Provide(_ context.Context, id agent.TurnID, r agent.ProvidedResult) error {
	if rt.Provided != nil {
		return rt.Provided(id, r)
	}
	return nil
}

// Cancel implements [agent.Inbox].
func (rt *Runtime) Cancel(_ context.Context, id agent.TurnID, c agent.CancelRequest) error {
	if rt.Cancelled != nil {
		return rt.Cancelled(id, c)
	}
	return nil
}

// MessageFrom implements [gateway.Turns].
func (rt *Runtime) MessageFrom(ctx context.Context, _ agent.TurnID, e agent.Envelope) (agent.Receipt, int, error) {
	r, err := rt.Submit(ctx, e)
	return r, 1, err
}

// Break makes Health report a dependency as down.
func (rt *Runtime) Break(dependency string) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.broken = dependency
}

// Health implements [gateway.HealthChecker].
func (rt *Runtime) Health(context.Context) gateway.Health {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	h := gateway.Health{OK: rt.broken == ""}
	for _, name := range []string{"temporal", "postgres"} {
		d := gateway.Dependency{Name: name, OK: name != rt.broken, Took: time.Millisecond}
		if !d.OK {
			d.Detail, d.Hint = "dial tcp 10.1.2.3:5432: connection refused", "Nothing listens at that address."
		}
		h.Dependencies = append(h.Dependencies, d)
	}
	return h
}

// Rerun implements [gateway.Turns]: it submits what the turn was asked.
func (rt *Runtime) Rerun(ctx context.Context, id agent.TurnID, e agent.Envelope) (agent.Receipt, error) {
	rt.mu.Lock()
	t, ok := rt.turns[id]
	rt.mu.Unlock()
	if !ok {
		return agent.Receipt{}, agent.Errorf(agent.CodeNotFound, "", "no turn %q", id)
	}
	if t.output == nil {
		return agent.Receipt{}, agent.Errorf(agent.CodeConflict, "", "turn %q has not ended", id)
	}
	rerun := *e.Request.Rerun
	rerun.Of, rerun.Input = id, t.request.Input()
	e.Request.Rerun = &rerun
	e.Request.Agent, e.Request.Model = cmp.Or(e.Request.Agent, t.request.Agent), cmp.Or(e.Request.Model, t.request.Model)
	return rt.Submit(ctx, e)
}
