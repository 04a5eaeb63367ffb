package turns

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/strict"
)

// CoreVersion is the version of the pure core that new turns begin with; a test holds it against turn.Version.
const CoreVersion = 3

// coreWithoutPlan is the newest version whose workflows take the plan from BeginTurn instead of LoadPlan.
const coreWithoutPlan = 2

// DirectLease is how long a direct turn that holds its session is believed to live without a word from it. Its process renews the lease three times
// within it.
const DirectLease = 10 * time.Second

// orphanAfter is how long a holder without a running workflow is given: a door may have queued it a moment before it starts it.
const orphanAfter = 10 * time.Second

// turnNamespace makes turn ids out of tenants and idempotency keys.
var turnNamespace = uuid.MustParse("6f1c2a0e-6a5b-5d0a-9d36-0f6f2b5f7d11") //nolint:gochecknoglobals // a constant in all but syntax

// BeginTurn checks a request strictly, binds it to a plan, and puts the turn in its session's queue (DESIGN §3, step 2). It is
// idempotent and is asked again by a turn that waits. Bad requests come back as a verdict; an error is trouble of the runtime's.
func (ts *Turns) BeginTurn(ctx context.Context, raw json.RawMessage, in BeginTurnInput) (BeginTurnResult, error) {
	var req agent.TurnRequest
	err := decodeRequest(raw, &req)
	named, given := in.namedTurn(), req.TurnID
	stream := agent.TurnID(in.RunID) // of a refused turn
	if named != "" {
		stream = "" // stays open: the person may correct the request and start the same workflow id again
	}
	if err == nil {
		err = nameTurn(&req, &in)
	}
	if err != nil {
		return ts.refuse(ctx, stream, err)
	}
	in.ByID = given != "" || in.Again
	out, err := ts.Begin(ctx, req, in)
	if err != nil {
		if code := agent.CodeOf(err); code.Retryable() && code != agent.CodeRateLimited { // a full queue is an answer, not trouble
			return BeginTurnResult{}, err
		}
		if named == "" || given != "" {
			stream = TurnIDOf(&req, in.RunID)
		}
		return ts.refuse(ctx, stream, err)
	}
	return out, nil
}

func decodeRequest(raw json.RawMessage, req *agent.TurnRequest) error {
	if len(raw) > 0 {
		return strict.Decode(raw, req)
	}
	return agent.Invalid("", "the workflow needs one argument, a turn request such as {\"message\":\"hello\"}")
}

// namedTurn returns the turn that the workflow id turn/<id> names, "" for a workflow id of another form.
func (in *BeginTurnInput) namedTurn() agent.TurnID {
	id, ok := strings.CutPrefix(in.WorkflowID, agent.TurnID("").WorkflowID())
	if !ok {
		return ""
	}
	return agent.TurnID(id)
}

// nameTurn sets the turn id of a request: the one in the workflow id turn/<id>, or the one that the turn was recorded under. It refuses a
// request that names another turn, which nobody could find by its workflow.
func nameTurn(req *agent.TurnRequest, in *BeginTurnInput) error {
	named := in.namedTurn()
	switch {
	case in.TurnID != "":
		req.TurnID = in.TurnID
	case named == "":
	case req.TurnID != "" && req.TurnID != named:
		return agent.Invalid("turn_id", "is %q, but the workflow id %q names turn %q: leave turn_id out", req.TurnID, in.WorkflowID, named)
	case req.TurnID == "" && req.IdempotencyKey != "" && TurnIDOf(req, "") != named:
		return agent.Invalid("idempotency_key", "stands for turn %q, but the workflow id %q names turn %q: leave idempotency_key out",
			TurnIDOf(req, ""), in.WorkflowID, named)
	default:
		req.TurnID = named
	}
	return nil
}

