package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

// maxCallsPerReply bounds what one reply may ask for; a provider that exceeds it is broken.
const maxCallsPerReply = 128

// longestCall bounds a model call with its repetitions. It is below the activity's own timeout, after which the call would be made,
// and billed, again.
const longestCall = 25 * time.Minute

// errOutOfTime is the cause with which a model call ends when its time, or the turn's, has run out.
var errOutOfTime = agent.Errorf(agent.CodeCancelled, "", "the turn ran out of time")

// CallModel makes the model call of a step: prompt, middleware, stream, store. It returns what the core must know and nothing of
// what was said. A step that is stored already is not called again.
func (a *Activities) CallModel(ctx context.Context, in CallModelInput) (agent.ModelVerdict, error) {
	defer heartbeat(ctx)()
	v, err := a.callModel(ctx, in)
	return v, temporalError(err)
}

func (a *Activities) callModel(ctx context.Context, in CallModelInput) (agent.ModelVerdict, error) {
	key := agent.StepKey{TurnID: in.TurnID, Step: in.Step}
	if step, ok, err := a.Store.ModelStep(ctx, key); err != nil || ok {
		return step.Verdict, err
	}
	run, err := a.newModelRun(ctx, in)
	if err != nil {
		return agent.ModelVerdict{}, err
	}
	reply, err := run.generate(ctx)
	switch {
	case err == nil:
	case errors.Is(err, errCancelled), errors.Is(err, errOutOfTime):
		reply = run.partial()
	case run.provider(err):
		if err := a.Store.ChargeUsage(ctx, key, run.turn.Tenant, run.ledger); err != nil {
			return agent.ModelVerdict{}, err
		}
		return agent.ModelVerdict{Failure: agent.FailureOf(err), Usage: run.spent(), Model: run.profile.Model}, nil
	default:
		return agent.ModelVerdict{}, err
	}
	verdict := agent.ModelVerdict{
		Calls: a.judge(&run.plan, reply.Blocks), Usage: run.spent(), FinishReason: reply.FinishReason, Jump: run.jump,
		Cancelled: errors.Is(err, errCancelled), OutOfTime: errors.Is(err, errOutOfTime),
	}
	if reply.Model != run.profile.Model { // the workflow knows the plan's
		verdict.Model = reply.Model
	}
	if run.fence.StreamID == "" { // cancelled before the first run: nothing to store
		return verdict, nil
	}
	err = a.Store.SaveModelStep(ctx, agent.ModelStep{
		Key: key, Fence: run.fence, Tenant: run.turn.Tenant, Blocks: reply.Blocks, Verdict: verdict, Calls: run.ledger,
	})
	return verdict, err
}

// modelRun is one model call with all its repetitions.
type modelRun struct {
	a       *Activities
	in      CallModelInput
	turn    facts
	plan    agent.Plan
	profile agent.PlanModel
	model   agent.Model
	chain   []agent.Middleware
	request agent.ModelRequest

	base       context.Context //nolint:containedctx // the activity's, for what must happen after the work was stopped
	stop       context.CancelCauseFunc
	last       *producer // still open: it watches for a cancel between two epochs
	tokens     *tokenSignals
	work       context.Context //nolint:containedctx // of the latest epoch
	fence      agent.Fence     // of the latest epoch
	ledger     []agent.UsageEntry
	text       strings.Builder // of the latest epoch
	jump       agent.Jump
	runtimeErr error // trouble of the runtime's own, which no middleware may swallow
}

