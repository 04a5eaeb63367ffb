package authorize

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool"
)

const (
	maxMetadata  = 256 << 10 // bytes of a metadata document
	maxChallenge = 4 << 10   // bytes of the WWW-Authenticate headers
	maxScopes    = 100
	// rediscoverAfter is the minimum time between two discoveries, for a server that refuses every token.
	rediscoverAfter = 30 * time.Second
)

// scopeName matches the scopes that OAuth 2.0 allows.
var scopeName = regexp.MustCompile(`^[!#-\[\]-~]{1,256}$`)

// server authorises the requests to one MCP server. For a profile with an issuer it discovers the token endpoint by the metadata of the server
// and the issuer (RFC 9728, RFC 8414). It sends the client's secret to no other issuer. It is safe for concurrent use.
type server struct {
	auth     *Authoriser
	endpoint *url.URL // of the MCP server

	discovering  chan struct{} // holds an element during a discovery
	mu           sync.Mutex
	grant        *grant // nil: not discovered yet
	discoveredAt time.Time
}

// grant says how to get a token for the server.
type grant struct {
	profile  agent.PlanAuth // with the discovered token endpoint and scopes
	resource string
}

var _ tool.ServerAuth = (*server)(nil)

// ForServer returns the authorisation of requests to one MCP server.
func (a *Authoriser) ForServer(endpoint *url.URL) tool.ServerAuth {
	return &server{auth: a, endpoint: endpoint, discovering: make(chan struct{}, 1)}
}

// Authorise is [Authoriser.Authorise], but a profile with an issuer adds nothing before its token endpoint is discovered.
func (s *server) Authorise(req *http.Request, profiles []agent.PlanAuth) error {
	p, err := profileFor(req, profiles)
	if p == nil || err != nil {
		return err
	}
	if p.Issuer == "" {
		return s.auth.addCredentials(req, p)
	}
	g, _ := s.discovered()
	if g == nil {
		return nil
	}
	return s.auth.addToken(req, &g.profile, g.resource)
}

func (s *server) discovered() (*grant, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.grant, s.discoveredAt
}

// Discover implements [tool.ServerAuth].
func (s *server) Discover(sent *http.Request, answer *http.Response, profiles []agent.PlanAuth) (bool, error) {
	p, err := profileFor(sent, profiles)
	if p == nil || err != nil || p.Issuer == "" || answer.StatusCode != http.StatusUnauthorized {
		return false, err
	}
	ctx, cancel := context.WithTimeout(sent.Context(), fetchTimeout)
	defer cancel()
	select {
	case s.discovering <- struct{}{}:
		defer func() { <-s.discovering }()
	case <-ctx.Done():
		return false, agent.Interrupted(ctx, "authorise request")
	}
	if g, at := s.discovered(); g != nil {
		switch {
		case sent.Header.Get("Authorization") == "": // it was sent before the grant was discovered
			return true, nil
		case s.auth.tokens.now().Sub(at) < rediscoverAfter:
			return false, nil
		}
		s.forgetToken(ctx, g)
	}
	g, err := s.discover(ctx, p, answer.Header)
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grant, s.discoveredAt = g, s.auth.tokens.now()
	return true, nil
}

// forgetToken removes the token of a grant from the cache.
func (s *server) forgetToken(ctx context.Context, g *grant) {
	if secret, err := s.auth.secret(ctx, &g.profile, g.profile.ClientSecret); err == nil {
		s.auth.tokens.cache.Remove(tokenKeyOf(&g.profile, g.resource, secret))
	}
}

// discover reads the metadata of the server and then of the issuer. header is that of the server's 401.
func (s *server) discover(ctx context.Context, p *agent.PlanAuth, header http.Header) (*grant, error) {
	metadata, scopes := challengeOf(header)
	resource, err := s.protectedResource(ctx, p, metadata)
	if err != nil {
		return nil, err
	}
	g := &grant{profile: *p, resource: resource.Resource}
	if g.profile.TokenURL, err = s.tokenEndpoint(ctx, p); err != nil {
		return nil, err
	}
	if len(scopes) == 0 {
		scopes = resource.ScopesSupported
	}
	if len(p.Scopes) == 0 {
		valid := slices.DeleteFunc(slices.Clone(scopes), func(scope string) bool { return !scopeName.MatchString(scope) })
		g.profile.Scopes = valid[:min(len(valid), maxScopes)]
	}
	return g, nil
}

// challengeOf returns the address of the server's metadata and the scopes in the headers of a 401.
func challengeOf(header http.Header) (metadata string, scopes []string) {
	var lines []string
	size := 0
	for _, line := range header.Values("WWW-Authenticate") {
		if size += len(line); size > maxChallenge {
			break
		}
		lines = append(lines, line)
	}
	challenges, err := oauthex.ParseWWWAuthenticate(lines)
	if err != nil {
		return "", nil
	}
	for _, c := range challenges {
		if c.Scheme == "bearer" {
			return c.Params["resource_metadata"], strings.Fields(c.Params["scope"])
		}
	}
	return "", nil
}

