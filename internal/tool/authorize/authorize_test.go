package authorize

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/egress"
	"github.com/turnstone-run/turnstone/internal/tool"
)

var _ tool.Auth = (*Authoriser)(nil)

const secretValue = "s3cr3t-Value"

// vault holds secrets by reference.
type vault map[string]string

func (v vault) Reveal(_ context.Context, _, ref string) (string, error) {
	s, ok := v[ref]
	if !ok {
		return "", agent.Errorf(agent.CodeNotFound, "read secret "+ref, "not set, or empty")
	}
	return s, nil
}

func request(t *testing.T, u string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, u, nil)
	require.NoError(t, err)
	return req
}

func authoriser(t *testing.T, v vault, h tool.HTTP) *Authoriser {
	t.Helper()
	a, err := New(Config{Secrets: v, HTTP: h})
	require.NoError(t, err)
	return a
}

func TestNewNeedsSecrets(t *testing.T) {
	t.Parallel()
	_, err := New(Config{})
	require.EqualError(t, err, "secrets: is required")
}

// TestTypes checks what a server receives for each type of profile.
func TestTypes(t *testing.T) {
	t.Parallel()
	var got *http.Request
	srv := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r }))
	t.Cleanup(srv.Close)
	host := strings.TrimPrefix(srv.URL, "https://")
	a := authoriser(t, vault{"env:S": secretValue}, nil)
	for name, c := range map[string]struct {
		profile agent.PlanAuth
		check   func(t *testing.T)
	}{
		"bearer": {agent.PlanAuth{Type: agent.AuthBearer, Secret: "env:S"}, func(t *testing.T) {
			require.Equal(t, "Bearer "+secretValue, got.Header.Get("Authorization"))
		}},
		"header": {agent.PlanAuth{Type: agent.AuthAPIKey, Secret: "env:S", Header: "x-api-key"}, func(t *testing.T) {
			require.Equal(t, []string{secretValue}, got.Header.Values("X-Api-Key"))
		}},
		"query": {agent.PlanAuth{Type: agent.AuthAPIKey, Secret: "env:S", Query: "key"}, func(t *testing.T) {
			require.Equal(t, url.Values{"a": {"1"}, "key": {secretValue}}, got.URL.Query())
		}},
		"basic": {agent.PlanAuth{Type: agent.AuthBasic, Username: "joe", Password: "env:S"}, func(t *testing.T) {
			user, password, ok := got.BasicAuth()
			require.True(t, ok)
			require.Equal(t, "joe "+secretValue, user+" "+password)
		}},
	} {
		c.profile.Name, c.profile.Hosts = "p", []string{host}
		req := request(t, srv.URL+"/x?a=1&key=of-the-model")
		req.Header.Set("X-Api-Key", "of the model")
		before := req.URL.String()
		unchanged := req.URL
		require.NoError(t, a.Authorise(req, []agent.PlanAuth{c.profile}), name)
		require.Equal(t, before, unchanged.String(), "a URL that others may hold is not changed")
		resp, err := srv.Client().Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		c.check(t)
	}
}