func (a *Activities) newModelRun(ctx context.Context, in CallModelInput) (*modelRun, error) {
	turn, err := a.turn(ctx, in.TurnID)
	if err != nil {
		return nil, err
	}
	plan, err := a.Registry.Plan(ctx, turn.PlanHash)
	if err != nil {
		return nil, fmt.Errorf("load plan %s: %w", turn.PlanHash, err)
	}
	r := &modelRun{a: a, in: in, turn: turn, plan: plan, base: ctx}
	if r.profile, err = plan.Model(turn.model); err != nil {
		return nil, err
	}
	if r.model, err = a.Models.Model(ctx, r.profile); err != nil {
		return nil, fmt.Errorf("find model %q: %w", r.profile.Profile, err)
	}
	if r.chain, err = a.Middleware.Chain(&plan); err != nil {
		return nil, err
	}
	messages, err := a.Store.Prompt(ctx, agent.PromptQuery{
		TurnID: turn.TurnID, Tenant: turn.Tenant, SessionID: turn.SessionID, Cursor: turn.cursor, History: turn.history, Step: in.Step,
	})
	if err != nil {
		return nil, fmt.Errorf("load prompt: %w", err)
	}
	r.request = agent.ModelRequest{
		Profile: r.profile.Profile, Model: r.profile.Model, System: system(&plan, turn.SessionID), Messages: messages, Temperature: r.profile.Temperature,
		MaxTokens: r.profile.MaxTokens,
	}
	for i := range plan.Tools {
		r.request.Tools = append(r.request.Tools, plan.Tools[i].Spec)
	}
	return r, nil
}

// system is the plan's prompt, byte-stable for the provider's cache, with the session behind it: tools ask for it (seed 004 §5.1).
func system(p *agent.Plan, s agent.SessionID) string {
	return strings.TrimSpace(p.System + "\n\nSession: " + string(s))
}

// generate runs the hooks around the call; the first middleware is the outermost.
func (r *modelRun) generate(ctx context.Context) (agent.ModelReply, error) {
	inv := agent.Invocation{
		Tenant: r.turn.Tenant, TurnID: r.turn.TurnID, SessionID: r.turn.SessionID, UserID: r.turn.user, Step: r.in.Step,
	}
	for _, m := range r.chain {
		if err := m.BeforeModel(ctx, inv, &r.request); err != nil {
			return agent.ModelReply{}, err
		}
	}
	budget := longestCall
	if r.in.BudgetMS > 0 {
		budget = min(budget, time.Duration(r.in.BudgetMS)*time.Millisecond)
	}
	ctx, free := context.WithTimeoutCause(ctx, budget, errOutOfTime)
	defer free()
	ctx, r.stop = context.WithCancelCause(ctx)
	defer r.stop(nil)
	var call agent.ModelFunc = r.once
	for _, m := range slices.Backward(r.chain) {
		call = m.WrapModel(call)
	}
	reply, err := call(ctx, inv, r.request, r.emit)
	stopped := context.Cause(ctx)
	if settleErr := r.settle(); settleErr != nil && r.runtimeErr == nil {
		r.runtimeErr = settleErr
	}
	switch {
	case r.runtimeErr != nil:
		return agent.ModelReply{}, r.runtimeErr
	case errors.Is(stopped, errCancelled), errors.Is(stopped, errOutOfTime):
		return agent.ModelReply{}, stopped
	}
	if err != nil {
		return agent.ModelReply{}, err
	}
	for _, v := range slices.Backward(r.chain) {
		jump, err := v.AfterModel(ctx, inv, &reply)
		if err != nil {
			return agent.ModelReply{}, err
		}
		if jump != "" && jump != agent.JumpNone {
			r.jump = jump
		}
	}
	if err := tidyCalls(reply.Blocks); err != nil {
		return agent.ModelReply{}, err
	}
	return reply, nil
}

