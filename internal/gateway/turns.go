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

// Turns is the port of turns. An unknown turn and another tenant's are [agent.CodeNotFound] with the same text.
//
// Follow may yield [agent.ErrGap]. Decide, Cancel and Provide take no tenant, because the gateway calls Turn first. The error of Decide is
// [agent.CodeConflict] if the approval is decided or expired or its turn has ended, and [agent.CodeInvalid] with Field args.<field> for arguments
// that break the tool's schema, or with Field "decision" or "remember" for a decision that the policy does not allow.
type Turns interface {
	agent.Inbox // Submit, Follow, Decide, Cancel

	// Turn returns the state of a turn and, once it has ended, its output. tenant may be [agent.AnyTenant].
	Turn(ctx context.Context, tenant string, id agent.TurnID) (TurnView, error)
	// Provide provides the result of a client-side tool. Its error is [agent.CodeConflict] if the turn does not wait for it.
	Provide(ctx context.Context, id agent.TurnID, r agent.ProvidedResult) error
	// MessageFrom submits an envelope to the session of a turn. It ignores the request's session id, and uses the turn's agent if the request
	// names none. position is 0 if the new turn runs at once, and 1 if it is next in line.
	MessageFrom(ctx context.Context, id agent.TurnID, e agent.Envelope) (r agent.Receipt, position int, err error)
	// Rerun submits the input of a turn again, in a branch of its session. Fields that the envelope's request lacks are those of the turn's
	// request. Its error is [agent.CodeConflict] if the turn has not ended, or with Field "session_id" if the session is in use, and
	// [agent.CodeInvalid] with Field "from_step" if the turn has no such step.
	Rerun(ctx context.Context, id agent.TurnID, e agent.Envelope) (agent.Receipt, error)
}

// TurnView is a turn as its callers see it.
type TurnView struct {
	TurnID    agent.TurnID
	SessionID agent.SessionID
	StreamID  string
	Tenant    string
	Agent     string
	UserID    string         // of the request; empty if unknown
	Mode      agent.Mode     // empty if unknown
	Fallback  agent.Fallback // why a turn that should be direct is not
	State     string
	StartedAt time.Time
	Tail      agent.StreamTail       // of its events
	Pending   []agent.Approval       // those that wait for a person
	Output    *agent.AgentStepOutput // nil until the turn has ended
	RerunOf   agent.TurnID           // empty for a turn that is no rerun
	FromStep  int                    // the first step of a rerun that is not copied; 0: none is
	Draft     bool                   // its agent is a draft
}

// endedAt returns approximately when a turn has ended, from its start and its execution time.
func (v *TurnView) endedAt() time.Time {
	if v.StartedAt.IsZero() {
		return time.Now()
	}
	return v.StartedAt.Add(time.Duration(v.Output.ExecutionTimeMS) * time.Millisecond)
}

// maxNewTurns is the number of submitted turns that a gateway remembers.
const maxNewTurns = 8192

// newTurn is a turn that was submitted here and whose tenant the port may not know yet.
type newTurn struct {
	tenant string
	agent  string // of the request; empty if routing chooses it
}

// newTurnTimeout is how long the tenant and the agent of a new turn may be unknown.
const newTurnTimeout = time.Second

var errNewTurn = errors.New("the turn has just begun, and its agent is not known yet: try again")

