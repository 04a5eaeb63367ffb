package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/google/uuid"

	"github.com/turnstone-run/turnstone/agent"
)

// Rerun submits the input of a turn that has ended once more, in a branch of its session, and returns without waiting for the new turn. Fields
// that the request leaves empty are taken from the turn's own request. A request without an idempotency key gets one, as for [Client.Start].
func (c *Client) Rerun(ctx context.Context, id agent.TurnID, r agent.RerunRequest) (agent.Receipt, error) {
	if r.IdempotencyKey == "" {
		r.IdempotencyKey = uuid.NewString()
	}
	return call[agent.Receipt](ctx, c, request{
		method: http.MethodPost, path: []string{"turns", string(id), "rerun"}, query: url.Values{"wait": {"false"}}, body: r,
	})
}

// Fork makes a session that begins with a copy of another one's transcript.
func (c *Client) Fork(ctx context.Context, f agent.Fork) (agent.SessionForked, error) {
	return post[agent.SessionForked](ctx, c, struct {
		TurnID    agent.TurnID    `json:"turn_id,omitempty"`
		SessionID agent.SessionID `json:"session_id,omitempty"`
	}{f.TurnID, f.SessionID}, "sessions", string(f.From), "fork")
}
