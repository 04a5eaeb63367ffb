package turns

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// maxCallsPerReply bounds the tool calls of one reply.
const maxCallsPerReply = 128

// maxReasonBytes bounds reasons that are stored in the workflow's history, such as why a reply does not satisfy its schema.
const maxReasonBytes = 200

// maxCallTime bounds a model call with its retries. It is shorter than the activity's timeout, after which Temporal would make the call, and
// bill it, again.
const maxCallTime = 25 * time.Minute

// errOutOfTime is the cause with which a model call ends when the time of the call or of the turn has run out.
var errOutOfTime = agent.Errorf(agent.CodeCancelled, "", "the turn ran out of time")

// CallModel makes the model call of a step: it builds the prompt, runs the middleware, streams the reply and stores it. It returns a verdict for
// the core, without any text of the reply. If the reply is already stored, it returns the stored verdict.
func (ts *Turns) CallModel(ctx context.Context, in CallModelInput) (verdict agent.ModelVerdict, err error) {
	ctx, done := ts.watch(ctx, "CallModel", in.TurnID, in.Step)
	defer func() { done(err) }()
	key := agent.StepKey{TurnID: in.TurnID, Step: in.Step}
	run, stored, err := ts.newModelRun(ctx, in)
	if err != nil {
		return agent.ModelVerdict{}, err
	}
	if stored != nil {
		return stored.Verdict, nil
	}
	v, err := ts.storeReply(ctx, key, run)
	if err != nil {
		run.chargeAbandoned(ctx, key)
	}
	if errors.Is(err, errStored) { // by another attempt, meanwhile
		s, _, err := ts.Store.ModelStep(ctx, key)
		return s.Verdict, err
	}
	return v, err
}

// storeReply makes the call and stores its reply or its failure.
func (ts *Turns) storeReply(ctx context.Context, key agent.StepKey, run *modelRun) (agent.ModelVerdict, error) {
	started := time.Now()
	reply, err := run.generate(ctx)
	if err == nil {
		ts.callTimes.add(run.profile.Model, time.Since(started))
	}
	switch {
	case err == nil:
	case errors.Is(err, errCancelled), errors.Is(err, errOutOfTime):
		reply = run.partialReply()
	case run.isProviderError(err):
		if err := run.withdrawReply(ctx); err != nil && !errors.Is(err, errCancelled) {
			return agent.ModelVerdict{}, err
		}
		if err := ts.Store.ChargeUsage(ctx, key, run.turn.Tenant, run.ledger); err != nil {
			return agent.ModelVerdict{}, err
		}
		verdict := agent.ModelVerdict{Failure: modelFailure(err), Usage: run.totalUsage(), Model: run.profile.Model, Requests: run.requestCount()}
		verdict.RetryInMS, err = run.pause(ctx, err, verdict.Failure)
		return verdict, err
	default:
		return agent.ModelVerdict{}, err
	}
	verdict := agent.ModelVerdict{
		Usage: run.totalUsage(), FinishReason: reply.FinishReason, Jump: run.jump, Requests: run.requestCount(),
		Unstructured: clip.Bytes(run.schemaError, maxReasonBytes), Cancelled: errors.Is(err, errCancelled), OutOfTime: errors.Is(err, errOutOfTime),
	}
	if verdict.Calls, err = run.judgeCalls(ctx, reply.Blocks); err != nil {
		return agent.ModelVerdict{}, err
	}
	if run.jump == "" || run.jump == agent.JumpTools {
		if verdict.Failure, err = run.refuseApprovals(ctx, reply.Blocks, verdict.Calls); err != nil {
			return agent.ModelVerdict{}, err
		}
	}
	if reply.Model != run.profile.Model { // the workflow knows the model of the plan
		verdict.Model = reply.Model
	}
	if run.fence.StreamID == "" { // cancelled before the first request: only requests of middleware have a cost
		return verdict, ts.Store.ChargeUsage(ctx, key, run.turn.Tenant, run.ledger)
	}
	return verdict, ts.saveWithEvents(ctx, run.fence, func(events agent.UnstoredEvents) error {
		return ts.Store.SaveModelStep(ctx, agent.ModelStep{
			Key: key, Fence: run.fence, Tenant: run.turn.Tenant, Blocks: reply.Blocks, Verdict: verdict, Calls: run.ledger, Feedback: reply.Feedback,
			Events: events,
		})
	})
}

// chargeTimeout bounds the write of an abandoned call's usage.
const chargeTimeout = 5 * time.Second

// chargeAbandoned adds the usage of a call whose reply could not be stored to the ledger. Another attempt will make the call again. It only logs an
// error, because the caller returns the error of the call.
func (r *modelRun) chargeAbandoned(ctx context.Context, key agent.StepKey) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), chargeTimeout)
	defer cancel()
	if err := r.ts.Store.ChargeUsage(ctx, key, r.turn.Tenant, r.ledger); err != nil {
		r.ts.log(ctx).Warn("the usage of an abandoned model call is not in the ledger",
			zap.Int("step", key.Step), zap.Int("calls", len(r.ledger)), zap.Error(err))
	}
}
