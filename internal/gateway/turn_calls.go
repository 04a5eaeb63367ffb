package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// This file is what all doors do with a turn that there is: look it up as the caller may see it, check what he says, call [Runtime].

// rememberedTurns is how many turns a gateway remembers to have let in.
const rememberedTurns = 8192

// beginner is a turn that came in here, until the runtime knows whose it is.
type beginner struct {
	tenant string
	agent  string // as the request says; empty: routing chooses
}

func (g *Gateway) remember(id agent.TurnID, r *agent.TurnRequest) {
	g.begun.Add(id, beginner{tenant: r.Context.TenantName(), agent: r.Agent})
}

// beginning is how long a turn may be so new that nobody knows yet whose it is.
const beginning = time.Second

var errBeginning = errors.New("the turn has just begun, and its agent is not known yet: try again")

// turn looks a turn up as the caller may see it, and asks whether he may do a to it; a is empty where that is settled.
func (g *Gateway) turn(ctx context.Context, caller identity, id agent.TurnID, a agent.Action) (TurnView, error) {
	if !agent.ValidName(string(id)) {
		return TurnView{}, noTurn(id)
	}
	v, err := g.visible(ctx, caller, id)
	if err == nil && a != "" {
		err = caller.allowTurn(a, &v)
	}
	if err != nil {
		return TurnView{}, err
	}
	return v, nil
}

func noTurn(id agent.TurnID) error {
	return agent.Errorf(agent.CodeNotFound, "", "there is no turn %.140q", id)
}

// visible finds a turn of the caller's tenant. The runtime answers for a turn that began a moment ago before it knows its tenant: to a
// caller who is confined to one it is shown if it came in here for that one; else the runtime is given a moment to find out.
func (g *Gateway) visible(ctx context.Context, caller identity, id agent.TurnID) (TurnView, error) {
	tenant := caller.lookupTenant()
	until := time.Now().Add(beginning)
	for wait := 10 * time.Millisecond; ; wait *= 2 {
		v, err := g.cfg.Runtime.Turn(ctx, tenant, id)
		switch {
		case agent.CodeOf(err) == agent.CodeNotFound:
			return TurnView{}, noTurn(id) // in these words, whatever the reason
		case err != nil || tenant == AnyTenant || v.Tenant == tenant:
			return v, err
		case v.Tenant != "":
			return TurnView{}, noTurn(id)
		}
		if b, ok := g.begun.Get(id); ok {
			if b.tenant != tenant {
				return TurnView{}, noTurn(id)
			}
			v.Tenant, v.Agent = b.tenant, cmp.Or(v.Agent, b.agent)
			return v, nil
		}
		if time.Now().After(until) {
			return TurnView{}, noTurn(id)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return TurnView{}, agent.Interrupted(ctx, "")
		}
	}
}

func (g *Gateway) decide(ctx context.Context, caller identity, id agent.TurnID, d agent.Decision) (TurnView, error) {
	if err := checkDecision(&d); err != nil {
		return TurnView{}, err
	}
	v, err := g.turn(ctx, caller, id, "")
	if err != nil {
		return v, err
	}
	if err := g.mayDecide(ctx, caller, &v, d.ApprovalID); err != nil {
		return v, err
	}
	d.By = caller.actor(d.By)
	err = g.cfg.Runtime.Decide(ctx, v.TurnID, d)
	caller.inTenantOf(&v).auditChange(agent.ActionApprovalsDecide, "turn/"+string(v.TurnID), facts{"approval_id": clip.Bytes(d.ApprovalID, maxText), "decision": d.Decision}, err)
	return v, err
}

// mayDecide asks whether the caller may decide on calls of the tool that an approval is about.
func (g *Gateway) mayDecide(ctx context.Context, caller identity, v *TurnView, approvalID string) error {
	if caller.principal.MayAll(agent.ActionApprovalsDecide) || !caller.principal.MayAny(agent.ActionApprovalsDecide) {
		return caller.allow(agent.ActionApprovalsDecide, "")
	}
	for i := range v.Pending {
		if v.Pending[i].ApprovalID == approvalID {
			return caller.allow(agent.ActionApprovalsDecide, v.Pending[i].ToolName)
		}
	}
	a, err := g.cfg.Runtime.Approval(ctx, caller.lookupTenant(), approvalID)
	if err != nil {
		return err
	}
	return caller.allow(agent.ActionApprovalsDecide, a.ToolName)
}

