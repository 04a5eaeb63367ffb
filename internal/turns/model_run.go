package turns

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

// modelRun is one model call with all its retries.
type modelRun struct {
	ts       *Turns
	in       CallModelInput
	turn     facts
	plan     agent.Plan
	profile  agent.PlanModel
	model    agent.Model
	chain    []agent.Middleware
	request  agent.ModelRequest
	isQuiet  bool           // whether nothing is streamed, as for the calls of a preparation
	prepared agent.Prepared // the turn's preparation

	callerCtx   context.Context // the caller's context, which continues after the work is stopped
	stop        context.CancelCauseFunc
	current     *producer // the producer of the latest epoch, if it is open; between two epochs it still notices when the turn is cancelled
	tokens      *tokenSignals
	workCtx     context.Context // of the latest epoch
	fence       agent.Fence     // of the latest epoch
	ledger      []agent.UsageEntry
	text        strings.Builder // the text that the latest epoch has streamed
	usages      []agent.Event   // a usage event for each request
	tries       int             // requests to the provider, including those of middleware
	jump        agent.Jump
	schemaError string // why the reply does not satisfy the output schema
	runtimeErr  error  // an error of the runtime, which middleware must not hide
}

// newModelRun loads what a model call needs. If the reply of the step is already stored, it returns only that reply.
func (ts *Turns) newModelRun(ctx context.Context, in CallModelInput) (run *modelRun, stored *agent.ModelStep, err error) {
	turn, err := ts.turn(ctx, in.TurnID)
	if err != nil {
		return nil, nil, err
	}
	exec, err := ts.executor(ctx, turn.PlanHash)
	if err != nil {
		return nil, nil, err
	}
	plan, err := ts.toolset(ctx, exec, &turn, in.Step)
	if err != nil {
		return nil, nil, err
	}
	query := agent.PromptQuery{
		TurnID: turn.TurnID, Tenant: turn.Tenant, SessionID: turn.SessionID, Cursor: turn.cursor, History: turn.history, Step: in.Step,
	}
	if in.Step > 0 { // step 0, the preparation, needs only the message
		if query.Aside, err = ts.sessionAside(ctx, exec, &turn); err != nil {
			return nil, nil, err
		}
		if missing := missingTools(turn.tools); missing != "" {
			query.Aside = strings.TrimPrefix(query.Aside+"\n\n"+missing, "\n\n")
		}
	}
	messages, stored, err := ts.Store.Prompt(ctx, query)
	if err != nil {
		return nil, nil, fmt.Errorf("load prompt: %w", err)
	}
	if stored != nil {
		return nil, stored, nil
	}
	run = &modelRun{ts: ts, in: in, turn: turn, plan: plan, chain: exec.chain, callerCtx: ctx}
	return run, nil, run.prepareRequest(ctx, messages)
}

// prepareRequest finds the turn's model and makes the request for it.
func (r *modelRun) prepareRequest(ctx context.Context, messages []agent.Message) (err error) {
	if r.profile, err = r.plan.Model(r.turn.model); err != nil {
		return err
	}
	if r.model, err = r.ts.Models.Model(ctx, r.profile); err != nil {
		return fmt.Errorf("find model %q: %w", r.profile.Profile, err)
	}
	r.request = agent.ModelRequest{
		Profile: r.profile.Profile, Model: r.profile.Model, System: r.plan.System, Messages: messages, Temperature: r.profile.Temperature,
		MaxTokens: r.profile.MaxTokens,
	}
	if r.in.Step == 0 {
		return nil
	}
	if err := r.addContext(ctx); err != nil {
		return err
	}
	r.request.OutputSchema = r.turn.schema
	r.request.Tools = offeredTools(r.plan.Tools, messages)
	return nil
}

