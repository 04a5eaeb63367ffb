package turns

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

// CoreVersion is the version of the pure core that new turns begin with; a test holds it against turn.Version.
const CoreVersion = 3

// coreWithoutPlan is the newest version whose workflows take the plan from BeginTurn instead of LoadPlan.
const coreWithoutPlan = 2

// DirectLease is the time after which a direct turn counts as abandoned if its process does not renew the lease. The process renews it three
// times as often.
const DirectLease = 10 * time.Second

// BeginTurn checks a request strictly, binds it to a plan, and puts the turn in its session's queue (docs/start/turn.md, "BeginTurn"). It is idempotent;
// a waiting turn calls it again. A bad request is a verdict; an error is one of the runtime.
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
	if out.Verdict == VerdictDuplicate && req.IdempotencyKey != "" && !in.ByID {
		t, err := ts.Store.Turn(ctx, out.Turn.TurnID)
		if err != nil {
			return BeginTurnResult{}, err
		}
		if err := checkSameRequest(&req, req.Limits, &t); err != nil {
			return ts.refuse(ctx, "", err)
		}
	}
	return out, nil
}

func decodeRequest(raw json.RawMessage, req *agent.TurnRequest) error {
	if len(raw) > 0 {
		return strictjson.Decode(raw, req)
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

// Begin is BeginTurn for a decoded request: a door has to know at once whether the session is busy. After an error that wraps
// [agent.ErrOutcomeUnknown] the turn may be recorded; after any other error it is not, unless it was before.
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
		if begun, err = ts.beginRecord(ctx, record); err != nil {
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

// recordTimeout bounds the second attempt to record a turn.
const recordTimeout = 5 * time.Second

// RecordTurn is Begin with a second attempt if the outcome of the first is unknown: an id is recorded once. unsure reports that there were two; the turn
// may then have been recorded by the first.
func (ts *Turns) RecordTurn(ctx context.Context, req agent.TurnRequest, in BeginTurnInput) (begun BeginTurnResult, unsure bool, err error) {
	begun, err = ts.Begin(ctx, req, in)
	if !errors.Is(err, agent.ErrOutcomeUnknown) {
		return begun, false, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	begun, again := ts.Begin(ctx, req, in)
	if again == nil || isRefusal(again) {
		return begun, again == nil, again
	}
	return begun, true, errors.Join(err, again)
}

// justRecorded returns a turn that this process recorded as ready a moment ago and whose workflow begins now. Nothing has to be read: no turn is
// ended so soon for want of a driver.
func (ts *Turns) justRecorded(req *agent.TurnRequest, in BeginTurnInput) (turn facts, ok bool) {
	if in.RunID == "" || in.Direct || in.Again || !namesRecordedTurn(req) {
		return facts{}, false
	}
	turn, ok = ts.turns.Get(req.TurnID)
	ok = ok && turn.Tenant == req.Context.TenantName() && turn.seen.Mode == agent.ModeDurable && time.Since(turn.seen.Since) < orphanAfter/2
	return turn, ok
}

// settledTurn returns where a recorded turn stands if nothing is left to write: it has ended, or it is durable and holds its session.
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

// answerBegin answers a request by where its turn stands.
func (ts *Turns) answerBegin(
	ctx context.Context, req *agent.TurnRequest, in BeginTurnInput, turn *facts, begun *agent.Begun, started time.Time,
) (out BeginTurnResult, err error) {
	w := agent.Work{Name: "BeginTurn", Turn: turn.seen, Started: started}
	if in.RunID == "" { // ahead of its workflow
		w.Name = "QueueTurn"
	}
	ctx, done := ts.watchTurn(ctx, w)
	defer func() { done(err) }()
	out = BeginTurnResult{
		Turn: turn.TurnRef, ContinueAsNew: ts.TurnEvents, CoreVersion: CoreVersion, SearchAttributes: ts.SearchAttributes(),
		StatusAttributes: ts.StatusAttributes(), FailsWorkflow: ts.FailsWorkflow,
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
				return BeginTurnResult{}, outcomeUnknown(err)
			}
		}
		if in.RunID == "" || (in.Direct && !begun.New) { // queued ahead of its workflow, or driven by somebody: they announce it
			return out, nil
		}
		return out, outcomeUnknown(ts.announce(ctx, turn, in.Direct))
	case agent.BeginBehind:
		out.Verdict = VerdictBehind
		if in.Again {
			tail, err := ts.Log.Tail(ctx, string(out.Turn.TurnID))
			if err != nil {
				return BeginTurnResult{}, outcomeUnknown(err)
			}
			out.Cancelled = tail.Cancelled
		}
		return out, nil
	case agent.BeginDuplicate:
		out.Verdict, out.Output = VerdictDuplicate, capOutput(begun.Output, ts.HistoryOutputBytes)
		return out, nil
	case agent.BeginBusy:
		return out, agent.Errorf(agent.CodeConflict, "", "session %q is busy with turn %s", turn.SessionID, begun.Holder)
	case agent.BeginWaiting:
		return out, agent.Errorf(agent.CodeConflict, "", "awaiting_approval: turn %s waits for a person or a client-side tool; say on_busy queue or interrupt",
			begun.Holder)
	case agent.BeginOverflow:
		return out, agent.Errorf(agent.CodeRateLimited, "", "session %q has %d turns waiting already", turn.SessionID, ts.QueueLength)
	default:
		return out, agent.Errorf(agent.CodeInternal, "begin turn", "unknown answer %q", begun.Answer)
	}
}

// outcomeUnknown marks an error that occurred after the turn was recorded.
func outcomeUnknown(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", agent.ErrOutcomeUnknown, err)
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

// passOver ends a holder that nobody drives any more, and begins the turn again.
func (ts *Turns) passOver(ctx context.Context, record agent.TurnRecord, begun agent.Begun) (agent.Begun, error) {
	if time.Since(begun.HolderSince) < orphanAfter || time.Now().Before(begun.HolderLease) {
		return begun, nil
	}
	if ended, err := ts.EndOrphan(ctx, begun.Holder); err != nil || !ended {
		return begun, err
	}
	return ts.beginRecord(ctx, record)
}

// beginRecord records a turn, and tells the log if its stream is this process's from the beginning.
func (ts *Turns) beginRecord(ctx context.Context, record agent.TurnRecord) (agent.Begun, error) {
	begun, err := ts.Store.Begin(ctx, record)
	if begun.Claimed {
		ts.Log.Claimed(string(record.TurnID))
	}
	return begun, err
}

// refuse returns a refusal for the workflow and ends the stream of the turn that never began, if it has an id. The stream of an existing turn
// stays as it is.
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
	out := failedToBegin(id, agent.StopRefused, f)
	if err := ts.Log.Close(ctx, string(id), terminalEvents(&out)); err != nil {
		return BeginTurnResult{}, err
	}
	return BeginTurnResult{Verdict: VerdictRefused, Refusal: f, Turn: TurnRef{TurnID: id}}, nil
}
