package turns

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

func jumps(j agent.Jump) bool { return j != "" && j != agent.JumpNone }

// declared refuses a jump that a middleware has not declared.
func declared(m agent.Middleware, jump agent.Jump, name string) error {
	if j, ok := m.(agent.Jumper); ok && slices.Contains(j.CanJumpTo(), jump) {
		return nil
	}
	return agent.Errorf(agent.CodeInternal, "", "%s jumps to %q, which it does not declare", name, jump)
}

// name is how the i-th middleware is called in an error.
func (r *modelRun) name(i int) string {
	if i < len(r.plan.Middleware) {
		return "middleware " + r.plan.Middleware[i].Name
	}
	return fmt.Sprintf("middleware[%d]", i)
}

// hookError keeps the trouble of the runtime's own, met in a hook, from becoming data.
func (r *modelRun) hookError(err error) error {
	if r.runtimeErr != nil {
		return r.runtimeErr
	}
	return err
}

// invocation returns the facts of this model call that middleware may read, and the functions that it may use.
func (r *modelRun) invocation() agent.Invocation {
	t := &r.turn
	return agent.Invocation{
		Tenant: t.Tenant, TurnID: t.TurnID, SessionID: t.SessionID, UserID: t.user, UserRole: t.role, Step: r.in.Step, Model: r.profile,
		Ask: r.ask,
		Note: func(ctx context.Context, name string) (json.RawMessage, error) {
			return r.ts.Store.Note(ctx, t.Tenant, t.SessionID, name)
		},
		SetNote: func(ctx context.Context, name string, value json.RawMessage) error {
			return r.ts.Store.SetNote(ctx, t.Tenant, t.SessionID, name, value)
		},
	}
}

// ask is a request of a middleware's own: nothing of it is streamed, and model_retry repeats it. Its epochs are those of a producer that
// writes nothing but what it cost, all tries together, and count below zero in the ledger, so that they never meet those of the step's own calls.
func (r *modelRun) ask(ctx context.Context, req agent.ModelRequest) (agent.ModelReply, error) {
	if req.Profile == "" {
		req.Profile = r.profile.Profile
	}
	profile, err := r.plan.Model(req.Profile)
	if err != nil {
		return agent.ModelReply{}, err
	}
	model, err := r.ts.Models.Model(ctx, profile)
	if err != nil {
		return agent.ModelReply{}, fmt.Errorf("find model %q: %w", profile.Profile, err)
	}
	req.Model = profile.Model
	p, work, err := r.ts.produce(ctx, r.turn.TurnRef, fmt.Sprintf("ask/%d", r.in.Step), nil)
	if err != nil {
		return agent.ModelReply{}, r.own(err)
	}
	defer context.AfterFunc(ctx, func() { p.stop(context.Cause(ctx)) })()
	var used agent.Usage
	var failed error // the last try: model_retry may make an error the reply, which is no answer for a middleware
	once := func(ctx context.Context, _ agent.Invocation, req agent.ModelRequest, _ func(agent.Delta) error) (reply agent.ModelReply, _ error) {
		r.tries++
		observed, request := r.observe(ctx, profile, -p.fence.Epoch, agent.PurposeMiddleware, &req)
		reply, failed = model.Generate(observed, req, request.hear(func(agent.Delta) error { return context.Cause(ctx) }, false))
		usage := priced(request.usage(ctx, &req, &reply, failed), profile)
		request.answered(&reply, usage, failed, context.Cause(ctx))
		used = used.Add(usage)
		return reply, failed
	}
	reply, err := r.withRetry(once)(work, r.invocation(), req, nil)
	if err == nil {
		err = failed
	}
	if used != (agent.Usage{}) {
		r.ledger = append(r.ledger, agent.UsageEntry{Epoch: -p.fence.Epoch, Model: profile.Model, Usage: used})
		_ = p.emit(work, agent.Event{Type: agent.EventUsage, Usage: &used, Model: reply.Model}) // close says what an error would
	}
	cause := context.Cause(work)
	if closeErr := p.close(r.base); closeErr != nil && cause == nil {
		cause = closeErr
	}
	if cause != nil {
		if r.base.Err() == nil && errors.Is(cause, context.Cause(ctx)) {
			return agent.ModelReply{}, cause // the middleware's own time is over, or the call was stopped
		}
		return agent.ModelReply{}, r.own(cause)
	}
	if err != nil {
		r.ts.log(ctx).Info("a middleware's model call", zap.Int("step", r.in.Step), zap.Error(err))
		return agent.ModelReply{}, err
	}
	return reply, nil
}

// withRetry wraps a model call in the plan's model_retry alone.
func (r *modelRun) withRetry(call agent.ModelFunc) agent.ModelFunc {
	for i, m := range r.chain {
		if i < len(r.plan.Middleware) && r.plan.Middleware[i].Name == modelRetry {
			call = m.WrapModel(call)
		}
	}
	return call
}