// generate makes the call with the middleware's hooks around it. The first middleware is the outermost.
func (r *modelRun) generate(ctx context.Context) (agent.ModelReply, error) {
	ctx, cancel := r.limitTime(ctx)
	defer cancel()
	inv := r.invocation()
	for i, m := range r.chain {
		jump, err := m.BeforeModel(ctx, inv, &r.request)
		if err != nil {
			return agent.ModelReply{}, r.hookError(err)
		}
		if isJump(jump) {
			return r.answerWithoutModel(ctx, i, m, jump)
		}
	}
	reply, err := r.callWrapped(ctx, inv, r.request)
	if err != nil {
		return agent.ModelReply{}, err
	}
	for i, m := range slices.Backward(r.chain) {
		jump, err := m.AfterModel(ctx, inv, &reply)
		if err != nil {
			return agent.ModelReply{}, r.hookError(err)
		}
		if isJump(jump) {
			if err := checkJump(m, jump, r.middlewareName(i)); err != nil {
				return agent.ModelReply{}, err
			}
			r.jump = jump
		}
	}
	if err := normalizeCalls(reply.Blocks); err != nil {
		return agent.ModelReply{}, err
	}
	if r.jump == "" {
		r.checkStructure(&reply)
	}
	if err := r.restreamReply(ctx, &reply); err != nil {
		return agent.ModelReply{}, err
	}
	return reply, r.addCitations(ctx, &reply)
}

// limitTime returns a context for the call with its hooks and retries. It ends when the turn's time is over, or when r.stop is called.
func (r *modelRun) limitTime(ctx context.Context) (context.Context, func()) {
	budget := maxCallTime
	if r.in.BudgetMS > 0 {
		budget = min(budget, time.Duration(r.in.BudgetMS)*time.Millisecond)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, budget, errOutOfTime)
	ctx, r.stop = context.WithCancelCause(ctx)
	return ctx, func() {
		r.stop(nil)
		cancel()
	}
}

// callWrapped makes the call through the middleware's wrappers.
func (r *modelRun) callWrapped(ctx context.Context, inv agent.Invocation, req agent.ModelRequest) (agent.ModelReply, error) {
	var call agent.ModelFunc = r.requestOnce
	for _, m := range slices.Backward(r.chain) {
		call = m.WrapModel(call)
	}
	reply, err := call(ctx, inv, req, r.emit)
	cause := context.Cause(ctx)
	if endErr := r.endProducer(); endErr != nil && r.runtimeErr == nil {
		r.runtimeErr = endErr
	}
	switch {
	case r.runtimeErr != nil:
		return agent.ModelReply{}, r.runtimeErr
	case errors.Is(cause, errCancelled), errors.Is(cause, errOutOfTime):
		return agent.ModelReply{}, cause
	}
	return reply, err
}

// requestOnce makes one request to the provider, in one epoch of the stream.
func (r *modelRun) requestOnce(ctx context.Context, _ agent.Invocation, req agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
	profile, model, err := r.chooseModel(ctx, &req)
	if err != nil {
		return agent.ModelReply{}, err
	}
	if err := r.endProducer(); err != nil {
		return agent.ModelReply{}, r.noteRuntimeError(err)
	}
	p, work, err := r.ts.startProducer(r.callerCtx, r.turn.TurnRef, fmt.Sprintf("model/%d", r.in.Step), r.isStored)
	if err != nil {
		return agent.ModelReply{}, r.noteRuntimeError(err)
	}
	r.current, r.fence, r.workCtx = p, p.fence, work
	r.text.Reset()
	defer context.AfterFunc(ctx, func() { p.stop(context.Cause(ctx)) })()
	context.AfterFunc(work, func() { // stops a middleware, too, that waits between two tries
		if errors.Is(context.Cause(work), errCancelled) {
			r.stop(errCancelled)
		}
	})
	r.tokens = r.ts.signalTokens(r.callerCtx, r.in, int64(p.fence.Epoch))
	defer r.tokens.close()
	r.tries++
	observed, request := r.observe(work, profile, p.fence.Epoch, r.purpose(), &req)
	var emitErr error // from middleware that refuses a fragment
	reply, err := requestReply(observed, model, req, request.watchDeltas(func(d agent.Delta) error {
		emitErr = emit(d)
		return emitErr
	}, !r.isQuiet))
	usage := withCost(request.usage(work, &req, &reply, err), profile)
	request.finish(&reply, usage, err, context.Cause(work))
	if err == nil || usage != (agent.Usage{}) {
		r.usages = append(r.usages, agent.Event{Type: agent.EventUsage, Usage: &usage, Model: cmp.Or(reply.Model, profile.Model)})
	}
	if usage != (agent.Usage{}) {
		r.ledger = append(r.ledger, agent.UsageEntry{Epoch: p.fence.Epoch, Model: profile.Model, Usage: usage})
	}
	if cause := context.Cause(work); cause != nil {
		if !r.isQuiet {
			r.emitUsages(work, p)
		}
		return agent.ModelReply{}, r.noteRuntimeError(cause)
	}
	if err != nil && emitErr != nil {
		return reply, err
	}
	if err != nil {
		r.ts.log(ctx).Warn("model call", zap.Int("step", r.in.Step), zap.Error(err))
		return reply, providerError{err}
	}
	if r.isQuiet {
		return reply, nil // the preparation emits the usage
	}
	r.emitUsages(work, p)
	return reply, nil
}

