package openapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// secured is a document of operations with each kind of security; tokens come from /token.
const secured = `{"openapi":"3.0.3","info":{"title":"t","version":"1"},"security":[{"header":[]}],"components":{"securitySchemes":{
"header":{"type":"apiKey","in":"header","name":"X-Key"},"query":{"type":"apiKey","in":"query","name":"key"},"cookie":{"type":"apiKey","in":"cookie","name":"SID"},
"bearer":{"type":"http","scheme":"Bearer"},"basic":{"type":"http","scheme":"basic"},"digest":{"type":"http","scheme":"digest"},
"oauth":{"type":"oauth2","flows":{"clientCredentials":{"tokenUrl":"https://idp.example/token","scopes":{}}}},"oidc":{"type":"openIdConnect","openIdConnectUrl":"https://idp.example"},
"auth":{"type":"apiKey","in":"header","name":"Authorization"},"tls":{"type":"mutualTLS"}}},"paths":{
"/global":{"get":{"operationId":"global"}},"/none":{"get":{"operationId":"none","security":[]}},
"/query":{"get":{"operationId":"query","security":[{"query":[]}]}},
"/cookie":{"get":{"operationId":"cookie","security":[{"cookie":[]}],"parameters":[{"name":"lang","in":"cookie","schema":{"type":"string"}}]}},
"/bearer":{"get":{"operationId":"bearer","security":[{"bearer":[]}]}},"/basic":{"get":{"operationId":"basic","security":[{"basic":[]}]}},
"/oauth":{"get":{"operationId":"oauth","security":[{"oauth":["read"]}]}},"/oidc":{"get":{"operationId":"oidc","security":[{"oidc":[]}]}},
"/auth":{"get":{"operationId":"auth","security":[{"auth":[]}]}},
"/both":{"get":{"operationId":"both","security":[{"tls":[]},{"query":[],"header":[]}]}},
"/optional":{"get":{"operationId":"optional","security":[{},{"bearer":[]}]}},
"/digest":{"get":{"operationId":"digest","security":[{"digest":[]},{"tls":[]}]}}}}`