// Begin is BeginTurn for callers that hold a decoded request: a door that must know at once whether the session is busy. An error that
// wraps [agent.ErrOutcomeUnknown] leaves open whether the turn is recorded; after any other it is not, unless it was before.
func (ts *Turns) Begin(ctx context.Context, req agent.TurnRequest, in BeginTurnInput) (BeginTurnResult, error) {
	started := time.Now()
	if turn, ok := ts.justRecorded(&req, in); ok {
		out, err := ts.answerBegin(ctx, &req, in, &turn, &agent.Begun{Answer: agent.BeginReady}, started)
		if err == nil {
			return out, nil
		}
		ts.turns.Remove(req.TurnID) // what is stored decides: the turn may have ended
	}
	record, known, err := ts.recordOf(ctx, &req, in)
	if err != nil {
		return BeginTurnResult{}, err
	}
	begun, settled := settledTurn(known)
	if !settled {
		if !in.Direct { // a workflow takes over what a process queued
			if record.Mode == agent.ModeDirect {
				record.Fallback = cmp.Or(record.Fallback, agent.FallbackLost)
			}
			record.Mode, record.LeaseUntil = agent.ModeDurable, time.Time{}
		}
		if begun, err = ts.Store.Begin(ctx, record); err != nil {
			return BeginTurnResult{}, err
		}
	}
	if in.Again && begun.Answer == agent.BeginBehind {
		if begun, err = ts.passOver(ctx, record, begun); err != nil {
			return BeginTurnResult{}, err
		}
	}
	record.Binding = begun.Binding // the catalog may have changed since the turn was recorded
	turn := factsOf(&record, begun.Cursor, begun.StartedAt)
	if begun.Answer == agent.BeginBehind && record.OnBusy == agent.OnBusyInterrupt && begun.HolderSince.Before(begun.StartedAt) {
		defer ts.interrupt(ctx, begun) // not whoever came to hold the session since
	}
	return ts.answerBegin(ctx, &req, in, &turn, &begun, started)
}

// answerBegin is [Turns.begun] under observation.
func (ts *Turns) answerBegin(
	ctx context.Context, req *agent.TurnRequest, in BeginTurnInput, turn *facts, begun *agent.Begun, started time.Time,
) (BeginTurnResult, error) {
	w := agent.Work{Name: "BeginTurn", Turn: turn.seen, Started: started}
	if in.RunID == "" { // ahead of its workflow
		w.Name = "QueueTurn"
	}
	ctx, done := ts.watchTurn(ctx, w)
	out, err := ts.begun(ctx, req, in, turn, begun)
	done(err)
	return out, err
}

// justRecorded returns a turn that this process has recorded a moment ago, as ready, and that its workflow now begins: nobody ends a turn that
// soon for want of a driver, so that there is nothing to read.
func (ts *Turns) justRecorded(req *agent.TurnRequest, in BeginTurnInput) (turn facts, ok bool) {
	if in.RunID == "" || in.Direct || in.Again || req.TurnID == "" || req.Message != "" || len(req.Messages) > 0 {
		return facts{}, false
	}
	turn, ok = ts.turns.Get(req.TurnID)
	ok = ok && turn.Tenant == req.Context.TenantName() && turn.seen.Mode == agent.ModeDurable && time.Since(turn.seen.Since) < orphanAfter/2
	return turn, ok
}

// settledTurn says where a recorded turn stands if there is nothing left to write: it has ended, or it is a durable one that holds its session.
func settledTurn(t *agent.TurnState) (begun agent.Begun, settled bool) {
	switch {
	case t == nil:
		return agent.Begun{}, false
	case t.Output != nil:
		return agent.Begun{Answer: agent.BeginDuplicate, Output: t.Output, Binding: t.Record.Binding, StartedAt: t.StartedAt}, true
	case t.State == agent.StateRunning && t.Cursor > 0 && t.Record.Mode != agent.ModeDirect:
		return agent.Begun{Answer: agent.BeginReady, Cursor: t.Cursor, Binding: t.Record.Binding, StartedAt: t.StartedAt}, true
	default:
		return agent.Begun{}, false
	}
}