func TestChoiceOfProfile(t *testing.T) {
	t.Parallel()
	a := authoriser(t, vault{"env:A": "a", "env:B": "b"}, nil)
	profile := func(secret string, hosts ...string) agent.PlanAuth {
		return agent.PlanAuth{Name: secret, Type: agent.AuthBearer, Secret: "env:" + secret, Hosts: hosts}
	}
	for _, c := range []struct {
		url      string
		profiles []agent.PlanAuth
		want     string // the header; "!" and what an error says
	}{
		{"https://api.example.com", []agent.PlanAuth{profile("A", "api.example.com"), profile("B", "api.example.com")}, "Bearer a"},
		{"https://api.example.com", []agent.PlanAuth{profile("A", "other.example.com"), profile("B", "*.example.com")}, "Bearer b"},
		{"https://api.example.com", []agent.PlanAuth{profile("A"), profile("B", "api.example.com")}, "Bearer b"},
		{"https://api.example.com", []agent.PlanAuth{profile("A")}, ""},
		{"https://api.example.com", nil, ""},
		{"https://api.example.com.evil.org", []agent.PlanAuth{profile("A", "api.example.com")}, ""},
		{"https://api.example.com", []agent.PlanAuth{profile("NONE", "api.example.com"), profile("B", "api.example.com")}, `!auth profile "NONE" cannot be used: its secret is not set`},
		{"http://api.example.com", []agent.PlanAuth{profile("A", "api.example.com")}, `!auth profile "A" is for https alone`},
		{"http://api.example.com", []agent.PlanAuth{profile("A", "api.example.com:80")}, "Bearer a"},
		{"http://api.example.com:443", []agent.PlanAuth{profile("A", "api.example.com:443")}, "!https alone"},
		{"http://localhost:8080", []agent.PlanAuth{profile("A", "localhost")}, "Bearer a"},
		{"http://127.0.0.1:8080", []agent.PlanAuth{profile("A", "127.0.0.1")}, "Bearer a"},
		{"http://10.0.0.1:8080", []agent.PlanAuth{profile("A", "10.0.0.1")}, "!https alone"},
	} {
		req := request(t, c.url)
		err := a.Authorise(req, c.profiles)
		if says, bad := strings.CutPrefix(c.want, "!"); bad {
			require.Equal(t, agent.CodeDenied, agent.CodeOf(err), c.url)
			require.ErrorContains(t, err, says, c.url)
			require.Empty(t, req.Header)
			continue
		}
		require.NoError(t, err, c.url)
		require.Equal(t, c.want, req.Header.Get("Authorization"), c.url)
	}
}

func TestNoSecretInErrors(t *testing.T) {
	t.Parallel()
	a := authoriser(t, vault{"env:S": secretValue + "\n", "env:EMPTY": ""}, nil)
	hosts := []string{"h.example"}
	for says, p := range map[string]agent.PlanAuth{
		"has characters that no header may have":       {Type: agent.AuthBearer, Secret: "env:S"},
		"names a header that is none":                  {Type: agent.AuthAPIKey, Secret: "env:S", Header: "a b"},
		"names neither a header nor a query parameter": {Type: agent.AuthAPIKey, Secret: "env:S"},
		"its secret is not set":                        {Type: agent.AuthBasic, Username: "u", Password: "env:HIDDEN"},
		"its secret is empty":                          {Type: agent.AuthBearer, Secret: "env:EMPTY"},
		`has the unknown type "magic"`:                 {Type: "magic"},
		"nothing may be sent to token endpoints":       {Type: agent.AuthOAuth2, ClientSecret: "env:S", TokenURL: "https://h.example"},
	} {
		p.Name, p.Hosts = "crm", hosts
		req := request(t, "https://h.example/")
		err := a.Authorise(req, []agent.PlanAuth{p})
		require.Equal(t, agent.CodeDenied, agent.CodeOf(err), says)
		require.ErrorContains(t, err, `auth profile "crm" `)
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), secretValue)
		require.NotContains(t, err.Error(), "HIDDEN")
		require.Empty(t, req.Header)
	}
}

// issuer is a token endpoint behind TLS.
type issuer struct {
	*httptest.Server

	asked  atomic.Int32
	answer func(w http.ResponseWriter, r *http.Request)
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	s := &issuer{}
	s.answer = func(w http.ResponseWriter, r *http.Request) {
		id, secret, _ := r.BasicAuth()
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":"%s-%s-%s-%d","token_type":"bearer","expires_in":100}`, id, secret, r.FormValue("scope"), s.asked.Load())
	}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		s.answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *issuer) profile() agent.PlanAuth {
	return agent.PlanAuth{
		Name: "idp", Type: agent.AuthOAuth2, ClientID: "me", ClientSecret: "env:S", TokenURL: s.URL + "/token", Scopes: []string{"read", "write"},
		Hosts: []string{"api.example.com"},
	}
}

