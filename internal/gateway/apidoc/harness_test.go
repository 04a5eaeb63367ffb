package apidoc_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/access/accesstest"
	"github.com/turnstone-run/turnstone/internal/access/credentials"
	"github.com/turnstone-run/turnstone/internal/erasure"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/apidoc"
	"github.com/turnstone-run/turnstone/internal/gateway/chat"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
	"github.com/turnstone-run/turnstone/internal/gateway/openai"
	"github.com/turnstone-run/turnstone/internal/gateway/ws"
)

// The credentials that the server knows.
const (
	operator = "operator"
	reader   = "reader" // of tenant acme, and may only list agents
)

// server is a gateway with every door, a scripted runtime and real API keys.
type server struct {
	*gateway.Gateway

	t       *testing.T
	rt      *gatewaytest.Runtime
	catalog *gatewaytest.Catalog
	sweeps  *gatewaytest.Retention
	url     string
}

func open(t *testing.T, change ...func(*gateway.Ports)) *server {
	t.Helper()
	doc, err := apidoc.New()
	require.NoError(t, err)
	times, sweeps := &gatewaytest.Schedules{}, gatewaytest.NewRetention()
	manager, err := credentials.NewKeys(credentials.KeysConfig{Store: &accesstest.KeyStore{}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, manager.Close(context.WithoutCancel(t.Context()))) })
	chatLinks := &gatewaytest.Links{}
	chatLinks.Link("7", agent.DefaultTenant, "bob", "turns.*")
	rt, catalog := gatewaytest.New(), &gatewaytest.Catalog{}
	ports := gatewaytest.Ports(rt, catalog)
	ports.Sessions, ports.Keys, ports.Audit, ports.Usage = runtime{rt}, manager, &gatewaytest.Trail{}, &gatewaytest.Usage{
		Rows: []agent.UsageRow{{Day: new("2026-11-22"), UsageSums: agent.UsageSums{Calls: 2, InputTokens: 10, CostUSD: 0.5, RebilledCalls: 1}}},
	}
	ports.Schedules, ports.SchedulePlans, ports.Retention = times, times, sweeps
	ports.Erasures = &gatewaytest.Erasures{Ends: map[string]erasure.Status{"e1": erasure.StatusIncomplete, "e2": erasure.StatusFailed}}
	ports.Links, ports.LinkChannels = chatLinks, []gateway.LinkChannel{{
		Name: "telegram", URL: func(code string) string { return "https://example.com/?start=" + code }, Webhook: http.HandlerFunc(webhook),
	}}
	for _, do := range change {
		do(&ports)
	}
	g := gatewaytest.Serve(t, gateway.Config{
		Ports: ports, Version: "test",
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; version=0.0.4")
			_, _ = io.WriteString(w, "up 1\n")
		}),
		Doors: []gateway.Door{doc, ws.New(ws.Config{}), openai.New(), chat.New(nil)},
		Auth: gatewaytest.Credentials{
			operator: gatewaytest.Caller(agent.AnyTenant, "ops", "*"),
			reader:   gatewaytest.Caller("acme", "ann", "agents.read"),
		},
		Limits: gateway.Limits{BodyBytes: 64 << 10, UploadBytes: 64 << 10},
	})
	return &server{Gateway: g, t: t, rt: rt, catalog: catalog, sweeps: sweeps, url: "http://" + g.HTTPAddr()}
}

// runtime is the scripted one, which knows of a source that a session's tools have found.
type runtime struct{ *gatewaytest.Runtime }

func (rt runtime) ExportSession(ctx context.Context, tenant string, s agent.SessionID) (agent.SessionExport, error) {
	e, err := rt.Runtime.ExportSession(ctx, tenant, s)
	e.References = []agent.Reference{{Number: 1, Key: "doi:10.1/x", Source: "web", Item: json.RawMessage(`{"title":"x"}`), AddedAt: gatewaytest.Epoch()}}
	e.Notes = []agent.SessionNote{{Name: "summary", Body: json.RawMessage(`null`), UpdatedAt: gatewaytest.Epoch()}}
	return e, err
}

type answer struct {
	status int
	header http.Header
	body   []byte
}

func (s *server) request(credential, method, path, body string, header ...string) *http.Request {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	require.NoError(s.t, err)
	if body == "" {
		req.Body, req.ContentLength = http.NoBody, 0
	} else {
		req.Header.Set("Content-Type", "application/json")
	}
	if credential != "" {
		req.Header.Set("Authorization", "Bearer "+credential)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return req
}

func (s *server) send(credential, method, path, body string, header ...string) answer {
	s.t.Helper()
	resp, err := http.DefaultClient.Do(s.request(credential, method, path, body, header...))
	require.NoError(s.t, err)
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	return answer{status: resp.StatusCode, header: resp.Header, body: data}
}

// webhook takes what Telegram sends, as the channel does.
func webhook(w http.ResponseWriter, r *http.Request) {
	switch r.Header.Get("X-Telegram-Bot-Api-Secret-Token") {
	case "right":
		w.WriteHeader(http.StatusOK)
	default:
		w.WriteHeader(http.StatusUnauthorized)
	}
}
