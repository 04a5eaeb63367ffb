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

// Turns is the port of turns. [agent.CodeNotFound] for a turn that is unknown or belongs to another tenant, with the same text.
//
// Follow may yield [agent.ErrGap]. Decide, Cancel and Provide take no tenant: the gateway calls Turn first. Decide returns
// [agent.CodeConflict] for what is decided, expired or over, [agent.CodeInvalid] with the path args.<field> for arguments that break the
// tool's schema, and with Field "decision" or "remember" for what the policy does not allow.
type Turns interface {
	agent.Inbox // Submit, Follow, Decide, Cancel

	// Turn returns a turn's state and, when it has finished, its output. tenant may be [agent.AnyTenant].
	Turn(ctx context.Context, tenant string, id agent.TurnID) (TurnView, error)
	// Provide hands in the result of a client-side tool. [agent.CodeConflict] when nothing waits for it.
	Provide(ctx context.Context, id agent.TurnID, r agent.ProvidedResult) error
	// MessageFrom submits an envelope to the session of the turn. The request's own session id is ignored, and its agent is the turn's unless
	// it names one. position is 0 when the new turn runs at once, 1 for the next in line.
	MessageFrom(ctx context.Context, id agent.TurnID, e agent.Envelope) (r agent.Receipt, position int, err error)
	// Rerun submits the input of a turn once more, in a branch of its session. What the envelope's request leaves out is as the turn's request had
	// it. [agent.CodeConflict] for a turn that has not ended, and with Field "session_id" for a session that is in use; [agent.CodeInvalid] with
	// Field "from_step" for a step that the turn did not come to.
	Rerun(ctx context.Context, id agent.TurnID, e agent.Envelope) (agent.Receipt, error)
}

// TurnView is a turn as its callers see it.
type TurnView struct {
	TurnID    agent.TurnID
	SessionID agent.SessionID
	StreamID  string
	Tenant    string
	Agent     string
	UserID    string         // who asked for it; empty: not known
	Mode      agent.Mode     // how it is driven; empty: not known
	Fallback  agent.Fallback // why it is not direct, although it was to be
	State     string
	StartedAt time.Time
	Tail      agent.StreamTail       // which events there are
	Pending   []agent.Approval       // what waits for a person
	Output    *agent.AgentStepOutput // once finished
	RerunOf   agent.TurnID           // empty: it reruns no turn
	FromStep  int                    // of a rerun: the first step that was not taken over; 0: none was
	Draft     bool                   // its agent is a draft, which is not in the catalog
}

// endedAt returns about when a finished turn ended, from its start and its execution time.
func (v *TurnView) endedAt() time.Time {
	if v.StartedAt.IsZero() {
		return time.Now()
	}
	return v.StartedAt.Add(time.Duration(v.Output.ExecutionTimeMS) * time.Millisecond)
}

// rememberedTurns is how many submitted turns a gateway remembers.
const rememberedTurns = 8192

// newTurn is a turn that was submitted here and whose tenant the port may not know yet.
type newTurn struct {
	tenant string
	agent  string // as the request says; empty: routing chooses
}

func (g *Gateway) remember(id agent.TurnID, r *agent.TurnRequest) {
	g.begun.Add(id, newTurn{tenant: r.Context.TenantName(), agent: r.Agent})
}

// beginning is how long the tenant and the agent of a new turn may be unknown.
const beginning = time.Second

var errBeginning = errors.New("the turn has just begun, and its agent is not known yet: try again")

// turn returns a turn of the caller's tenant that the caller may do a to. An empty a skips that check.
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

// findTurn finds a turn of the caller's tenant. The port returns a turn that has just begun before it knows its tenant. A caller of one
// tenant sees such a turn if it was submitted here for that tenant; otherwise the port gets a moment to find out.
func (g *Gateway) findTurn(ctx context.Context, caller identity, id agent.TurnID) (TurnView, error) {
	tenant := caller.lookupTenant()
	until := time.Now().Add(beginning)
	for wait := 10 * time.Millisecond; ; wait *= 2 {
		v, err := g.cfg.Turns.Turn(ctx, tenant, id)
		switch {
		case agent.CodeOf(err) == agent.CodeNotFound:
			return TurnView{}, noTurn(id) // with this text, whatever the reason
		case err != nil || tenant == agent.AnyTenant || v.Tenant == tenant:
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
	if err := g.allowDecision(ctx, caller, &v, d.ApprovalID); err != nil {
		return v, err
	}
	d.By = caller.actor(d.By)
	err = g.cfg.Turns.Decide(ctx, v.TurnID, d)
	detail := facts{"approval_id": clip.Bytes(d.ApprovalID, maxText), "decision": d.Decision}
	caller.inTenantOf(&v).auditChange(agent.ActionApprovalsDecide, "turn/"+string(v.TurnID), detail, err)
	return v, err
}

// allowDecision returns a denied error unless the caller may decide on calls of the tool that an approval is about.
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

// inTenantOf returns the caller in the tenant of a turn, unless the request names a tenant.
func (c identity) inTenantOf(v *TurnView) identity {
	c.tenant = cmp.Or(c.tenant, v.Tenant)
	return c
}

// message submits a further message to the session of a turn. The port audits it as the turn that it becomes.
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
	return g.cfg.Turns.MessageFrom(ctx, v.TurnID, e)
}

// checkMessage puts a message into the session and tenant of a turn. For a turn that has just begun neither may be known yet; the
// port fills them in.
func (g *Gateway) checkMessage(v *TurnView, door string, req *agent.TurnRequest) error {
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

// checkDecision checks the shape of a decision; the port checks it against the policy.
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
