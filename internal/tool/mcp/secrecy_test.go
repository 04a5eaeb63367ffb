package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdkauth "github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/egress"
	"github.com/turnstone-run/turnstone/internal/redact"
	"github.com/turnstone-run/turnstone/internal/tool/authorize"
)

// allLogs returns everything that was logged.
func (f *fixture) allLogs() string {
	var b strings.Builder
	for _, e := range f.logs.All() {
		fmt.Fprintln(&b, e.Message, e.ContextMap())
	}
	return b.String()
}

func TestEnvironmentOfServers(t *testing.T) {
	t.Setenv("NOT_FOR_SERVERS", "of the worker")
	kit := newKit(t, Config{Environ: []string{"PATH=/usr/bin"}, Servers: []Server{stdioServer("local", "tools")}})
	scope := scopeOf(map[string]any{"server": "local"})
	var out string
	require.NoError(t, json.Unmarshal(kit.call(t, scope, "environment", `{"text":""}`).Output, &out))
	require.NotContains(t, out, "NOT_FOR_SERVERS")
	require.Contains(t, out, "PATH=/usr/bin")
	require.Contains(t, out, "TOKEN="+redact.Placeholder)
	require.NotContains(t, out, secretValue)

	failed := kit.call(t, scope, "fail", `{"text":"with `+secretValue+`"}`)
	require.NotContains(t, failed.Failure.Message, secretValue)
	require.NotContains(t, string(failed.Output), secretValue)

	require.Eventually(t, func() bool { return strings.Contains(kit.allLogs(), "serving, with") }, 10*time.Second, 5*time.Millisecond)
	require.NotContains(t, kit.allLogs(), secretValue)
}

// keys adds a secret to requests.
type keys struct{}

func (keys) Authorise(r *http.Request, profiles []agent.PlanAuth) error {
	switch profiles[0].Type {
	case agent.AuthBearer:
		r.Header.Set("Authorization", "Bearer "+secretValue)
	case agent.AuthBasic:
		r.SetBasicAuth("user", secretValue)
	case agent.AuthAPIKey:
		u := *r.URL
		query := u.Query()
		query.Set("key", secretValue)
		u.RawQuery = query.Encode()
		r.URL = &u
	default:
		return agent.Errorf(agent.CodeDenied, "authorise request", "auth profile %q cannot be used", profiles[0].Name)
	}
	return nil
}

func TestCredentials(t *testing.T) {
	for _, kind := range []agent.AuthType{agent.AuthBearer, agent.AuthBasic, agent.AuthAPIKey} {
		t.Run(string(kind), func(t *testing.T) {
			s := sdk.NewServer(&sdk.Implementation{Name: "leaky"}, nil)
			url := overHTTP(t, s, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if !strings.Contains(r.Header.Get("Authorization")+r.URL.RawQuery, " ") && !strings.Contains(r.URL.RawQuery, secretValue) {
						w.WriteHeader(http.StatusUnauthorized)
						return
					}
					next.ServeHTTP(w, r)
				})
			})
			sdk.AddTool(s, &sdk.Tool{Name: "leak", Description: "knows " + secretValue},
				func(_ context.Context, r *sdk.CallToolRequest, _ textArgs) (*sdk.CallToolResult, any, error) {
					_ = r.Session.NotifyProgress(t.Context(), &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Message: "with " + secretValue})
					return nil, nil, fmt.Errorf("header %s, password %s", r.Extra.Header.Get("Authorization"), secretValue)
				})
			kit := newKit(t, Config{Auth: keys{}})
			scope := scopeOf(map[string]any{"url": url})
			scope.Auth = []agent.PlanAuth{{Name: "p", Type: kind}}
			list, err := kit.List(t.Context(), scope)
			require.NoError(t, err)
			inv := invocationOf(scope)
			var heard []string
			inv.Progress = func(m string) { heard = append(heard, m) }
			result, err := kit.find(t, scope, "leak").Call(t.Context(), inv, agent.ToolCall{ID: "c", Name: "leak", Args: json.RawMessage(`{"text":""}`)})
			require.NoError(t, err)
			require.NotNil(t, result.Failure)
			all := fmt.Sprint(list, heard, result.Failure, string(result.Output), kit.allLogs())
			require.Contains(t, all, redact.Placeholder)
			require.NotContains(t, all, secretValue)
			if kind == agent.AuthBasic {
				require.NotContains(t, all, "dXNlcjpz", "base64 of user and password")
			}
		})
	}
}

