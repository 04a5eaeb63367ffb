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

// CoreVersion is the version of package turn that new turns begin with. A test compares it with turn.Version.
const CoreVersion = 3

// coreWithoutLoadPlan is the newest core version whose workflows get the plan from BeginTurn, because they do not run LoadPlan.
const coreWithoutLoadPlan = 2

// DirectLease is how long a direct turn's lease lasts. The process that runs the turn renews the lease three times in that time; a turn whose
// lease has expired counts as abandoned.
const DirectLease = 10 * time.Second

// BeginTurn checks a request strictly, binds it to a plan, and adds the turn to its session's queue (docs/start/turn.md, "BeginTurn"). It is
// idempotent; a waiting turn calls it again. A bad request results in [VerdictRefused]; an error is a failure of the runtime.
func (ts *Turns) BeginTurn(ctx context.Context, raw json.RawMessage, in BeginTurnInput) (BeginTurnResult, error) {
	var req agent.TurnRequest
	err := decodeRequest(raw, &req)
	namedID, requestedID := in.namedTurn(), req.TurnID
	stream := agent.TurnID(in.RunID) // the stream to close if the turn is refused
	if namedID != "" {
		stream = "" // no stream: a person may correct the request and start the same workflow id again
	}
	if err == nil {
		err = nameTurn(&req, &in)
	}
	if err != nil {
		return ts.refuse(ctx, stream, err)
	}
	in.ByID = requestedID != "" || in.Again
	out, err := ts.Begin(ctx, req, in)
	if err != nil {
		if code := agent.CodeOf(err); code.Retryable() && code != agent.CodeRateLimited { // a full queue is a refusal
			return BeginTurnResult{}, err
		}
		if namedID == "" || requestedID != "" {
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

// namedTurn returns the turn id in the workflow id turn/<id>, or "" if the workflow id has another form.
func (in *BeginTurnInput) namedTurn() agent.TurnID {
	id, ok := strings.CutPrefix(in.WorkflowID, agent.TurnID("").WorkflowID())
	if !ok {
		return ""
	}
	return agent.TurnID(id)
}

// nameTurn sets the turn id of a request: that in the workflow id turn/<id>, or that of the recorded turn in in.TurnID. It refuses a request that
// names another turn, because nobody could find that turn by its workflow.
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

// Begin is BeginTurn for a decoded request, whose refusals are errors. After an error that wraps [agent.ErrOutcomeUnknown] the turn may have been
// recorded; any other error means that this call has not recorded it.
func (ts *Turns) Begin(ctx context.Context, req agent.TurnRequest, in BeginTurnInput) (BeginTurnResult, error) {
	started := time.Now()
	if turn, ok := ts.recentTurn(&req, in); ok {
		out, err := ts.answerBegin(ctx, &req, in, &turn, &agent.Begun{Answer: agent.BeginReady}, started)
		if err == nil {
			return out, nil
		}
		ts.turns.Remove(req.TurnID) // the turn may have ended: read the store
	}
	record, recorded, err := ts.recordOf(ctx, &req, in)
	if err != nil {
		return BeginTurnResult{}, err
	}
	begun, isSettled := settledTurn(recorded)
	if !isSettled {
		if !in.Direct { // the workflow takes over a turn that a process has queued as direct
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
		if begun, err = ts.replaceHolder(ctx, record, begun); err != nil {
			return BeginTurnResult{}, err
		}
	}
	record.Binding = begun.Binding // the catalog may have changed since the turn was recorded
	turn := factsOf(&record, begun.Cursor, begun.StartedAt)
	if begun.Answer == agent.BeginBehind && record.OnBusy == agent.OnBusyInterrupt && begun.HolderSince.Before(begun.StartedAt) {
		defer ts.interrupt(ctx, begun) // a turn that got the session after this one was queued is not interrupted
	}
	return ts.answerBegin(ctx, &req, in, &turn, &begun, started)
}

// recordTimeout bounds the second attempt to record a turn.
const recordTimeout = 5 * time.Second

// RecordTurn is Begin with a second attempt if the outcome of the first is unknown. An id is recorded only once, so the second attempt is safe.
// unsure reports that there were two attempts; then the first may have recorded the turn.
func (ts *Turns) RecordTurn(ctx context.Context, req agent.TurnRequest, in BeginTurnInput) (begun BeginTurnResult, unsure bool, err error) {
	begun, err = ts.Begin(ctx, req, in)
	if !errors.Is(err, agent.ErrOutcomeUnknown) {
		return begun, false, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	begun, secondErr := ts.Begin(ctx, req, in)
	if secondErr == nil || isRefusal(secondErr) {
		return begun, secondErr == nil, secondErr
	}
	return begun, true, errors.Join(err, secondErr)
}

// recentTurn returns a turn that this process recorded as ready a moment ago and whose workflow begins now. The store need not be read: nothing
// ends a turn as abandoned so soon.
func (ts *Turns) recentTurn(req *agent.TurnRequest, in BeginTurnInput) (turn facts, ok bool) {
	if in.RunID == "" || in.Direct || in.Again || !namesRecordedTurn(req) {
		return facts{}, false
	}
	turn, ok = ts.turns.Get(req.TurnID)
	ok = ok && turn.Tenant == req.Context.TenantName() && turn.observed.Mode == agent.ModeDurable && time.Since(turn.observed.Since) < orphanAfter/2
	return turn, ok
}

// settledTurn returns the state of a recorded turn for which Begin has nothing to write: it has ended, or it is durable and holds its session.
// ok is false for any other turn.
func settledTurn(t *agent.TurnState) (begun agent.Begun, ok bool) {
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

// answerBegin returns the answer of Begin for a turn in the state begun.
func (ts *Turns) answerBegin(
	ctx context.Context, req *agent.TurnRequest, in BeginTurnInput, turn *facts, begun *agent.Begun, started time.Time,
) (out BeginTurnResult, err error) {
	w := agent.Work{Name: "BeginTurn", Turn: turn.observed, Started: started}
	if in.RunID == "" { // there is no workflow yet
		w.Name = "QueueTurn"
	}
	ctx, done := ts.watchTurn(ctx, w)
	defer func() { done(err) }()
	out = BeginTurnResult{
		Turn: turn.TurnRef, ContinueAsNew: ts.TurnEvents, CoreVersion: CoreVersion, SearchAttributes: ts.SearchAttributes(),
		StatusAttributes: ts.StatusAttributes(), FailsWorkflow: ts.FailsWorkflow,
		StreamTo: req.StreamTo, Holder: begun.Holder, Position: begun.Position, Route: routeSummary(turn), New: begun.New,
	}
	if !in.Direct && in.CoreVersion <= coreWithoutLoadPlan {
		out.CoreVersion = coreWithoutLoadPlan
	}
	switch begun.Answer {
	case agent.BeginReady:
		return ts.answerReady(ctx, in, turn, out)
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

// answerReady completes the answer for a turn that holds its session. If this call begins to run the turn, it also announces the turn.
func (ts *Turns) answerReady(ctx context.Context, in BeginTurnInput, turn *facts, out BeginTurnResult) (BeginTurnResult, error) {
	out.Verdict = VerdictReady
	if out.New || (in.RunID != "" && !in.Direct) { // a request that joins the turn does not have its facts
		ts.remember(*turn)
	}
	if in.Direct || out.CoreVersion <= coreWithoutLoadPlan {
		var err error
		if out.LoadPlanResult, err = ts.loadPlan(ctx, turn); err != nil {
			return BeginTurnResult{}, outcomeUnknown(err)
		}
	}
	if in.RunID == "" || (in.Direct && !out.New) { // the workflow, or the process that runs the turn, announces it
		return out, nil
	}
	return out, outcomeUnknown(ts.announce(ctx, turn, in.Direct))
}

// outcomeUnknown marks an error that occurred after the turn was recorded.
func outcomeUnknown(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", agent.ErrOutcomeUnknown, err)
}

// interrupt asks the turn that holds the session to stop. A mark in the log stops its model call; a signal ends its wait for a person.
func (ts *Turns) interrupt(ctx context.Context, begun agent.Begun) {
	if err := ts.MarkCancelled(ctx, begun.Holder); err != nil {
		ts.log(ctx).Warn("marking the holder's stream", zap.String("turn", string(begun.Holder)), zap.Error(err))
	}
	if begun.HolderMode == agent.ModeDirect { // a direct turn never waits for a person
		return
	}
	if err := ts.Runs.Interrupt(ctx, begun.HolderWorkflow, agent.CancelRequest{Reason: "interrupted by a newer message"}); err != nil {
		ts.log(ctx).Warn("interrupting the holder", zap.String("turn", string(begun.Holder)), zap.Error(err))
	}
}

// passOver ends the turn that holds the session if nothing runs it any more, and begins the waiting turn again.
func (ts *Turns) replaceHolder(ctx context.Context, record agent.TurnRecord, begun agent.Begun) (agent.Begun, error) {
	if time.Since(begun.HolderSince) < orphanAfter || time.Now().Before(begun.HolderLease) {
		return begun, nil
	}
	if ended, err := ts.EndOrphan(ctx, begun.Holder); err != nil || !ended {
		return begun, err
	}
	return ts.beginRecord(ctx, record)
}

// beginRecord records a turn, and tells the log if this process now owns the turn's stream.
func (ts *Turns) beginRecord(ctx context.Context, record agent.TurnRecord) (agent.Begun, error) {
	begun, err := ts.Store.Begin(ctx, record)
	if begun.Claimed {
		ts.Log.Claimed(string(record.TurnID))
	}
	return begun, err
}

// refuse returns a refusal for the workflow. If id is not empty, it also closes the stream of that turn, unless the turn exists.
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
