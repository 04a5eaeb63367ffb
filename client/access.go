package client

import (
	"context"
	"net/http"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

const (
	keysPath  = "keys"
	auditPath = "audit"
	linksPath = "links"
)

// WhoAmI returns who the server takes the client for.
func (c *Client) WhoAmI(ctx context.Context) (agent.Principal, error) {
	return get[agent.Principal](ctx, c, nil, "whoami")
}

// Keys returns a page of API keys, by id.
func (c *Client) Keys(ctx context.Context, p agent.Page) (keys []agent.APIKey, next string, err error) {
	return page[agent.APIKey](ctx, c, "keys", pageParams(p), keysPath)
}

// CreateKey makes an API key. The answer alone holds it. Nothing of it is repeated when the answer is lost: the key is there then, of no
// use to anybody, and can be revoked.
func (c *Client) CreateKey(ctx context.Context, r agent.KeyRequest) (agent.NewKey, error) {
	body := gateway.KeyBody{Name: r.Name, Tenant: r.Tenant, Subject: r.Subject, Role: r.Role, Flags: r.Flags, Scopes: r.Scopes}
	if r.ExpiresIn != 0 {
		body.ExpiresIn = r.ExpiresIn.String()
	}
	return post[agent.NewKey](ctx, c, body, keysPath)
}

// RotateKey makes a key with the rights of another one, which goes on working for overlap.
func (c *Client) RotateKey(ctx context.Context, id string, overlap time.Duration) (agent.NewKey, error) {
	body := struct {
		Overlap string `json:"overlap"`
	}{overlap.String()}
	return post[agent.NewKey](ctx, c, body, keysPath, id, "rotate")
}

// RevokeKey ends a key.
func (c *Client) RevokeKey(ctx context.Context, id string) (agent.APIKey, error) {
	return call[agent.APIKey](ctx, c, request{method: http.MethodDelete, path: []string{keysPath, id}})
}

// Audit returns a page of the audit trail, newest first. An empty tenant is the client's; [agent.AnyTenant] is every one that the credential
// may see.
func (c *Client) Audit(ctx context.Context, q agent.AuditQuery) (agent.AuditPage, error) {
	return get[agent.AuditPage](ctx, c, params(tenantParam, oneTenant(q.Tenant), "subject", q.Subject, "action", q.Action, "outcome", q.Outcome,
		"before", number(q.Before), "limit", number(q.Limit), "since", moment(q.Since)), auditPath)
}

// Posted says where a message to a running turn's session ended up.
type Posted struct {
	agent.Receipt

	Position int `json:"position"` // 0 runs at once, 1 is next in line
}

// Message submits a further message to the session of a turn.
func (c *Client) Message(ctx context.Context, id agent.TurnID, r agent.TurnRequest) (Posted, error) {
	return call[Posted](ctx, c, request{
		method: http.MethodPost, path: []string{"turns", string(id), "messages"}, body: r, header: idempotencyKey(r.IdempotencyKey),
	})
}

// LinkOffer is a code that links a chat.
type LinkOffer = gateway.LinkOffer

// OfferLink makes a code by which a chat becomes a user's.
func (c *Client) OfferLink(ctx context.Context, l agent.Link) (LinkOffer, error) {
	return post[LinkOffer](ctx, c, gateway.LinkRequest{Channel: l.Channel, UserID: l.UserID, Role: l.Role, Scopes: l.Scopes}, linksPath)
}

// Links returns a page of the links between chats and users.
func (c *Client) Links(ctx context.Context, q agent.LinkQuery) (agent.LinkPage, error) {
	query := params("channel", q.Channel, "user_id", q.UserID, "page_token", q.PageToken, "page_size", number(q.PageSize))
	return get[agent.LinkPage](ctx, c, query, linksPath)
}

// DeleteLink ends a link.
func (c *Client) DeleteLink(ctx context.Context, chat agent.Chat) error {
	return c.exchange(ctx, request{method: http.MethodDelete, path: []string{linksPath, chat.Channel, chat.ChatID}}, nil)
}
