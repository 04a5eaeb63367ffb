// Package links is the door at which chats are tied to users, /v1/links, and the way in for what channels are sent over HTTP,
// /channels/{name}.
package links

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/access"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

// Store keeps links. What the tenant does not have is [agent.CodeNotFound].
type Store interface {
	CreateLinkCode(ctx context.Context, c agent.LinkCode) error
	ChatLink(ctx context.Context, c agent.Chat) (agent.Link, error)
	Links(ctx context.Context, q agent.LinkQuery) (agent.LinkPage, error)
	Unlink(ctx context.Context, tenant string, c agent.Chat) error
}

// Audit keeps the trail.
type Audit interface {
	Record(r agent.AuditRecord)
}

// Channel is a channel whose chats may be linked.
type Channel struct {
	Name string // as in links: telegram
	// URL is where a person follows a code; nil, or an empty answer: nowhere.
	URL func(code string) string
	// Webhook is served at POST /channels/<name>, for whoever knows the channel's own secret; nil: there is none.
	Webhook http.Handler
}

// Door serves links. It implements [gateway.Door].
type Door struct {
	store    Store
	audit    Audit
	channels []Channel
}

// New returns the door. audit may be nil.
func New(s Store, audit Audit, channels ...Channel) (*Door, error) {
	if s == nil {
		return nil, errors.New("links: the store is missing")
	}
	for i, c := range channels {
		if !agent.ValidName(c.Name) || slices.ContainsFunc(channels[:i], func(o Channel) bool { return o.Name == c.Name }) {
			return nil, fmt.Errorf("links: channel %q has no name of its own", c.Name)
		}
	}
	return &Door{store: s, audit: audit, channels: channels}, nil
}

// The paths.
const (
	pathAll = "/v1/links"
	pathOne = pathAll + "/{channel}/{chat_id}"
)

// Bounds of requests.
const (
	maxText   = 128
	maxPage   = 500
	usualPage = 50
)

// Routes implements [gateway.Door].
func (d *Door) Routes() []gateway.Route {
	routes := []gateway.Route{
		{Method: http.MethodPost, Path: pathAll, Action: agent.ActionLinksWrite, Handle: d.create},
		{Method: http.MethodGet, Path: pathAll, Action: agent.ActionLinksWrite, Handle: d.list},
		{Method: http.MethodDelete, Path: pathOne, Action: agent.ActionLinksWrite, Handle: d.remove},
	}
	for _, c := range d.channels {
		if c.Webhook == nil {
			continue
		}
		routes = append(routes, gateway.Route{
			Method: http.MethodPost, Path: "/channels/" + c.Name, Public: true,
			Handle: func(w http.ResponseWriter, r *http.Request, _ *gateway.Visit) error {
				c.Webhook.ServeHTTP(w, r)
				return nil
			},
		})
	}
	return routes
}

// createBody is the body of POST /v1/links.
type createBody struct {
	Channel string   `json:"channel"`
	UserID  string   `json:"user_id,omitempty"`
	Role    string   `json:"role,omitempty"`
	Scopes  []string `json:"scopes,omitempty"`
}

// codeBody answers it.
type codeBody struct {
	Code      string    `json:"code"`
	URL       string    `json:"url,omitempty"`
	ExpiresAt time.Time `json:"expires_at"`
	Channel   string    `json:"channel"`
	UserID    string    `json:"user_id"`
	Role      string    `json:"role,omitempty"`
	Scopes    []string  `json:"scopes"`
}

// create is POST /v1/links: a code that makes the chat which sends it the user's.
func (d *Door) create(w http.ResponseWriter, r *http.Request, v *gateway.Visit) error {
	if _, err := gateway.Parameters(r); err != nil {
		return err
	}
	var body createBody
	if err := v.DecodeBody(w, r, &body); err != nil {
		return err
	}
	at := slices.IndexFunc(d.channels, func(c Channel) bool { return c.Name == body.Channel })
	if at < 0 {
		return agent.Invalid("channel", "is %.100q, which is no channel of this service", body.Channel)
	}
	if err := sign(v, &body); err != nil {
		d.record(v, "link/"+body.Channel, agent.AuditDenied)
		return err
	}
	p := v.Principal()
	code := rand.Text() // 130 bits
	offer := agent.LinkCode{
		Hash: agent.HashLinkCode(code), ExpiresAt: time.Now().Add(agent.LinkCodeTTL).UTC().Truncate(time.Second),
		Link: agent.Link{
			Chat: agent.Chat{Channel: body.Channel}, Tenant: v.Tenant(), UserID: body.UserID, Role: body.Role, Scopes: body.Scopes, LinkedBy: p.By(),
		},
	}
	ctx, cancel := context.WithTimeout(r.Context(), v.Limits().CallTimeout)
	defer cancel()
	if err := d.store.CreateLinkCode(ctx, offer); err != nil {
		return err
	}
	d.record(v, "link/"+body.Channel, agent.AuditAllowed)
	answer := codeBody{Code: code, ExpiresAt: offer.ExpiresAt, Channel: body.Channel, UserID: body.UserID, Role: body.Role, Scopes: body.Scopes}
	if follow := d.channels[at].URL; follow != nil {
		answer.URL = follow(code)
	}
	w.Header().Set("Cache-Control", "no-store")
	v.WriteJSON(w, http.StatusCreated, answer)
	return nil
}