func (g *Gateway) provide(ctx context.Context, caller identity, id agent.TurnID, r ProvidedResult) (TurnView, error) {
	if err := r.Validate(); err != nil {
		return TurnView{}, err
	}
	v, err := g.turn(ctx, caller, id, agent.ActionTurnsRun)
	if err != nil {
		return v, err
	}
	err = g.cfg.Runtime.Provide(ctx, v.TurnID, r)
	caller.inTenantOf(&v).auditChange(agent.ActionTurnsRun, "turn/"+string(v.TurnID), facts{"tool_call_id": clip.Bytes(string(r.ToolCallID), maxText)}, err)
	return v, err
}

func (g *Gateway) cancel(ctx context.Context, caller identity, id agent.TurnID, c agent.CancelRequest) (TurnView, error) {
	v, err := g.turn(ctx, caller, id, agent.ActionTurnsCancel)
	if err != nil {
		return v, err
	}
	c.By = caller.actor(c.By)
	err = g.cfg.Runtime.Cancel(ctx, v.TurnID, c)
	caller.inTenantOf(&v).auditChange(agent.ActionTurnsCancel, "turn/"+string(v.TurnID), nil, err)
	return v, err
}

// inTenantOf returns the caller in the tenant of a turn, unless the request names a tenant.
func (c identity) inTenantOf(v *TurnView) identity {
	c.tenant = cmp.Or(c.tenant, v.Tenant)
	return c
}

// message submits a further message to the session of a turn. The runtime audits it as the turn that it becomes.
func (g *Gateway) message(
	ctx context.Context, caller identity, door string, id agent.TurnID, req *agent.TurnRequest,
) (receipt agent.Receipt, position int, err error) {
	v, err := g.turn(ctx, caller, id, "")
	if err != nil {
		return receipt, 0, err
	}
	asked := v
	asked.Agent = cmp.Or(req.Agent, v.Agent)
	if err := caller.allowTurn(agent.ActionTurnsRun, &asked); err != nil {
		return receipt, 0, err
	}
	if err := cmp.Or(caller.checkTenant(req.Context.Tenant, "context.tenant"), g.checkMessage(&v, door, req)); err != nil {
		return receipt, 0, err
	}
	caller.setUser(&req.Context)
	e := agent.Envelope{Channel: door, Request: *req}
	caller.setSender(&e)
	return g.cfg.Runtime.MessageFrom(ctx, v.TurnID, e)
}

// checkMessage puts a message into the session and tenant of a turn. Of a turn started a moment ago neither may be known yet; the
// runtime fills them in.
func (g *Gateway) checkMessage(v *TurnView, door string, req *agent.TurnRequest) error {
	switch {
	case req.StreamTo != nil:
		return errStreamTo()
	case req.SessionID != "" && v.SessionID != "" && req.SessionID != v.SessionID:
		return agent.Invalid("session_id", "is %q, but the turn's session is %q", req.SessionID, v.SessionID)
	case req.Context.Tenant != "" && v.Tenant != "" && req.Context.Tenant != v.Tenant:
		return agent.Invalid("context.tenant", "is not the turn's tenant")
	}
	req.SessionID, req.Context.Tenant = cmp.Or(v.SessionID, req.SessionID), cmp.Or(v.Tenant, req.Context.Tenant)
	if req.Channel == "" {
		req.Channel = door
	}
	return req.Validate(int(g.cfg.Limits.BodyBytes))
}

// checkDecision checks the shape of a decision; what it may say is the runtime's to judge.
func checkDecision(d *agent.Decision) error {
	if d.ApprovalID == "" {
		return agent.Invalid("approval_id", "is empty")
	}
	switch d.Decision {
	case agent.DecisionApprove, agent.DecisionReject:
	case agent.DecisionEdit:
		var args map[string]json.RawMessage
		if err := json.Unmarshal(d.Args, &args); err != nil || args == nil {
			return agent.Invalid("args", "edit wants the arguments to run with, a JSON object")
		}
	case agent.DecisionRespond:
		if d.Message == "" {
			return agent.Invalid("message", "respond wants the answer that the model gets")
		}
	default:
		return agent.Invalid("decision", "want approve, edit, reject or respond, got %.60q", d.Decision)
	}
	return nil
}
