package agent

import (
	"slices"
	"strings"
	"time"
)

// AuditAuthenticate is the action of audit records about callers without a valid credential. No scope includes it.
const AuditAuthenticate Action = "authenticate"

// APIKey describes an API key. The key itself is shown once, when it is created. Only its hash is stored.
type APIKey struct {
	ID         string         `json:"id"`
	Tenant     string         `json:"tenant"` // [AnyTenant]: all tenants
	Name       string         `json:"name"`   // for people
	Subject    string         `json:"subject,omitempty"`
	Role       string         `json:"role,omitempty"`
	Flags      map[string]any `json:"flags,omitempty"`
	Scopes     []string       `json:"scopes"`
	CreatedAt  time.Time      `json:"created_at"`
	CreatedBy  string         `json:"created_by"`
	ExpiresAt  *time.Time     `json:"expires_at,omitempty"`
	RevokedAt  *time.Time     `json:"revoked_at,omitempty"`
	LastUsedAt *time.Time     `json:"last_used_at,omitempty"` // accurate to about half a minute
	ReplacedBy string         `json:"replaced_by,omitempty"`  // the ID of the key that replaced it by rotation
}

// Principal returns the caller that uses the key.
func (k *APIKey) Principal() Principal {
	return Principal{
		Method: MethodKey, Tenant: k.Tenant, Subject: k.Subject, Role: k.Role, Flags: k.Flags, Scopes: k.Scopes, Credential: "key/" + k.ID,
	}
}

// KeyRequest is a request for a new API key.
type KeyRequest struct {
	Name      string
	Tenant    string // empty: that of the requester, [DefaultTenant] for a requester with [AnyTenant]
	Subject   string // empty: the key belongs to no user
	Role      string
	Flags     map[string]any
	Scopes    []string      // empty: [UserScopes]
	ExpiresIn time.Duration // 0: never
}

// NewKey is an API key that was just created. Key is shown only once.
type NewKey struct {
	APIKey

	Key string `json:"key"`
}

// UserScopes returns the default scopes of a key: to run turns and to read their results.
func UserScopes() []string {
	return []string{
		"turns.*", string(ActionToolsUse), string(ActionApprovalsRead), string(ActionResultsRead), string(ActionSessionsRead), string(ActionAgentsRead),
	}
}

// By returns the name of the principal for records: its user, or else its credential. It is empty for the runtime itself and for unauthenticated
// callers.
func (p *Principal) By() string {
	if p.Trusted() {
		return ""
	}
	if p.Subject != "" {
		return p.Subject
	}
	return p.Credential
}

// MayAll reports whether a scope allows the principal to do a to all resources.
func (p *Principal) MayAll(a Action) bool {
	return p.hasScope(a, func(pattern string) bool { return pattern == "*" })
}

// Covers reports whether p may grant a scope to others, because one of its own scopes allows everything that the scope allows.
func (p *Principal) Covers(scope string) bool {
	if p.Trusted() {
		return true
	}
	action, resource, hasResource := strings.Cut(scope, ":")
	return slices.ContainsFunc(p.Scopes, func(ownScope string) bool {
		ownAction, ownResource, hasOwnResource := strings.Cut(ownScope, ":")
		if !isCovered(ownAction, action) {
			return false
		}
		return !hasOwnResource || ownResource == "*" || (hasResource && isCovered(ownResource, resource))
	})
}

// isCovered reports whether the outer pattern matches everything that the inner pattern matches.
func isCovered(outer, inner string) bool {
	if prefix, isPattern := strings.CutSuffix(outer, "*"); isPattern {
		return strings.HasPrefix(strings.TrimSuffix(inner, "*"), prefix)
	}
	return outer == inner
}
