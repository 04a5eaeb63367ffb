package egress

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// Credentials says where the credentials of a request are.
type Credentials struct {
	Headers []string
	Query   []string // names of parameters
	Body    bool     // the body has credentials: a redirect to another origin is refused
}

type credentialsKey struct{}

// WithCredentials marks the context of a request that carries credentials. A redirect of such a request to another origin takes none
// of them along, and one from https to http is refused.
func WithCredentials(ctx context.Context, c Credentials) context.Context {
	return context.WithValue(ctx, credentialsKey{}, c)
}

// protectCredentials removes from a redirect the headers and parameters for the origin of the first request. They stay removed after a
// redirect back to that origin, since another origin has chosen the address.
func protectCredentials(req *http.Request, via []*http.Request) error {
	c, _ := req.Context().Value(credentialsKey{}).(Credentials)
	carries := len(c.Headers) > 0 || len(c.Query) > 0 || c.Body
	if carries && req.URL.Scheme == "http" && slices.ContainsFunc(via, func(r *http.Request) bool { return r.URL.Scheme == "https" }) {
		return agent.Errorf(agent.CodeDenied, operationName(req.URL.Host), "a request with credentials is redirected from https to http")
	}
	first := via[0].URL
	if sameOrigin(first, req.URL) && !slices.ContainsFunc(via, func(r *http.Request) bool { return !sameOrigin(first, r.URL) }) {
		return nil
	}
	if c.Body {
		return agent.Errorf(agent.CodeDenied, operationName(req.URL.Host), "a request with credentials in its body is redirected to another host")
	}
	for name := range req.Header {
		if !keptAcrossOrigins[name] || slices.ContainsFunc(c.Headers, func(h string) bool { return strings.EqualFold(h, name) }) {
			delete(req.Header, name)
		}
	}
	// The server may have copied the query of the last request into the address.
	if query := req.URL.Query(); slices.ContainsFunc(c.Query, query.Has) {
		for _, name := range c.Query {
			query.Del(name)
		}
		req.URL.RawQuery = query.Encode()
	}
	return nil
}

func sameOrigin(a, b *url.URL) bool { return a.Scheme == b.Scheme && a.Host == b.Host }

// HostFits reports whether one of the rules, "host" or "*.host", either with ":port", matches the host of a URL, and whether such a rule
// names the port. A malformed rule matches nothing.
func HostFits(rules []string, u *url.URL) (fits, withPort bool) {
	host, err := canonicalHost(u.Hostname())
	if err != nil {
		return false, false
	}
	port, err := portOf(u)
	if err != nil {
		return false, false
	}
	for _, text := range rules {
		if rule, err := parseHostRule(text); err == nil && matchesHost([]hostRule{rule}, host, port) {
			fits, withPort = true, withPort || rule.port != 0
		}
	}
	return fits, withPort
}