func TestSecurity(t *testing.T) {
	s := newSite(t, secured, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/token" {
			fmt.Fprint(w, `{"access_token":"token-of-idp","token_type":"Bearer","expires_in":3600}`)
			return
		}
		// A server that repeats what it was sent, in several ways.
		user, password, _ := r.BasicAuth()
		w.Header().Set("Link", r.Header.Get("X-Key"))
		_ = json.NewEncoder(w).Encode(map[string]any{"headers": r.Header, "uri": r.RequestURI, "key": r.URL.Query().Get("key"), "user": user, "password": password})
	})
	a := kitFor(t, Config{}, s)
	profiles := map[string]agent.PlanAuth{
		"header": {Type: agent.AuthAPIKey, Header: "x-key"}, "query": {Type: agent.AuthAPIKey, Query: "key"}, "cookie": {Type: agent.AuthAPIKey, Header: "Cookie"},
		"bearer": {Type: agent.AuthBearer}, "basic": {Type: agent.AuthBasic, Username: "joe", Password: "env:S"},
		"oauth":   {Type: agent.AuthOAuth2, ClientID: "me", ClientSecret: "env:S", TokenURL: s.URL + "/token"},
		"missing": {Type: agent.AuthBearer, Secret: "env:NONE"}, "elsewhere": {Type: agent.AuthBearer, Hosts: []string{"api.example.com"}},
		"other": {Type: agent.AuthAPIKey, Header: "X-Other"},
	}
	grant := func(names string) []agent.PlanAuth {
		var all []agent.PlanAuth
		for name := range strings.FieldsSeq(names) {
			p := profiles[name]
			if p.Name = name; p.Secret == "" {
				p.Secret = "env:S"
			}
			if p.Hosts == nil {
				p.Hosts = []string{s.host()}
			}
			all = append(all, p)
		}
		return all
	}
	for _, c := range []struct{ operation, granted, named, want string }{
		{"global", "bearer header query", "", "X-Key: " + secret},
		{"none", "bearer", "", "-"},
		{"none", "bearer", "bearer", "Authorization: Bearer " + secret},
		{"query", "bearer query", "", "?key=s3cr3t-Value%2B%2Fx"},
		{"cookie", "cookie", "", "Cookie: " + secret + "; lang=de"},
		{"bearer", "other oauth", "", "Authorization: Bearer token-of-idp"},
		{"bearer", "other bearer", "", "Authorization: Bearer " + secret},
		{"basic", "bearer basic", "", "Authorization: Basic am9lOnMzY3IzdC1WYWx1ZSsveA=="},
		{"oauth", "oauth bearer", "", "Authorization: Bearer token-of-idp"},
		{"oauth", "oauth bearer", "bearer", "Authorization: Bearer " + secret},
		{"oidc", "bearer", "", "Authorization: Bearer " + secret},
		{"auth", "basic", "", "Authorization: Basic am9lOnMzY3IzdC1WYWx1ZSsveA=="},
		{"both", "header query", "", "X-Key: " + secret + " ?key=s3cr3t-Value%2B%2Fx"},
		{"both", "header", "", "!the operation needs tls (mutualTLS), or header (apiKey in header X-Key) and query (apiKey in query key), and no auth profile is one: " +
			"those for " + s.host() + " are header (api_key in the header x-key)"},
		{"optional", "bearer", "", "Authorization: Bearer " + secret},
		{"optional", "other", "", "-"},
		{"optional", "other", "other", "!the operation needs bearer (http bearer)"},
		{"digest", "bearer basic", "", "!the operation needs digest (http digest), or tls (mutualTLS)"},
		{"global", "", "", "!no auth profile is one: those for " + s.host() + " are none"},
		{"global", "elsewhere", "", "!are none"},
		{"bearer", "elsewhere", "elsewhere", `!the profile "elsewhere" may not be sent to ` + s.host()},
		{"bearer", "bearer", "header", `!the profile "header" is not granted: granted are bearer`},
		{"bearer", "bearer header", "header", "!the operation needs bearer (http bearer)"},
		{"bearer", "missing", "", `!auth profile "missing" cannot be used: its secret is not set`},
	} {
		inv := invocation()
		inv.Auth = grant(c.granted)
		args := `{"openapi_url":"` + s.URL + `/openapi","operation_id":"` + c.operation + `"`
		if c.operation == "cookie" {
			args += `,"params":{"lang":"de"}`
		}
		if c.named != "" {
			args += `,"auth_profile":"` + c.named + `"`
		}
		res, err := a.Call(t.Context(), inv, agent.ToolCall{Args: json.RawMessage(args + "}")})
		require.NoError(t, err)
		name := fmt.Sprint(c)
		for _, hidden := range []string{secret, "s3cr3t", "token-of-idp", "am9lOnMzY3IzdC1WYWx1ZSsveA"} {
			require.NotContains(t, string(res.Output), hidden, name)
		}
		if says, bad := strings.CutPrefix(c.want, "!"); bad {
			require.NotNil(t, res.Failure, name)
			require.Equal(t, "denied", res.Failure.Type)
			require.Contains(t, res.Failure.Message, says, name)
			continue
		}
		require.Nil(t, res.Failure, "%s %+v", name, res.Failure)
		calls := s.calls()
		require.Equal(t, c.want, credentialsOf(calls[len(calls)-1]), name)
		require.Contains(t, string(res.Output), `"url":"`+s.URL+"/"+c.operation+`"`, "%s: the address that is shown has no credentials", name)
	}
}

// credentialsOf lists what a request has of them.
func credentialsOf(r request) string {
	var all []string
	for _, name := range []string{"Authorization", "X-Key", "X-Other", "Cookie"} {
		if v := r.header.Get(name); v != "" {
			all = append(all, name+": "+v)
		}
	}
	if _, query, ok := strings.Cut(r.uri, "?"); ok {
		all = append(all, "?"+query)
	}
	if all == nil {
		return "-"
	}
	return strings.Join(all, " ")
}

// A document that says nothing of security is treated as any request: the first profile for the host.
func TestUndeclaredSecurity(t *testing.T) {
	s := newSite(t, weather, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	a := kitFor(t, Config{}, s)
	inv := invocation()
	inv.Auth = []agent.PlanAuth{
		{Name: "no", Type: agent.AuthBearer, Secret: "env:S", Hosts: []string{"api.example.com"}},
		{Name: "yes", Type: agent.AuthAPIKey, Secret: "env:S", Header: "X-Key", Hosts: []string{s.host()}},
	}
	res, _ := call(t, a, inv, `{"openapi_url":"`+s.URL+`/openapi","operation_id":"getWeather","params":{"city":"x"}}`)
	require.Nil(t, res.Failure)
	require.Equal(t, "X-Key: "+secret, credentialsOf(s.calls()[0]))
	s.mu.Lock()
	fetched := s.requests[0]
	s.mu.Unlock()
	require.Equal(t, "-", credentialsOf(fetched), "the request for the document has no credentials")
}
