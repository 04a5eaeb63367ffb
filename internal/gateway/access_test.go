package gateway_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/access"
	"github.com/turnstone-run/turnstone/internal/access/accesstest"
	"github.com/turnstone-run/turnstone/internal/access/credentials"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

// bearer returns the header with a credential.
func bearer(credential string) []string { return []string{"Authorization", "Bearer " + credential} }

// withBearer returns the context of a gRPC call with a credential.
func withBearer(ctx context.Context, credential string, more ...string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, append([]string{"authorization", "Bearer " + credential}, more...)...)
}

func operatorKey() string { return strings.Repeat("operator-", 5) }

// startWithKeys starts a gateway with API keys.
func startWithKeys(t *testing.T, change func(*gateway.Config)) (*testGateway, *accesstest.KeyStore, *gatewaytest.Trail) {
	t.Helper()
	store := &accesstest.KeyStore{}
	k, err := credentials.NewKeys(credentials.KeysConfig{Store: store})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.Close(context.WithoutCancel(t.Context()))) })
	auth, err := access.New(access.Config{Keys: k, OperatorKey: operatorKey()})
	require.NoError(t, err)
	trail := &gatewaytest.Trail{}
	d := startGateway(t, func(c *gateway.Config) {
		c.Auth, c.Keys, c.Audit = auth, k, trail
		if change != nil {
			change(c)
		}
	})
	return d, store, trail
}

// createKey creates a key with a credential.
func (d *testGateway) createKey(body string, credential string) agent.NewKey {
	d.t.Helper()
	a := d.send("POST", "/v1/keys", body, bearer(credential)...)
	require.Equal(d.t, 201, a.status, "%s", a.body)
	return decode[agent.NewKey](d.t, a)
}

