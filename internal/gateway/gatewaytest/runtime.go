// Package gatewaytest has the ports of a gateway in memory, for tests of doors and clients. Turns follow a script, or the test itself drives
// them event by event.
package gatewaytest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
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
		turns: map[agent.TurnID]*turn{}, byKey: map[string]agent.TurnID{}, results: map[string][]byte{}, datasets: map[string]rowsOf{},
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

// Emit appends events to a turn, assigning index, stream and time.
func (rt *Runtime) Emit(id agent.TurnID, events ...agent.Event) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	t := rt.turns[id]
	for _, e := range events {
		e.Meta.StreamID, e.Meta.TurnID = string(id), id
		e.Meta.EventIndex = int64(len(t.events) + 1)
		e.Meta.Time = Epoch()
		t.pauses.See(&e)
		switch {
		case e.Type == agent.EventApprovalRequested:
			rt.ask(id, t, *e.Approval)
		case e.Type == agent.EventApprovalResolved:
			rt.resolve(id, e.Approval)
		case e.Status == agent.StatusWaiting:
			t.state = agent.StateWaiting
		case e.Status == agent.StatusRunning:
			t.state = agent.StateRunning
		case e.Terminal():
			t.output = e.Result
			t.state = string(e.Result.Status)
		}
		t.events = append(t.events, e)
	}
	close(t.changed)
	t.changed = make(chan struct{})
}

// Say emits RUNNING, a token event for each word, and COMPLETED.
func (rt *Runtime) Say(id agent.TurnID, text string) {
	rt.Emit(id, Status(agent.StatusRunning))
	for _, word := range strings.SplitAfter(text, " ") {
		rt.Emit(id, Token(word))
	}
	rt.Finish(id, agent.TurnCompleted, text)
}

// Finish emits the terminal event with a result and stores the result.
func (rt *Runtime) Finish(id agent.TurnID, status agent.TurnStatus, text string) {
	out := rt.Output(id, status, text)
	document, err := json.Marshal(map[string]any{"output": text})
	if err != nil {
		document = nil
	}
	rt.Store(out.ResultRef, document)
	rt.Store(string(id), document)
	rt.Emit(id, agent.Event{
		Type: agent.EventStatus, Status: agent.TerminalStatus(status), Reason: string(out.StopReason), Result: out,
	})
}

// resultPrefix begins the reference of every turn's result.
const resultPrefix = "artifact://result-of-"

// Output makes the result that Finish gives a turn.
func (rt *Runtime) Output(id agent.TurnID, status agent.TurnStatus, text string) *agent.AgentStepOutput {
	rt.mu.Lock()
	session := rt.turns[id].request.SessionID
	rt.mu.Unlock()
	out := &agent.AgentStepOutput{
		TurnID: id, SessionID: session, Agent: "analyst", AgentInstanceID: "analyst@1", Status: status, Output: text,
		Blocks: []agent.Block{agent.Text(text)}, ResultRef: resultPrefix + string(id),
		Usage:      agent.Usage{InputTokens: 10, OutputTokens: 5},
		StopReason: agent.StopEndTurn, StreamID: string(id), ExecutionTimeMS: 1200, Model: "offline",
	}
	switch status {
	case agent.TurnFailed:
		out.StopReason = agent.StopModelError
		out.Error = &agent.Failure{Type: string(agent.StopModelError), Message: "the provider said no", Retryable: true}
	case agent.TurnCancelled:
		out.StopReason = agent.StopCancelled
	case agent.TurnCompleted:
	}
	return out
}

// Store makes a result available under a reference.
func (rt *Runtime) Store(ref string, document []byte) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.results[ref] = document
}

// Status makes a status event.
func Status(s agent.EventStatusValue) agent.Event {
	return agent.Event{Type: agent.EventStatus, Status: s}
}

// Token makes a token event of the producer model/1.
func Token(text string) agent.Event {
	return agent.Event{Meta: agent.EventMeta{Producer: "model/1", Attempt: 1}, Type: agent.EventToken, Text: text}
}

