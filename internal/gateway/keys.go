package gateway

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// Keys is the port that creates, rotates and revokes API keys for the caller by. A key of another tenant is [agent.CodeNotFound], with the same
// text as one that does not exist. A caller cannot create or rotate a key that has permissions the caller lacks: [agent.CodeDenied], with the field.
type Keys interface {
	CreateKey(ctx context.Context, by agent.Principal, r agent.KeyRequest) (agent.NewKey, error)
	RotateKey(ctx context.Context, by agent.Principal, id string, overlap time.Duration) (agent.NewKey, error)
	RevokeKey(ctx context.Context, by agent.Principal, id string) (agent.APIKey, error)
	// ListKeys lists the keys of a tenant, or of [agent.AnyTenant], in the order of their ids, after an id.
	ListKeys(ctx context.Context, tenant, after string, limit int) ([]agent.APIKey, error)
}

// maxKeyPage is the most keys that a page has.
const maxKeyPage = 500

// defaultOverlap is how long a rotated key stays valid if the request does not say.
const defaultOverlap = 24 * time.Hour

const pathKeys = "/v1/keys"

func (s *httpServer) routeKeys() {
	s.route(pathKeys, methods{
		http.MethodGet:  requires(s.answer(tenantAgreed, s.getKeys), agent.ActionKeysRead),
		http.MethodPost: requires(s.answerPlain(tenantAgreed, s.postKey), agent.ActionKeysWrite),
	})
	s.route(pathKeys+"/{id}", methods{http.MethodDelete: requires(s.answerPlain(tenantAgreed, s.deleteKey), agent.ActionKeysWrite)})
	s.route(pathKeys+"/{id}/rotate", methods{http.MethodPost: requires(s.answerPlain(tenantAgreed, s.rotateKey), agent.ActionKeysWrite)})
}

// KeyBody is the body of POST /v1/keys.
type KeyBody struct {
	Name      string         `json:"name"`
	Tenant    string         `json:"tenant,omitempty"`
	Subject   string         `json:"subject,omitempty"`
	Role      string         `json:"role,omitempty"`
	Flags     map[string]any `json:"flags,omitempty"`
	Scopes    []string       `json:"scopes,omitempty"`
	ExpiresIn string         `json:"expires_in,omitempty"` // a duration: 720h
}

// getKeys is GET /v1/keys?page_size=&page_token=. A credential of every tenant gets the keys of all tenants, unless it names one.
func (s *httpServer) getKeys(c *Call) (any, error) {
	page := c.query.page()
	if err := c.query.end(); err != nil {
		return nil, err
	}
	size := min(page.Size, maxKeyPage)
	found, err := s.cfg.Keys.ListKeys(c.bounded(), c.caller.lookupTenant(), page.Token, size)
	next := ""
	if len(found) == size {
		next = found[size-1].ID
	}
	return struct {
		Keys []agent.APIKey `json:"keys"`
		Next string         `json:"next_page_token"`
	}{orEmpty(found), next}, err
}

// postKey is POST /v1/keys. Only this answer holds the key.
func (s *httpServer) postKey(c *Call) (any, error) {
	var body KeyBody
	if err := c.decode(&body); err != nil {
		return nil, err
	}
	if err := c.caller.checkTenant(body.Tenant, "tenant"); err != nil {
		return nil, err
	}
	request := agent.KeyRequest{
		Name: body.Name, Tenant: cmp.Or(body.Tenant, c.Tenant()), Subject: body.Subject, Role: body.Role, Flags: body.Flags, Scopes: body.Scopes,
	}
	var err error
	if request.ExpiresIn, err = duration("expires_in", body.ExpiresIn, 0); err != nil {
		return nil, err
	}
	if body.ExpiresIn != "" && request.ExpiresIn == 0 { // 0 would make one that never expires
		return nil, agent.Invalid("expires_in", "is 0: leave it out for a key that never expires")
	}
	key, err := s.cfg.Keys.CreateKey(c.bounded(), c.caller.principal, request)
	c.caller.auditKey(key.ID, facts{"create": clip.Bytes(body.Name, maxText), "for": clip.Bytes(request.Tenant, maxText), "scopes": key.Scopes}, err)
	if err != nil {
		return nil, err
	}
	c.w.Header().Set("Location", pathKeys+"/"+key.ID)
	c.status = http.StatusCreated
	return key, nil
}

// auditKey records a change of a key, or that it was denied.
func (c identity) auditKey(id string, detail facts, err error) {
	if agent.CodeOf(err) == agent.CodeDenied {
		c.audit(agent.AuditDenied, agent.ActionKeysWrite, "key/"+id, detail)
		return
	}
	c.auditChange(agent.ActionKeysWrite, "key/"+id, detail, err)
}

// rotateKey is POST /v1/keys/{id}/rotate with the body {"overlap":"24h"}, which may be left out.
func (s *httpServer) rotateKey(c *Call) (any, error) {
	var body struct {
		Overlap string `json:"overlap,omitempty"`
	}
	if err := c.decodeIfAny(&body); err != nil {
		return nil, err
	}
	overlap, err := duration("overlap", body.Overlap, defaultOverlap)
	if err != nil {
		return nil, err
	}
	id := c.r.PathValue("id")
	key, err := s.cfg.Keys.RotateKey(c.bounded(), c.caller.keyOwner(), id, overlap)
	c.caller.auditKey(id, facts{"rotate": key.ID}, err)
	if err != nil {
		return nil, err
	}
	c.w.Header().Set("Location", pathKeys+"/"+key.ID)
	return key, nil
}

// deleteKey is DELETE /v1/keys/{id}: every process refuses the key within seconds. Its record stays.
func (s *httpServer) deleteKey(c *Call) (any, error) {
	id := c.r.PathValue("id")
	ended, err := s.cfg.Keys.RevokeKey(c.bounded(), c.caller.keyOwner(), id)
	c.caller.auditKey(id, facts{"revoke": true}, err)
	return ended, err
}

// keyOwner returns the principal in the tenant that the request names.
func (c identity) keyOwner() agent.Principal {
	p := c.principal
	if c.tenant != "" && !p.Trusted() {
		p.Tenant = c.tenant
	}
	return p
}

// duration parses a duration; d is the default.
func duration(field, text string, d time.Duration) (time.Duration, error) {
	if text == "" {
		return d, nil
	}
	v, err := time.ParseDuration(text)
	if err != nil || v < 0 {
		return 0, agent.Invalid(field, "want a duration such as 90s or 24h, got %.60q", text)
	}
	return v, nil
}
