package authorize

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/egress"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// Secrets returns the secret of a reference in a document of a tenant.
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
	tokens  *tokenSource
}

// New returns an authoriser.
func New(cfg Config) (*Authoriser, error) {
	if cfg.Secrets == nil {
		return nil, agent.Invalid("secrets", "is required")
	}
	return &Authoriser{secrets: cfg.Secrets, tokens: newTokenSource(cfg.HTTP)}, nil
}

// Authorise adds the credentials of the first profile that fits to the headers or the query of a request, and tells [egress] in the request's
// context what to protect. The request does not change if no profile fits, or if there is an error.
//
// Errors are [agent.Error] values: [agent.CodeDenied] if there is no secret or token, or if it would be sent unencrypted,
// [agent.CodeUnavailable] if the token endpoint is unavailable, or the context's error.
func (a *Authoriser) Authorise(req *http.Request, profiles []agent.PlanAuth) error {
	p, err := profileFor(req, profiles)
	if p == nil || err != nil {
		return err
	}
	return a.addCredentials(req, p)
}

// profileFor returns the first profile that may be sent to a request's host, nil if there is none.
func profileFor(req *http.Request, profiles []agent.PlanAuth) (*agent.PlanAuth, error) {
	for i := range profiles {
		p := &profiles[i]
		fits, namesPort := egress.HostFits(p.Hosts, req.URL)
		if !fits {
			continue
		}
		if !mayCarryCredentials(req.URL, namesPort) {
			return nil, deniedError(p, "is for https alone, and the URL is http")
		}
		return p, nil
	}
	return nil, nil //nolint:nilnil // a request needs no profile
}

// mayCarryCredentials reports whether a request to a URL may carry credentials: it uses https, goes to this machine, or goes to a port that the
// profile's hosts name.
func mayCarryCredentials(u *url.URL, namesPort bool) bool {
	switch u.Scheme {
	case "https":
		return true
	case "http":
		host := u.Hostname()
		ip, err := netip.ParseAddr(host)
		return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback() || namesPort && u.Port() != "443"
	default:
		return false
	}
}

func (a *Authoriser) addCredentials(req *http.Request, p *agent.PlanAuth) error {
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
			return deniedError(p, "has an issuer, which only an MCP server with a URL leads to; for other requests give it a token_url")
		}
		return a.addToken(req, p, "")
	default:
		return deniedError(p, "has the unknown type %q", p.Type)
	}
}

// addToken adds a token of the profile's token endpoint. If resource is not empty, the token is for that resource (RFC 8707).
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
		return deniedError(p, "names neither a header nor a query parameter")
	}
	u := *req.URL
	query := u.Query()
	query.Set(p.Query, secret)
	u.RawQuery = query.Encode()
	markCredentials(req, egress.Credentials{Query: []string{p.Query}})
	req.URL = &u
	return nil
}

// secret returns the secret of a reference. Its error does not say where the secret is, since a model may see it.
func (a *Authoriser) secret(ctx context.Context, p *agent.PlanAuth, ref string) (string, error) {
	secret, err := a.secrets.Reveal(ctx, p.Tenant, ref)
	switch {
	case ctx.Err() != nil:
		return "", agent.Interrupted(ctx, "authorise request")
	case err != nil:
		return "", deniedError(p, "cannot be used: its secret is %s", secretProblem(agent.CodeOf(err)))
	case secret == "":
		return "", deniedError(p, "cannot be used: its secret is empty")
	}
	return secret, nil
}

func secretProblem(c agent.Code) string {
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
		return deniedError(p, "names a header that is none")
	}
	if !httpguts.ValidHeaderFieldValue(value) {
		return deniedError(p, "cannot be used: its secret has characters that no header may have")
	}
	markCredentials(req, egress.Credentials{Headers: []string{name}})
	if req.Header == nil {
		req.Header = http.Header{}
	}
	req.Header.Set(name, value)
	return nil
}

// credentialsKey is the context key of the credentials that a request has.
type credentialsKey struct{}

// markCredentials tells egress that a request has these credentials, besides those of earlier calls. It changes the request in place.
func markCredentials(req *http.Request, c egress.Credentials) {
	ctx := req.Context()
	if earlier, ok := ctx.Value(credentialsKey{}).(egress.Credentials); ok {
		c.Headers = slices.Concat(earlier.Headers, c.Headers)
		c.Query = slices.Concat(earlier.Query, c.Query)
	}
	ctx = context.WithValue(ctx, credentialsKey{}, c)
	*req = *req.WithContext(egress.WithCredentials(ctx, c))
}

func deniedError(p *agent.PlanAuth, format string, args ...any) *agent.Error {
	return profileError(agent.CodeDenied, p, format, args...)
}

func profileError(code agent.Code, p *agent.PlanAuth, format string, args ...any) *agent.Error {
	return agent.Errorf(code, "authorise request", "auth profile %q "+format, append([]any{p.Name}, args...)...)
}
