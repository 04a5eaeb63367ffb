package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/access"
)

// Links is the port of the chats that are linked to users. A link that the tenant does not have is [agent.CodeNotFound].
type Links interface {
	CreateLinkCode(ctx context.Context, c agent.LinkCode) error
	ChatLink(ctx context.Context, c agent.Chat) (agent.Link, error)
	Links(ctx context.Context, q agent.LinkQuery) (agent.LinkPage, error)
	Unlink(ctx context.Context, tenant string, c agent.Chat) error
}

// LinkChannel is a channel whose chats can be linked.
type LinkChannel struct {
	Name string // such as telegram
	// URL returns the address at which a person uses a code, empty if there is none. It may be nil.
	URL func(code string) string
	// Webhook, if not nil, is served at POST /channels/<name> without a credential: it authenticates its callers itself.
	Webhook http.Handler
}

// Bounds of requests about links.
const (
	maxLinkText     = 128 // bytes
	maxLinkPage     = 500
	defaultLinkPage = 50
)

// checkLinkChannels returns an error unless every channel has a valid and unique name.
func checkLinkChannels(channels []LinkChannel) error {
	for i, c := range channels {
		if !agent.ValidName(c.Name) || slices.ContainsFunc(channels[:i], func(other LinkChannel) bool { return other.Name == c.Name }) {
			return fmt.Errorf("links: channel %q has no name of its own", c.Name)
		}
	}
	return nil
}

func (s *httpServer) routeLinks() {
	const all = "/v1/links"
	s.route(all, methods{
		http.MethodGet:  requires(s.answer(tenantHeaderFirst, s.getLinks), agent.ActionLinksWrite),
		http.MethodPost: requires(s.answerWithoutQuery(tenantHeaderFirst, s.postLink), agent.ActionLinksWrite),
	})
	s.route(all+"/{channel}/{chat_id}", methods{http.MethodDelete: requires(s.answerWithoutQuery(tenantHeaderFirst, s.deleteLink), agent.ActionLinksWrite)})
	for _, channel := range s.cfg.LinkChannels {
		if channel.Webhook == nil {
			continue
		}
		s.route("/channels/"+channel.Name, methods{http.MethodPost: {
			required: requirement{public: true},
			handle: s.serve(tenantHeaderFirst, func(c *Call) error {
				channel.Webhook.ServeHTTP(c.w, c.r)
				return nil
			}),
		}})
	}
}

// LinkRequest is the body of POST /v1/links.
type LinkRequest struct {
	Channel string   `json:"channel"`
	UserID  string   `json:"user_id,omitempty"`
	Role    string   `json:"role,omitempty"`
	Scopes  []string `json:"scopes,omitempty"`
}

// LinkOffer is the response to POST /v1/links: a code that links a chat.
type LinkOffer struct {
	Code      string    `json:"code"`
	URL       string    `json:"url,omitempty"` // at which a person uses the code
	ExpiresAt time.Time `json:"expires_at"`
	Channel   string    `json:"channel"`
	UserID    string    `json:"user_id"`
	Role      string    `json:"role,omitempty"`
	Scopes    []string  `json:"scopes"`
}

// postLink is POST /v1/links. It creates a code; the chat that sends the code is linked to the user.
func (s *httpServer) postLink(c *Call) (any, error) {
	var body LinkRequest
	if err := c.decode(&body); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(s.cfg.LinkChannels, func(channel LinkChannel) bool { return channel.Name == body.Channel })
	if i < 0 {
		return nil, agent.Invalid("channel", "is %.100q, which is no channel of this service", body.Channel)
	}
	if err := c.completeLink(&body); err != nil {
		c.audit(agent.AuditDenied, agent.ActionLinksWrite, "link/"+body.Channel, nil)
		return nil, err
	}
	p := c.Principal()
	code := rand.Text() // 130 bits
	link := agent.LinkCode{
		Hash: agent.HashLinkCode(code), ExpiresAt: time.Now().Add(agent.LinkCodeTTL).UTC().Truncate(time.Second),
		Link: agent.Link{
			Chat: agent.Chat{Channel: body.Channel}, Tenant: c.Tenant(), UserID: body.UserID, Role: body.Role, Scopes: body.Scopes, LinkedBy: p.By(),
		},
	}
	if err := s.cfg.Links.CreateLinkCode(c.callContext(), link); err != nil {
		return nil, err
	}
	c.audit(agent.AuditAllowed, agent.ActionLinksWrite, "link/"+body.Channel, nil)
	out := LinkOffer{Code: code, ExpiresAt: link.ExpiresAt, Channel: body.Channel, UserID: body.UserID, Role: body.Role, Scopes: body.Scopes}
	if url := s.cfg.LinkChannels[i].URL; url != nil {
		out.URL = url(code)
	}
	c.status = http.StatusCreated
	return out, nil
}

