package gateway

import (
	"cmp"
	"context"
	"net/http"

	"github.com/turnstone-run/turnstone/agent"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

// Approvals is the port of the approvals that wait, or waited, for a person. It sets Tenant, SessionID and Agent of each. [Turns] has Decide.
type Approvals interface {
	// Approvals lists the approvals of a tenant, oldest first. Limit is 1 to 500. Only approvals of turns that have not ended are pending. An
	// invalid page token is [agent.CodeInvalid] with Field "page_token".
	Approvals(ctx context.Context, q agent.ApprovalQuery) (agent.ApprovalPage, error)
	// Approval returns an approval of a tenant, or of any for [agent.AnyTenant]. An unknown approval and another tenant's are
	// [agent.CodeNotFound] with the same text.
	Approval(ctx context.Context, tenant, id string) (agent.Approval, error)
}

// maxApprovals is the maximum number of approvals in a page.
const maxApprovals = 500

func (s *httpServer) routeApprovals() {
	const all = "/v1/approvals"
	s.route(all, methods{http.MethodGet: requires(s.answer(tenantUnambiguous, s.getApprovals), agent.ActionApprovalsRead)})
	s.route(all+"/{id}", methods{http.MethodGet: requires(s.answerWithoutQuery(tenantUnambiguous, s.getApproval), agent.ActionApprovalsRead)})
}

// approvalsBody is the body of GET /v1/approvals.
type approvalsBody struct {
	Approvals []agent.Approval `json:"approvals"`
	Next      string           `json:"next_page_token"`
}

// getApprovals is GET /v1/approvals?state=&session_id=&turn_id=&page_size=&page_token=.
func (s *httpServer) getApprovals(c *Call) (any, error) {
	query := agent.ApprovalQuery{
		State: c.query.text("state", maxText), SessionID: agent.SessionID(c.query.text("session_id", maxText)),
		TurnID: agent.TurnID(c.query.text("turn_id", maxText)),
	}
	page := c.query.page()
	if err := c.query.validate(); err != nil {
		return nil, err
	}
	found, err := s.listApprovals(c.callContext(), c.caller, query, page)
	return approvalsBody{Approvals: orEmpty(found.Approvals), Next: found.Next}, err
}

// getApproval is GET /v1/approvals/{id}.
func (s *httpServer) getApproval(c *Call) (any, error) {
	id := c.r.PathValue("id")
	if id == "" || checkLine("", id, maxToken) != nil {
		return nil, agent.Errorf(agent.CodeNotFound, "", "no approval %.140q", id)
	}
	a, err := s.cfg.Approvals.Approval(c.callContext(), c.caller.lookupTenant(), id)
	if err == nil {
		err = c.Allow(agent.ActionApprovalsRead, a.ToolName)
	}
	if err != nil {
		return nil, err
	}
	c.w.Header().Set(turnIDHeader, string(a.TurnID))
	return a, nil
}

// listApprovals lists the approvals of the caller's tenant for tools that the caller may see.
func (g *Gateway) listApprovals(ctx context.Context, caller identity, q agent.ApprovalQuery, page agent.Page) (agent.ApprovalPage, error) {
	switch q.State {
	case "", "pending", "decided":
	default:
		return agent.ApprovalPage{}, agent.Invalid("state", "want pending or decided, got %.60q", q.State)
	}
	if err := cmp.Or(checkName("session_id", string(q.SessionID)), checkName("turn_id", string(q.TurnID))); err != nil {
		return agent.ApprovalPage{}, err
	}
	q.Tenant, q.After, q.Limit = caller.ownTenant(), page.Token, min(page.Size, maxApprovals)
	found, err := g.cfg.Approvals.Approvals(ctx, q)
	found.Approvals = filterAllowed(caller, agent.ActionApprovalsRead, found.Approvals, func(a *agent.Approval) string { return a.ToolName })
	return found, err
}

func (s *grpcServer) ListApprovals(ctx context.Context, p *pb.ListApprovalsRequest) (*pb.ListApprovalsResponse, error) {
	page, err := pageFromProto(p)
	if err != nil {
		return nil, err
	}
	found, err := s.listApprovals(ctx, callerOf(ctx), agent.ApprovalQuery{
		State: p.GetState(), SessionID: agent.SessionID(p.GetSessionId()), TurnID: agent.TurnID(p.GetTurnId()),
	}, page)
	return &pb.ListApprovalsResponse{Approvals: convertAll(found.Approvals, approvalToProto), NextPageToken: validText(found.Next)}, err
}