func TestCredentials(t *testing.T) {
	d, _, trail := startWithKeys(t, nil)
	runtime := pb.NewAgentRuntimeClient(d.dial())
	good := d.createKey(`{"name":"good","tenant":"acme","subject":"ann"}`, operatorKey())
	revoked := d.createKey(`{"name":"revoked","tenant":"acme"}`, operatorKey())
	require.Equal(t, 200, d.send("DELETE", "/v1/keys/"+revoked.ID, "", bearer(operatorKey())...).status)
	expired := d.createKey(`{"name":"expired","tenant":"acme","expires_in":"1ms"}`, operatorKey())
	require.Eventually(t, func() bool { return d.send("GET", "/v1/whoami", "", bearer(expired.Key)...).status == 401 }, 5*time.Second, time.Millisecond)
	rotated := d.createKey(`{"name":"rotated","tenant":"acme"}`, operatorKey())
	next := decode[agent.NewKey](t, d.send("POST", "/v1/keys/"+rotated.ID+"/rotate", `{"overlap":"1h"}`, bearer(operatorKey())...))
	cut := d.createKey(`{"name":"cut","tenant":"acme"}`, operatorKey())
	after := decode[agent.NewKey](t, d.send("POST", "/v1/keys/"+cut.ID+"/rotate", `{"overlap":"0s"}`, bearer(operatorKey())...))
	wrong := "0"
	if good.Key[40] == wrong[0] { // the character may be the same
		wrong = "1"
	}

	cases := []struct {
		name   string
		header []string // also sent as gRPC metadata
		words  string   // of the refusal; empty: let in
	}{
		{"none", nil, "missing"},
		{"good", bearer(good.Key), ""},
		{"operator", bearer(operatorKey()), ""},
		{"X-API-Key", []string{"X-Api-Key", good.Key}, ""},
		{"both", append(bearer(good.Key), "X-Api-Key", good.Key), ""},
		{"both, different", append(bearer(good.Key), "X-Api-Key", rotated.Key), "two credentials"},
		{"typo", bearer(good.Key[:40] + wrong + good.Key[41:]), "mistyped"},
		{"cut", bearer(good.Key[:60]), "mistyped"},
		{"nonsense", bearer("hello"), "none that is accepted"},
		{"wrong operator key", bearer(operatorKey() + "x"), "none that is accepted"},
		{"token, no issuer", bearer("a.b.c"), "none that is accepted"},
		{"basic", []string{"Authorization", "Basic YTpi"}, "want the header"},
		{"revoked", bearer(revoked.Key), "revoked"},
		{"expired", bearer(expired.Key), "expired"},
		{"rotated, the old one", bearer(rotated.Key), ""},
		{"rotated, the new one", bearer(next.Key), ""},
		{"rotated without overlap, the old one", bearer(cut.Key), "expired"},
		{"rotated without overlap, the new one", bearer(after.Key), ""},
		{"too long", bearer(strings.Repeat("x", 9000)), "longer"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			a := d.send("GET", "/v1/agents", "", c.header...)
			pairs := []string{}
			for i := 0; i+1 < len(c.header); i += 2 {
				pairs = append(pairs, strings.ToLower(c.header[i]), c.header[i+1])
			}
			_, err := runtime.ListAgents(metadata.AppendToOutgoingContext(t.Context(), pairs...), &pb.ListAgentsRequest{})
			if c.words == "" {
				require.Equal(t, 200, a.status, "%s", a.body)
				require.NoError(t, err)
				return
			}
			require.Equal(t, 401, a.status)
			f := a.failure(t)
			require.Equal(t, "unauthenticated", f.Type)
			require.Contains(t, f.Message, c.words)
			challenge := a.header.Get("WWW-Authenticate")
			require.Contains(t, challenge, `Bearer realm="turnstone"`)
			require.Equal(t, c.name != "none", strings.Contains(challenge, `error="invalid_token"`))
			require.Equal(t, codes.Unauthenticated, status.Code(err))
			require.Contains(t, status.Convert(err).Message(), c.words)
			if c.header != nil {
				require.NotContains(t, string(a.body), c.header[1])
			}
		})
	}
	reasons := map[string]bool{}
	for _, r := range trail.Records() {
		if r.Action == agent.AuditAuthenticate {
			reasons[r.Channel+string(r.Detail)] = true
			require.Equal(t, agent.AuditDenied, r.Outcome)
			require.NotEmpty(t, r.RequestID)
			require.NotEmpty(t, r.Remote)
			require.NotContains(t, string(r.Detail), "tsk_")
		}
	}
	require.Len(t, reasons, 14, "%v", reasons) // seven reasons, over HTTP and gRPC
}

func TestAFloodOfStrangersFillsNoTrail(t *testing.T) {
	d, _, trail := startWithKeys(t, nil)
	for range 300 {
		require.Equal(t, 401, d.send("GET", "/v1/agents", "", bearer("hello")...).status)
	}
	require.Less(t, len(trail.Records()), 200)
	require.Greater(t, len(trail.Records()), 90)
}

// unreadBody is a body that records whether it was read.
type unreadBody struct{ read bool }

func (c *unreadBody) Read([]byte) (int, error) {
	c.read = true
	return 0, context.Canceled
}

func TestStrangersAreRefusedBeforeTheirBodyIsRead(t *testing.T) {
	d, _, _ := startWithKeys(t, nil)
	body := &unreadBody{}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.url+"/v1/turns", body)
	require.NoError(t, err)
	req.ContentLength = 1 << 20
	req.Header.Set("Expect", "100-continue")
	client := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Hour}}
	t.Cleanup(client.CloseIdleConnections)
	resp, err := client.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 401, resp.StatusCode)
	require.False(t, body.read)
}

