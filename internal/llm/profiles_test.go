package llm_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/egress"
	"github.com/turnstone-run/turnstone/internal/llm"
	"github.com/turnstone-run/turnstone/internal/secret"
)

var _ llm.Secrets = (*secret.Resolver)(nil)

const (
	configuredKey = "sk-configured"
	profileKey    = "sk-profile"
)

// upstream is a model server that remembers the headers of each request.
type upstream struct {
	url string

	mu       sync.Mutex
	requests []http.Header
}

func newUpstream(t *testing.T) *upstream {
	t.Helper()
	u := &upstream{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.mu.Lock()
		u.requests = append(u.requests, r.Header.Clone())
		u.mu.Unlock()
		if strings.HasSuffix(r.URL.Path, "/messages") { // of Anthropic; the tests check only the header
			w.WriteHeader(http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(srv.Close)
	u.url = srv.URL
	return u
}

// takeKeys returns and removes the keys of the requests.
func (u *upstream) takeKeys() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	var keys []string
	for _, h := range u.requests {
		keys = append(keys, strings.TrimSpace(strings.Join([]string{h.Get("Authorization"), h.Get("X-Api-Key"), h.Get("Api-Key")}, " ")))
	}
	u.requests = nil
	return keys
}

// received reports whether a text was in any header.
func (u *upstream) received(text string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return strings.Contains(fmt.Sprint(u.requests), text)
}

func generate(ctx context.Context, m *llm.Models, pm agent.PlanModel) error {
	model, err := m.Model(ctx, pm)
	if err != nil {
		return err
	}
	_, err = model.Generate(ctx, agent.ModelRequest{Model: "x", Messages: []agent.Message{agent.UserText("hi")}}, nil)
	return err
}

// environmentSecrets resolves references to these variables.
func environmentSecrets(t *testing.T, env ...string) *secret.Resolver {
	t.Helper()
	r, err := secret.New(secret.Config{Env: env, AllowEnv: []string{"acme=*"}})
	require.NoError(t, err)
	return r
}

func bearer(secret string) *agent.PlanAuth {
	return &agent.PlanAuth{Tenant: "acme", Name: "mine", Type: agent.AuthBearer, Secret: secret}
}

// outbound returns a client with egress rules that allow this machine.
func outbound(t *testing.T) *http.Client {
	t.Helper()
	web, err := egress.New(egress.Config{AllowPrivate: []string{"127.0.0.1/32"}, Timeout: -1})
	require.NoError(t, err)
	t.Cleanup(web.CloseIdleConnections)
	return &http.Client{Transport: egressTransport{web}}
}

type egressTransport struct{ *egress.Client }

func (e egressTransport) RoundTrip(req *http.Request) (*http.Response, error) { return e.Do(req) }

func TestProfilesSendTheirOwnKey(t *testing.T) {
	configured, other := newUpstream(t), newUpstream(t)
	key := llm.Config{APIKey: configuredKey, BaseURL: configured.url + "/v1"}
	fast := llm.OpenAI(key)
	fast.Name = "openai/fast"
	m, err := llm.Open(llm.Settings{
		Providers: []llm.Provider{llm.OpenAI(key), fast, llm.Anthropic(llm.Config{APIKey: configuredKey, BaseURL: configured.url})},
		Secrets:   environmentSecrets(t, "KEY="+profileKey), Outbound: outbound(t),
	})
	require.NoError(t, err)
	header := &agent.PlanAuth{Tenant: "acme", Name: "azure", Type: agent.AuthAPIKey, Secret: "env:KEY", Header: "Api-Key"}
	plain := &agent.PlanAuth{Tenant: "acme", Name: "plain", Type: agent.AuthAPIKey, Secret: "env:KEY"}
	tests := []struct {
		name  string
		model agent.PlanModel
		to    *upstream
		key   string
	}{
		{"configured", agent.PlanModel{Provider: "openai"}, configured, "Bearer " + configuredKey},
		{"configured entry", agent.PlanModel{Provider: "openai/fast"}, configured, "Bearer " + configuredKey},
		{"configured, another key", agent.PlanModel{Provider: "openai", Auth: bearer("env:KEY")}, configured, "Bearer " + profileKey},
		{"another address, no key", agent.PlanModel{Provider: "openai", BaseURL: other.url}, other, ""},
		{"an entry at another address", agent.PlanModel{Provider: "openai/fast", BaseURL: other.url}, other, ""},
		{"the configured address, no key", agent.PlanModel{Provider: "openai", BaseURL: configured.url + "/v1"}, configured, ""},
		{"another address and key", agent.PlanModel{Provider: "openai", BaseURL: other.url, Auth: bearer("env:KEY")}, other, "Bearer " + profileKey},
		{"a key without a header", agent.PlanModel{Provider: "openai", BaseURL: other.url, Auth: plain}, other, "Bearer " + profileKey},
		{"a key in a header", agent.PlanModel{Provider: "openai", BaseURL: other.url, Auth: header}, other, profileKey},
		{"ollama, not configured", agent.PlanModel{Provider: "ollama", BaseURL: other.url}, other, ""},
		{"offline, not configured", agent.PlanModel{Provider: "offline", BaseURL: other.url, Auth: bearer("env:KEY")}, other, "Bearer " + profileKey},
		{"anthropic", agent.PlanModel{Provider: "anthropic"}, configured, configuredKey},
		{"anthropic at another address", agent.PlanModel{Provider: "anthropic", BaseURL: other.url}, other, ""},
		{"anthropic, another key", agent.PlanModel{Provider: "anthropic", BaseURL: other.url, Auth: bearer("env:KEY")}, other, profileKey},
		{"anthropic, a header", agent.PlanModel{Provider: "anthropic", BaseURL: other.url, Auth: header}, other, profileKey},
	}
	for range 2 { // with new and with open clients
		for _, tt := range tests {
			err := generate(t.Context(), m, tt.model)
			if strings.HasPrefix(tt.model.Provider, "anthropic") {
				require.Equal(t, agent.CodeDenied, agent.CodeOf(err), tt.name)
			} else {
				require.NoError(t, err, tt.name)
			}
			require.False(t, other.received(configuredKey), tt.name)
			require.Equal(t, []string{tt.key}, tt.to.takeKeys(), tt.name)
			require.Empty(t, append(configured.takeKeys(), other.takeKeys()...), tt.name)
		}
	}
}

// keyTransport is a transport that adds the configured key.
type keyTransport struct{}

func (keyTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Api-Key", configuredKey)
	return http.DefaultTransport.RoundTrip(req)
}

func TestConfiguredTransportIsForItsAddressOnly(t *testing.T) {
	configured, other := newUpstream(t), newUpstream(t)
	m, err := llm.Open(llm.Settings{
		Providers: []llm.Provider{llm.OpenAI(llm.Config{BaseURL: configured.url, HTTPClient: &http.Client{Transport: keyTransport{}}})}, Outbound: outbound(t),
	})
	require.NoError(t, err)
	require.NoError(t, generate(t.Context(), m, agent.PlanModel{Provider: "openai"}))
	require.Equal(t, []string{configuredKey}, configured.takeKeys())
	require.NoError(t, generate(t.Context(), m, agent.PlanModel{Provider: "openai", BaseURL: other.url}))
	require.Equal(t, []string{""}, other.takeKeys())
}

func TestProfilesAreRefused(t *testing.T) {
	m, err := llm.Open(llm.Settings{
		Providers: []llm.Provider{llm.OpenAI(llm.Config{APIKey: configuredKey, BaseURL: local})},
		Secrets:   environmentSecrets(t, "KEY="+profileKey, "BAD="+profileKey+" and more", "DATABASE_URL=x"), Outbound: outbound(t),
	})
	require.NoError(t, err)
	auth := func(change func(*agent.PlanAuth)) *agent.PlanAuth {
		a := bearer("env:KEY")
		change(a)
		return a
	}
	basic := auth(func(a *agent.PlanAuth) { a.Type = agent.AuthBasic })
	query := auth(func(a *agent.PlanAuth) { a.Type, a.Query = agent.AuthAPIKey, "key" })
	header := auth(func(a *agent.PlanAuth) { a.Type, a.Header = agent.AuthAPIKey, "A B" })
	globex := auth(func(a *agent.PlanAuth) { a.Tenant = "globex" })
	acme := auth(func(a *agent.PlanAuth) { a.Hosts = []string{"*.acme.test", "acme.test"} })
	const (
		noKey   = "has no key: give the profile an auth, or configure llm"
		profile = `model profile "p": `
		mine    = profile + `auth "mine": `
		secret  = mine + "read secret env:"
	)
	for _, tt := range []struct {
		provider, url string
		auth          *agent.PlanAuth
		code          agent.Code
		says          string
	}{
		{"anthropic", "", nil, agent.CodeInvalid, "auth: " + profile + `provider "anthropic" ` + noKey},
		{"openai", "https://api.openai.com/v1", nil, agent.CodeInvalid, "auth: " + profile + `provider "openai" ` + noKey},
		{"offline", "", nil, agent.CodeInvalid, "base_url: " + profile + `provider "offline" has no address: give the profile a base_url, or configure llm`},
		{"ollama", "localhost", nil, agent.CodeInvalid, profile + `provider "ollama": base_url: want an absolute http or https URL, got "localhost"`},
		{"openai", "", bearer("env:BAD"), agent.CodeInvalid, profile + `provider "openai": api_key: holds a space, a line break or a character outside ASCII`},
		{"openai", "", bearer("env:NONE"), agent.CodeNotFound, secret + "NONE: not set, or empty"},
		{"openai", "", bearer("env:DATABASE_URL"), agent.CodeDenied, secret + "DATABASE_URL: the variable is the runtime's own"},
		{"openai", "", globex, agent.CodeDenied, secret + `KEY: catalog.secret_env grants no such variable to documents of tenant "globex"`},
		{"openai", "http://10.0.0.1/v1", nil, agent.CodeDenied, "call model: openai: 10.0.0.1 is not a public address"},
		{"ollama", "", nil, agent.CodeUnavailable, "call model: ollama: connect: connection refused"}, // allowed in this test, but nobody listens
		{"openai", "", bearer(""), agent.CodeInvalid, mine + "secret: is empty"},
		{"openai", "", basic, agent.CodeInvalid, mine + "type: is basic: a model takes bearer or api_key"},
		{"openai", "", query, agent.CodeInvalid, mine + "query: is given: a model's key goes into a header"},
		{"openai", "", header, agent.CodeInvalid, mine + `header: is no name of a header: "A B"`},
		{"ollama", "http://evil.test/v1", acme, agent.CodeDenied, mine + "may not be sent to evil.test: its hosts are *.acme.test, acme.test"},
	} {
		err := generate(t.Context(), m, agent.PlanModel{Profile: "p", Provider: tt.provider, BaseURL: tt.url, Auth: tt.auth})
		require.ErrorContains(t, err, tt.says)
		require.Equal(t, tt.code, agent.CodeOf(err), tt.says)
		require.NotContains(t, err.Error(), profileKey)
	}
	err = generate(t.Context(), m, agent.PlanModel{Provider: "anthropic"})
	require.ErrorContains(t, err, `auth: model profile "anthropic": `, "a profile without a name has the name of its provider")
	none, err := llm.Open(llm.Settings{Outbound: outbound(t)})
	require.NoError(t, err)
	err = generate(t.Context(), none, agent.PlanModel{Profile: "p", Provider: "ollama", Auth: bearer("env:KEY")})
	require.EqualError(t, err, `model profile "p": auth "mine": secret: cannot be read: no secrets are configured`)
	nowhere, err := llm.New(llm.Ollama(llm.Config{}))
	require.NoError(t, err)
	for _, pm := range []agent.PlanModel{{Profile: "p", Provider: "ollama", BaseURL: local}, {Profile: "p", Provider: "anthropic"}} {
		_, err = nowhere.Model(t.Context(), pm)
		require.EqualError(t, err, `model profile "p": nothing may be sent to addresses that are not configured`)
		require.Equal(t, agent.CodeDenied, agent.CodeOf(err))
	}
}

func TestAuthHosts(t *testing.T) {
	m, err := llm.Open(llm.Settings{
		Providers: []llm.Provider{llm.Compatible("vllm", llm.Config{BaseURL: "http://models.acme.test:8000/v1"}), llm.LangChainOpenAI(llm.Config{APIKey: "k"})},
		Secrets:   environmentSecrets(t, "KEY="+profileKey), Outbound: outbound(t),
	})
	require.NoError(t, err)
	tests := []struct {
		provider, url, host string
		fits                bool
	}{
		{"openai", "", "api.openai.com", true},
		{"openai", "", "API.openai.com:443", true},
		{"openai", "", "api.openai.com:8443", false},
		{"openai", "", "*.openai.com", true},
		{"openai", "", "*.api.openai.com", false},
		{"openai", "", "openai.com", false},
		{"anthropic", "", "api.anthropic.com", true},
		{"ollama", "", "127.0.0.1:11434", true},
		{"ollama", "", "127.0.0.1:80", false},
		{"vllm", "", "models.acme.test:8000", true},
		{"vllm", "http://other.test", "models.acme.test", false},
		{"ollama", "http://notacme.test", "*.acme.test", false},
		{"ollama", "http://a.acme.test:81", "*.acme.test:81", true},
		{"ollama", "http://a.acme.test:81", "*.acme.test:80", false},
		{"ollama", "http://[::1]:8080", "[::1]:8080", true},
		{"ollama", "http://[::1]:8080", "::1", true},
		{"langchain-openai", "", "api.openai.com", false}, // the address of langchaingo is unknown
	}
	for _, tt := range tests {
		auth := bearer("env:KEY")
		auth.Hosts = []string{"nothing.test", tt.host}
		_, err := m.Model(t.Context(), agent.PlanModel{Provider: tt.provider, BaseURL: tt.url, Auth: auth})
		if tt.fits {
			require.NoError(t, err, "%+v", tt)
		} else {
			require.Equal(t, agent.CodeDenied, agent.CodeOf(err), "%+v", tt)
		}
	}
}

// Without DocumentAddress, a provider takes no address and no key from a document. With it, a document cannot use the credentials of the machine.
func TestDocumentAddressIsOptIn(t *testing.T) {
	var opened []llm.Config
	open := func(cfg llm.Config) (agent.Model, error) {
		opened = append(opened, cfg)
		return failingModel{}, nil
	}
	closed := llm.Provider{Name: "closed", Config: llm.Config{BaseURL: local, Ambient: true}, Open: open}
	public := closed
	public.Name, public.DocumentAddress = "public", true
	m, err := llm.Open(llm.Settings{Providers: []llm.Provider{closed, public}, Secrets: environmentSecrets(t, "A=a"), Outbound: outbound(t)})
	require.NoError(t, err)
	for _, pm := range []agent.PlanModel{{BaseURL: "https://example.org"}, {Auth: bearer("env:A")}} {
		pm.Provider = "closed"
		_, err := m.Model(t.Context(), pm)
		require.Equal(t, agent.CodeDenied, agent.CodeOf(err))
		require.ErrorContains(t, err, `provider "closed" takes no base_url and no auth from a document`)
	}
	_, err = m.Model(t.Context(), agent.PlanModel{Provider: "closed"})
	require.NoError(t, err)
	opened = nil
	for _, pm := range []agent.PlanModel{{BaseURL: "https://example.org"}, {Auth: bearer("env:A")}} {
		pm.Provider = "public"
		_, err := m.Model(t.Context(), pm)
		require.NoError(t, err)
	}
	require.Len(t, opened, 2)
	for _, cfg := range opened {
		require.False(t, cfg.Ambient)
	}
}