// begun answers a request by where its turn stands.
func (ts *Turns) begun(
	ctx context.Context, req *agent.TurnRequest, in BeginTurnInput, turn *facts, begun *agent.Begun,
) (BeginTurnResult, error) {
	var err error
	out := BeginTurnResult{
		Turn: turn.TurnRef, ContinueAsNew: ts.TurnEvents, CoreVersion: CoreVersion, SearchAttributes: ts.SearchAttributes(),
		StreamTo: req.StreamTo, Holder: begun.Holder, Position: begun.Position, Route: routeSummary(turn), New: begun.New,
	}
	if !in.Direct && in.CoreVersion <= coreWithoutPlan {
		out.CoreVersion = coreWithoutPlan
	}
	switch begun.Answer {
	case agent.BeginReady:
		out.Verdict = VerdictReady
		if begun.New || (in.RunID != "" && !in.Direct) { // the request of a door that joins the turn says nothing of it
			ts.remember(*turn)
		}
		if in.Direct || out.CoreVersion <= coreWithoutPlan {
			if out.LoadPlanResult, err = ts.loadPlan(ctx, turn); err != nil {
				return BeginTurnResult{}, recorded(err)
			}
		}
		if in.RunID == "" || (in.Direct && !begun.New) { // queued ahead of its workflow, or driven by somebody: they announce it
			return out, nil
		}
		return out, recorded(ts.announce(ctx, turn))
	case agent.BeginBehind:
		out.Verdict = VerdictBehind
		if in.Again {
			tail, err := ts.Log.Tail(ctx, string(out.Turn.TurnID))
			if err != nil {
				return BeginTurnResult{}, recorded(err)
			}
			out.Cancelled = tail.Cancelled
		}
		return out, nil
	case agent.BeginDuplicate:
		out.Verdict, out.Output = VerdictDuplicate, capped(begun.Output, ts.HistoryOutputBytes)
		return out, nil
	case agent.BeginBusy:
		return out, agent.Errorf(agent.CodeConflict, "", "session %q is busy with turn %s", turn.SessionID, begun.Holder)
	case agent.BeginOverflow:
		return out, agent.Errorf(agent.CodeRateLimited, "", "session %q has %d turns waiting already", turn.SessionID, ts.QueueLength)
	default:
		return out, agent.Errorf(agent.CodeInternal, "begin turn", "unknown answer %q", begun.Answer)
	}
}

// recorded marks an error that came after the turn was recorded.
func recorded(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", agent.ErrOutcomeUnknown, err)
}

// Checked is a request's plan, and what its turn is bound to.
type Checked struct {
	Plan    agent.Plan
	Binding agent.Binding
}

// Check validates and routes a request, without recording anything: shape, size, route, agent and model.
func (ts *Turns) Check(ctx context.Context, req *agent.TurnRequest) (*Checked, error) {
	if err := req.Validate(ts.MaxMessageBytes); err != nil {
		return nil, err
	}
	if len(req.OutputSchema) > 0 {
		if err := ts.Schemas.CheckSchema("output_schema", req.OutputSchema); err != nil {
			return nil, err
		}
	}
	route, err := ts.Registry.Choose(ctx, agent.RouteContext{
		InvocationContext: req.Context, Agent: req.Agent, SessionID: sessionOf(req, req.TurnID), Channel: req.Channel,
	})
	if err != nil {
		return nil, err
	}
	plan, hash, err := ts.Registry.Resolve(ctx, req.Context.TenantName(), route.Agent)
	if err != nil {
		return nil, err
	}
	bound := agent.Binding{Agent: plan.Agent, InstanceID: plan.InstanceID, PlanHash: hash, Model: cmp.Or(req.Model, route.Model), Route: &route}
	if _, err := plan.Model(bound.Model); err != nil {
		return nil, err
	}
	if err := ts.checkClientTools(&plan, req.ClientTools); err != nil {
		return nil, err
	}
	return &Checked{Plan: plan, Binding: bound}, nil
}

