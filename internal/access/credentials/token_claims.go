package credentials

import (
	"cmp"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/access"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// Bounds of claims.
const (
	maxTokenScopes = 256
	maxClaimText   = 256
)

// principal returns the principal of verified claims. A token must name a user, and a tenant if the issuer has none of its own. Scopes that allow
// nothing are skipped; uselessScope is the first of them that was meant for this runtime.
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
	path := cmp.Or(i.UserClaim, "sub")
	user, _ := claimAt(claims, path).(string)
	if user == "" || len(user) > maxClaimText || strings.ContainsFunc(user, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return p, "", access.Refused("the token names no user: its claim %s is missing, or no text", path)
	}
	p.Subject = user
	if i.RoleClaim != "" {
		p.Role = firstText(claimAt(claims, i.RoleClaim))
	}
	if i.FlagsClaim != "" {
		p.Flags, _ = claimAt(claims, i.FlagsClaim).(map[string]any)
	}
	for _, word := range claimWords(claimAt(claims, cmp.Or(i.ScopeClaim, "scope"))) {
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

// claimAt returns the value at a dotted path, nil if there is none. Names of claims may have dots themselves ("https://example.com/tenant"): the
// longest name that exists counts.
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

// claimWords returns the words of a text, or the texts of a list.
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

// firstText returns a text, or the first text of a list.
func firstText(value any) string {
	if text, ok := value.(string); ok {
		return clip.Prefix(text, maxClaimText)
	}
	if list, ok := value.([]any); ok && len(list) > 0 {
		text, _ := list[0].(string)
		return clip.Prefix(text, maxClaimText)
	}
	return ""
}
