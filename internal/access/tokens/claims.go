package tokens

import (
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/access"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// Bounds of what a token may say.
const (
	maxScopes = 256
	maxText   = 256
)

// principal makes a principal of verified claims. What makes a tenant or a user must be there: without a tenant nobody would know whose
// data it is about, and without a user a token could name any. uselessScope is the first scope that was meant for us and allows nothing,
// such as one that confines what cannot be confined: it is passed over.
func (i *Issuer) principal(claims map[string]any) (p agent.Principal, uselessScope string, err error) {
	p = agent.Principal{Method: agent.MethodJWT, Tenant: i.Tenant, Scopes: append([]string{}, i.Scopes...), Credential: clip.Prefix("jwt/"+i.URL, maxText)}
	if id, ok := claims["jti"].(string); ok && id != "" {
		p.Credential = clip.Prefix(p.Credential+"#"+id, maxText)
	}
	if i.TenantClaim != "" {
		tenant, _ := claim(claims, i.TenantClaim).(string)
		if !agent.ValidName(tenant) {
			return p, "", access.Refused("the token names no tenant: its claim %s is missing, or no name", i.TenantClaim)
		}
		p.Tenant = tenant
	}
	path := i.UserClaim
	if path == "" {
		path = "sub"
	}
	user, _ := claim(claims, path).(string)
	if user == "" || len(user) > maxText || strings.ContainsFunc(user, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return p, "", access.Refused("the token names no user: its claim %s is missing, or no text", path)
	}
	p.Subject = user
	if i.RoleClaim != "" {
		p.Role = first(claim(claims, i.RoleClaim))
	}
	if i.FlagsClaim != "" {
		p.Flags, _ = claim(claims, i.FlagsClaim).(map[string]any)
	}
	path = i.ScopeClaim
	if path == "" {
		path = "scope"
	}
	for _, word := range words(claim(claims, path)) {
		scope, ours := strings.CutPrefix(word, i.ScopePrefix)
		switch {
		case !ours || len(p.Scopes) >= maxScopes:
		case access.ValidScope(scope):
			p.Scopes = append(p.Scopes, scope)
		case uselessScope == "" && (i.ScopePrefix != "" || agent.ValidScope(scope)): // without a prefix, tokens have those of others too
			uselessScope = clip.Prefix(scope, maxText)
		}
	}
	return p, uselessScope, nil
}

// claim finds a value by a dotted path. Names of claims may have dots themselves ("https://example.com/tenant"): the longest name that
// is there counts.
func claim(claims map[string]any, path string) any {
	if v, ok := claims[path]; ok {
		return v
	}
	for at := len(path) - 1; at > 0; at-- {
		if path[at] != '.' {
			continue
		}
		if inside, ok := claims[path[:at]].(map[string]any); ok {
			if v := claim(inside, path[at+1:]); v != nil {
				return v
			}
		}
	}
	return nil
}

// words are those of a text, or the texts of a list.
func words(value any) []string {
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

// first is a text, or the first text of a list.
func first(value any) string {
	if text, ok := value.(string); ok {
		return clip.Prefix(text, maxText)
	}
	if list, ok := value.([]any); ok && len(list) > 0 {
		text, _ := list[0].(string)
		return clip.Prefix(text, maxText)
	}
	return ""
}
