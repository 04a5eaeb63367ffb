package egress

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// site is a server that keeps its requests, and redirects /go?to=URL to the URL.
type site struct {
	*httptest.Server

	mu       sync.Mutex
	requests []*http.Request
}

func newSite(t *testing.T, start func(http.Handler) *httptest.Server) *site {
	t.Helper()
	s := &site{}
	s.Server = start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r)
		s.mu.Unlock()
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(w, r, to, http.StatusTemporaryRedirect)
			return
		}
		fmt.Fprint(w, "arrived")
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *site) last() *http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[len(s.requests)-1]
}

// redirectTo returns a URL of the site that redirects to u.
func (s *site) redirectTo(u string) string { return s.URL + "/go?api_key=k&to=" + url.QueryEscape(u) }

// Credentials are sent only to the origin of the first request.
func TestCredentialsOnRedirects(t *testing.T) {
	home, other, bare := newSite(t, httptest.NewTLSServer), newSite(t, httptest.NewTLSServer), newSite(t, httptest.NewServer)
	var allowed []string
	for _, s := range []*site{home, other, bare} {
		_, address, _ := strings.Cut(s.URL, "://")
		allowed = append(allowed, address)
	}
	c, err := New(Config{AllowPrivate: allowed})
	require.NoError(t, err)
	transport, _ := c.http.Transport.(*http.Transport)
	trusting, _ := home.Client().Transport.(*http.Transport)
	transport.TLSClientConfig = trusting.TLSClientConfig
	t.Cleanup(c.CloseIdleConnections)

	send := func(credentials Credentials, u string) error {
		ctx := WithCredentials(t.Context(), credentials)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, u, strings.NewReader("client_secret=s"))
		require.NoError(t, err)
		for _, name := range credentials.Headers {
			req.Header.Set(name, "secret")
		}
		resp, err := c.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		return err
	}
	header := Credentials{Headers: []string{"X-Api-Key", "Authorization", "Accept-Language"}, Query: []string{"api_key"}}

	require.NoError(t, send(header, home.redirectTo("/there?api_key=k")))
	require.Equal(t, "secret", home.last().Header.Get("X-Api-Key"), "the same origin gets them")
	require.Equal(t, "k", home.last().URL.Query().Get("api_key"))

	require.NoError(t, send(header, home.redirectTo(other.URL+"/there?api_key=k&page=2")))
	for _, name := range header.Headers {
		require.Empty(t, other.last().Header.Get(name), name)
	}
	require.Equal(t, "page=2", other.last().URL.RawQuery)

	require.NoError(t, send(header, home.redirectTo(other.redirectTo(home.URL+"/back"))))
	require.Equal(t, "/back", home.last().URL.Path)
	require.Empty(t, home.last().Header.Get("X-Api-Key"), "another origin has chosen the URL")

	for _, credentials := range []Credentials{header, {Query: []string{"api_key"}}, {Body: true}} {
		err = send(credentials, home.redirectTo(bare.URL+"/there"))
		require.Equal(t, agent.CodeDenied, agent.CodeOf(err), "%v", err)
	}
	require.ErrorContains(t, send(header, home.redirectTo(bare.URL)), "from https to http")
	require.Empty(t, bare.requests)
	require.NoError(t, send(Credentials{}, home.redirectTo(bare.URL)), "a request without credentials may be redirected to http")

	before := len(other.requests)
	err = send(Credentials{Body: true}, home.redirectTo(other.URL))
	require.Equal(t, agent.CodeDenied, agent.CodeOf(err))
	require.Len(t, other.requests, before)
	require.NoError(t, send(Credentials{Body: true}, home.redirectTo("/there")))
}

func TestHostFits(t *testing.T) {
	for _, c := range []struct {
		rules, url     string
		fits, withPort bool
	}{
		{"api.example.com", "https://api.example.com/x", true, false},
		{"API.example.com", "https://api.EXAMPLE.com./x", true, false},
		{"api.example.com", "https://api.example.com:8443", true, false},
		{"api.example.com:8443", "https://api.example.com:8443", true, true},
		{"api.example.com:443", "https://api.example.com", true, true},
		{"api.example.com:443", "http://api.example.com", false, false},
		{"api.example.com:8443", "https://api.example.com", false, false},
		{"*.example.com", "https://a.b.example.com", true, false},
		{"*.example.com", "https://example.com", false, false},
		{"*.example.com", "https://evilexample.com", false, false},
		{"example.com", "https://example.com.evil.org", false, false},
		{"a.org,*.example.com:81", "http://x.example.com:81", true, true},
		{"[::1]:8080", "http://[::1]:8080", true, true},
		{"::1", "http://[::1]:8080", true, false},
		{"bücher.example", "https://xn--bcher-kva.example", true, false},
		{"", "https://example.com", false, false},
		{"https://example.com", "https://example.com", false, false},
		{"*", "https://example.com", false, false},
		{"example.com", "https://exam%20ple.com", false, false},
		{"example.com", "https://", false, false},
	} {
		u, err := url.Parse(c.url)
		if err != nil {
			continue // not a URL
		}
		fits, withPort := HostFits(strings.Split(c.rules, ","), u)
		require.Equal(t, c.fits, fits, "%s on %s", c.rules, c.url)
		require.Equal(t, c.withPort, withPort, "%s on %s", c.rules, c.url)
	}
	fits, _ := HostFits(nil, &url.URL{Scheme: "https", Host: "example.com"})
	require.False(t, fits)
}
