package gateway

import (
	"context"
	"net/http"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// Keys creates, rotates and revokes API keys for the caller by. A key of another tenant is [agent.CodeNotFound], with the same text as one that
// does not exist. A caller cannot create or rotate a key that has permissions the caller lacks: [agent.CodeDenied], with the field.
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

// keysBody is the body of GET /v1/keys.
type keysBody struct {
	Keys []agent.APIKey `json:"keys"`
	Next string         `json:"next_page_token"`
}

// keyBody is the body of POST /v1/keys.
type keyBody struct {
	Name      string         `json:"name"`
	Tenant    string         `json:"tenant,omitempty"`
	Subject   string         `json:"subject,omitempty"`
	Role      string         `json:"role,omitempty"`
	Flags     map[string]any `json:"flags,omitempty"`
	Scopes    []string       `json:"scopes,omitempty"`
	ExpiresIn string         `json:"expires_in,omitempty"` // a duration: 720h
}

// getKeys is GET /v1/keys?page_size=&page_token=. A credential of every tenant gets the keys of all tenants, unless it names one.
func (s *httpServer) getKeys(w http.ResponseWriter, r *http.Request) error {
	q := readQuery(r)
	caller, err := q.readCaller(r)
	if err != nil {
		return err
	}
	page := q.page()
	if err := q.end(); err != nil {
		return err
	}
	size := min(page.Size, maxKeyPage)
	ctx, cancel := s.call(r)
	defer cancel()
	found, err := s.cfg.Keys.ListKeys(ctx, caller.lookupTenant(), page.Token, size)
	if err != nil {
		return err
	}
	body := keysBody{Keys: orEmpty(found)}
	if len(found) == size {
		body.Next = found[size-1].ID
	}
	s.write(w, http.StatusOK, body)
	return nil
}

// postKey is POST /v1/keys. Only this answer holds the key.
func (s *httpServer) postKey(w http.ResponseWriter, r *http.Request) error {
	caller, err := readCaller(r)
	if err != nil {
		return err
	}
	var body keyBody
	if err := s.decodeBody(w, r, &body); err != nil {
		return err
	}
	asked := agent.KeyRequest{
		Name: body.Name, Tenant: body.Tenant, Subject: body.Subject, Role: body.Role, Flags: body.Flags, Scopes: body.Scopes,
	}
	if asked.Tenant == "" {
		asked.Tenant = caller.ownTenant()
	}
	if err := caller.checkTenant(body.Tenant, "tenant"); err != nil {
		return err
	}
	if asked.ExpiresIn, err = duration("expires_in", body.ExpiresIn, 0); err != nil {
		return err
	}
	if body.ExpiresIn != "" && asked.ExpiresIn == 0 { // 0 would make one that never expires
		return agent.Invalid("expires_in", "is 0: leave it out for a key that never expires")
	}
	ctx, cancel := s.call(r)
	defer cancel()
	made, err := s.cfg.Keys.CreateKey(ctx, caller.principal, asked)
	caller.auditKey(made.ID, facts{"create": clip.Bytes(body.Name, maxText), "for": clip.Bytes(asked.Tenant, maxText), "scopes": made.Scopes}, err)
	if err != nil {
		return err
	}
	w.Header().Set("Location", pathKeys+"/"+made.ID)
	s.write(w, http.StatusCreated, made)
	return nil
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
func (s *httpServer) rotateKey(w http.ResponseWriter, r *http.Request) error {
	caller, err := readCaller(r)
	if err != nil {
		return err
	}
	var body struct {
		Overlap string `json:"overlap,omitempty"`
	}
	if r.ContentLength != 0 {
		if err := s.decodeBody(w, r, &body); err != nil {
			return err
		}
	}
	overlap, err := duration("overlap", body.Overlap, defaultOverlap)
	if err != nil {
		return err
	}
	id := r.PathValue("id")
	ctx, cancel := s.call(r)
	defer cancel()
	made, err := s.cfg.Keys.RotateKey(ctx, caller.keyOwner(), id, overlap)
	caller.auditKey(id, facts{"rotate": made.ID}, err)
	if err != nil {
		return err
	}
	w.Header().Set("Location", pathKeys+"/"+made.ID)
	s.write(w, http.StatusOK, made)
	return nil
}

// deleteKey is DELETE /v1/keys/{id}: every process refuses the key within seconds. Its record stays.
func (s *httpServer) deleteKey(w http.ResponseWriter, r *http.Request) error {
	caller, err := readCaller(r)
	if err != nil {
		return err
	}
	id := r.PathValue("id")
	ctx, cancel := s.call(r)
	defer cancel()
	ended, err := s.cfg.Keys.RevokeKey(ctx, caller.keyOwner(), id)
	caller.auditKey(id, facts{"revoke": true}, err)
	if err != nil {
		return err
	}
	s.write(w, http.StatusOK, ended)
	return nil
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