// completeLink checks user, role and scopes of a link, and sets those that are missing. A link has no permissions beyond the caller's, and a user's
// own credential links chats to this user only.
func (c *Call) completeLink(body *LinkRequest) error {
	p := c.Principal()
	if owner := ownUser(&p); owner != "" {
		if body.UserID != "" && body.UserID != owner {
			return agent.FieldErrorf(agent.CodeDenied, "user_id", "the credential is the user's own: it links chats to nobody else")
		}
		body.UserID, body.Role = owner, cmp.Or(body.Role, p.Role)
	}
	if !p.Trusted() && body.Role != "" && body.Role != p.Role && !p.Covers("*") {
		return agent.FieldErrorf(agent.CodeDenied, "role", "is not the credential's")
	}
	if err := checkLinkText("user_id", body.UserID); err != nil {
		return err
	}
	if body.UserID == "" {
		return agent.Invalid("user_id", "is missing")
	}
	if err := checkLinkText("role", body.Role); err != nil {
		return err
	}
	if body.Scopes == nil {
		body.Scopes = slices.DeleteFunc(agent.LinkScopes(), func(scope string) bool { return !p.Covers(scope) })
	}
	return checkLinkScopes(&p, body.Scopes)
}

// checkLinkScopes returns an error unless the principal may give every scope to a link.
func checkLinkScopes(p *agent.Principal, scopes []string) error {
	switch {
	case len(scopes) == 0:
		return agent.FieldErrorf(agent.CodeDenied, "scopes", "the credential may give none")
	case len(scopes) > agent.MaxLinkScopes:
		return agent.FieldErrorf(agent.CodeOverflow, "scopes", "are %d, at most %d", len(scopes), agent.MaxLinkScopes)
	}
	for i, scope := range scopes {
		field := fmt.Sprintf("scopes[%d]", i)
		switch {
		case len(scope) > 2*maxLinkText || !access.ValidScope(scope):
			return agent.Invalid(field, "is %.100q, which allows nothing that there is", scope)
		case !p.Covers(scope):
			return agent.FieldErrorf(agent.CodeDenied, field, "the credential does not allow %.100q itself", scope)
		}
	}
	return nil
}

// ownUser returns the user to whom a credential belongs, empty for a credential without a subject and for an operator's.
func ownUser(p *agent.Principal) string {
	if p.Trusted() || p.Tenant == agent.AnyTenant {
		return ""
	}
	return p.Subject
}

// checkLinkText returns an error if text is too long or holds control characters.
func checkLinkText(field, value string) error {
	if len(value) > maxLinkText || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' }) {
		return agent.Invalid(field, "want at most %d bytes of printable text", maxLinkText)
	}
	return nil
}

// getLinks is GET /v1/links?channel=&user_id=&page_size=&page_token=.
func (s *httpServer) getLinks(c *Call) (any, error) {
	page := c.query.pageWithin(defaultLinkPage, maxLinkPage)
	q := agent.LinkQuery{
		Tenant: c.Tenant(), Channel: c.query.single("channel"), UserID: c.query.single("user_id"), PageSize: page.Size, PageToken: page.Token,
	}
	if err := cmp.Or(c.query.validate(), checkLinkText("channel", q.Channel), checkLinkText("user_id", q.UserID)); err != nil {
		return nil, err
	}
	if owner := ownUser(&c.caller.principal); owner != "" {
		if q.UserID != "" && q.UserID != owner {
			return nil, agent.FieldErrorf(agent.CodeDenied, "user_id", "the credential is the user's own: it sees nobody else's links")
		}
		q.UserID = owner
	}
	found, err := s.cfg.Links.Links(c.callContext(), q)
	found.Links = orEmpty(found.Links)
	return found, err
}

// deleteLink is DELETE /v1/links/{channel}/{chat_id}. It takes effect with the chat's next message.
func (s *httpServer) deleteLink(c *Call) (any, error) {
	chat := agent.Chat{Channel: c.r.PathValue("channel"), ChatID: c.r.PathValue("chat_id")}
	notLinked := agent.Errorf(agent.CodeNotFound, "", "chat %.100q of %.100q is linked to no user", chat.ChatID, chat.Channel)
	if checkLinkText("channel", chat.Channel) != nil || checkLinkText("chat_id", chat.ChatID) != nil {
		return nil, notLinked
	}
	if owner := ownUser(&c.caller.principal); owner != "" {
		link, err := s.cfg.Links.ChatLink(c.callContext(), chat)
		if err == nil && (link.Tenant != c.Tenant() || link.UserID != owner) {
			err = notLinked
		}
		if err != nil {
			return nil, err
		}
	}
	if err := s.cfg.Links.Unlink(c.callContext(), c.Tenant(), chat); err != nil {
		return nil, err
	}
	c.audit(agent.AuditAllowed, agent.ActionLinksWrite, "link/"+chat.Channel+"/"+chat.ChatID, nil)
	c.status = http.StatusNoContent
	return nil, nil //nolint:nilnil // the response has no body
}
