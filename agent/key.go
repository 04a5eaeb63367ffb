package agent

import (
	"slices"
	"strings"
	"time"
)

// AuditAuthenticate is the action of audit records about callers without a valid credential. No scope allows it: nobody needs a
// permission to try.
const AuditAuthenticate Action = "authenticate"

// APIKey describes an API key. The key itself is shown once, to its maker; its hash is kept elsewhere.
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

// Principal returns the caller who uses the key.
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

// UserScopes returns the scopes of a key without explicit ones: to talk to agents, and to see the results.
func UserScopes() []string {
	return []string{
		"turns.*", string(ActionToolsUse), string(ActionApprovalsRead), string(ActionResultsRead), string(ActionSessionsRead), string(ActionAgentsRead),
	}
}

// By returns the name of the principal for records: its user, else its credential. It is empty for the runtime itself and for an unknown
// caller.
func (p *Principal) By() string {
	if p.Trusted() {
		return ""
	}
	if p.Subject != "" {
		return p.Subject
	}
	return p.Credential
}

// MayAll reports whether a single scope allows the principal to do a to every resource.
func (p *Principal) MayAll(a Action) bool {
	return p.allowed(a, func(pattern string) bool { return pattern == "*" })
}

// Covers reports whether p may give a scope to others: one of its own scopes allows everything that the scope allows, now and later.
func (p *Principal) Covers(scope string) bool {
	if p.Trusted() {
		return true
	}
	action, resource, confined := strings.Cut(scope, ":")
	return slices.ContainsFunc(p.Scopes, func(own string) bool {
		ownAction, ownResource, ownConfined := strings.Cut(own, ":")
		if !isCovered(ownAction, action) {
			return false
		}
		return !ownConfined || ownResource == "*" || (confined && isCovered(ownResource, resource))
	})
}

// isCovered reports whether everything that the inner pattern matches is matched by the outer one.
func isCovered(outer, inner string) bool {
	if begin, open := strings.CutSuffix(outer, "*"); open {
		return strings.HasPrefix(strings.TrimSuffix(inner, "*"), begin)
	}
	return outer == inner
}
