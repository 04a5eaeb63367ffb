package authorize

import (
	"encoding/json"
	"fmt"
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
)

// protected is a server at /mcp that requires a token, and its authorization server at /idp.
type protected struct {
	*httptest.Server

	metadata map[string]any // documents by path; a string is sent unchanged, other values as JSON
	token    atomic.Value   // the accepted token
	asked    sync.Map       // paths of requests
	tokens   atomic.Int32   // issued tokens
	form     url.Values     // of the last request for a token
	secrets  atomic.Int32   // requests with the client's secret
}

func newProtected(t *testing.T) *protected {
	t.Helper()
	s := &protected{}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	s.metadata = map[string]any{
		"/metadata": map[string]any{"resource": s.URL + "/mcp", "authorization_servers": []string{s.URL + "/idp/"}, "scopes_supported": []string{"tools", "bad scope"}},
		"/.well-known/oauth-authorization-server/idp": map[string]any{"issuer": s.URL + "/idp", "token_endpoint": s.URL + "/idp/token"},
	}
	return s
}

func (s *protected) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked.Store(r.URL.Path, true)
	if _, password, ok := r.BasicAuth(); ok && password == secretValue {
		s.secrets.Add(1)
	}
	if r.URL.Path == "/idp/token" {
		_ = r.ParseForm()
		s.form = r.PostForm
		token := fmt.Sprintf("token-%d", s.tokens.Add(1))
		s.token.Store(token)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":%q,"token_type":"bearer","expires_in":3600}`, token)
		return
	}
	switch document := s.metadata[r.URL.Path].(type) {
	case nil:
		http.NotFound(w, r)
	case string:
		_, _ = w.Write([]byte(document))
	case http.HandlerFunc:
		document(w, r)
	default:
		_ = json.NewEncoder(w).Encode(document)
	}
}

func (s *protected) profile() agent.PlanAuth {
	return agent.PlanAuth{
		Name: "mcp", Type: agent.AuthOAuth2, ClientID: "me", ClientSecret: "env:S", Issuer: s.URL + "/idp", Hosts: []string{strings.TrimPrefix(s.URL, "http://")},
	}
}

