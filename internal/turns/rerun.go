package turns

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
)

// Rerun runs a turn that has ended again, as a new turn with the same input. The new turn runs in a branch: a session that begins with a copy of
// the messages before the original. The envelope's request holds the changes and Rerun; members that it leaves out are the original's. Role and
// flags are the credential's if the caller has one.
//
// The error is [agent.CodeConflict] if the turn has not ended or is kept without its messages, and [agent.CodeInvalid] with Field "from_step" for a
// step that the turn did not come to.
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

// takeSteps sets what a rerun takes over from a turn. The steps that the turn itself took over from another are part of its input.
func (b *Inbox) takeSteps(ctx context.Context, rerun *agent.Rerun, of *agent.TurnRecord) error {
	if rerun.FromStep == 0 {
		return nil
	}
	steps, last, err := b.Turns.Store.StepMessages(ctx, of.TurnID, rerun.FromStep)
	switch {
	case err != nil:
		return err
	case rerun.FromStep < 1 || rerun.FromStep > last:
		return agent.Invalid("from_step", "is %d, want 1 to %d: turn %q came no further", rerun.FromStep, last, of.TurnID)
	}
	rerun.Input = slices.Concat(rerun.Input, steps)
	prepared, ok, err := b.Turns.Store.Prepared(ctx, of.TurnID)
	if ok {
		rerun.Prepared = &prepared
	}
	return err
}

// inherit fills in what a request leaves out, from the record of the turn that it reruns.
func (b *Inbox) inherit(ctx context.Context, r *agent.TurnRequest, of *agent.TurnRecord, isTrusted bool) {
	if r.Draft == nil && (r.Agent == "" || r.Agent == of.Agent) { // a draft may have other models
		r.Agent, r.Model = of.Agent, cmp.Or(r.Model, of.Model)
	}
	r.History = cmp.Or(r.History, of.History)
	if r.Limits == nil {
		r.Limits = of.Limits
	}
	if r.ClientTools == nil {
		r.ClientTools = of.ClientTools
	}
	if len(r.OutputSchema) == 0 && !b.isPlanSchema(ctx, of) {
		r.OutputSchema = of.OutputSchema
	}
	c, was := &r.Context, &of.Context
	c.Tenant, c.UserID, c.UIPage = of.Tenant, cmp.Or(c.UserID, was.UserID), cmp.Or(c.UIPage, was.UIPage)
	if c.Metadata == nil {
		c.Metadata = maps.Clone(was.Metadata)
		delete(c.Metadata, agent.MetaJobID) // the job has its result
		delete(c.Metadata, agent.MetaRetryCount)
	}
	if !isTrusted {
		return
	}
	c.UserRole = cmp.Or(c.UserRole, was.UserRole)
	if c.Flags == nil {
		c.Flags = was.Flags
	}
}

// isPlanSchema reports whether the schema of a turn's answer was that of its plan, and not of its request: the plan may have another one now.
func (b *Inbox) isPlanSchema(ctx context.Context, of *agent.TurnRecord) bool {
	if len(of.OutputSchema) == 0 {
		return true
	}
	plan, err := b.Turns.Registry.Plan(ctx, of.PlanHash)
	return err == nil && bytes.Equal(canonicalJSON(plan.OutputSchema), canonicalJSON(of.OutputSchema))
}

// rerunOf returns the turn that a request reruns, "" if it reruns none.
func rerunOf(req *agent.TurnRequest) agent.TurnID {
	if req.Rerun == nil {
		return ""
	}
	return req.Rerun.Of
}