// emitUsages streams the usage of all requests of the step so far. Each epoch streams it again, because a new epoch voids the events of the one before.
func (r *modelRun) emitUsages(work context.Context, p *producer) {
	_ = p.emit(work, r.usages...) // endProducer returns the error
}

// replyStored returns a function that reports whether the reply of a step is stored.
func (ts *Turns) replyStored(key agent.StepKey) storedCheck {
	return func(ctx context.Context) (bool, error) {
		_, ok, err := ts.Store.ModelStep(ctx, key)
		return ok, err
	}
}

// isStored reports whether the reply of the step is stored.
func (r *modelRun) isStored(ctx context.Context) (bool, error) {
	return r.ts.replyStored(agent.StepKey{TurnID: r.in.TurnID, Step: r.in.Step})(ctx)
}

// chooseModel returns the model for a request. If middleware has set another profile in the request, it returns that profile's model and sets the
// profile's settings in the request.
func (r *modelRun) chooseModel(ctx context.Context, req *agent.ModelRequest) (agent.PlanModel, agent.Model, error) {
	if req.Profile == r.profile.Profile {
		return r.profile, r.model, nil
	}
	profile, err := r.plan.Model(req.Profile)
	if err != nil {
		return profile, nil, err
	}
	model, err := r.ts.Models.Model(ctx, profile)
	if err != nil {
		return profile, nil, fmt.Errorf("find model %q: %w", profile.Profile, err)
	}
	req.Model, req.Temperature, req.MaxTokens = profile.Model, profile.Temperature, profile.MaxTokens
	return profile, model, nil
}

// noteRuntimeError returns err. Unless err says that the turn was cancelled or is out of time, it also records err as an error of the runtime.
func (r *modelRun) noteRuntimeError(err error) error {
	if !errors.Is(err, errCancelled) && !errors.Is(err, errOutOfTime) {
		r.runtimeErr = err
	}
	return err
}

// isProviderError reports whether an error comes from the provider or a middleware. Such an error becomes a verdict for the core.
func (r *modelRun) isProviderError(err error) bool { return r.runtimeErr == nil && err != nil }

// requestCount returns the number of requests to the provider, or 0 if there was only one.
func (r *modelRun) requestCount() int {
	if r.tries > 1 {
		return r.tries
	}
	return 0
}

// partialReply returns the text that was streamed before the turn was cancelled, without tool calls, because they will not run.
func (r *modelRun) partialReply() agent.ModelReply {
	reply := agent.ModelReply{Model: r.profile.Model}
	if r.text.Len() > 0 {
		reply.Blocks = []agent.Block{agent.Text(r.text.String())}
	}
	return reply
}

func (r *modelRun) totalUsage() agent.Usage {
	var u agent.Usage
	for _, e := range r.ledger {
		u = u.Add(e.Usage)
	}
	return u
}

// withCost returns a usage with its cost in USD by the profile's prices, or with Unpriced set if the profile has none.
func withCost(u agent.Usage, m agent.PlanModel) agent.Usage {
	const million = 1e6
	uncached := u.InputTokens - u.CachedTokens
	u.CostUSD = (float64(uncached)*m.InputPerMTok + float64(u.CachedTokens)*m.CachedPerMTok + float64(u.OutputTokens)*m.OutputPerMTok) / million
	price := agent.ModelPrice{InputPerMTok: m.InputPerMTok, CachedPerMTok: m.CachedPerMTok, OutputPerMTok: m.OutputPerMTok}
	u.Unpriced = !price.IsSet() && (u.InputTokens > 0 || u.OutputTokens > 0)
	return u
}
