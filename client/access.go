package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	keysPath  = "keys"
	auditPath = "audit"
	linksPath = "links"
)

// WhoAmI returns who the server takes the client for.
func (c *Client) WhoAmI(ctx context.Context) (agent.Principal, error) {
	var out agent.Principal
	return out, c.call(ctx, http.MethodGet, []string{"whoami"}, nil, nil, &out)
}

// Keys returns a page of API keys, by id.
func (c *Client) Keys(ctx context.Context, p agent.Page) (keys []agent.APIKey, next string, err error) {
	var out struct {
		Keys []agent.APIKey `json:"keys"`
		Next string         `json:"next_page_token"`
	}
	err = c.call(ctx, http.MethodGet, []string{keysPath}, pageQuery(p), nil, &out)
	return out.Keys, out.Next, err
}

// CreateKey makes an API key. The answer alone holds it. Nothing of it is repeated when the answer is lost: the key is there then, of no
// use to anybody, and can be revoked.
func (c *Client) CreateKey(ctx context.Context, r agent.KeyRequest) (agent.NewKey, error) {
	body := struct {
		Name      string         `json:"name"`
		Tenant    string         `json:"tenant,omitempty"`
		Subject   string         `json:"subject,omitempty"`
		Role      string         `json:"role,omitempty"`
		Flags     map[string]any `json:"flags,omitempty"`
		Scopes    []string       `json:"scopes,omitempty"`
		ExpiresIn string         `json:"expires_in,omitempty"`
	}{r.Name, r.Tenant, r.Subject, r.Role, r.Flags, r.Scopes, duration(r.ExpiresIn)}
	var out agent.NewKey
	return out, c.call(ctx, http.MethodPost, []string{keysPath}, nil, body, &out)
}

// RotateKey makes a key with the rights of another one, which goes on working for overlap.
func (c *Client) RotateKey(ctx context.Context, id string, overlap time.Duration) (agent.NewKey, error) {
	body := struct {
		Overlap string `json:"overlap"`
	}{overlap.String()}
	var out agent.NewKey
	return out, c.call(ctx, http.MethodPost, []string{keysPath, id, "rotate"}, nil, body, &out)
}

// RevokeKey ends a key.
func (c *Client) RevokeKey(ctx context.Context, id string) (agent.APIKey, error) {
	var out agent.APIKey
	return out, c.call(ctx, http.MethodDelete, []string{keysPath, id}, nil, nil, &out)
}

// Audit returns a page of the audit trail, newest first. An empty tenant is the client's; [agent.AnyTenant] is every one that the credential
// may see.
func (c *Client) Audit(ctx context.Context, q agent.AuditQuery) (agent.AuditPage, error) {
	query := url.Values{}
	if q.Tenant != agent.AnyTenant {
		set(query, tenantParam, q.Tenant)
	}
	set(query, "subject", q.Subject)
	set(query, "action", q.Action)
	set(query, "outcome", q.Outcome)
	setNumber(query, "before", q.Before)
	setNumber(query, "limit", int64(q.Limit))
	if !q.Since.IsZero() {
		query.Set("since", q.Since.UTC().Format(time.RFC3339Nano))
	}
	var out agent.AuditPage
	return out, c.call(ctx, http.MethodGet, []string{auditPath}, query, nil, &out)
}

// duration is empty for none.
func duration(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// Posted says where a message to a running turn's session ended up.
type Posted struct {
	agent.Receipt

	Position int `json:"position"` // 0 runs at once, 1 is next in line
}

// Message submits a further message to the session of a turn.
func (c *Client) Message(ctx context.Context, id agent.TurnID, r agent.TurnRequest) (Posted, error) {
	var out Posted
	return out, c.callOnce(ctx, http.MethodPost, []string{"turns", string(id), "messages"}, nil, r.IdempotencyKey, r, &out)
}

// LinkOffer is a code that links a chat.
type LinkOffer struct {
	Code      string    `json:"code"`
	URL       string    `json:"url,omitempty"` // where a person follows it, if anywhere
	ExpiresAt time.Time `json:"expires_at"`
	Channel   string    `json:"channel"`
	UserID    string    `json:"user_id"`
	Role      string    `json:"role,omitempty"`
	Scopes    []string  `json:"scopes"`
}

// OfferLink makes a code by which a chat becomes a user's.
func (c *Client) OfferLink(ctx context.Context, l agent.Link) (LinkOffer, error) {
	body := struct {
		Channel string   `json:"channel"`
		UserID  string   `json:"user_id"`
		Role    string   `json:"role,omitempty"`
		Scopes  []string `json:"scopes,omitempty"`
	}{l.Channel, l.UserID, l.Role, l.Scopes}
	var out LinkOffer
	return out, c.call(ctx, http.MethodPost, []string{linksPath}, nil, body, &out)
}

// Links returns a page of the links between chats and users.
func (c *Client) Links(ctx context.Context, q agent.LinkQuery) (agent.LinkPage, error) {
	query := url.Values{}
	set(query, "channel", q.Channel)
	set(query, "user_id", q.UserID)
	set(query, "page_token", q.PageToken)
	if q.PageSize > 0 {
		query.Set("page_size", strconv.Itoa(q.PageSize))
	}
	var out agent.LinkPage
	return out, c.call(ctx, http.MethodGet, []string{linksPath}, query, nil, &out)
}

// DeleteLink ends a link.
func (c *Client) DeleteLink(ctx context.Context, chat agent.Chat) error {
	return c.call(ctx, http.MethodDelete, []string{linksPath, chat.Channel, chat.ChatID}, nil, nil, nil)
}
