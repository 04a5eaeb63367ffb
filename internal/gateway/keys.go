package gateway

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// Keys is the port of API keys. An unknown key and another tenant's are [agent.CodeNotFound] with the same text. To create or rotate a key with
// permissions that the caller lacks is [agent.CodeDenied] with the field.
type Keys interface {
	CreateKey(ctx context.Context, caller agent.Principal, r agent.KeyRequest) (agent.NewKey, error)
	RotateKey(ctx context.Context, caller agent.Principal, id string, overlap time.Duration) (agent.NewKey, error)
	RevokeKey(ctx context.Context, caller agent.Principal, id string) (agent.APIKey, error)
	// ListKeys lists the keys of a tenant, or of all tenants for [agent.AnyTenant], by id and after an id.
	ListKeys(ctx context.Context, tenant, after string, limit int) ([]agent.APIKey, error)
}

// maxKeyPage is the maximum number of keys in a page.
const maxKeyPage = 500

// defaultOverlap is how long a rotated key stays valid by default.
const defaultOverlap = 24 * time.Hour

const pathKeys = "/v1/keys"

func (s *httpServer) routeKeys() {
	s.route(pathKeys, methods{
		http.MethodGet:  requires(s.answer(tenantUnambiguous, s.getKeys), agent.ActionKeysRead),
		http.MethodPost: requires(s.answerWithoutQuery(tenantUnambiguous, s.postKey), agent.ActionKeysWrite),
	})
	s.route(pathKeys+"/{id}", methods{http.MethodDelete: requires(s.answerWithoutQuery(tenantUnambiguous, s.deleteKey), agent.ActionKeysWrite)})
	s.route(pathKeys+"/{id}/rotate", methods{http.MethodPost: requires(s.answerWithoutQuery(tenantUnambiguous, s.rotateKey), agent.ActionKeysWrite)})
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

// getKeys is GET /v1/keys?page_size=&page_token=. Without a tenant, a credential of every tenant gets the keys of all tenants.
func (s *httpServer) getKeys(c *Call) (any, error) {
	page := c.query.page()
	if err := c.query.validate(); err != nil {
		return nil, err
	}
	size := min(page.Size, maxKeyPage)
	found, err := s.cfg.Keys.ListKeys(c.callContext(), c.caller.lookupTenant(), page.Token, size)
	next := ""
	if len(found) == size {
		next = found[size-1].ID
	}
	return struct {
		Keys []agent.APIKey `json:"keys"`
		Next string         `json:"next_page_token"`
	}{orEmpty(found), next}, err
}

// postKey is POST /v1/keys. Only this response holds the key.
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
	if request.ExpiresIn, err = parseDuration("expires_in", body.ExpiresIn, 0); err != nil {
		return nil, err
	}
	if body.ExpiresIn != "" && request.ExpiresIn == 0 { // for the port, 0 means never
		return nil, agent.Invalid("expires_in", "is 0: leave it out for a key that never expires")
	}
	key, err := s.cfg.Keys.CreateKey(c.callContext(), c.caller.principal, request)
	c.caller.auditKey(key.ID, facts{"create": clip.Bytes(body.Name, maxText), "for": clip.Bytes(request.Tenant, maxText), "scopes": key.Scopes}, err)
	if err != nil {
		return nil, err
	}
	c.w.Header().Set("Location", pathKeys+"/"+key.ID)
	c.status = http.StatusCreated
	return key, nil
}

// auditKey records a change of a key, its failure or its denial.
func (c identity) auditKey(id string, detail facts, err error) {
	if agent.CodeOf(err) == agent.CodeDenied {
		c.audit(agent.AuditDenied, agent.ActionKeysWrite, "key/"+id, detail)
		return
	}
	c.auditChange(agent.ActionKeysWrite, "key/"+id, detail, err)
}

// rotateKey is POST /v1/keys/{id}/rotate with the optional body {"overlap":"24h"}.
func (s *httpServer) rotateKey(c *Call) (any, error) {
	var body struct {
		Overlap string `json:"overlap,omitempty"`
	}
	if err := c.decodeIfAny(&body); err != nil {
		return nil, err
	}
	overlap, err := parseDuration("overlap", body.Overlap, defaultOverlap)
	if err != nil {
		return nil, err
	}
	id := c.r.PathValue("id")
	key, err := s.cfg.Keys.RotateKey(c.callContext(), c.caller.keyOwner(), id, overlap)
	c.caller.auditKey(id, facts{"rotate": key.ID}, err)
	if err != nil {
		return nil, err
	}
	c.w.Header().Set("Location", pathKeys+"/"+key.ID)
	return key, nil
}

// deleteKey is DELETE /v1/keys/{id}. Every process refuses the key within seconds. Its record stays.
func (s *httpServer) deleteKey(c *Call) (any, error) {
	id := c.r.PathValue("id")
	revoked, err := s.cfg.Keys.RevokeKey(c.callContext(), c.caller.keyOwner(), id)
	c.caller.auditKey(id, facts{"revoke": true}, err)
	return revoked, err
}

// keyOwner returns the principal of the caller, with the tenant of the request.
func (c identity) keyOwner() agent.Principal {
	p := c.principal
	if c.tenant != "" && !p.Trusted() {
		p.Tenant = c.tenant
	}
	return p
}

func parseDuration(field, text string, fallback time.Duration) (time.Duration, error) {
	if text == "" {
		return fallback, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, agent.Invalid(field, "want a duration such as 90s or 24h, got %.60q", text)
	}
	return d, nil
}
