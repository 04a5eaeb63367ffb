package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/turnstone-run/turnstone/agent"
)

// Approvals returns a page of the approvals of the client's tenant; the tenant of the query is ignored.
func (c *Client) Approvals(ctx context.Context, q agent.ApprovalQuery) (agent.ApprovalPage, error) {
	query := pageQuery(agent.Page{Size: q.Limit, Token: q.After})
	set(query, "state", q.State)
	set(query, "session_id", string(q.SessionID))
	set(query, "turn_id", string(q.TurnID))
	var out struct {
		Approvals []agent.Approval `json:"approvals"`
		Next      string           `json:"next_page_token"`
	}
	err := c.call(ctx, http.MethodGet, []string{"approvals"}, query, nil, &out)
	return agent.ApprovalPage{Approvals: out.Approvals, Next: out.Next}, err
}

// Approval returns one, with the turn that it belongs to; [agent.CodeNotFound] when there is none.
func (c *Client) Approval(ctx context.Context, id string) (agent.Approval, error) {
	var out agent.Approval
	return out, c.call(ctx, http.MethodGet, []string{"approvals", id}, nil, nil, &out)
}

// ExportSession returns everything that is kept of a session.
func (c *Client) ExportSession(ctx context.Context, s agent.SessionID) (agent.SessionExport, error) {
	var out agent.SessionExport
	return out, c.call(ctx, http.MethodGet, []string{"sessions", string(s), "export"}, nil, nil, &out)
}

// DeleteSession forgets a session; [agent.CodeConflict] while a turn runs or waits in it.
func (c *Client) DeleteSession(ctx context.Context, s agent.SessionID) (agent.SessionDeleted, error) {
	var out agent.SessionDeleted
	return out, c.call(ctx, http.MethodDelete, []string{"sessions", string(s)}, url.Values{}, nil, &out)
}
