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
	maxTokens = 1_000
	// maxAge is how long a token is kept at most, also one that says nothing of its end: whoever revokes it waits no longer.
	maxAge = time.Hour
	// margin is how long before its end a token is not used any more, or a tenth of its life when that is less.
	margin = 30 * time.Second
	// fetchTimeout bounds a request to a token endpoint, which may be for many that wait.
	fetchTimeout = 30 * time.Second
)

// key is what a token was given for. It is a hash, so that no secret stays in memory longer than a request.
type key [sha256.Size]byte

type entry struct {
	header string // "Bearer …"
	until  time.Time
}

// tokens keeps access tokens.
type tokens struct {
	http    *http.Client // nil: there is none
	kept    *lru.Cache[key, entry]
	flights singleflight.Group
	now     func() time.Time
}

func newTokens(h tool.HTTP) *tokens {
	t := &tokens{now: time.Now}
	t.kept, _ = lru.New[key, entry](maxTokens) // fails for a size below 1 alone
	if h != nil {
		t.http = &http.Client{Transport: roundTripper{h}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	return t
}

// roundTripper sends requests to token endpoints by the rules of egress.
type roundTripper struct{ http tool.HTTP }

func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return r.http.Do(req) }

// get returns the Authorization header of a profile's token.
func (t *tokens) get(ctx context.Context, p *agent.PlanAuth, resource, secret string) (string, error) {
	if t.http == nil {
		return "", denied(p, "cannot be used: nothing may be sent to token endpoints")
	}
	k := keyOf(p, resource, secret)
	if e, ok := t.kept.Get(k); ok && t.now().Before(e.until) {
		return e.header, nil
	}
	flight := t.flights.DoChan(string(k[:]), func() (any, error) {
		// Others may wait for it who live longer than the one who asked first.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout)
		defer cancel()
		e, err := t.fetch(ctx, p, resource, secret)
		if err == nil {
			t.kept.Add(k, e)
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

func keyOf(p *agent.PlanAuth, resource, secret string) key {
	parts := append([]string{p.TokenURL, p.ClientID, resource, secret}, p.Scopes...)
	return sha256.Sum256([]byte(strings.Join(parts, "\x00")))
}

func (t *tokens) fetch(ctx context.Context, p *agent.PlanAuth, resource, secret string) (entry, error) {
	endpoint, err := url.Parse(p.TokenURL)
	if err != nil || endpoint.Host == "" || !encrypted(&http.Request{URL: endpoint}, false) {
		return entry{}, denied(p, "cannot be used: its token_url is no https URL")
	}
	cfg := clientcredentials.Config{ClientID: p.ClientID, ClientSecret: secret, TokenURL: p.TokenURL, Scopes: p.Scopes}
	if resource != "" {
		cfg.EndpointParams = url.Values{"resource": {resource}}
	}
	ctx = egress.WithCredentials(ctx, egress.Credentials{Headers: []string{"Authorization"}, Body: true})
	asked := t.now()
	token, err := cfg.Token(context.WithValue(ctx, oauth2.HTTPClient, t.http))
	if err != nil {
		return entry{}, refused(p, err)
	}
	return entry{header: token.Type() + " " + token.AccessToken, until: until(asked, token.Expiry)}, nil
}

// until is when a token is not used any more.
func until(asked, expiry time.Time) time.Time {
	life := maxAge
	if !expiry.IsZero() {
		life = min(life, expiry.Sub(asked))
	}
	return asked.Add(life - min(margin, life/10))
}

// errorCode is what OAuth 2.0 calls an error: words that say nothing else.
var errorCode = regexp.MustCompile(`^[a-z_]{1,40}$`)

// refused tells an endpoint that says no from one that is away, without its answer: some answer with what they were sent.
func refused(p *agent.PlanAuth, err error) error {
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
	if own, ok := errors.AsType[*agent.Error](err); ok {
		code = own.Code
	}
	return profileError(code, p, "got no token: the token endpoint cannot be asked, or its answer not be read")
}
