package credentials

import (
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/access"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// Bounds of what a token may say.
const (
	maxTokenScopes = 256
	maxClaimText   = 256
)

// principal makes a principal of verified claims. What makes a tenant or a user must be there: without a tenant nobody would know whose
// data it is about, and without a user a token could name any. uselessScope is the first scope that was meant for us and allows nothing,
// such as one that confines what cannot be confined: it is passed over.
func (i *Issuer) principal(claims map[string]any) (p agent.Principal, uselessScope string, err error) {
	p = agent.Principal{Method: agent.MethodJWT, Tenant: i.Tenant, Scopes: append([]string{}, i.Scopes...), Credential: clip.Prefix("jwt/"+i.URL, maxClaimText)}
	if id, ok := claims["jti"].(string); ok && id != "" {
		p.Credential = clip.Prefix(p.Credential+"#"+id, maxClaimText)
	}
	if i.TenantClaim != "" {
		tenant, _ := claimAt(claims, i.TenantClaim).(string)
		if !agent.ValidName(tenant) {
			return p, "", access.Refused("the token names no tenant: its claim %s is missing, or no name", i.TenantClaim)
		}
		p.Tenant = tenant
	}
	path := i.UserClaim
	if path == "" {
		path = "sub"
	}
	user, _ := claimAt(claims, path).(string)
	if user == "" || len(user) > maxClaimText || strings.ContainsFunc(user, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return p, "", access.Refused("the token names no user: its claim %s is missing, or no text", path)
	}
	p.Subject = user
	if i.RoleClaim != "" {
		p.Role = firstWord(claimAt(claims, i.RoleClaim))
	}
	if i.FlagsClaim != "" {
		p.Flags, _ = claimAt(claims, i.FlagsClaim).(map[string]any)
	}
	path = i.ScopeClaim
	if path == "" {
		path = "scope"
	}
	for _, word := range claimWords(claimAt(claims, path)) {
		scope, ours := strings.CutPrefix(word, i.ScopePrefix)
		switch {
		case !ours || len(p.Scopes) >= maxTokenScopes:
		case access.ValidScope(scope):
			p.Scopes = append(p.Scopes, scope)
		case uselessScope == "" && (i.ScopePrefix != "" || agent.ValidScope(scope)): // without a prefix, tokens have those of others too
			uselessScope = clip.Prefix(scope, maxClaimText)
		}
	}
	return p, uselessScope, nil
}

// claimAt finds a value by a dotted path. Names of claims may have dots themselves ("https://example.com/tenant"): the longest name that
// is there counts.
func claimAt(claims map[string]any, path string) any {
	if v, ok := claims[path]; ok {
		return v
	}
	for at := len(path) - 1; at > 0; at-- {
		if path[at] != '.' {
			continue
		}
		if inside, ok := claims[path[:at]].(map[string]any); ok {
			if v := claimAt(inside, path[at+1:]); v != nil {
				return v
			}
		}
	}
	return nil
}

// claimWords are those of a text, or the texts of a list.
func claimWords(value any) []string {
	switch v := value.(type) {
	case string:
		return strings.Fields(v)
	case []any:
		var all []string
		for _, item := range v {
			if text, ok := item.(string); ok {
				all = append(all, text)
			}
		}
		return all
	default:
		return nil
	}
}

// firstWord is a text, or the first text of a list.
func firstWord(value any) string {
	if text, ok := value.(string); ok {
		return clip.Prefix(text, maxClaimText)
	}
	if list, ok := value.([]any); ok && len(list) > 0 {
		text, _ := list[0].(string)
		return clip.Prefix(text, maxClaimText)
	}
	return ""
}
