package gateway

import (
	"cmp"
	"context"
	"fmt"
	"net/http"

	"github.com/google/uuid"
	"google.golang.org/grpc"

	"github.com/turnstone-run/turnstone/agent"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

// postRerun is POST /v1/turns/{id}/rerun. It waits, streams or does neither, as POST /v1/turns does.
func (s *httpServer) postRerun(c *Call) error {
	wait, after, err := c.turnParameters()
	if err != nil {
		return err
	}
	var body agent.RerunRequest
	if err := c.decodeIfAny(&body); err != nil {
		return err
	}
	if err := ApplyIdempotencyKey(c.r, &body.IdempotencyKey); err != nil {
		return err
	}
	origin := turnOrigin{RerunOf: c.turnID(), FromStep: body.FromStep}
	return s.answerTurn(c, wait, after, origin, func() (agent.Receipt, error) {
		receipt, tenant, err := s.rerun(c.callContext(), c.caller, "http", origin.RerunOf, &body)
		c.caller.tenant = cmp.Or(c.caller.tenant, tenant)
		return receipt, err
	})
}

// rerun submits a turn again and returns the tenant of the turn. The caller must be allowed to read the turn, to run the agent and, if the
// request has another prompt or a draft, to change the agent.
func (g *Gateway) rerun(
	ctx context.Context, caller identity, door string, id agent.TurnID, body *agent.RerunRequest,
) (receipt agent.Receipt, tenant string, err error) {
	v, err := g.turn(ctx, caller, id, agent.ActionTurnsRead)
	if err != nil {
		return receipt, "", err
	}
	caller = caller.inTenantOf(&v)
	req := body.TurnRequest()
	if err := caller.checkTenant(req.Context.Tenant, "context.tenant"); err != nil {
		return receipt, "", err
	}
	req.Context.Tenant, req.Channel = v.Tenant, door
	if err := g.compileDraft(ctx, caller, &req); err != nil {
		return receipt, "", err
	}
	name := cmp.Or(req.Agent, v.Agent)
	if err := caller.allow(agent.ActionTurnsRun, name); err != nil {
		return receipt, "", err
	}
	if body.Prompt != "" {
		if err := caller.allow(agent.ActionCatalogWrite, scopeName(agent.DocumentKey{Kind: agent.KindAgent, Name: name})); err != nil {
			return receipt, "", err
		}
	}
	caller.setUser(&req.Context)
	if err := req.Validate(int(g.cfg.Limits.BodyBytes)); err != nil {
		return receipt, "", err
	}
	e := agent.Envelope{Channel: door, Request: req}
	caller.setSender(&e)
	if receipt, err = g.cfg.Turns.Rerun(ctx, v.TurnID, e); err != nil {
		return receipt, "", err
	}
	receipt, err = g.rememberOrCheck(ctx, caller, receipt, &req)
	return receipt, v.Tenant, err
}

// forkBody is the body of POST /v1/sessions/{id}/fork.
type forkBody struct {
	TurnID    agent.TurnID    `json:"turn_id,omitempty"`    // the last turn to copy; empty: all of them
	SessionID agent.SessionID `json:"session_id,omitempty"` // empty: a new id
}

// postFork is POST /v1/sessions/{id}/fork.
func (s *httpServer) postFork(c *Call) (any, error) {
	var body forkBody
	if err := c.decodeIfAny(&body); err != nil {
		return nil, err
	}
	forked, err := s.forkSession(c.callContext(), c.caller, agent.Fork{From: c.sessionID(), TurnID: body.TurnID, SessionID: body.SessionID})
	c.status = http.StatusCreated
	return forked, err
}

// forkSession copies the transcript of a session of the caller's tenant into a new session, and audits the change. A caller who may run turns
// may make sessions.
func (g *Gateway) forkSession(ctx context.Context, caller identity, f agent.Fork) (agent.SessionForked, error) {
	if !caller.allowAny(agent.ActionTurnsRun) {
		return agent.SessionForked{}, caller.allow(agent.ActionTurnsRun, "")
	}
	if f.SessionID == "" {
		f.SessionID = agent.SessionID(uuid.NewString())
	}
	switch {
	case !f.From.Valid():
		return agent.SessionForked{}, noSession(f.From)
	case f.TurnID != "" && !agent.ValidName(string(f.TurnID)):
		return agent.SessionForked{}, agent.Invalid("turn_id", "want 1 to 128 of A-Z a-z 0-9 . _ -")
	case !f.SessionID.Valid():
		return agent.SessionForked{}, agent.Invalid("session_id", "want 1 to 128 of A-Z a-z 0-9 . _ -")
	}
	forked, err := g.cfg.Sessions.ForkSession(ctx, caller.ownTenant(), f)
	caller.auditChange(agent.ActionTurnsRun, "session/"+string(f.SessionID), facts{"forked_from": f.From, "turn_id": f.TurnID}, err)
	return forked, err
}

func (s *grpcServer) RerunTurn(ctx context.Context, p *pb.RerunTurnRequest) (*pb.RerunTurnResponse, error) {
	if p.GetRerunOf() == "" {
		return nil, agent.Invalid("rerun_of", "is empty")
	}
	if err := checkJSON("output_schema", jsonFromProto(p.GetOutputSchema())); err != nil {
		return nil, err
	}
	body := rerunFromProto(p)
	receipt, _, err := s.rerun(ctx, callerOf(ctx), "grpc", agent.TurnID(p.GetRerunOf()), &body)
	if err != nil {
		return nil, err
	}
	if err := grpc.SetHeader(ctx, turnMetadata(receipt.TurnID)); err != nil {
		return nil, fmt.Errorf("set header: %w", err)
	}
	return &pb.RerunTurnResponse{
		TurnId: validText(receipt.TurnID), SessionId: validText(receipt.SessionID), StreamId: validText(receipt.StreamID),
		State: acceptedState(receipt, "").State, RerunOf: p.GetRerunOf(), FromStep: p.GetFromStep(),
	}, nil
}

func (s *grpcServer) ForkSession(ctx context.Context, p *pb.ForkSessionRequest) (*pb.ForkSessionResponse, error) {
	forked, err := s.forkSession(ctx, callerOf(ctx), agent.Fork{
		From: agent.SessionID(p.GetForkedFrom()), TurnID: agent.TurnID(p.GetTurnId()), SessionID: agent.SessionID(p.GetSessionId()),
	})
	if err != nil {
		return nil, err
	}
	return forkedToProto(&forked), nil
}
