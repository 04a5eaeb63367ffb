package manifest

import (
	"net/netip"
	"net/textproto"
	"path"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// authFields returns the required and the optional fields of a type of auth profile.
func authFields(t agent.AuthType) (required, optional []string) {
	switch t {
	case agent.AuthBearer:
		return []string{"secret"}, nil
	case agent.AuthAPIKey:
		return []string{"secret"}, []string{"header", "query"}
	case agent.AuthBasic:
		return []string{"username", "password"}, nil
	case agent.AuthOAuth2:
		return []string{"client_id", "client_secret"}, []string{"token_url", "issuer", "scopes"}
	default:
		return nil, nil
	}
}

// checkAuth checks an auth profile. Its faults do not quote values, because a value may be a secret.
func (c *checker) checkAuth(a *agent.AuthProfile) {
	if a.Type != "" {
		c.checkAuthFields(a.Type)
	}
	switch a.Type {
	case agent.AuthAPIKey:
		c.requireOneOf("header", "query", a.Type)
	case agent.AuthOAuth2:
		c.requireOneOf("token_url", "issuer", a.Type)
	case agent.AuthBearer, agent.AuthBasic:
	}
	c.checkSecretReference("secret", a.Secret)
	c.checkSecretReference("password", a.Password)
	c.checkSecretReference("client_secret", a.ClientSecret)
	switch textproto.CanonicalMIMEHeaderKey(a.Header) {
	case "Host", "Content-Length", "Content-Type", "Transfer-Encoding", "Connection", "Trailer", "Upgrade", "Te":
		c.addFault("header", "is a header that the protocol itself sets")
	}
	if strings.ContainsFunc(a.Username, func(r rune) bool { return r == ':' || r < ' ' || r == 0x7f }) {
		c.addFault("username", "must not hold a colon or a control character")
	}
	c.checkTokenURL("token_url", a.TokenURL)
	c.checkTokenURL("issuer", a.Issuer)
	c.checkUnique("scopes", a.Scopes)
	c.checkUnique("hosts", a.Hosts)
	for i, host := range a.Hosts {
		if host != "" && !isHostRule(host) {
			c.addFault(item("hosts", i), "want a host or *.host, with or without :port; no scheme, no path")
		}
	}
}

// requireOneOf adds a fault unless a profile has exactly one of two fields.
func (c *checker) requireOneOf(first, second string, t agent.AuthType) {
	hasFirst, hasSecond := c.root.member(first) != nil, c.root.member(second) != nil
	switch {
	case hasFirst && hasSecond:
		c.addFault(second, "want %s or %s, not both", first, second)
	case !hasFirst && !hasSecond:
		c.addFault(first, "type %s needs %s or %s", t, first, second)
	}
}

// checkAuthFields checks that a profile has the fields of its type and no others.
func (c *checker) checkAuthFields(t agent.AuthType) {
	required, optional := authFields(t)
	for _, name := range []string{"secret", "header", "query", "username", "password", "client_id", "client_secret", "token_url", "issuer", "scopes"} {
		exists, isRequired := c.root.member(name) != nil, slices.Contains(required, name)
		switch {
		case isRequired && !exists:
			c.addFault(name, "is required for type %s", t)
		case exists && !isRequired && !slices.Contains(optional, name):
			c.addFault(name, "does not belong to type %s", t)
		}
	}
}

// checkSecretReference checks the path of a reference file:/path. The schema has checked its other parts.
func (c *checker) checkSecretReference(field, ref string) {
	file, ok := strings.CutPrefix(ref, "file:")
	if ok && (path.Clean(file) != file || file == "/") {
		c.addFault(field, "want file: with the absolute path of a file, without . and ..")
	}
}

// checkTokenURL checks a URL that the client's secret is sent to: it must be https, or http on this machine.
func (c *checker) checkTokenURL(field, text string) {
	if text == "" {
		return
	}
	u := parseHTTPURL(text)
	switch {
	case u == nil:
		c.addFault(field, "want an https URL")
	case u.User != nil:
		c.addFault(field, "must not hold credentials: put them into client_id and client_secret")
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		c.addFault(field, "want https; http is for this machine alone")
	default:
		c.refuseQuery(field, text)
	}
}

func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || (err == nil && a.IsLoopback())
}
