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

// errNoCredential is the error for callers without a credential.
var errNoCredential = access.Refused("a credential is missing: send the header Authorization: Bearer with an API key or a token")

// identify returns the caller who has sent some credentials; err is the error of reading them. Invalid credentials are an error. Missing credentials
// are not, because some paths need none.
func (g *Gateway) identify(ctx context.Context, caller identity, sent access.Credentials, err error) (identity, error) {
	caller.g = g
	if g.cfg.Auth == nil {
		caller.principal = agent.Principal{Method: agent.MethodNone, Tenant: agent.AnyTenant, Scopes: []string{"*"}}
		return caller, nil
	}
	caller.principal, caller.anonymous = agent.Principal{Method: methodUnknown}, errNoCredential // until the credential is verified
	if err == nil && !sent.Given() && len(sent.Certificates) == 0 {
		return caller, nil
	}
	var p agent.Principal
	if err == nil {
		ctx, cancel := g.callContext(ctx)
		defer cancel()
		p, err = g.cfg.Auth.Authenticate(ctx, sent)
	}
	switch {
	case err == nil && (p.Trusted() || (p.Tenant != agent.AnyTenant && !agent.ValidName(p.Tenant))):
		return caller, agent.Errorf(agent.CodeInternal, "", "an authenticator made a principal %q of tenant %.140q", p.Method, p.Tenant)
	case err == nil:
		caller.principal, caller.credentials, caller.anonymous = p, &sent, nil
		return caller, nil
	case agent.CodeOf(err) == agent.CodeUnauthenticated:
		caller.auditInvalidCredential(err)
		if !sent.Given() { // the certificate may only have been needed to connect
			caller.anonymous = err
			return caller, nil
		}
	}
	return caller, err
}

// identifyRequest returns an HTTP request with its caller in the context and without a credential in its URL.
func (s *httpServer) identifyRequest(r *http.Request, id string) (*http.Request, error) {
	caller := identity{door: "http", requestID: id, remote: r.RemoteAddr}
	var sent access.Credentials
	var err error
	if s.cfg.Auth != nil {
		sent, err = credentialsOf(r)
	}
	r = withoutToken(r)
	caller, err = s.identify(r.Context(), caller, sent, err)
	return r.WithContext(caller.withContext(r.Context())), err
}

func credentialsOf(r *http.Request) (c access.Credentials, err error) {
	if c.Bearer, err = access.Bearer(r.Header.Values("Authorization")); err != nil {
		return c, err
	}
	if c.Key, err = access.Key(r.Header.Values("X-Api-Key")); err != nil {
		return c, err
	}
	c.Certificates = clientCertificates(r.TLS)
	if !takesToken(r) || !strings.Contains(r.URL.RawQuery, tokenParameter) {
		return c, nil
	}
	switch tokens := r.URL.Query()[tokenParameter]; {
	case len(tokens) == 0 || tokens[0] == "":
	case len(tokens) > 1 || (c.Bearer != "" && c.Bearer != tokens[0]):
		return c, access.Refused("there are two credentials: send the header or %s", tokenParameter)
	default:
		c.Bearer, err = access.Bearer([]string{"Bearer " + tokens[0]})
	}
	return c, err
}

// takesToken reports whether a request may be from an EventSource or a WebSocket.
func takesToken(r *http.Request) bool {
	if r.Method != http.MethodGet {
		return false
	}
	id, events := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, pathTurns+"/"), "/events")
	return r.URL.Path == pathSocket || (events && strings.HasPrefix(r.URL.Path, pathTurns+"/") && !strings.Contains(id, "/"))
}

// withoutToken returns the request without the credential in its URL.
func withoutToken(r *http.Request) *http.Request {
	if !takesToken(r) || !strings.Contains(r.URL.RawQuery, tokenParameter) {
		return r
	}
	var kept []string
	for part := range strings.SplitSeq(r.URL.RawQuery, "&") {
		name, _, _ := strings.Cut(part, "=")
		if unescaped, err := url.QueryUnescape(name); err != nil || unescaped != tokenParameter {
			kept = append(kept, part)
		}
	}
	clean := r.Clone(r.Context())
	clean.URL.RawQuery = strings.Join(kept, "&")
	clean.RequestURI = clean.URL.RequestURI()
	return clean
}

// clientCertificates returns the verified client certificates.
func clientCertificates(state *tls.ConnectionState) []*x509.Certificate {
	if state == nil {
		return nil
	}
	var certificates []*x509.Certificate
	for _, chain := range state.VerifiedChains {
		if len(chain) > 0 {
			certificates = append(certificates, chain[0])
		}
	}
	return certificates
}

// identifyCall identifies the caller of a gRPC method, in the tenant that the metadata names, and checks the requirement of the method. The
// context that it returns holds the caller.
func (g *Gateway) identifyCall(ctx context.Context, method string) (context.Context, identity, error) {
	caller := identity{door: "grpc", requestID: requestIDOf(ctx)}
	var sent access.Credentials
	if p, ok := peer.FromContext(ctx); ok {
		caller.remote = p.Addr.String()
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			sent.Certificates = clientCertificates(&info.State)
		}
	}
	var err error
	if g.cfg.Auth != nil {
		sent.Bearer, err = access.Bearer(metadata.ValueFromIncomingContext(ctx, "authorization"))
		if err == nil {
			sent.Key, err = access.Key(metadata.ValueFromIncomingContext(ctx, "x-api-key"))
		}
	}
	caller, err = g.identify(ctx, caller, sent, err)
	required := grpcRequirements[method]
	caller.action = required.auditAction()
	if err == nil {
		err = required.check(caller, method)
	}
	if err == nil && len(required.actions) > 0 {
		tenant := ""
		if values := metadata.ValueFromIncomingContext(ctx, tenantKey); len(values) > 0 {
			tenant = values[0]
		}
		inTenant, tenantErr := caller.inTenant(tenant)
		if tenantErr != nil {
			return ctx, caller, tenantErr
		}
		caller = inTenant
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

// getWhoami is GET /v1/whoami: the principal of the credential.
func (s *httpServer) getWhoami(c *Call) (any, error) {
	p := c.caller.principal
	p.Scopes = orEmpty(p.Scopes)
	return p, nil
}