func (s *protected) client(t *testing.T) *egress.Client {
	t.Helper()
	c, err := egress.New(egress.Config{AllowPrivate: []string{strings.TrimPrefix(s.URL, "http://")}})
	require.NoError(t, err)
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// challenged returns the answer to a request without a valid token.
func challenged(header string) *http.Response {
	return &http.Response{StatusCode: http.StatusUnauthorized, Header: http.Header{"Www-Authenticate": {header}}}
}

func TestDiscovery(t *testing.T) {
	t.Parallel()
	s := newProtected(t)
	a := authoriser(t, vault{"env:S": secretValue}, s.client(t))
	now := time.Now()
	a.tokens.now = func() time.Time { return now }
	endpoint, err := url.Parse(s.URL + "/mcp?x=1")
	require.NoError(t, err)
	server, profiles := a.ForServer(endpoint), []agent.PlanAuth{s.profile()}
	send := func() *http.Request {
		req := request(t, s.URL+"/mcp?x=1")
		require.NoError(t, server.Authorise(req, profiles))
		return req
	}
	first := send()
	require.Empty(t, first.Header, "nothing is discovered yet")
	again, err := server.Discover(first, challenged(`Bearer resource_metadata="`+s.URL+`/metadata"`), profiles)
	require.NoError(t, err)
	require.True(t, again)
	second := send()
	require.Equal(t, "Bearer token-1", second.Header.Get("Authorization"))
	require.Equal(t, url.Values{"grant_type": {"client_credentials"}, "resource": {s.URL + "/mcp"}, "scope": {"tools"}}, s.form)
	require.Equal(t, "Bearer token-1", send().Header.Get("Authorization"), "kept")

	again, err = server.Discover(first, challenged(`Bearer`), profiles)
	require.NoError(t, err)
	require.True(t, again, "it was sent before the token came")
	again, err = server.Discover(second, challenged(`Bearer`), profiles)
	require.NoError(t, err)
	require.False(t, again, "a new token is not replaced at once")
	now = now.Add(rediscoverAfter)
	again, err = server.Discover(second, challenged(`Bearer error="invalid_token", resource_metadata="`+s.URL+`/metadata", scope="a b"`), profiles)
	require.NoError(t, err)
	require.True(t, again)
	require.Equal(t, "Bearer token-2", send().Header.Get("Authorization"), "a revoked token is replaced")
	require.Equal(t, "a b", s.form.Get("scope"))
	require.EqualValues(t, 2, s.secrets.Load(), "the secret goes to the token endpoint alone")

	for _, p := range []agent.PlanAuth{{Name: "other", Type: agent.AuthBearer, Secret: "env:S", Hosts: profiles[0].Hosts}, {Name: "away", Hosts: []string{"h.example"}}} {
		again, err = server.Discover(first, challenged(`Bearer`), []agent.PlanAuth{p})
		require.NoError(t, err)
		require.False(t, again, p.Name)
	}
	require.ErrorContains(t, a.Authorise(request(t, s.URL+"/mcp"), profiles), "which only an MCP server with a URL leads to")
}

// TestDiscoveryOfHostileMetadata checks that the secret is sent only to the token endpoint of the profile's issuer, whatever the metadata says.
func TestDiscoveryOfHostileMetadata(t *testing.T) {
	t.Parallel()
	const inside = "http://10.1.2.3/metadata"
	type change func(s *protected) (header string)
	at := func(path string, document any) change {
		return func(s *protected) string {
			s.metadata[path] = document
			return `Bearer resource_metadata="` + s.URL + `/metadata"`
		}
	}
	resource := func(of, issuer string) change {
		return func(s *protected) string {
			of := strings.ReplaceAll(of, "{self}", s.URL)
			return at("/metadata", map[string]any{"resource": of, "authorization_servers": []string{strings.ReplaceAll(issuer, "{self}", s.URL)}})(s)
		}
	}
	issuer := func(document map[string]any) change {
		return func(s *protected) string {
			for name, v := range document {
				if text, ok := v.(string); ok {
					document[name] = strings.ReplaceAll(text, "{self}", s.URL)
				}
			}
			return at("/.well-known/oauth-authorization-server/idp", document)(s)
		}
	}
	redirect := func(to string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }
	}
	for name, c := range map[string]struct {
		change change
		want   string // what the error says; "": a token
	}{
		"as it should be":  {resource("{self}/mcp", "{self}/idp"), ""},
		"the whole origin": {resource("{self}", "{self}/idp"), ""},
		"the well-known place": {func(s *protected) string {
			s.metadata["/.well-known/oauth-protected-resource/mcp"] = s.metadata["/metadata"]
			return ""
		}, ""},
		"OpenID Connect": {func(s *protected) string {
			s.metadata["/idp/.well-known/openid-configuration"] = s.metadata["/.well-known/oauth-authorization-server/idp"]
			return at("/.well-known/oauth-authorization-server/idp", nil)(s)
		}, ""},
		"no metadata":                {func(*protected) string { return `Basic realm="x"` }, "has no metadata that says from where"},
		"malformed challenge":        {func(*protected) string { return `Bearer resource_metadata="` }, "has no metadata that says from where"},
		"metadata that is not there": {func(s *protected) string { return `Bearer resource_metadata="` + s.URL + `/none"` }, "has no metadata that says from where"},
		"metadata inside":            {func(*protected) string { return `Bearer resource_metadata="https://10.1.2.3/metadata"` }, "the server's metadata cannot be read (denied)"},
		"metadata unencrypted":       {func(*protected) string { return `Bearer resource_metadata="` + inside + `"` }, "is at no https URL"},
		"metadata in a file":         {func(*protected) string { return `Bearer resource_metadata="file:///etc/passwd"` }, "is at no https URL"},
		"metadata with a password":   {func(*protected) string { return `Bearer resource_metadata="https://u:p@h.example/"` }, "is at no https URL"},
		"metadata that redirects": {func(s *protected) string {
			s.metadata["/away"] = redirect(s.URL + "/metadata")
			return `Bearer resource_metadata="` + s.URL + `/away"`
		}, "redirects"},
		"redirected inside":           {at("/metadata", redirect(inside)), "the server's metadata cannot be read (denied)"},
		"huge metadata":               {at("/metadata", `{"resource":"`+strings.Repeat("x", maxMetadata)), "is larger than"},
		"metadata that is no JSON":    {at("/metadata", "<html>"), "is not the JSON"},
		"another resource":            {resource("https://other.example/mcp", "{self}/idp"), "is for another resource"},
		"a resource beside it":        {resource("{self}/mcp2", "{self}/idp"), "is for another resource"},
		"a resource below it":         {resource("{self}/mcp/admin", "{self}/idp"), "is for another resource"},
		"no resource":                 {resource("", "{self}/idp"), "is for another resource"},
		"another issuer":              {resource("{self}/mcp", "{self}/evil"), "does not name the profile's issuer"},
		"an issuer that begins alike": {resource("{self}/mcp", "{self}/idp2"), "does not name the profile's issuer"},
		"the issuer's is another's":   {issuer(map[string]any{"issuer": "{self}/evil", "token_endpoint": "{self}/idp/token"}), "is that of another issuer"},
		"no token endpoint":           {issuer(map[string]any{"issuer": "{self}/idp"}), "has no token_endpoint"},
		"a token endpoint inside":     {issuer(map[string]any{"issuer": "{self}/idp", "token_endpoint": "https://10.1.2.3/token"}), "got no token"},
		"a token endpoint on http":    {issuer(map[string]any{"issuer": "{self}/idp", "token_endpoint": inside}), "is no https URL"},
		"the issuer's redirects":      {at("/.well-known/oauth-authorization-server/idp", redirect("/metadata")), "redirects"},
		"the issuer is away":          {at("/.well-known/oauth-authorization-server/idp", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })), "answered 502"},
		"the issuer has no metadata":  {at("/.well-known/oauth-authorization-server/idp", nil), "has no metadata; give the profile a token_url"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newProtected(t)
			header := c.change(s)
			a := authoriser(t, vault{"env:S": secretValue}, s.client(t))
			endpoint, err := url.Parse(s.URL + "/mcp")
			require.NoError(t, err)
			server, profiles, req := a.ForServer(endpoint), []agent.PlanAuth{s.profile()}, request(t, s.URL+"/mcp")
			_, err = server.Discover(req, challenged(header), profiles)
			if err == nil {
				err = server.Authorise(req, profiles)
			}
			if c.want == "" {
				require.NoError(t, err)
				require.Equal(t, "Bearer token-1", req.Header.Get("Authorization"))
				return
			}
			require.ErrorContains(t, err, `auth profile "mcp" `)
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), secretValue)
			require.NotContains(t, err.Error(), "10.1.2.3/")
			require.Zero(t, s.secrets.Load())
			require.Empty(t, req.Header)
		})
	}
}
