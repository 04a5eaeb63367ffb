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
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/egress"
	"github.com/turnstone-run/turnstone/internal/tool/authorize"
)

// vault knows one secret.
type vault struct{}

func (vault) Reveal(context.Context, string, string) (string, error) { return secretValue, nil }

// A server that wants a token says where it is had; it gets one that is for it alone, and never the client's secret.
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
