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

func isJump(j agent.Jump) bool { return j != "" && j != agent.JumpNone }

// checkJump returns an error if a middleware has not declared a jump.
func checkJump(m agent.Middleware, jump agent.Jump, name string) error {
	if j, ok := m.(agent.Jumper); ok && slices.Contains(j.CanJumpTo(), jump) {
		return nil
	}
	return agent.Errorf(agent.CodeInternal, "", "%s jumps to %q, which it does not declare", name, jump)
}

// middlewareName returns the name of middleware i for error messages.
func (r *modelRun) middlewareName(i int) string {
	if i < len(r.plan.Middleware) {
		return "middleware " + r.plan.Middleware[i].Name
	}
	return fmt.Sprintf("middleware[%d]", i)
}

// hookError returns the error of a hook, or the runtime's error if there is one: that must not count as a failure of the middleware.
func (r *modelRun) hookError(err error) error {
	if r.runtimeErr != nil {
		return r.runtimeErr
	}
	return err
}

// invocation returns what middleware may know of this model call, and the functions that it may use.
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

// ask makes a model request for a middleware, repeated by model_retry if it fails. Only the usage, of all tries together, is streamed. In the ledger its
// epochs are negative, so that they differ from those of the step's own calls.
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
	p, work, err := r.ts.startProducer(ctx, r.turn.TurnRef, fmt.Sprintf("ask/%d", r.in.Step), nil)
	if err != nil {
		return agent.ModelReply{}, r.noteRuntimeError(err)
	}
	defer context.AfterFunc(ctx, func() { p.stop(context.Cause(ctx)) })()
	var total agent.Usage
	var lastErr error // model_retry may turn the error of the last try into a reply, which is no answer for a middleware
	once := func(ctx context.Context, _ agent.Invocation, req agent.ModelRequest, _ func(agent.Delta) error) (reply agent.ModelReply, _ error) {
		r.tries++
		observed, request := r.observe(ctx, profile, -p.fence.Epoch, agent.PurposeMiddleware, &req)
		reply, lastErr = model.Generate(observed, req, request.watchDeltas(func(agent.Delta) error { return context.Cause(ctx) }, false))
		usage := withCost(request.usage(ctx, &req, &reply, lastErr), profile)
		request.finish(&reply, usage, lastErr, context.Cause(ctx))
		total = total.Add(usage)
		return reply, lastErr
	}
	reply, err := r.withRetry(once)(work, r.invocation(), req, nil)
	if err == nil {
		err = lastErr
	}
	if total != (agent.Usage{}) {
		r.ledger = append(r.ledger, agent.UsageEntry{Epoch: -p.fence.Epoch, Model: profile.Model, Usage: total})
		_ = p.emit(work, agent.Event{Type: agent.EventUsage, Usage: &total, Model: reply.Model}) // close returns the error
	}
	cause := context.Cause(work)
	if closeErr := p.close(r.callerCtx); closeErr != nil && cause == nil {
		cause = closeErr
	}
	if cause != nil {
		if r.callerCtx.Err() == nil && errors.Is(cause, context.Cause(ctx)) {
			return agent.ModelReply{}, cause // the middleware's own timeout has passed, or the call was stopped
		}
		return agent.ModelReply{}, r.noteRuntimeError(cause)
	}
	if err != nil {
		r.ts.log(ctx).Info("a middleware's model call", zap.Int("step", r.in.Step), zap.Error(err))
		return agent.ModelReply{}, err
	}
	return reply, nil
}

// withRetry wraps a model call in the plan's model_retry, and in no other middleware.
func (r *modelRun) withRetry(call agent.ModelFunc) agent.ModelFunc {
	for i, m := range r.chain {
		if i < len(r.plan.Middleware) && r.plan.Middleware[i].Name == modelRetry {
			call = m.WrapModel(call)
		}
	}
	return call
}