// once is one request to the provider in one epoch of the stream.
func (r *modelRun) once(ctx context.Context, _ agent.Invocation, req agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
	profile, model, err := r.choose(ctx, &req)
	if err != nil {
		return agent.ModelReply{}, err
	}
	if err := r.settle(); err != nil {
		return agent.ModelReply{}, r.own(err)
	}
	p, work, err := r.a.produce(r.base, r.turn.TurnRef, fmt.Sprintf("model/%d", r.in.Step))
	if err != nil {
		return agent.ModelReply{}, r.own(err)
	}
	r.last, r.fence, r.work = p, p.fence, work
	r.text.Reset()
	defer context.AfterFunc(ctx, func() { p.stop(context.Cause(ctx)) })()
	context.AfterFunc(work, func() { // also while a middleware waits for its next try
		if errors.Is(context.Cause(work), errCancelled) {
			r.stop(errCancelled)
		}
	})
	r.tokens = r.a.signalTokens(r.base, r.in, int64(p.fence.Epoch))
	defer r.tokens.close()
	reply, err := model.Generate(work, req, emit)
	usage := priced(reply.Usage, profile)
	if usage != (agent.Usage{}) {
		r.ledger = append(r.ledger, agent.UsageEntry{Epoch: p.fence.Epoch, Model: profile.Model, Usage: usage})
	}
	if cause := context.Cause(work); cause != nil {
		return agent.ModelReply{}, r.own(cause)
	}
	if err != nil {
		r.a.Logger.Info("model call", zap.String("turn", string(r.in.TurnID)), zap.Int("step", r.in.Step), zap.Error(err))
		return reply, err
	}
	_ = p.emit(work, agent.Event{Type: agent.EventUsage, Usage: &usage, Model: reply.Model}) // settle says what an error would
	return reply, nil
}

// emit takes what middleware lets through of the latest epoch's fragments.
func (r *modelRun) emit(d agent.Delta) error {
	r.text.WriteString(d.Text)
	r.tokens.add(d.Text)
	return r.last.emit(r.work, deltaEvents(d)...)
}

// choose finds the model that a request is for: the turn's, or another profile that middleware chose, with its settings.
func (r *modelRun) choose(ctx context.Context, req *agent.ModelRequest) (agent.PlanModel, agent.Model, error) {
	if req.Profile == r.profile.Profile {
		return r.profile, r.model, nil
	}
	profile, err := r.plan.Model(req.Profile)
	if err != nil {
		return profile, nil, err
	}
	model, err := r.a.Models.Model(ctx, profile)
	if err != nil {
		return profile, nil, fmt.Errorf("find model %q: %w", profile.Profile, err)
	}
	req.Model, req.Temperature, req.MaxTokens = profile.Model, profile.Temperature, profile.MaxTokens
	return profile, model, nil
}

// settle ends the latest producer: everything it was given is in the log then.
func (r *modelRun) settle() error {
	if r.last == nil {
		return nil
	}
	p := r.last
	r.last = nil
	return p.close(r.base)
}

// own remembers an error as the runtime's.
func (r *modelRun) own(err error) error {
	if !errors.Is(err, errCancelled) && !errors.Is(err, errOutOfTime) {
		r.runtimeErr = err
	}
	return err
}

// provider reports whether an error is the provider's or a middleware's: data for the core.
func (r *modelRun) provider(err error) bool { return r.runtimeErr == nil && err != nil }

// partial is what had been said when the turn was cancelled. Calls are left out: they will not run.
func (r *modelRun) partial() agent.ModelReply {
	reply := agent.ModelReply{Model: r.profile.Model}
	if r.text.Len() > 0 {
		reply.Blocks = []agent.Block{agent.Text(r.text.String())}
	}
	return reply
}

func (r *modelRun) spent() agent.Usage {
	var u agent.Usage
	for _, e := range r.ledger {
		u = u.Add(e.Usage)
	}
	return u
}

func deltaEvents(d agent.Delta) []agent.Event {
	var out []agent.Event
	if d.Text != "" {
		out = append(out, agent.Event{Type: agent.EventToken, Text: d.Text})
	}
	if d.Reasoning != "" {
		out = append(out, agent.Event{Type: agent.EventContent, ContentBlocks: []agent.Block{{Type: agent.BlockReasoning, Reasoning: d.Reasoning}}})
	}
	if d.Block != nil {
		out = append(out, agent.Event{Type: agent.EventContent, ContentBlocks: []agent.Block{*d.Block}})
	}
	return out
}

// priced fills in the cost from the profile's prices, in USD.
func priced(u agent.Usage, m agent.PlanModel) agent.Usage {
	const million = 1e6
	fresh := u.InputTokens - u.CachedTokens
	u.CostUSD = (float64(fresh)*m.InputPerMTok + float64(u.CachedTokens)*m.CachedPerMTok + float64(u.OutputTokens)*m.OutputPerMTok) / million
	return u
}