// modelName is the provider's name of the model that a turn will ask first.
func modelName(p *agent.Plan, profile string) string {
	m, err := p.Model(profile)
	if err != nil {
		return profile
	}
	return m.Model
}

// TurnIDOf is the id of a request's turn: its own, else one made of tenant and idempotency key, else the fallback (DESIGN §3).
func TurnIDOf(req *agent.TurnRequest, fallback string) agent.TurnID {
	switch {
	case req.TurnID != "":
		return req.TurnID
	case req.IdempotencyKey != "":
		return agent.TurnID(uuid.NewSHA1(turnNamespace, []byte(req.Context.TenantName()+"\x00"+req.IdempotencyKey)).String())
	default:
		return agent.TurnID(fallback)
	}
}

// recordOf checks a request, unless its door has, and makes its record. A request with a turn id and no message is for a turn that was recorded
// before its workflow began: its record, and what else is known of it, is returned as it stands.
func (ts *Turns) recordOf(ctx context.Context, req *agent.TurnRequest, in BeginTurnInput) (agent.TurnRecord, *agent.TurnState, error) {
	if req.TurnID != "" && req.Message == "" && len(req.Messages) == 0 {
		t, err := ts.Store.Turn(ctx, req.TurnID)
		switch {
		case err == nil && t.Record.Tenant == req.Context.TenantName():
			return t.Record, &t, nil
		case err != nil && (in.ByID || agent.CodeOf(err) != agent.CodeNotFound):
			return agent.TurnRecord{}, nil, err
		}
	}
	checked := in.Checked
	if checked == nil {
		named := *req
		named.TurnID = TurnIDOf(req, in.RunID) // rules may count by session, and a session may be named after its turn
		var err error
		if checked, err = ts.Check(ctx, &named); err != nil {
			record, err := ts.queuedBefore(ctx, req, in, err)
			return record, nil, err
		}
	}
	return ts.record(ctx, req, checked, in), nil, nil
}

// rules are what the core has to know of a plan besides its limits. Only a limit of a whole session costs a query.
func (ts *Turns) rules(ctx context.Context, made *executor, turn *facts) (agent.Rules, error) {
	var rules agent.Rules
	for _, m := range made.chain {
		if ruler, ok := m.(agent.Ruler); ok {
			ruler.Rule(&rules)
		}
	}
	if len(turn.schema) > 0 {
		rules.StructuredTries = structuredTries
	}
	spans := func(l agent.CallLimit) bool { return l.Thread > 0 }
	if !slices.ContainsFunc(rules.ModelCalls, spans) && !slices.ContainsFunc(rules.ToolCalls, spans) {
		return rules, nil
	}
	before, err := ts.Store.CallCounts(ctx, turn.Tenant, turn.SessionID)
	if err != nil {
		return rules, fmt.Errorf("count the session's calls: %w", err)
	}
	for i := range rules.ModelCalls {
		rules.ModelCalls[i].Before = before.Model
	}
	for i := range rules.ToolCalls {
		for _, t := range before.Tools {
			if l := &rules.ToolCalls[i]; l.Tool == "" || l.Tool == t.Tool {
				l.Before += t.Calls
			}
		}
	}
	return rules, nil
}

// sessionOf is the session of a request's turn: one of its own, named after the turn, when it names none.
func sessionOf(req *agent.TurnRequest, id agent.TurnID) agent.SessionID {
	return cmp.Or(req.SessionID, agent.SessionID(id))
}

// queuedBefore is for a turn that was accepted before the catalog changed so that it would be refused now: it keeps what it is bound
// to. cause is why it would be refused.
func (ts *Turns) queuedBefore(ctx context.Context, req *agent.TurnRequest, in BeginTurnInput, cause error) (agent.TurnRecord, error) {
	id := TurnIDOf(req, in.RunID)
	if id == "" || req.Validate(ts.MaxMessageBytes) != nil {
		return agent.TurnRecord{}, cause
	}
	t, err := ts.Store.Turn(ctx, id)
	switch {
	case agent.CodeOf(err) == agent.CodeNotFound:
		return agent.TurnRecord{}, cause
	case err != nil:
		return agent.TurnRecord{}, err
	case t.Record.Tenant != req.Context.TenantName() || (req.SessionID != "" && t.Record.SessionID != req.SessionID):
		return agent.TurnRecord{}, cause
	}
	return t.Record, nil
}