// turn returns a turn of the caller's tenant, if the caller may do a to it. An empty a skips this check.
func (g *Gateway) turn(ctx context.Context, caller identity, id agent.TurnID, a agent.Action) (TurnView, error) {
	if !agent.ValidName(string(id)) {
		return TurnView{}, noTurn(id)
	}
	v, err := g.findTurn(ctx, caller, id)
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

// findTurn returns a turn of the caller's tenant. The port may return a new turn before it knows its tenant. A caller of one tenant then gets the turn
// if it was submitted here for this tenant; otherwise findTurn asks the port again for newTurnTimeout.
func (g *Gateway) findTurn(ctx context.Context, caller identity, id agent.TurnID) (TurnView, error) {
	tenant := caller.lookupTenant()
	deadline := time.Now().Add(newTurnTimeout)
	for wait := 10 * time.Millisecond; ; wait *= 2 {
		v, err := g.cfg.Turns.Turn(ctx, tenant, id)
		switch {
		case agent.CodeOf(err) == agent.CodeNotFound:
			return TurnView{}, noTurn(id) // the same text as for a turn of another tenant
		case err != nil || tenant == agent.AnyTenant || v.Tenant == tenant:
			return v, err
		case v.Tenant != "":
			return TurnView{}, noTurn(id)
		}
		if submitted, ok := g.newTurns.Get(id); ok {
			if submitted.tenant != tenant {
				return TurnView{}, noTurn(id)
			}
			v.Tenant, v.Agent = submitted.tenant, cmp.Or(v.Agent, submitted.agent)
			return v, nil
		}
		if time.Now().After(deadline) {
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
	if err := g.allowDecision(ctx, caller, &v, d.ApprovalID); err != nil {
		return v, err
	}
	d.By = caller.actor(d.By)
	err = g.cfg.Turns.Decide(ctx, v.TurnID, d)
	detail := facts{"approval_id": clip.Bytes(d.ApprovalID, maxText), "decision": d.Decision}
	caller.inTenantOf(&v).auditChange(agent.ActionApprovalsDecide, "turn/"+string(v.TurnID), detail, err)
	return v, err
}

// allowDecision returns nil if the caller may decide on approvals of the approval's tool.
func (g *Gateway) allowDecision(ctx context.Context, caller identity, v *TurnView, approvalID string) error {
	if caller.principal.MayAll(agent.ActionApprovalsDecide) || !caller.principal.MayAny(agent.ActionApprovalsDecide) {
		return caller.allow(agent.ActionApprovalsDecide, "")
	}
	for i := range v.Pending {
		if v.Pending[i].ApprovalID == approvalID {
			return caller.allow(agent.ActionApprovalsDecide, v.Pending[i].ToolName)
		}
	}
	a, err := g.cfg.Approvals.Approval(ctx, caller.lookupTenant(), approvalID)
	if err != nil {
		return err
	}
	return caller.allow(agent.ActionApprovalsDecide, a.ToolName)
}

func (g *Gateway) provide(ctx context.Context, caller identity, id agent.TurnID, r agent.ProvidedResult) (TurnView, error) {
	if err := r.Validate(); err != nil {
		return TurnView{}, err
	}
	v, err := g.turn(ctx, caller, id, agent.ActionTurnsRun)
	if err != nil {
		return v, err
	}
	err = g.cfg.Turns.Provide(ctx, v.TurnID, r)
	caller.inTenantOf(&v).auditChange(agent.ActionTurnsRun, "turn/"+string(v.TurnID), facts{"tool_call_id": clip.Bytes(string(r.ToolCallID), maxText)}, err)
	return v, err
}

func (g *Gateway) cancel(ctx context.Context, caller identity, id agent.TurnID, c agent.CancelRequest) (TurnView, error) {
	v, err := g.turn(ctx, caller, id, agent.ActionTurnsCancel)
	if err != nil {
		return v, err
	}
	c.By = caller.actor(c.By)
	err = g.cfg.Turns.Cancel(ctx, v.TurnID, c)
	caller.inTenantOf(&v).auditChange(agent.ActionTurnsCancel, "turn/"+string(v.TurnID), nil, err)
	return v, err
}

// inTenantOf returns the caller, in the tenant of a turn if the request names none.
func (c identity) inTenantOf(v *TurnView) identity {
	c.tenant = cmp.Or(c.tenant, v.Tenant)
	return c
}

// message submits a further message to the session of a turn. The port audits the new turn.
func (g *Gateway) message(
	ctx context.Context, caller identity, door string, id agent.TurnID, req *agent.TurnRequest,
) (receipt agent.Receipt, position int, err error) {
	v, err := g.turn(ctx, caller, id, "")
	if err != nil {
		return receipt, 0, err
	}
	target := v
	target.Agent = cmp.Or(req.Agent, v.Agent)
	if err := caller.allowTurn(agent.ActionTurnsRun, &target); err != nil {
		return receipt, 0, err
	}
	if err := cmp.Or(caller.checkTenant(req.Context.Tenant, "context.tenant"), g.completeMessage(&v, door, req)); err != nil {
		return receipt, 0, err
	}
	caller.setUser(&req.Context)
	e := agent.Envelope{Channel: door, Request: *req}
	caller.setSender(&e)
	return g.cfg.Turns.MessageFrom(ctx, v.TurnID, e)
}

// completeMessage sets session, tenant and channel of a message to those of a turn, and checks the message. For a new turn that does not know its
// session or tenant yet, the port sets them.
func (g *Gateway) completeMessage(v *TurnView, door string, req *agent.TurnRequest) error {
	switch {
	case req.StreamTo != nil:
		return errStreamTo()
	case req.SessionID != "" && v.SessionID != "" && req.SessionID != v.SessionID:
		return agent.Invalid("session_id", "is %.140q, but the turn's session is %q", req.SessionID, v.SessionID)
	case req.Context.Tenant != "" && v.Tenant != "" && req.Context.Tenant != v.Tenant:
		return agent.Invalid("context.tenant", "is not the turn's tenant")
	}
	req.SessionID, req.Context.Tenant = cmp.Or(v.SessionID, req.SessionID), cmp.Or(v.Tenant, req.Context.Tenant)
	if req.Channel == "" {
		req.Channel = door
	}
	return req.Validate(int(g.cfg.Limits.BodyBytes))
}

// checkDecision checks the fields of a decision. The port checks it against the policy.
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
