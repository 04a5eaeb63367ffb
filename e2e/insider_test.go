package e2e_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone"
	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/llm/llmtest"
	"github.com/turnstone-run/turnstone/turnstonetest"
)

// What must never leave the service or come back to the tenant.
const (
	platformKey = "sk-platform-key-canary"
	foreignEnv  = "foreign-variable-canary"
	canaryBody  = "internal-body-canary"
	acmeKey     = "sk-of-acme-itself"
)

// collector is a server of the tenant acme on a public address. It keeps the headers that it was sent; by path it answers as a model, with a
// refusal full of text, with text that is no answer, or with a redirect.
type collector struct {
	server *httptest.Server
	mu     sync.Mutex
	heard  []string
}

func newCollector(t *testing.T, redirect string) *collector {
	t.Helper()
	c := &collector{}
	c.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.heard = append(c.heard, fmt.Sprint(r.Header))
		c.mu.Unlock()
		switch {
		case strings.HasPrefix(r.URL.Path, "/refusal"):
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":{"message":"%s","type":"%s"}}`, canaryBody, canaryBody)
		case strings.HasPrefix(r.URL.Path, "/text"):
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: %s\n\n", canaryBody)
		case strings.HasPrefix(r.URL.Path, "/redirect"):
			http.Redirect(w, r, redirect, http.StatusTemporaryRedirect)
		default:
			w.Header().Set("Content-Type", "text/event-stream")
			for _, frame := range (llmtest.OpenAI{}).Frames(llmtest.TextReply("hello", 1)) {
				fmt.Fprint(w, frame)
			}
		}
	}))
	t.Cleanup(c.server.Close)
	return c
}

// headers are those of all requests so far.
func (c *collector) headers() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.heard, "\n")
}

// canary is a private server that nobody may connect to.
func canary(t *testing.T) (address string, reached *atomic.Int64) {
	t.Helper()
	reached = &atomic.Int64{}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error":{"message":"%s"}}`, canaryBody)
	}))
	srv.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			reached.Add(1)
		}
	}
	srv.Start()
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().String(), reached
}

// applyAs applies documents with a client, and returns what was said against them.
func applyAs(t *testing.T, c *client.Client, yaml string) error {
	t.Helper()
	_, err := c.Apply(t.Context(), agent.ApplyRequest{Files: []agent.ManifestFile{{Name: "insider.yaml", Data: []byte(yaml)}}, By: "insider"})
	return err
}

// profileDoc is a model profile of acme and an agent that uses it.
func profileDoc(name, profile string) string {
	return fmt.Sprintf("kind: ModelProfile\ntenant: acme\nname: %[1]s\nmodel: m\n%[2]s\n---\nkind: AgentInstance\ntenant: acme\nname: %[1]s\nnode_id: agent\n"+
		"node_version: \"1\"\nparameters: {system_message: hi}\nmodels: [%[1]s]\ntools: []\n", name, profile)
}

func bearerDoc(tenant, name, secret string) string {
	return fmt.Sprintf("kind: AuthProfile\ntenant: %q\nname: %s\ntype: bearer\nsecret: %s\n", tenant, name, secret)
}

