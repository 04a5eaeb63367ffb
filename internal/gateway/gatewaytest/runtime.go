// Package gatewaytest has fakes of the ports of a gateway, for tests of doors and clients. A script drives the turns, or the test emits their events
// itself. Workflow definitions are the real ones in memory.
package gatewaytest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions/library"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

// Epoch is the time of everything that the fakes return, so that the output of clients does not depend on the clock.
func Epoch() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

// Runtime has the ports of turns, sessions, results, knowledge, workflows, the doctor and health. Set its fields before it is used.
type Runtime struct {
	// Script, if not nil, runs in a goroutine for every new turn.
	Script func(rt *Runtime, id agent.TurnID, r agent.TurnRequest)
	// Refuse, if not nil, is called before a turn starts; its error refuses the request.
	Refuse func(e agent.Envelope) error
	// Decided, Provided and Cancelled, if not nil, are called with what reached a turn, and return the error of the port.
	Decided   func(id agent.TurnID, d agent.Decision) error
	Provided  func(id agent.TurnID, r agent.ProvidedResult) error
	Cancelled func(id agent.TurnID, c agent.CancelRequest) error
	// Collections are the names of the knowledge collections.
	Collections []string
	// Examine, if not nil, is the implementation of Doctor.
	Examine func(ctx context.Context, agentName, profile string, report func(gateway.DoctorCheck)) error

	// Promoted are the composite tools.
	Promoted []agent.Composite
	// OnRun, if not nil, runs in a goroutine for every new run of a workflow.
	OnRun func(rt *Runtime, runID string)

	library *library.Library

	mu               sync.Mutex
	brokenDependency string // that Health reports as down
	firstIndex       int64  // events before this index have expired
	hidden           map[agent.TurnID]bool
	turns            map[agent.TurnID]*turn
	order            []agent.TurnID // of submission
	titles           map[agent.SessionID]string
	turnIDs          map[string]agent.TurnID // by idempotency key
	results          map[string][]byte
	datasets         map[string]tenantDataset
	followers        int
	submitted        []agent.Envelope
	approvals        []agent.Approval // in the order of the requests
	knowledge        map[string][]knowledgeDocument
	runs             []agent.Run
	runIDs           map[string]string // by idempotency key
}

type turn struct {
	request agent.TurnRequest
	events  []agent.Event
	changed chan struct{} // closed and replaced at every change
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

// New returns an empty runtime.
func New() *Runtime {
	return &Runtime{
		library: newLibrary(), hidden: map[agent.TurnID]bool{}, turns: map[agent.TurnID]*turn{}, titles: map[agent.SessionID]string{},
		turnIDs: map[string]agent.TurnID{}, results: map[string][]byte{}, datasets: map[string]tenantDataset{},
		knowledge: map[string][]knowledgeDocument{}, runIDs: map[string]string{},
	}
}

// Submit implements [agent.Inbox]. The turn ids are turn-1, turn-2 and so on.
func (rt *Runtime) Submit(_ context.Context, e agent.Envelope) (agent.Receipt, error) {
	if rt.Refuse != nil {
		if err := rt.Refuse(e); err != nil {
			return agent.Receipt{}, err
		}
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.submitted = append(rt.submitted, e)
	r := e.Request
	id := cmp.Or(rt.turnIDs[r.IdempotencyKey], r.TurnID)
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
		rt.turnIDs[r.IdempotencyKey] = id
	}
	rt.turns[id] = &turn{request: r, changed: make(chan struct{}), state: agent.StateRunning}
	rt.order = append(rt.order, id)
	if rt.Script != nil {
		go rt.Script(rt, id, r)
	}
	return agent.Receipt{TurnID: id, SessionID: r.SessionID, StreamID: string(id)}, nil
}

// Submitted returns the envelopes that were submitted and not refused.
func (rt *Runtime) Submitted() []agent.Envelope {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	return slices.Clone(rt.submitted)
}

// Followers returns the number of active calls of Follow.
func (rt *Runtime) Followers() int {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	return rt.followers
}

// Hide sets whether Turn returns a turn without its tenant, as the port may do for a new turn.
func (rt *Runtime) Hide(id agent.TurnID, hidden bool) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
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
		Tail: agent.StreamTail{LastIndex: int64(len(t.events)), FirstIndex: max(rt.firstIndex, 1), Closed: t.output != nil},
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
	rt.brokenDependency = dependency
}

// Health implements [gateway.HealthChecker].
func (rt *Runtime) Health(context.Context) gateway.Health {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	h := gateway.Health{OK: rt.brokenDependency == ""}
	for _, name := range []string{"temporal", "postgres"} {
		d := gateway.Dependency{Name: name, OK: name != rt.brokenDependency, Took: time.Millisecond}
		if !d.OK {
			d.Detail, d.Hint = "dial tcp 10.1.2.3:5432: connection refused", "Nothing listens at that address."
		}
		h.Dependencies = append(h.Dependencies, d)
	}
	return h
}

// Rerun implements [gateway.Turns]. It submits the input of the turn.
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
