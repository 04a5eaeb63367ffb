package credentials

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

// issuerTimeout bounds one request to an issuer.
const issuerTimeout = 10 * time.Second

// issuer is an issuer with its keys.
type issuer struct {
	set       Issuer
	discovery *http.Client
	fetching  *http.Client
	place     chan struct{} // holds one element while the keys are looked for
	keys      oidc.KeySet   // nil: not found yet; read and written with the place
	warnScope sync.Once     // logs that a token had a scope that allows nothing
}

func newIssuer(set Issuer, cfg *TokensConfig) *issuer {
	i := &issuer{set: set, place: make(chan struct{}, 1)}
	i.discovery = issuerClient(&fetcher{next: cfg.Transport, now: cfg.Now})
	i.fetching = issuerClient(&fetcher{next: cfg.Transport, now: cfg.Now})
	if set.JWKSURL != "" {
		i.keys = i.remote(set.JWKSURL)
	}
	return i
}

func issuerClient(f *fetcher) *http.Client {
	return &http.Client{
		Transport: f, Timeout: issuerTimeout,
		// A redirect could lead anywhere, and the fetcher keeps one answer.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func issuerTransport() http.RoundTripper {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	t = t.Clone()
	t.MaxIdleConns, t.MaxConnsPerHost, t.ResponseHeaderTimeout, t.MaxResponseHeaderBytes = 8, 4, issuerTimeout, 64<<10
	return t
}

func (i *issuer) remote(url string) oidc.KeySet {
	return oidc.NewRemoteKeySet(oidc.ClientContext(context.Background(), i.fetching), url)
}

// keySet returns the keys. It discovers their address once; if that fails, the next call tries again, as often as the fetcher allows.
func (i *issuer) keySet(ctx context.Context) (oidc.KeySet, error) {
	select {
	case i.place <- struct{}{}:
		defer func() { <-i.place }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if i.keys != nil {
		return i.keys, nil
	}
	// Other callers wait for this as well, so it does not end with ctx.
	provider, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), i.discovery), i.set.URL)
	if err != nil {
		return nil, fmt.Errorf("discover %s: %w", i.set.URL, err)
	}
	var found struct {
		JWKSURL string `json:"jwks_uri"`
	}
	if err := provider.Claims(&found); err != nil || found.JWKSURL == "" {
		return nil, errors.Join(fmt.Errorf("discover %s: it does not say where its keys are", i.set.URL), err)
	}
	i.keys = i.remote(found.JWKSURL)
	return i.keys, nil
}
