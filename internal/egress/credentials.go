package egress

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// Credentials names the places of a request that contain credentials.
type Credentials struct {
	Headers []string
	Query   []string // names of parameters
	Body    bool     // whether the body has credentials; then a redirect to another origin is refused
}

type credentialsKey struct{}

// WithCredentials returns the context for a request that contains credentials. A redirect of the request to another origin does not contain them, and
// a redirect from https to http is refused.
func WithCredentials(ctx context.Context, c Credentials) context.Context {
	return context.WithValue(ctx, credentialsKey{}, c)
}

// protectCredentials removes the headers and parameters from a redirect that only the origin of the first request may get. They stay removed in a
// redirect back to that origin, because another origin has chosen the URL.
func protectCredentials(req *http.Request, via []*http.Request) error {
	c, _ := req.Context().Value(credentialsKey{}).(Credentials)
	hasCredentials := len(c.Headers) > 0 || len(c.Query) > 0 || c.Body
	if hasCredentials && req.URL.Scheme == "http" && slices.ContainsFunc(via, func(r *http.Request) bool { return r.URL.Scheme == "https" }) {
		return agent.Errorf(agent.CodeDenied, operationName(req.URL.Host), "a request with credentials is redirected from https to http")
	}
	first := via[0].URL
	if isSameOrigin(first, req.URL) && !slices.ContainsFunc(via, func(r *http.Request) bool { return !isSameOrigin(first, r.URL) }) {
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
	// The server may have copied the query of the last request into the redirect's URL.
	if query := req.URL.Query(); slices.ContainsFunc(c.Query, query.Has) {
		for _, name := range c.Query {
			query.Del(name)
		}
		req.URL.RawQuery = query.Encode()
	}
	return nil
}

func isSameOrigin(a, b *url.URL) bool { return a.Scheme == b.Scheme && a.Host == b.Host }

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