func (ts *Turns) record(ctx context.Context, req *agent.TurnRequest, checked *Checked, in BeginTurnInput) agent.TurnRecord {
	id := TurnIDOf(req, in.RunID)
	bound := checked.Binding
	bound.Trace = cmp.Or(in.Trace, ts.Observer.Carry(ctx))
	r := agent.TurnRecord{
		TurnID: id, WorkflowID: in.WorkflowID, Tenant: req.Context.TenantName(), SessionID: sessionOf(req, id),
		Binding: bound, Channel: req.Channel, UserID: req.Context.UserID, OnBusy: req.OnBusy, History: req.History,
		Input: req.Input(), Context: req.Context, QueueLimit: ts.QueueLength, OutputSchema: req.OutputSchema, Parent: in.Parent,
		Limits: req.Limits, Mode: agent.ModeDurable, Fallback: in.Fallback, StartByID: in.StartByID, ClientTools: req.ClientTools,
		Approvals: req.Approvals,
	}
	if len(r.OutputSchema) == 0 {
		r.OutputSchema = checked.Plan.OutputSchema
	}
	if in.Direct {
		r.Mode, r.LeaseUntil = agent.ModeDirect, time.Now().Add(DirectLease)
	}
	return r
}

// interrupt asks the holder of the session to stop: through the log, which its model call reads, and by signal, which a pause reads.
func (ts *Turns) interrupt(ctx context.Context, begun agent.Begun) {
	if err := ts.MarkCancelled(ctx, begun.Holder); err != nil {
		ts.log(ctx).Warn("marking the holder's stream", zap.String("turn", string(begun.Holder)), zap.Error(err))
	}
	if begun.HolderMode == agent.ModeDirect { // its model call reads the log, and it waits for nobody
		return
	}
	if err := ts.Runs.Interrupt(ctx, begun.HolderWorkflow, agent.CancelRequest{Reason: "interrupted by a newer message"}); err != nil {
		ts.log(ctx).Warn("interrupting the holder", zap.String("turn", string(begun.Holder)), zap.Error(err))
	}
}

// passOver ends a holder that nobody drives any more and asks again where the turn stands.
func (ts *Turns) passOver(ctx context.Context, record agent.TurnRecord, begun agent.Begun) (agent.Begun, error) {
	if time.Since(begun.HolderSince) < orphanAfter {
		return begun, nil
	}
	if time.Now().Before(begun.HolderLease) {
		return begun, nil
	}
	if ended, err := ts.EndOrphan(ctx, begun.Holder); err != nil || !ended {
		return begun, err
	}
	return ts.Store.Begin(ctx, record)
}

// refuse ends the stream of a turn that never began, if it has an id, and hands the reason to the workflow. The stream of a turn that
// exists is somebody else's and stays as it is.
func (ts *Turns) refuse(ctx context.Context, id agent.TurnID, cause error) (BeginTurnResult, error) {
	f := agent.FailureOf(cause)
	if id == "" {
		return BeginTurnResult{Verdict: VerdictRefused, Refusal: f}, nil
	}
	if _, err := ts.Store.Turn(ctx, id); err == nil {
		return BeginTurnResult{Verdict: VerdictRefused, Refusal: f}, nil
	} else if agent.CodeOf(err) != agent.CodeNotFound {
		return BeginTurnResult{}, err
	}
	out := unbegun(id, agent.StopRefused, f)
	if err := ts.Log.Close(ctx, string(id), terminalEvents(&out)); err != nil {
		return BeginTurnResult{}, err
	}
	return BeginTurnResult{Verdict: VerdictRefused, Refusal: f, Turn: TurnRef{TurnID: id}}, nil
}