func TestTenantIsTheCredentials(t *testing.T) {
	d := startGateway(t, func(c *gateway.Config) {
		c.Auth = gatewaytest.Credentials{
			"acme": gatewaytest.Caller("acme", "ann", "*"), "any": gatewaytest.Caller(agent.AnyTenant, "", "*"),
		}
		c.Audit = &gatewaytest.Trail{}
	})
	d.rt.Collections = []string{"docs"}
	d.rt.Script = answerWith("ok") // so that an accepted request ends
	acme := bearer("acme")
	header := append(bearer("acme"), "Turnstone-Tenant", "other")
	foreign := []struct {
		method, path, body string
		header             []string
	}{
		{"POST", "/v1/turns", `{"message":"x"}`, header},
		{"POST", "/v1/turns?tenant=other", `{"message":"x"}`, acme},
		{"POST", "/v1/turns", `{"message":"x","context":{"tenant":"other"}}`, acme},
		{"POST", "/v1/routes/dry-run", `{"context":{"tenant":"other"}}`, acme},
		{"POST", "/test/chat?prompt=x&tenant=other", ``, acme},
		{"POST", "/test/chat", `{"prompt":"x","tenant":"other"}`, acme},
		{"POST", "/test/chat", `{"prompt":"x","context":{"tenant":"other"}}`, acme},
		{"GET", "/v1/turns/t", ``, header},
		{"GET", "/v1/turns/t/events?tenant=other", ``, acme},
		{"POST", "/v1/turns/t/cancel", ``, header},
		{"GET", "/v1/agents?tenant=other", ``, acme},
		{"GET", "/v1/agents?tenant=*", ``, acme},
		{"GET", "/v1/catalog/documents?tenant=other", ``, acme},
		{"GET", "/v1/catalog/documents?tenant=*", ``, acme},
		{"GET", "/v1/catalog/documents/AgentInstance/a?tenant=other", ``, acme},
		{"GET", "/v1/catalog/history?tenant=*", ``, acme},
		{"GET", "/v1/catalog/stream?tenant=other", ``, acme},
		{"GET", "/v1/catalog/stream?tenant=*", ``, acme},
		{"GET", "/v1/catalog/agents/a/plan?tenant=*", ``, acme},
		{"POST", "/v1/catalog/publish", `{"agent":"a","tenant":"other"}`, acme},
		{"POST", "/v1/catalog/publish", `{"agent":"a","tenant":"*"}`, acme},
		{"DELETE", "/v1/catalog/documents/AgentInstance/a?tenant=other", ``, acme},
		{"DELETE", "/v1/catalog/documents/AgentInstance/a?tenant=*", ``, acme},
		{"DELETE", "/v1/catalog/documents/NodeDefinition/a?version=1", ``, acme},
		{"GET", "/v1/approvals?tenant=other", ``, acme},
		{"GET", "/v1/sessions/s/messages?tenant=other", ``, acme},
		{"GET", "/v1/sessions/s/export?tenant=other", ``, acme},
		{"DELETE", "/v1/sessions/s", ``, header},
		{"GET", "/v1/results/r?tenant=other", ``, acme},
		{"GET", "/v1/results/r/data?tenant=other", ``, acme},
		{"GET", "/v1/knowledge/docs/documents?tenant=other", ``, acme},
		{"GET", "/v1/workflows?tenant=other", ``, acme},
		{"PUT", "/v1/workflows/w", `{}`, header},
		{"POST", "/v1/workflows/w:run", `{"context":{"tenant":"other"}}`, acme},
		{"GET", "/v1/runs?tenant=other", ``, acme},
		{"GET", "/v1/tools/composites?tenant=other", ``, acme},
		{"GET", "/v1/audit?tenant=other", ``, acme},
		{"GET", "/v1/whoami?tenant=other", ``, acme},
		{"POST", "/v1/doctor?tenant=other", ``, acme},
	}
	for _, c := range foreign {
		t.Run(c.method+c.path+c.body+strings.Join(c.header[2:], "="), func(t *testing.T) {
			a := d.send(c.method, c.path, c.body, c.header...)
			require.Equal(t, 403, a.status, "%s", a.body)
			require.Equal(t, "denied", a.failure(t).Type)
		})
	}
	require.Empty(t, d.rt.Submitted())
	require.Empty(t, d.catalog.Applied())

	_, err := pb.NewAgentRuntimeClient(d.dial()).Invoke(withBearer(t.Context(), "acme", "turnstone-tenant", "other"), &pb.TurnRequest{Message: "x"})
	require.Equal(t, codes.PermissionDenied, status.Code(err))
	_, err = pb.NewAgentRuntimeClient(d.dial()).Invoke(withBearer(t.Context(), "acme"), &pb.TurnRequest{Message: "x", Context: &pb.InvocationContext{Tenant: "other"}})
	require.Equal(t, codes.PermissionDenied, status.Code(err))
	for _, tenant := range []string{"other", "*"} {
		_, err = pb.NewCatalogClient(d.dial()).ListDocuments(withBearer(t.Context(), "acme"), &pb.ListDocumentsRequest{Tenant: tenant})
		require.Equal(t, codes.PermissionDenied, status.Code(err))
	}

	// A credential of one tenant may name that tenant; a credential of every tenant may name any.
	for _, c := range []struct{ credential, query, body, want string }{
		{"acme", "", "", "acme"},
		{"acme", "&tenant=acme", `,"context":{"tenant":"acme"}`, "acme"},
		{"any", "", "", "default"},
		{"any", "&tenant=other", "", "other"},
		{"any", "", `,"context":{"tenant":"third"}`, "third"},
	} {
		a := d.send("POST", "/v1/turns?wait=false"+c.query, `{"message":"x"`+c.body+`}`, bearer(c.credential)...)
		require.Equal(t, 202, a.status, "%s", a.body)
		require.Equal(t, c.want, d.lastSubmitted().Request.Context.Tenant)
	}
}

