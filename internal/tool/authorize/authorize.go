package authorize

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/egress"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// Secrets finds the secret that a reference in a document of tenant means.
type Secrets interface {
	Reveal(ctx context.Context, tenant, ref string) (string, error)
}

// Config is what an [Authoriser] needs.
type Config struct {
	Secrets Secrets
	HTTP    tool.HTTP // for requests to token endpoints; nil: OAuth 2.0 profiles are refused
}

// Authoriser is a [tool.Auth]. It is safe for concurrent use.
type Authoriser struct {
	secrets Secrets
	tokens  *tokens
}

// New checks the configuration.
func New(cfg Config) (*Authoriser, error) {
	if cfg.Secrets == nil {
		return nil, agent.Invalid("secrets", "is required")
	}
	return &Authoriser{secrets: cfg.Secrets, tokens: newTokens(cfg.HTTP)}, nil
}

// Authorise changes the request: its headers or query, and its context, which tells [egress] what to protect. Without a profile that fits
// it stays as it is, and so it does with an error.
//
// Errors are [agent.Error] values: denied when a secret or token cannot be had, or would go unencrypted; unavailable when the token
// endpoint is; the context's own.
func (a *Authoriser) Authorise(req *http.Request, profiles []agent.PlanAuth) error {
	p, err := profileFor(req, profiles)
	if p == nil || err != nil {
		return err
	}
	return a.add(req, p)
}

// profileFor returns the first profile that may be sent to a request's host, nil if there is none.
func profileFor(req *http.Request, profiles []agent.PlanAuth) (*agent.PlanAuth, error) {
	for i := range profiles {
		p := &profiles[i]
		fits, withPort := egress.HostFits(p.Hosts, req.URL)
		if !fits {
			continue
		}
		if !encrypted(req, withPort) {
			return nil, denied(p, "is for https alone, and the URL is http")
		}
		return p, nil
	}
	return nil, nil //nolint:nilnil // no profile is no fault
}

// encrypted reports whether credentials may go over a request's connection.
func encrypted(req *http.Request, portNamed bool) bool {
	switch req.URL.Scheme {
	case "https":
		return true
	case "http":
		host := req.URL.Hostname()
		ip, err := netip.ParseAddr(host)
		return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback() || portNamed && req.URL.Port() != "443"
	default:
		return false
	}
}

func (a *Authoriser) add(req *http.Request, p *agent.PlanAuth) error {
	ctx := req.Context()
	switch p.Type {
	case agent.AuthBearer:
		secret, err := a.secret(ctx, p, p.Secret)
		if err != nil {
			return err
		}
		return setHeader(req, p, "Authorization", "Bearer "+secret)
	case agent.AuthAPIKey:
		return a.addKey(req, p)
	case agent.AuthBasic:
		password, err := a.secret(ctx, p, p.Password)
		if err != nil {
			return err
		}
		return setHeader(req, p, "Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(p.Username+":"+password)))
	case agent.AuthOAuth2:
		if p.Issuer != "" {
			return denied(p, "has an issuer, which only an MCP server with a URL leads to; for other requests give it a token_url")
		}
		return a.addToken(req, p, "")
	default:
		return denied(p, "has the unknown type %q", p.Type)
	}
}

// addToken adds a token of the profile's token endpoint, for a resource (RFC 8707) if one is named.
func (a *Authoriser) addToken(req *http.Request, p *agent.PlanAuth, resource string) error {
	secret, err := a.secret(req.Context(), p, p.ClientSecret)
	if err != nil {
		return err
	}
	token, err := a.tokens.get(req.Context(), p, resource, secret)
	if err != nil {
		return err
	}
	return setHeader(req, p, "Authorization", token)
}

func (a *Authoriser) addKey(req *http.Request, p *agent.PlanAuth) error {
	secret, err := a.secret(req.Context(), p, p.Secret)
	switch {
	case err != nil:
		return err
	case p.Header != "":
		return setHeader(req, p, p.Header, secret)
	case p.Query == "":
		return denied(p, "names neither a header nor a query parameter")
	}
	u := *req.URL
	query := u.Query()
	query.Set(p.Query, secret)
	u.RawQuery = query.Encode()
	mark(req, egress.Credentials{Query: []string{p.Query}})
	req.URL = &u
	return nil
}

// secret never lets on where a secret is: the error may be shown to a model.
func (a *Authoriser) secret(ctx context.Context, p *agent.PlanAuth, ref string) (string, error) {
	secret, err := a.secrets.Reveal(ctx, p.Tenant, ref)
	switch {
	case ctx.Err() != nil:
		return "", agent.Interrupted(ctx, "authorise request")
	case err != nil:
		return "", denied(p, "cannot be used: its secret is %s", words(agent.CodeOf(err)))
	case secret == "":
		return "", denied(p, "cannot be used: its secret is empty")
	}
	return secret, nil
}

func words(c agent.Code) string {
	switch c {
	case agent.CodeNotFound:
		return "not set"
	case agent.CodeDenied:
		return "not granted to documents of its tenant"
	default:
		return "not readable"
	}
}

func setHeader(req *http.Request, p *agent.PlanAuth, name, value string) error {
	if !httpguts.ValidHeaderFieldName(name) {
		return denied(p, "names a header that is none")
	}
	if !httpguts.ValidHeaderFieldValue(value) {
		return denied(p, "cannot be used: its secret has characters that no header may have")
	}
	mark(req, egress.Credentials{Headers: []string{name}})
	if req.Header == nil {
		req.Header = http.Header{}
	}
	req.Header.Set(name, value)
	return nil
}

// markedKey is where a request's context says what earlier profiles have added.
type markedKey struct{}

// mark changes the request in place, as its caller holds it. A request may be authorised more than once, with profiles that are needed
// together: all that they add is protected.
func mark(req *http.Request, c egress.Credentials) {
	ctx := req.Context()
	if before, ok := ctx.Value(markedKey{}).(egress.Credentials); ok {
		c.Headers = slices.Concat(before.Headers, c.Headers)
		c.Query = slices.Concat(before.Query, c.Query)
	}
	ctx = context.WithValue(ctx, markedKey{}, c)
	*req = *req.WithContext(egress.WithCredentials(ctx, c))
}

func denied(p *agent.PlanAuth, format string, args ...any) *agent.Error {
	return profileError(agent.CodeDenied, p, format, args...)
}

func profileError(code agent.Code, p *agent.PlanAuth, format string, args ...any) *agent.Error {
	return agent.Errorf(code, "authorise request", "auth profile %q "+format, append([]any{p.Name}, args...)...)
}
