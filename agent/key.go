package agent

import (
	"slices"
	"strings"
	"time"
)

// AuditAuthenticate is the action of audit records about who could not say who he is. No scope allows it, for nobody needs to be allowed
// to try.
const AuditAuthenticate Action = "authenticate"

// APIKey is what is known of an API key. The key itself is shown once, to whoever makes it; its hash is kept apart.
type APIKey struct {
	ID         string         `json:"id"`
	Tenant     string         `json:"tenant"` // [AnyTenant]: every one
	Name       string         `json:"name"`   // for people
	Subject    string         `json:"subject,omitempty"`
	Role       string         `json:"role,omitempty"`
	Flags      map[string]any `json:"flags,omitempty"`
	Scopes     []string       `json:"scopes"`
	CreatedAt  time.Time      `json:"created_at"`
	CreatedBy  string         `json:"created_by"`
	ExpiresAt  *time.Time     `json:"expires_at,omitempty"`
	RevokedAt  *time.Time     `json:"revoked_at,omitempty"`
	LastUsedAt *time.Time     `json:"last_used_at,omitempty"` // to about half a minute
	ReplacedBy string         `json:"replaced_by,omitempty"`  // the id of the key that it was rotated into
}

// Principal is who acts with the key.
func (k *APIKey) Principal() Principal {
	return Principal{
		Method: MethodKey, Tenant: k.Tenant, Subject: k.Subject, Role: k.Role, Flags: k.Flags, Scopes: k.Scopes, Credential: "key/" + k.ID,
	}
}

// KeyRequest asks for a new API key.
type KeyRequest struct {
	Name      string
	Tenant    string // empty: that of whoever asks, [DefaultTenant] where he has every one
	Subject   string // empty: the key is nobody's own
	Role      string
	Flags     map[string]any
	Scopes    []string      // empty: [UserScopes]
	ExpiresIn time.Duration // 0: never
}

// NewKey is an API key that was just made. Key is shown this once.
type NewKey struct {
	APIKey

	Key string `json:"key"`
}

// UserScopes are what a key allows where nobody says: to talk to agents, and to see what came of it.
func UserScopes() []string {
	return []string{
		"turns.*", string(ActionToolsUse), string(ActionApprovalsRead), string(ActionResultsRead), string(ActionSessionsRead), string(ActionAgentsRead),
	}
}

// By is how the principal is named where something says who did it: its user, else its credential. It is empty for the runtime itself
// and where nobody is known.
func (p *Principal) By() string {
	if p.Trusted() {
		return ""
	}
	if p.Subject != "" {
		return p.Subject
	}
	return p.Credential
}

// MayAll reports whether the principal may do a to every resource: not confined, not even by several scopes that cover all there are now.
func (p *Principal) MayAll(a Action) bool {
	return p.allowed(a, func(pattern string) bool { return pattern == "*" })
}

// Covers reports whether whoever has the scopes of p may hand a scope on: everything that it allows, now and later, is allowed to p by
// one of its own.
func (p *Principal) Covers(scope string) bool {
	if p.Trusted() {
		return true
	}
	action, resource, confined := strings.Cut(scope, ":")
	return slices.ContainsFunc(p.Scopes, func(own string) bool {
		ownAction, ownResource, ownConfined := strings.Cut(own, ":")
		if !within(ownAction, action) {
			return false
		}
		return !ownConfined || ownResource == "*" || (confined && within(ownResource, resource))
	})
}

// within reports whether everything that the inner pattern matches is matched by the outer one.
func within(outer, inner string) bool {
	if begin, open := strings.CutSuffix(outer, "*"); open {
		return strings.HasPrefix(strings.TrimSuffix(inner, "*"), begin)
	}
	return outer == inner
}
