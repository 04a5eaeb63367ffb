package client

import (
	"context"
	"net/http"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// Turns returns a page of the turns of the client's tenant, the newest first; the tenant of the query is ignored.
func (c *Client) Turns(ctx context.Context, q agent.TurnQuery) (agent.TurnPage, error) {
	return get[agent.TurnPage](ctx, c, params(
		"status", strings.Join(q.Status, ","), "agent", q.Agent, "user", q.UserID, "channel", q.Channel, "session", string(q.SessionID),
		"rerun_of", string(q.RerunOf), "since", moment(q.Since), "until", moment(q.Until), "text", q.Text, "limit", number(q.Limit), "after", q.After,
	), "turns")
}

// Sessions returns a page of the sessions of the client's tenant, the one with the newest turn first; the tenant of the query is ignored.
func (c *Client) Sessions(ctx context.Context, q agent.SessionQuery) (agent.SessionPage, error) {
	return get[agent.SessionPage](ctx, c, params(
		"status", strings.Join(q.Status, ","), "agent", q.Agent, "user", q.UserID, "channel", q.Channel, "session", string(q.SessionID),
		"since", moment(q.Since), "until", moment(q.Until), "text", q.Text, "limit", number(q.Limit), "after", q.After,
	), "sessions")
}

// RenameSession gives a session a title of one line and at most 200 characters, or none, and returns the session as [Client.Sessions] does.
func (c *Client) RenameSession(ctx context.Context, s agent.SessionID, title string) (agent.SessionSummary, error) {
	return call[agent.SessionSummary](ctx, c, request{method: http.MethodPatch, path: []string{"sessions", string(s)}, body: map[string]string{"title": title}})
}
