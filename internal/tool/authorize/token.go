package authorize

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
	"golang.org/x/sync/singleflight"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/egress"
	"github.com/turnstone-run/turnstone/internal/tool"
)

const (
	maxTokens = 1_000 // in the cache
	// maxAge is the maximum time for which a token is cached, so that a revoked token is not used for longer.
	maxAge = time.Hour
	// expiryMargin is how long before its expiry a token is dropped; it is a tenth of the token's life if that is less.
	expiryMargin = 30 * time.Second
	// fetchTimeout is the timeout of a request for a token or for metadata.
	fetchTimeout = 30 * time.Second
)

// tokenKey identifies what a token was given for. It is a hash, so that no secret stays in memory longer than a request.
type tokenKey [sha256.Size]byte

type cachedToken struct {
	header string // the value of Authorization, such as "Bearer …"
	until  time.Time
}

// tokenSource fetches and caches access tokens.
type tokenSource struct {
	http    *http.Client // nil: requests are not allowed
	cache   *lru.Cache[tokenKey, cachedToken]
	flights singleflight.Group
	now     func() time.Time
}

func newTokenSource(h tool.HTTP) *tokenSource {
	t := &tokenSource{now: time.Now}
	t.cache, _ = lru.New[tokenKey, cachedToken](maxTokens) // fails only for a size below 1
	if h != nil {
		t.http = &http.Client{Transport: roundTripper{h}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	return t
}

// roundTripper sends requests to token endpoints through the egress client.
type roundTripper struct{ http tool.HTTP }

func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return r.http.Do(req) }

// get returns the Authorization header of a profile's token.
func (t *tokenSource) get(ctx context.Context, p *agent.PlanAuth, resource, secret string) (string, error) {
	if t.http == nil {
		return "", deniedError(p, "cannot be used: nothing may be sent to token endpoints")
	}
	k := tokenKeyOf(p, resource, secret)
	if e, ok := t.cache.Get(k); ok && t.now().Before(e.until) {
		return e.header, nil
	}
	flight := t.flights.DoChan(string(k[:]), func() (any, error) {
		// Other requests may wait for the token after the first one has ended.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout)
		defer cancel()
		e, err := t.fetch(ctx, p, resource, secret)
		if err == nil {
			t.cache.Add(k, e)
		}
		return e.header, err
	})
	select {
	case done := <-flight:
		header, _ := done.Val.(string)
		return header, done.Err
	case <-ctx.Done():
		return "", agent.Interrupted(ctx, "authorise request")
	}
}

func tokenKeyOf(p *agent.PlanAuth, resource, secret string) tokenKey {
	parts := append([]string{p.TokenURL, p.ClientID, resource, secret}, p.Scopes...)
	return sha256.Sum256([]byte(strings.Join(parts, "\x00")))
}

func (t *tokenSource) fetch(ctx context.Context, p *agent.PlanAuth, resource, secret string) (cachedToken, error) {
	endpoint, err := url.Parse(p.TokenURL)
	if err != nil || endpoint.Host == "" || !mayCarryCredentials(endpoint, false) {
		return cachedToken{}, deniedError(p, "cannot be used: its token_url is no https URL")
	}
	cfg := clientcredentials.Config{ClientID: p.ClientID, ClientSecret: secret, TokenURL: p.TokenURL, Scopes: p.Scopes}
	if resource != "" {
		cfg.EndpointParams = url.Values{"resource": {resource}}
	}
	ctx = egress.WithCredentials(ctx, egress.Credentials{Headers: []string{"Authorization"}, Body: true})
	start := t.now()
	token, err := cfg.Token(context.WithValue(ctx, oauth2.HTTPClient, t.http))
	if err != nil {
		return cachedToken{}, tokenError(p, err)
	}
	return cachedToken{header: token.Type() + " " + token.AccessToken, until: usableUntil(start, token.Expiry)}, nil
}

// usableUntil returns the time until which a token is used. It was requested at start; expiry may be zero.
func usableUntil(start, expiry time.Time) time.Time {
	life := maxAge
	if !expiry.IsZero() {
		life = min(life, expiry.Sub(start))
	}
	return start.Add(life - min(expiryMargin, life/10))
}

// errorCode matches the error codes of OAuth 2.0, which hold no secrets.
var errorCode = regexp.MustCompile(`^[a-z_]{1,40}$`)

// tokenError returns the error of a failed request for a token: [agent.CodeUnavailable] if a later one may succeed, else [agent.CodeDenied] or
// the code of egress. It does not quote the answer, because some endpoints repeat the request in it.
func tokenError(p *agent.PlanAuth, err error) error {
	if answer, ok := errors.AsType[*oauth2.RetrieveError](err); ok && answer.Response != nil {
		status, code := answer.Response.StatusCode, agent.CodeDenied
		if status >= http.StatusInternalServerError || status == http.StatusTooManyRequests {
			code = agent.CodeUnavailable
		}
		detail := ""
		if errorCode.MatchString(answer.ErrorCode) {
			detail = " (" + answer.ErrorCode + ")"
		}
		return profileError(code, p, "got no token: the token endpoint answered %d%s", status, detail)
	}
	code := agent.CodeUnavailable
	if e, ok := errors.AsType[*agent.Error](err); ok {
		code = e.Code
	}
	return profileError(code, p, "got no token: the token endpoint cannot be asked, or its answer not be read")
}