// TestInsider: whoever may write the catalog of one tenant, and nothing else, reaches no private address through a model, sends no key of the
// platform anywhere, reads no variable that his tenant was not granted, and is not told what servers answered.
func TestInsider(t *testing.T) {
	t.Parallel()
	private, reached := canary(t)
	_, port, err := net.SplitHostPort(private)
	require.NoError(t, err)
	outside := newCollector(t, "http://"+private+"/v1/chat/completions")
	base := outside.server.URL
	set := turnstonetest.Settings(t, func(c *app.Config) {
		c.Auth.Keys, c.Auth.OperatorKey = true, app.Secret(operatorKey)
		c.Models = []app.Model{{Name: "paid", LLM: app.LLM{Provider: app.ProviderOpenAI, Model: "m", APIKey: platformKey, BaseURL: base + "/platform", MaxTokens: 100, TimeoutSec: 10}}}
		c.Catalog.Poll = 100 * time.Millisecond
	})
	env := []string{
		"ACME_KEY=" + acmeKey, "FOREIGN_KEY=" + foreignEnv, "OPENAI_API_KEY=" + platformKey, "DATABASE_URL=" + foreignEnv, "AWS_SECRET_ACCESS_KEY=" + foreignEnv,
		"TURNSTONE_SECRET_SHARED=" + foreignEnv,
	}
	begin := func(private []string, grants ...string) *system {
		c := *set
		c.Egress.AllowPrivate, c.Catalog.SecretEnv = private, grants
		s := startService(t, turnstone.Config{Settings: &c, Env: env})
		s.client, err = client.New(client.Config{Server: "http://" + s.HTTPAddr(), Key: operatorKey})
		require.NoError(t, err)
		return s
	}

	// A service that grants more accepts documents that the service under test has to refuse when they are used.
	lax := begin([]string{"127.0.0.1/32"}, "acme=*")
	insider, _ := lax.as("acme", "ida", "catalog.write")
	require.NoError(t, applyAs(t, insider, bearerDoc("acme", "foreign", "env:FOREIGN_KEY")+"---\n"+
		profileDoc("stored-variable", "provider: openai\nbase_url: "+base+"/ok\nauth: foreign")+"---\n"+
		profileDoc("stored-address", "provider: openai\nbase_url: http://"+private+"/v1")))
	require.NoError(t, lax.Stop(t.Context()))

	s := begin([]string{outside.server.Listener.Addr().String()}, "TURNSTONE_SECRET_*", "acme=ACME_*")
	insider, _ = s.as("acme", "ida", "catalog.write")
	colleague, _ := s.as("acme", "carl", "*")
	require.NoError(t, applyAs(t, s.client, bearerDoc("*", "house-key", "env:TURNSTONE_SECRET_SHARED")), "the operator's own")

	for at, document := range map[string]string{
		"base_url: request 127.0.0.1:":                 profileDoc("a", "provider: openai\nbase_url: http://"+private+"/v1"),
		"base_url: request 169.254.169.254":            profileDoc("a", "provider: ollama\nbase_url: http://169.254.169.254/latest"),
		"base_url: request ::ffff:127.0.0.1: ":         profileDoc("a", "provider: openai\nbase_url: http://[::ffff:127.0.0.1]:"+port+"/v1"),
		"base_url: the host \"2130706433\"":            profileDoc("a", "provider: openai\nbase_url: http://2130706433:"+port+"/v1"),
		"token_url: request 127.0.0.1:":                "kind: AuthProfile\ntenant: acme\nname: k\ntype: oauth2_client_credentials\nclient_id: i\nclient_secret: env:ACME_KEY\ntoken_url: http://" + private + "/t\n",
		"secret: read secret env:FOREIGN_KEY: ":        bearerDoc("acme", "k", "env:FOREIGN_KEY"),
		"secret: read secret env:OPENAI_API_KEY: ":     bearerDoc("acme", "k", "env:OPENAI_API_KEY"),
		"secret: read secret env:DATABASE_URL: ":       bearerDoc("acme", "k", "env:DATABASE_URL"),
		"secret: read secret env:AWS_SECRET_":          bearerDoc("acme", "k", "env:AWS_SECRET_ACCESS_KEY"),
		"secret: read secret env:TURNSTONE_SECRET_SH":  bearerDoc("acme", "k", "env:TURNSTONE_SECRET_SHARED"),
		"secret: read secret file:/run/secrets/token:": bearerDoc("acme", "k", "file:/run/secrets/token"),
		"secret: read secret file:/proc/self/environ:": bearerDoc("acme", "k", "file:/proc/self/environ"),
		"is shared and lists no hosts":                 profileDoc("a", "provider: openai\nbase_url: "+base+"/ok\nauth: house-key"),
	} {
		err := applyAs(t, insider, document)
		require.ErrorContains(t, err, at)
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err), at)
	}

	agents := map[string]string{ // → what its turn says; empty: it completes
		"stored-variable": "denied", "stored-address": "unavailable", "name": "unavailable", "redirect": "invalid", "no-address": "unavailable", "refusal": "invalid", "text": "unavailable",
		"no-key": "", "own-key": "",
	}
	require.NoError(t, applyAs(t, insider, bearerDoc("acme", "own", "env:ACME_KEY")+strings.Join([]string{
		"",
		profileDoc("name", "provider: openai\nbase_url: http://localhost:"+port+"/v1"),
		profileDoc("redirect", "provider: openai\nbase_url: "+base+"/redirect"),
		profileDoc("no-address", "provider: ollama"),
		profileDoc("refusal", "provider: openai\nbase_url: "+base+"/refusal"),
		profileDoc("text", "provider: openai\nbase_url: "+base+"/text"),
		profileDoc("no-key", "provider: openai\nbase_url: "+base+"/ok"),
		profileDoc("own-key", "provider: openai\nbase_url: "+base+"/ok\nauth: own"),
	}, "---\n")))
	for name, kind := range agents {
		for _, mode := range []agent.Mode{agent.ModeDurable, agent.ModeDirect} {
			out := runAs(t, colleague, agent.TurnRequest{Agent: name, Message: "hello", Mode: mode})
			if kind == "" {
				require.Equal(t, agent.TurnCompleted, out.Status, "%s %s: %+v", name, mode, out.Error)
				continue
			}
			require.Equal(t, agent.TurnFailed, out.Status, "%s %s", name, mode)
			require.Equal(t, kind, out.Error.Type, "%s %s: %+v", name, mode, out.Error)
			requireNothingShown(t, out)
		}
		var said []any
		for check, err := range colleague.Doctor(t.Context(), name, "") {
			said = append(said, check, fmt.Sprint(err))
		}
		require.NotEmpty(t, said, name)
		requireNothingShown(t, said)
	}
	require.Zero(t, reached.Load(), "a private address was reached")
	for _, secret := range []string{platformKey, foreignEnv} {
		require.NotContains(t, outside.headers(), secret)
	}
	require.Contains(t, outside.headers(), acmeKey, "the key that acme was granted goes where acme says")
}

// requireNothingShown looks for what the tenant must not see.
func requireNothingShown(t *testing.T, shown any) {
	t.Helper()
	text, err := json.Marshal(shown)
	require.NoError(t, err)
	for _, hidden := range []string{platformKey, foreignEnv, canaryBody} {
		require.NotContains(t, string(text), hidden)
	}
}
