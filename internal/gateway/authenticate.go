package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/access"
)

// tokenParameter holds the credential of a browser's EventSource or WebSocket, which cannot set headers. No other path takes it, because
// URLs end up in logs and histories.
const tokenParameter = "access_token"

// errNoCredential is why a caller without a credential is refused.
var errNoCredential = access.Refused("a credential is missing: send the header Authorization: Bearer with an API key or a token")

// identify returns the caller of a request. An invalid credential is an error. A missing one is not, because some paths need none.
func (g *Gateway) identify(ctx context.Context, caller identity, given access.Credentials, err error) (identity, error) {
	caller.g = g
	if g.cfg.Auth == nil {
		caller.principal = agent.Principal{Method: agent.MethodNone, Tenant: agent.AnyTenant, Scopes: []string{"*"}}
		return caller, nil
	}
	// Until the caller is known, nothing is allowed. In particular the caller is not taken for the runtime itself.
	caller.principal, caller.anonymous = agent.Principal{Method: "unknown"}, errNoCredential
	if err == nil && !given.Given() && len(given.Certificates) == 0 {
		return caller, nil
	}
	var p agent.Principal
	if err == nil {
		ctx, cancel := g.bounded(ctx)
		defer cancel()
		p, err = g.cfg.Auth.Authenticate(ctx, given)
	}
	switch {
	case err == nil && (p.Trusted() || (p.Tenant != agent.AnyTenant && !agent.ValidName(p.Tenant))):
		return caller, agent.Errorf(agent.CodeInternal, "", "an authenticator made a principal %q of tenant %.140q", p.Method, p.Tenant)
	case err == nil:
		caller.principal, caller.credentials, caller.anonymous = p, &given, nil
		return caller, nil
	case agent.CodeOf(err) == agent.CodeUnauthenticated:
		caller.auditInvalidCredential(err)
		if !given.Given() { // a certificate may be no more than a way to connect
			caller.anonymous = err
			return caller, nil
		}
	}
	return caller, err
}

// identifyRequest returns an HTTP request with its caller in the context and without a credential in its URL.
func (s *httpServer) identifyRequest(r *http.Request, id string) (*http.Request, error) {
	caller := identity{door: "http", requestID: id, remote: r.RemoteAddr}
	var given access.Credentials
	var err error
	if s.cfg.Auth != nil {
		given, err = credentialsOf(r)
	}
	r = withoutToken(r)
	caller, err = s.identify(r.Context(), caller, given, err)
	return r.WithContext(caller.withContext(r.Context())), err
}

func credentialsOf(r *http.Request) (c access.Credentials, err error) {
	if c.Bearer, err = access.Bearer(r.Header.Values("Authorization")); err != nil {
		return c, err
	}
	if c.Key, err = access.Key(r.Header.Values("X-Api-Key")); err != nil {
		return c, err
	}
	c.Certificates = leafsOf(r.TLS)
	if !takesToken(r) || !strings.Contains(r.URL.RawQuery, tokenParameter) {
		return c, nil
	}
	switch given := r.URL.Query()[tokenParameter]; {
	case len(given) == 0 || given[0] == "":
	case len(given) > 1 || (c.Bearer != "" && c.Bearer != given[0]):
		return c, access.Refused("there are two credentials: send the header or %s", tokenParameter)
	default:
		c.Bearer, err = access.Bearer([]string{"Bearer " + given[0]})
	}
	return c, err
}

// takesToken reports whether a path is for an EventSource or a WebSocket.
func takesToken(r *http.Request) bool {
	if r.Method != http.MethodGet {
		return false
	}
	id, events := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, pathTurns+"/"), "/events")
	return r.URL.Path == pathSocket || (events && strings.HasPrefix(r.URL.Path, pathTurns+"/") && !strings.Contains(id, "/"))
}

// withoutToken returns the request without the credential in its URL, if its path takes one there.
func withoutToken(r *http.Request) *http.Request {
	if !takesToken(r) || !strings.Contains(r.URL.RawQuery, tokenParameter) {
		return r
	}
	var kept []string
	for part := range strings.SplitSeq(r.URL.RawQuery, "&") {
		name, _, _ := strings.Cut(part, "=")
		if plain, err := url.QueryUnescape(name); err != nil || plain != tokenParameter {
			kept = append(kept, part)
		}
	}
	clean := r.Clone(r.Context())
	clean.URL.RawQuery = strings.Join(kept, "&")
	clean.RequestURI = clean.URL.RequestURI()
	return clean
}

// leafsOf returns the client certificates that the TLS layer has verified.
func leafsOf(state *tls.ConnectionState) []*x509.Certificate {
	if state == nil {
		return nil
	}
	var leafs []*x509.Certificate
	for _, chain := range state.VerifiedChains {
		if len(chain) > 0 {
			leafs = append(leafs, chain[0])
		}
	}
	return leafs
}

// identifyCall identifies the caller of a gRPC method and checks the requirement of the method.
func (g *Gateway) identifyCall(ctx context.Context, method string) (context.Context, identity, error) {
	caller := identity{door: "grpc", requestID: requestIDOf(ctx)}
	var given access.Credentials
	if p, ok := peer.FromContext(ctx); ok {
		caller.remote = p.Addr.String()
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			given.Certificates = leafsOf(&info.State)
		}
	}
	var err error
	if g.cfg.Auth != nil {
		given.Bearer, err = access.Bearer(metadata.ValueFromIncomingContext(ctx, "authorization"))
		if err == nil {
			given.Key, err = access.Key(metadata.ValueFromIncomingContext(ctx, "x-api-key"))
		}
	}
	caller, err = g.identify(ctx, caller, given, err)
	required := grpcRequirements[method]
	caller.action = required.auditAction()
	if err == nil {
		err = required.check(caller, method)
	}
	return caller.withContext(ctx), caller, err
}

// requestIDOf returns the request id of a gRPC call, or a new one.
func requestIDOf(ctx context.Context) string {
	if values := metadata.ValueFromIncomingContext(ctx, requestIDHeader); len(values) > 0 && requestIDPattern.MatchString(values[0]) {
		return values[0]
	}
	return uuid.NewString()
}

// getWhoami is GET /v1/whoami: the principal of the credential that was sent.
func (s *httpServer) getWhoami(c *Call) (any, error) {
	p := c.caller.principal
	p.Scopes = orEmpty(p.Scopes)
	return p, nil
}