// Follow implements [agent.Inbox].
func (rt *Runtime) Follow(ctx context.Context, id agent.TurnID, after int64) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		rt.count(1)
		defer rt.count(-1)
		for {
			rt.mu.Lock()
			t := rt.turns[id]
			var ready []agent.Event
			if after < int64(len(t.events)) {
				ready = t.events[after:]
			}
			changed, kept := t.changed, rt.kept
			rt.mu.Unlock()
			if len(ready) > 0 && after+1 < kept {
				yield(agent.Event{}, agent.ErrGap)
				return
			}
			for i := range ready {
				if !yield(ready[i], nil) || ready[i].Terminal() {
					return
				}
				after = ready[i].Meta.EventIndex
			}
			if len(ready) > 0 {
				continue
			}
			agent.Waiting(ctx)
			select {
			case <-changed:
			case <-ctx.Done():
				yield(agent.Event{}, ctx.Err())
				return
			}
		}
	}
}

func (rt *Runtime) count(by int) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.follows += by
}

// Expire makes the events before an index unavailable.
func (rt *Runtime) Expire(before int64) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.kept = before
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

// Turn implements [gateway.Runtime].
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

// Provide implements [gateway.Runtime].
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

// MessageFrom implements [gateway.Runtime].
func (rt *Runtime) MessageFrom(ctx context.Context, _ agent.TurnID, e agent.Envelope) (agent.Receipt, int, error) {
	r, err := rt.Submit(ctx, e)
	return r, 1, err
}

// jobResult is the reference of a job's result, and any other as it is.
func (rt *Runtime) jobResult(ref string) string {
	for id, t := range rt.turns {
		if t.request.Context.Metadata[agent.MetaJobID] == ref && ref != "" {
			return resultPrefix + string(id)
		}
	}
	return ref
}

// Result implements [gateway.Runtime].
func (rt *Runtime) Result(_ context.Context, tenant, ref string) (gateway.ResultView, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	asked := ref
	ref = rt.jobResult(ref)
	document, ok := rt.results[ref]
	if t := rt.turns[agent.TurnID(strings.TrimPrefix(ref, resultPrefix))]; t != nil && tenant != agent.AnyTenant {
		ok = ok && tenant == t.request.Context.Tenant // what is stored by hand is everybody's
	}
	if !ok {
		ref = asked
		return gateway.ResultView{}, agent.Errorf(agent.CodeNotFound, "", "no result %q", ref)
	}
	v := gateway.ResultView{Ref: ref, Size: int64(len(document)), Body: io.NopCloser(strings.NewReader(string(document)))}
	if id := agent.TurnID(strings.TrimPrefix(ref, resultPrefix)); rt.turns[id] != nil {
		v.TurnID = id
	}
	return v, nil
}

// Messages implements [gateway.Runtime]: the inputs of the session's turns.
func (rt *Runtime) Messages(
	_ context.Context, tenant string, s agent.SessionID, after int64, limit int,
) (gateway.MessagePage, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	page := gateway.MessagePage{SessionID: s, Next: after}
	known := false
	for i, e := range rt.seen {
		position := int64(i + 1)
		if e.Request.SessionID != s || e.Request.Context.Tenant != tenant {
			continue
		}
		known = true
		if position <= after {
			continue
		}
		if page.More = len(page.Messages) == limit; page.More {
			break
		}
		m := e.Request.Input()[0]
		page.Messages = append(page.Messages, gateway.SessionMessage{
			Position: position, CreatedAt: Epoch(), Role: m.Role, Blocks: m.Blocks,
		})
		page.Next = position
	}
	if !known {
		return page, agent.Errorf(agent.CodeNotFound, "", "no session %q", s)
	}
	return page, nil
}

// Break makes Health report a dependency as down.
func (rt *Runtime) Break(dependency string) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.broken = dependency
}

// Health implements [gateway.Runtime].
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
