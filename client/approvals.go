package client

import (
	"context"
	"net/http"

	"github.com/turnstone-run/turnstone/agent"
)

// Approvals returns a page of the approvals of the client's tenant; the tenant of the query is ignored.
func (c *Client) Approvals(ctx context.Context, q agent.ApprovalQuery) (agent.ApprovalPage, error) {
	query := pageParams(agent.Page{Size: q.Limit, Token: q.After}, "state", q.State, "session_id", string(q.SessionID), "turn_id", string(q.TurnID))
	approvals, next, err := page[agent.Approval](ctx, c, "approvals", query, "approvals")
	return agent.ApprovalPage{Approvals: approvals, Next: next}, err
}

// Approval returns one, with the turn that it belongs to; [agent.CodeNotFound] when there is none.
func (c *Client) Approval(ctx context.Context, id string) (agent.Approval, error) {
	return get[agent.Approval](ctx, c, nil, "approvals", id)
}

// ExportSession returns everything that is kept of a session.
func (c *Client) ExportSession(ctx context.Context, s agent.SessionID) (agent.SessionExport, error) {
	return get[agent.SessionExport](ctx, c, nil, "sessions", string(s), "export")
}

// DeleteSession forgets a session; [agent.CodeConflict] while a turn runs or waits in it.
func (c *Client) DeleteSession(ctx context.Context, s agent.SessionID) (agent.SessionDeleted, error) {
	return call[agent.SessionDeleted](ctx, c, request{method: http.MethodDelete, path: []string{"sessions", string(s)}})
}
