package turns

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
)

// Rerun starts a new turn with the input of a turn that has ended. The new turn runs in a branch: a session that begins with a copy of the messages
// before the original turn. The request in the envelope has Rerun and the changes; fields that it leaves out are those of the original. Role and flags
// are copied only if the caller is trusted.
//
// The error is [agent.CodeConflict] if the turn has not ended or retention has removed its messages, and [agent.CodeInvalid] with Field "from_step" if
// the turn did not reach that step.
func (b *Inbox) Rerun(ctx context.Context, id agent.TurnID, e agent.Envelope) (agent.Receipt, error) {
	t, err := b.Turns.Store.Turn(ctx, id)
	switch {
	case err != nil:
		return agent.Receipt{}, err
	case t.Output == nil:
		return agent.Receipt{}, agent.Errorf(agent.CodeConflict, "", "turn %q has not ended: cancel it, or wait", id)
	case len(t.Record.Input) == 0:
		return agent.Receipt{}, agent.Errorf(agent.CodeConflict, "", "turn %q is kept without its messages, which retention has removed", id)
	}
	rerun := *e.Request.Rerun
	rerun.Of, rerun.Input = id, t.Record.Input
	if err := b.takeSteps(ctx, &rerun, &t.Record); err != nil {
		return agent.Receipt{}, err
	}
	r := &e.Request
	r.Rerun = &rerun
	b.inherit(ctx, r, &t.Record, e.Principal.Trusted())
	return b.Submit(ctx, e)
}

// takeSteps adds the steps before rerun.FromStep, and the preparation, of the original turn to a rerun. The steps that the original itself took from
// another turn are part of its input.
func (b *Inbox) takeSteps(ctx context.Context, rerun *agent.Rerun, original *agent.TurnRecord) error {
	if rerun.FromStep == 0 {
		return nil
	}
	steps, last, err := b.Turns.Store.StepMessages(ctx, original.TurnID, rerun.FromStep)
	switch {
	case err != nil:
		return err
	case rerun.FromStep < 1 || rerun.FromStep > last:
		return agent.Invalid("from_step", "is %d, want 1 to %d: turn %q came no further", rerun.FromStep, last, original.TurnID)
	}
	rerun.Input = slices.Concat(rerun.Input, steps)
	prepared, ok, err := b.Turns.Store.Prepared(ctx, original.TurnID)
	if ok {
		rerun.Prepared = &prepared
	}
	return err
}

// inherit sets the fields that a request leaves out to those of the original turn. Role and flags are copied only if isTrusted is set.
func (b *Inbox) inherit(ctx context.Context, r *agent.TurnRequest, original *agent.TurnRecord, isTrusted bool) {
	if r.Draft == nil && (r.Agent == "" || r.Agent == original.Agent) { // a draft may have other models
		r.Agent, r.Model = original.Agent, cmp.Or(r.Model, original.Model)
	}
	r.History = cmp.Or(r.History, original.History)
	if r.Limits == nil {
		r.Limits = original.Limits
	}
	if r.ClientTools == nil {
		r.ClientTools = original.ClientTools
	}
	if len(r.OutputSchema) == 0 && !b.isPlanSchema(ctx, original) {
		r.OutputSchema = original.OutputSchema
	}
	c, inherited := &r.Context, &original.Context
	c.Tenant, c.UserID, c.UIPage = original.Tenant, cmp.Or(c.UserID, inherited.UserID), cmp.Or(c.UIPage, inherited.UIPage)
	if c.Metadata == nil {
		c.Metadata = maps.Clone(inherited.Metadata)
		delete(c.Metadata, agent.MetaJobID) // the job already has a result
		delete(c.Metadata, agent.MetaRetryCount)
	}
	if !isTrusted {
		return
	}
	c.UserRole = cmp.Or(c.UserRole, inherited.UserRole)
	if c.Flags == nil {
		c.Flags = inherited.Flags
	}
}

// isPlanSchema reports whether the output schema of a turn came from its plan and not from its request. The current plan may have another one.
func (b *Inbox) isPlanSchema(ctx context.Context, r *agent.TurnRecord) bool {
	if len(r.OutputSchema) == 0 {
		return true
	}
	plan, err := b.Turns.Registry.Plan(ctx, r.PlanHash)
	return err == nil && bytes.Equal(canonicalJSON(plan.OutputSchema), canonicalJSON(r.OutputSchema))
}

// rerunOf returns the id of the turn that a request reruns, or "" if the request is not a rerun.
func rerunOf(req *agent.TurnRequest) agent.TurnID {
	if req.Rerun == nil {
		return ""
	}
	return req.Rerun.Of
}