func TestToken(t *testing.T) {
	t.Parallel()
	idp := newIssuer(t)
	secrets := vault{"env:S": "one"}
	a := authoriser(t, secrets, idp.Client())
	now := time.Now()
	a.tokens.now = func() time.Time { return now }
	header := func(p agent.PlanAuth) string {
		req := request(t, "https://api.example.com/")
		require.NoError(t, a.Authorise(req, []agent.PlanAuth{p}))
		return req.Header.Get("Authorization")
	}
	require.Equal(t, "Bearer me-one-read write-1", header(idp.profile()))
	require.Equal(t, "Bearer me-one-read write-1", header(idp.profile()), "kept")
	now = now.Add(85 * time.Second)
	require.Equal(t, "Bearer me-one-read write-1", header(idp.profile()))
	now = now.Add(10 * time.Second)
	require.Equal(t, "Bearer me-one-read write-2", header(idp.profile()), "it was about to run out")

	other := idp.profile()
	other.Scopes = []string{"admin"}
	require.Equal(t, "Bearer me-one-admin-3", header(other), "a token of its own")
	secrets["env:S"] = "two"
	require.Equal(t, "Bearer me-two-read write-4", header(idp.profile()), "a new secret counts at once")
}

func TestTokenLife(t *testing.T) {
	t.Parallel()
	asked := time.Now()
	require.Equal(t, asked.Add(time.Hour-expiryMargin), usableUntil(asked, time.Time{}), "one that says nothing of its end")
	require.Equal(t, asked.Add(time.Hour-expiryMargin), usableUntil(asked, asked.Add(24*time.Hour)))
	require.Equal(t, asked.Add(9*time.Minute+30*time.Second), usableUntil(asked, asked.Add(10*time.Minute)))
	require.Equal(t, asked.Add(9*time.Second), usableUntil(asked, asked.Add(10*time.Second)))
}

// TestTokenSingleFlight checks that concurrent requests wait for one token, even if the first of them is cancelled.
func TestTokenSingleFlight(t *testing.T) {
	t.Parallel()
	idp := newIssuer(t)
	begun, release := make(chan struct{}), make(chan struct{})
	good := idp.answer
	idp.answer = func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-release
		good(w, r)
	}
	a := authoriser(t, vault{"env:S": "one"}, idp.Client())
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	first := request(t, "https://api.example.com/").WithContext(ctx)
	go func() { gone <- a.Authorise(first, []agent.PlanAuth{idp.profile()}) }()
	<-begun
	cancel()
	require.Equal(t, agent.CodeCancelled, agent.CodeOf(<-gone))

	var all sync.WaitGroup
	headers := make([]string, 20)
	for i := range headers {
		all.Go(func() {
			req := request(t, "https://api.example.com/")
			if err := a.Authorise(req, []agent.PlanAuth{idp.profile()}); err == nil {
				headers[i] = req.Header.Get("Authorization")
			}
		})
	}
	close(release)
	all.Wait()
	for _, h := range headers {
		require.Equal(t, "Bearer me-one-read write-1", h)
	}
	require.EqualValues(t, 1, idp.asked.Load())
}

func TestTokenRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		body   string
		code   agent.Code
		says   string
	}{
		"wrong secret":      {http.StatusUnauthorized, `{"error":"invalid_client","error_description":"` + secretValue + `"}`, agent.CodeDenied, "answered 401 (invalid_client)"},
		"secret as error":   {http.StatusBadRequest, `{"error":"` + secretValue + `"}`, agent.CodeDenied, "answered 400"},
		"a page":            {http.StatusForbidden, "<p>" + secretValue, agent.CodeDenied, "answered 403"},
		"down":              {http.StatusBadGateway, secretValue, agent.CodeUnavailable, "answered 502"},
		"too many requests": {http.StatusTooManyRequests, "", agent.CodeUnavailable, "answered 429"},
		"no token":          {http.StatusOK, `{"x":"` + secretValue + `"}`, agent.CodeUnavailable, "got no token"},
		"redirect":          {http.StatusTemporaryRedirect, "", agent.CodeDenied, "answered 307"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			idp := newIssuer(t)
			idp.answer = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Location", "https://127.0.0.1:1/")
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}
			a := authoriser(t, vault{"env:S": secretValue}, noRedirects{idp.Client()})
			req := request(t, "https://api.example.com/")
			for range 2 {
				err := a.Authorise(req, []agent.PlanAuth{idp.profile()})
				require.Equal(t, c.code, agent.CodeOf(err), "%v", err)
				require.ErrorContains(t, err, `auth profile "idp" got no token`)
				require.ErrorContains(t, err, c.says)
				require.NotContains(t, err.Error(), secretValue)
			}
			require.Empty(t, req.Header)
			require.Greater(t, idp.asked.Load(), int32(1), "a refusal is not kept")
		})
	}
	a := authoriser(t, vault{"env:S": secretValue}, http.DefaultClient)
	for _, u := range []string{"http://idp.example/token", "", "ftp://idp.example", "://"} {
		err := a.Authorise(request(t, "https://api.example.com/"), []agent.PlanAuth{{
			Name: "idp", Type: agent.AuthOAuth2, ClientSecret: "env:S", TokenURL: u, Hosts: []string{"api.example.com"},
		}})
		require.ErrorContains(t, err, "its token_url is no https URL", u)
	}
}

// noRedirects is a client that does not follow redirects.
type noRedirects struct{ client *http.Client }

func (n noRedirects) Do(req *http.Request) (*http.Response, error) {
	return n.client.Transport.RoundTrip(req)
}

// TestTokenDenied checks that a refusal of the egress rules keeps its code.
func TestTokenDenied(t *testing.T) {
	t.Parallel()
	a := authoriser(t, vault{"env:S": secretValue}, refusing{})
	err := a.Authorise(request(t, "https://api.example.com/"), []agent.PlanAuth{{
		Name: "idp", Type: agent.AuthOAuth2, ClientSecret: "env:S", TokenURL: "https://idp.example/t?k=" + secretValue, Hosts: []string{"api.example.com"},
	}})
	require.Equal(t, agent.CodeDenied, agent.CodeOf(err))
	require.NotContains(t, err.Error(), secretValue)
}

// refusing is a client whose egress rules refuse every request.
type refusing struct{}

func (refusing) Do(*http.Request) (*http.Response, error) {
	return nil, agent.Errorf(agent.CodeDenied, "request idp.example", "the host is not on the allow-list")
}

// TestSeveralProfiles checks that a redirect to another host carries none of the credentials of two profiles.
func TestSeveralProfiles(t *testing.T) {
	t.Parallel()
	var got *http.Request
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r }))
	t.Cleanup(other.Close)
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+"/?"+r.URL.RawQuery, http.StatusFound)
	}))
	t.Cleanup(first.Close)
	var hosts []string
	for _, s := range []*httptest.Server{first, other} {
		hosts = append(hosts, strings.TrimPrefix(s.URL, "http://"))
	}
	client, err := egress.New(egress.Config{AllowPrivate: hosts})
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	a := authoriser(t, vault{"env:A": "query-secret", "env:B": "header-secret"}, nil)
	req := request(t, first.URL+"/?page=2")
	for _, p := range []agent.PlanAuth{
		{Name: "a", Type: agent.AuthAPIKey, Secret: "env:A", Query: "key", Hosts: hosts[:1]},
		{Name: "b", Type: agent.AuthAPIKey, Secret: "env:B", Query: "token", Hosts: hosts[:1]},
	} {
		require.NoError(t, a.Authorise(req, []agent.PlanAuth{p}))
	}
	require.Equal(t, "key=query-secret&page=2&token=header-secret", req.URL.RawQuery)
	resp, err := client.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, "page=2", got.URL.RawQuery)
}