// protectedResource reads the metadata of the server at the given address or, if that is empty, at its well-known addresses.
func (s *server) protectedResource(ctx context.Context, p *agent.PlanAuth, metadata string) (*oauthex.ProtectedResourceMetadata, error) {
	candidates := []string{metadata}
	if metadata == "" {
		candidates = wellKnown(s.endpoint, "oauth-protected-resource")
	}
	for _, address := range candidates {
		var found oauthex.ProtectedResourceMetadata
		exists, err := s.fetch(ctx, p, "the server's", address, &found)
		switch {
		case err != nil:
			return nil, err
		case !exists:
			continue
		case !s.covers(found.Resource):
			return nil, deniedError(p, "got no token: the server's metadata is for another resource")
		case !slices.ContainsFunc(found.AuthorizationServers, func(issuer string) bool { return sameIssuer(issuer, p.Issuer) }):
			return nil, deniedError(p, "got no token: the server's metadata does not name the profile's issuer %s", p.Issuer)
		}
		return &found, nil
	}
	return nil, deniedError(p, "got no token: the server wants one and has no metadata that says from where; give the profile a token_url")
}

// covers reports whether the URL of a resource is that of the server, or of a folder that contains it.
func (s *server) covers(resource string) bool {
	u, err := url.Parse(resource)
	if err != nil || u.Scheme != s.endpoint.Scheme || !strings.EqualFold(u.Host, s.endpoint.Host) || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return false
	}
	parent := strings.TrimRight(u.Path, "/")
	return parent == strings.TrimRight(s.endpoint.Path, "/") || strings.HasPrefix(s.endpoint.Path, parent+"/")
}

// tokenEndpoint returns the token endpoint in the metadata of the profile's issuer.
func (s *server) tokenEndpoint(ctx context.Context, p *agent.PlanAuth) (string, error) {
	issuer, err := url.Parse(p.Issuer)
	if err != nil {
		return "", deniedError(p, "cannot be used: its issuer is no https URL")
	}
	candidates := wellKnown(issuer, "oauth-authorization-server")[:1]
	candidates = append(candidates, wellKnown(issuer, "openid-configuration")[0])
	if path := strings.Trim(issuer.Path, "/"); path != "" {
		candidates = append(candidates, issuer.Scheme+"://"+issuer.Host+"/"+path+"/.well-known/openid-configuration")
	}
	for _, address := range candidates {
		var found oauthex.AuthServerMeta
		exists, err := s.fetch(ctx, p, "the issuer's", address, &found)
		switch {
		case err != nil:
			return "", err
		case !exists:
			continue
		case !sameIssuer(found.Issuer, p.Issuer):
			return "", deniedError(p, "got no token: the issuer's metadata is that of another issuer")
		case found.TokenEndpoint == "":
			return "", deniedError(p, "got no token: the issuer's metadata has no token_endpoint")
		}
		return found.TokenEndpoint, nil
	}
	return "", deniedError(p, "got no token: its issuer %s has no metadata; give the profile a token_url", p.Issuer)
}

// sameIssuer reports whether two issuers are equal but for a slash at the end.
func sameIssuer(a, b string) bool { return strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/") }

// wellKnown returns the well-known addresses of a URL's metadata: first the one that ends in the URL's path, if it has one.
func wellKnown(u *url.URL, name string) []string {
	root := u.Scheme + "://" + u.Host + "/.well-known/" + name
	if path := strings.Trim(u.EscapedPath(), "/"); path != "" {
		return []string{root + "/" + path, root}
	}
	return []string{root}
}

// fetch decodes the metadata document at an address into v. exists is false if there is none. It follows no redirects, and its errors do not
// quote the document.
func (s *server) fetch(ctx context.Context, p *agent.PlanAuth, whose, address string, v any) (exists bool, err error) {
	fault := func(code agent.Code, format string, args ...any) (bool, error) {
		return false, profileError(code, p, "got no token: "+whose+" metadata "+format, args...)
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || !mayCarryCredentials(u, false) {
		return fault(agent.CodeDenied, "is at no https URL")
	}
	if s.auth.tokens.http == nil {
		return fault(agent.CodeDenied, "cannot be read: no requests are configured for it")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return fault(agent.CodeDenied, "is at no https URL")
	}
	req.Header.Set("Accept", "application/json")
	resp, err := s.auth.tokens.http.Do(req)
	if err != nil {
		code := agent.CodeUnavailable
		if refusal, ok := errors.AsType[*agent.Error](err); ok {
			code = refusal.Code
		}
		return fault(code, "cannot be read (%s)", code)
	}
	defer resp.Body.Close() //nolint:errcheck // nothing is lost: it was read
	switch {
	case resp.StatusCode/100 == 3 || resp.Request != nil && resp.Request.URL.String() != u.String():
		return fault(agent.CodeDenied, "redirects, which is not followed")
	case resp.StatusCode >= http.StatusInternalServerError || resp.StatusCode == http.StatusTooManyRequests:
		return fault(agent.CodeUnavailable, "answered %d", resp.StatusCode)
	case resp.StatusCode != http.StatusOK:
		return false, nil
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxMetadata+1))
	switch {
	case err != nil:
		return fault(agent.CodeUnavailable, "broke off")
	case len(raw) > maxMetadata:
		return fault(agent.CodeDenied, "is larger than %d bytes", maxMetadata)
	case json.Unmarshal(raw, v) != nil:
		return fault(agent.CodeDenied, "is not the JSON that it should be")
	}
	return true, nil
}