// sign makes sure that nobody hands out what he has not: a credential of somebody's own links chats to himself, in his own role, and no scope
// goes beyond the caller's.
func sign(v *gateway.Visit, body *createBody) error {
	p := v.Principal()
	if own := ownUser(&p); own != "" {
		if body.UserID != "" && body.UserID != own {
			return agent.FieldErrorf(agent.CodeDenied, "user_id", "the credential is the user's own: it links chats to nobody else")
		}
		body.UserID = own
		if body.Role != "" && body.Role != p.Role && !p.Covers("*") {
			return agent.FieldErrorf(agent.CodeDenied, "role", "is not the credential's")
		}
		body.Role = cmp.Or(body.Role, p.Role)
	}
	if !p.Trusted() && body.Role != "" && body.Role != p.Role && !p.Covers("*") {
		return agent.FieldErrorf(agent.CodeDenied, "role", "is not the credential's")
	}
	if err := text("user_id", body.UserID); err != nil {
		return err
	}
	if body.UserID == "" {
		return agent.Invalid("user_id", "is missing")
	}
	if err := text("role", body.Role); err != nil {
		return err
	}
	if body.Scopes == nil {
		for _, scope := range agent.LinkScopes() { // as far as they are the caller's to give
			if p.Covers(scope) {
				body.Scopes = append(body.Scopes, scope)
			}
		}
	}
	switch {
	case len(body.Scopes) == 0:
		return agent.FieldErrorf(agent.CodeDenied, "scopes", "are none that the credential may give")
	case len(body.Scopes) > agent.MaxLinkScopes:
		return agent.FieldErrorf(agent.CodeOverflow, "scopes", "are %d, at most %d", len(body.Scopes), agent.MaxLinkScopes)
	}
	for i, scope := range body.Scopes {
		field := fmt.Sprintf("scopes[%d]", i)
		switch {
		case len(scope) > 2*maxText || !access.ValidScope(scope):
			return agent.Invalid(field, "is %.100q, which allows nothing that there is", scope)
		case !p.Covers(scope):
			return agent.FieldErrorf(agent.CodeDenied, field, "the credential does not allow %.100q itself", scope)
		}
	}
	return nil
}

// ownUser is whose own the credential is; empty: nobody's, or an operator's.
func ownUser(p *agent.Principal) string {
	if p.Trusted() || p.Tenant == agent.AnyTenant {
		return ""
	}
	return p.Subject
}

func text(field, value string) error {
	if len(value) > maxText || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' }) {
		return agent.Invalid(field, "want at most %d bytes of printable text", maxText)
	}
	return nil
}

// list is GET /v1/links?channel=&user_id=&page_size=&page_token=.
func (d *Door) list(w http.ResponseWriter, r *http.Request, v *gateway.Visit) error {
	values, err := gateway.Parameters(r, "channel", "user_id", "page_size", "page_token")
	if err != nil {
		return err
	}
	asked, err := gateway.PageOf(values, usualPage, maxPage)
	if err != nil {
		return err
	}
	p := v.Principal()
	q := agent.LinkQuery{
		Tenant: v.Tenant(), Channel: values.Get("channel"), UserID: values.Get("user_id"), PageSize: asked.Size, PageToken: asked.Token,
	}
	for field, value := range map[string]string{"channel": q.Channel, "user_id": q.UserID} {
		if err := text(field, value); err != nil {
			return err
		}
	}
	if own := ownUser(&p); own != "" {
		if q.UserID != "" && q.UserID != own {
			return agent.FieldErrorf(agent.CodeDenied, "user_id", "the credential is the user's own: it sees nobody else's links")
		}
		q.UserID = own
	}
	ctx, cancel := context.WithTimeout(r.Context(), v.Limits().CallTimeout)
	defer cancel()
	page, err := d.store.Links(ctx, q)
	if err != nil {
		return err
	}
	if page.Links == nil {
		page.Links = []agent.Link{}
	}
	v.WriteJSON(w, http.StatusOK, page)
	return nil
}

// remove is DELETE /v1/links/{channel}/{chat_id}. It works on the chat's next message.
func (d *Door) remove(w http.ResponseWriter, r *http.Request, v *gateway.Visit) error {
	if _, err := gateway.Parameters(r); err != nil {
		return err
	}
	c := agent.Chat{Channel: r.PathValue("channel"), ChatID: r.PathValue("chat_id")}
	none := agent.Errorf(agent.CodeNotFound, "", "chat %.100q of %.100q is linked to no user", c.ChatID, c.Channel)
	if text("channel", c.Channel) != nil || text("chat_id", c.ChatID) != nil {
		return none
	}
	ctx, cancel := context.WithTimeout(r.Context(), v.Limits().CallTimeout)
	defer cancel()
	p := v.Principal()
	if own := ownUser(&p); own != "" {
		link, err := d.store.ChatLink(ctx, c)
		if err == nil && (link.Tenant != v.Tenant() || link.UserID != own) {
			err = none
		}
		if err != nil {
			return err
		}
	}
	if err := d.store.Unlink(ctx, v.Tenant(), c); err != nil {
		return err
	}
	d.record(v, "link/"+c.Channel+"/"+c.ChatID, agent.AuditAllowed)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// record adds to the audit trail.
func (d *Door) record(v *gateway.Visit, resource, outcome string) {
	if d.audit == nil {
		return
	}
	p := v.Principal()
	d.audit.Record(agent.AuditRecord{
		At: time.Now(), Tenant: v.Tenant(), Subject: p.Subject, Method: p.Method, Credential: p.Credential, Action: agent.ActionLinksWrite,
		Resource: resource, Outcome: outcome, Channel: "http", RequestID: v.RequestID(),
	})
}