func TestUnavailableCredentials(t *testing.T) {
	kit := newKit(t, Config{Auth: keys{}})
	scope := scopeOf(map[string]any{"url": overHTTP(t, newServer(&world{}), nil)})
	scope.Auth = []agent.PlanAuth{{Name: "p", Type: agent.AuthOAuth2}}
	_, err := kit.List(t.Context(), scope)
	require.Equal(t, agent.CodeDenied, agent.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, `auth profile "p"`)
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	s := newSecretMasker("12345678", "12345678-longer", "true", `quo"ted\`)
	require.Equal(t, "a "+redact.Placeholder+" b "+redact.Placeholder+" true", s.mask("a 12345678 b 12345678-longer true"))
	require.JSONEq(t, `{"a":"`+redact.Placeholder+`"}`, string(s.maskJSON(json.RawMessage(`{"a":"quo\"ted\\"}`))))
	require.True(t, json.Valid(s.maskJSON(json.RawMessage(`{"n":12345678}`))), "a number that is a secret")
	for i := range 2 * maxSecrets {
		s.add(fmt.Sprintf("token-%04d", i))
	}
	require.Len(t, s.values, maxSecrets)
	require.Equal(t, redact.Placeholder, s.mask(fmt.Sprintf("token-%04d", 2*maxSecrets-1)), "the last ones are known")
	require.Equal(t, "visible…", clip.Runes("visible words", 8))
	require.Equal(t, "äöü", clip.Runes("äöü", 3))
	require.Equal(t, "ab\nc d", removeInvisible("a\u200bb\n\u202ec\td\x1b\U000E0041\x00"))
}

// vault has the same secret for every reference.
type vault struct{}

func (vault) Reveal(context.Context, string, string) (string, error) { return secretValue, nil }

// TestProtectedServer checks that a server whose metadata names the issuer gets a token for itself, and never the client's secret.
func TestProtectedServer(t *testing.T) {
	t.Parallel()
	w := &world{}
	var seen, audience atomic.Value
	var origin string
	url := overHTTP(t, newServer(w), func(next http.Handler) http.Handler {
		verify := func(_ context.Context, token string, _ *http.Request) (*sdkauth.TokenInfo, error) {
			seen.Store(token)
			if audience.Load() != origin+"/mcp" || token != "token-for-it" {
				return nil, sdkauth.ErrInvalidToken
			}
			return &sdkauth.TokenInfo{Expiration: time.Now().Add(time.Hour)}, nil
		}
		mux := http.NewServeMux()
		mux.HandleFunc("/metadata", func(rw http.ResponseWriter, r *http.Request) {
			sdkauth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
				Resource: origin + "/mcp", AuthorizationServers: []string{origin},
			}).ServeHTTP(rw, r)
		})
		mux.HandleFunc("/.well-known/oauth-authorization-server", func(rw http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(rw).Encode(map[string]string{"issuer": origin, "token_endpoint": origin + "/token"})
		})
		mux.HandleFunc("/token", func(rw http.ResponseWriter, r *http.Request) {
			if _, password, _ := r.BasicAuth(); password != secretValue {
				rw.WriteHeader(http.StatusUnauthorized)
				return
			}
			audience.Store(r.FormValue("resource"))
			rw.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprint(rw, `{"access_token":"token-for-it","token_type":"Bearer","expires_in":3600}`)
		})
		mux.HandleFunc("/mcp", func(rw http.ResponseWriter, r *http.Request) {
			options := &sdkauth.RequireBearerTokenOptions{ResourceMetadataURL: origin + "/metadata"}
			sdkauth.RequireBearerToken(verify, options)(next).ServeHTTP(rw, r)
		})
		return mux
	})
	origin = strings.TrimSuffix(url, "/mcp")
	host := strings.TrimPrefix(origin, "http://")
	cfg := streams()
	cfg.AllowPrivate = []string{host}
	web, err := egress.New(cfg)
	require.NoError(t, err)
	t.Cleanup(web.CloseIdleConnections)
	auth, err := authorize.New(authorize.Config{Secrets: vault{}, HTTP: web})
	require.NoError(t, err)
	scope := scopeOf(map[string]any{"url": url})
	scope.Auth = []agent.PlanAuth{{
		Name: "p", Type: agent.AuthOAuth2, ClientID: "me", ClientSecret: "env:S", Issuer: origin, Hosts: []string{host},
	}}

	kit := newKit(t, Config{HTTP: web, Auth: auth})
	require.JSONEq(t, `"hi"`, string(kit.call(t, scope, "echo", `{"text":"hi"}`).Output))
	require.Equal(t, "token-for-it", seen.Load())
	require.EqualValues(t, 1, w.effects.Load())
	require.NotContains(t, string(kit.call(t, scope, "echo", `{"text":"token-for-it"}`).Output), "token-for-it", "the token is a secret")

	strange := scope
	strange.Auth = []agent.PlanAuth{scope.Auth[0]}
	strange.Auth[0].Issuer = "https://another.example"
	_, err = kit.List(t.Context(), strange)
	require.Equal(t, agent.CodeDenied, agent.CodeOf(err))
	require.ErrorContains(t, err, "does not name the profile's issuer https://another.example")
}