func TestTokensInAddresses(t *testing.T) {
	core, logs := observer.New(zapcore.DebugLevel)
	secret := strings.Repeat("secret", 4)
	d := startGateway(t, func(c *gateway.Config) {
		c.Auth, c.Logger = gatewaytest.Credentials{secret: gatewaytest.Caller("acme", "ann", "*")}, zap.New(core)
		c.Doors = []gateway.Door{routesDoor{{Method: "GET", Path: "/v1/ws", Action: agent.ActionTurnsRead, Handle: func(w http.ResponseWriter, r *http.Request, _ *gateway.Call) error {
			return errorOf(io.WriteString(w, r.URL.RawQuery+" "+r.RequestURI))
		}}}}
	})
	d.rt.Script = answerWith("ok")
	require.Equal(t, 200, d.send("POST", "/v1/turns", `{"message":"x","turn_id":"t"}`, bearer(secret)...).status)
	a := d.send("GET", "/v1/turns/t/events?after_index=1&access_token="+secret, "")
	require.Equal(t, 200, a.status, "%s", a.body)
	a = d.send("GET", "/v1/ws?turn_id=t&access%5Ftoken="+secret+"&x=%20y", "")
	require.Equal(t, 401, a.status, "an address that hides what it has")
	a = d.send("GET", "/v1/ws?turn_id=t&access_token="+secret+"&x=%20y", "")
	require.Equal(t, "turn_id=t&x=%20y /v1/ws?turn_id=t&x=%20y", string(a.body))
	require.Equal(t, 401, d.send("GET", "/v1/turns/t/events?access_token=wrong", "").status)
	require.Equal(t, 401, d.send("GET", "/v1/turns/t/events?access_token=a&access_token=b", "").status)
	require.Equal(t, 401, d.send("GET", "/v1/turns/t/events?access_token=other", "", bearer(secret)...).status)
	require.Equal(t, 200, d.send("GET", "/v1/turns/t/events?access_token="+secret, "", bearer(secret)...).status)
	for _, request := range []string{
		"GET /v1/turns/t", "GET /v1/agents", "POST /v1/turns", "POST /v1/turns/t/cancel", "GET /v1/whoami", "GET /v1/results/events",
		"GET /v1/turns/t/x/events", "POST /v1/turns/t/events",
	} {
		method, path, _ := strings.Cut(request, " ")
		require.NotEqual(t, 200, d.send(method, path+"?access_token="+secret, "").status, request)
	}
	for _, entry := range logs.All() {
		for name, value := range entry.ContextMap() {
			text, _ := value.(string)
			require.NotContains(t, text, secret, "%s of %s", name, entry.Message)
		}
	}
}
