package gateway_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

func TestCORS(t *testing.T) {
	auth := gatewaytest.Credentials{"ann": gatewaytest.Caller("acme", "ann", "*")}
	d := open(t, func(c *gateway.Config) { c.Auth, c.AllowedOrigins = auth, []string{"https://console.example.com"} })
	ask := func(origin, path, method string) answer {
		return d.send("OPTIONS", path, "", "Host", "turnstone.example.com", "Origin", origin, "Access-Control-Request-Method", method)
	}
	const console = "https://console.example.com"
	for path, want := range map[string]string{
		"/v1/turns": "GET, HEAD, POST", "/v1/turns/t/events": "GET, HEAD", "/v1/sessions/s": "PATCH, DELETE", "/v1/workflows/w": "GET, HEAD, POST, PUT, DELETE",
		"/v1/results/artifact://x": "GET, HEAD", "/v1/tools/composites/c": "PATCH", "/health": "GET, HEAD",
	} {
		a := ask(console, path, "POST")
		require.Equal(t, 204, a.status, path)
		require.Equal(t, console, a.header.Get("Access-Control-Allow-Origin"))
		require.Equal(t, want, a.header.Get("Access-Control-Allow-Methods"), path)
		for _, name := range []string{"Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID", "Turnstone-Tenant", "X-API-Key", "X-Request-Id"} {
			require.Contains(t, a.header.Get("Access-Control-Allow-Headers"), name)
		}
		require.Contains(t, a.header.Values("Vary"), "Origin")
		require.Empty(t, a.header.Get("Access-Control-Allow-Credentials"))
	}
	require.Equal(t, 404, ask(console, "/v1/nope", "GET").status)
	require.Equal(t, 405, d.send("OPTIONS", "/v1/turns", "", "Origin", console).status, "no preflight")
	for _, origin := range []string{"https://evil.example.com", "null", "https://console.example.com.evil.example"} {
		a := ask(origin, "/v1/turns", "POST")
		require.Equal(t, 403, a.status)
		require.Empty(t, a.header.Get("Access-Control-Allow-Origin"))
		require.Equal(t, 403, d.send("GET", "/v1/agents", "", append(bearer("ann"), "Origin", origin)...).status)
	}
	for status, header := range map[int][]string{200: bearer("ann"), 401: bearer("nobody")} {
		a := d.send("GET", "/v1/agents", "", append(header, "Origin", console, "Host", "any.example.com")...)
		require.Equal(t, status, a.status, "any Host will do")
		require.Equal(t, console, a.header.Get("Access-Control-Allow-Origin"))
		require.Contains(t, a.header.Get("Access-Control-Expose-Headers"), "Turnstone-Turn-Id")
	}
	require.Equal(t, "https://any.example.com", d.send("GET", "/v1/agents", "",
		append(bearer("ann"), "Origin", "https://any.example.com", "Host", "any.example.com")...).header.Get("Access-Control-Allow-Origin"), "its own pages")

	all := open(t, func(c *gateway.Config) { c.Auth, c.AllowedOrigins = auth, []string{"*"} })
	a := all.send("GET", "/v1/agents", "", append(bearer("ann"), "Origin", "https://x.example")...)
	require.Equal(t, "*", a.header.Get("Access-Control-Allow-Origin"))
	require.Empty(t, a.header.Get("Access-Control-Allow-Credentials"))
}

func TestTokensInAddresses(t *testing.T) {
	core, logs := observer.New(zapcore.DebugLevel)
	secret := strings.Repeat("secret", 4)
	d := open(t, func(c *gateway.Config) {
		c.Auth, c.Logger = gatewaytest.Credentials{secret: gatewaytest.Caller("acme", "ann", "*")}, zap.New(core)
		c.Doors = []gateway.Door{doorOf{{Method: "GET", Path: "/v1/ws", Action: agent.ActionTurnsRead, Handle: func(w http.ResponseWriter, r *http.Request, _ *gateway.Call) error {
			return errorOf(io.WriteString(w, r.URL.RawQuery+" "+r.RequestURI))
		}}}}
	})
	d.rt.Script = says("ok")
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

// doorOf is a door of some routes.
type doorOf []gateway.Route

func (d doorOf) Routes() []gateway.Route { return d }

// closing is a door that has connections of its own.
type closing struct {
	doorOf

	shut chan struct{}
}

func (d closing) Shutdown(context.Context) error {
	close(d.shut)
	return nil
}

func TestDoors(t *testing.T) {
	seen := make(chan *gateway.Call, 1)
	handle := func(w http.ResponseWriter, _ *http.Request, v *gateway.Call) error {
		seen <- v
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	mine := func(_ int, f *agent.Failure) any { return "mine: " + f.Type }
	shut := make(chan struct{})
	t.Cleanup(func() { // after the gateway's own
		select {
		case <-shut:
		default:
			require.Fail(t, "the door was not shut down")
		}
	})
	d := open(t, func(c *gateway.Config) {
		c.Auth = gatewaytest.Credentials{"ann": gatewaytest.Caller("acme", "ann", "turns.run:analyst", "turns.read")}
		c.Doors = []gateway.Door{closing{doorOf{
			{Method: "POST", Path: "/webhook", Public: true, Handle: handle},
			{Method: "GET", Path: "/run", Action: agent.ActionTurnsRun, Handle: handle, ErrorBody: mine},
			{Method: "GET", Path: "/keys", Action: agent.ActionKeysRead, Handle: handle, ErrorBody: mine},
			{Method: "GET", Path: "/forgotten", Handle: handle},
		}, shut}}
	})
	d.catalog.AgentList = []agent.AgentInfo{{Name: "analyst", Tenant: "acme"}, {Name: "clerk", Tenant: "acme"}}
	require.Equal(t, 403, d.send("GET", "/forgotten", "", bearer("ann")...).status)
	a := d.send("GET", "/run", "")
	require.Equal(t, 401, a.status)
	require.Equal(t, "\"mine: unauthenticated\"\n", string(a.body))
	require.Contains(t, a.header.Get("WWW-Authenticate"), "Bearer")
	a = d.send("GET", "/keys", "", bearer("ann")...)
	require.Equal(t, 403, a.status)
	require.Equal(t, "\"mine: denied\"\n", string(a.body))

	require.Equal(t, 204, d.send("GET", "/run", "", append(bearer("ann"), "X-Request-Id", "r-1")...).status)
	v := <-seen
	require.Equal(t, "acme", v.Tenant())
	require.Equal(t, "ann", v.Principal().Subject)
	require.Equal(t, "r-1", v.RequestID())
	page, err := v.Agents(t.Context(), agent.AgentQuery{})
	require.NoError(t, err)
	require.Len(t, page.Agents, 1)
	receipt, err := v.Submit(t.Context(), "mine", &agent.TurnRequest{Message: "x", Agent: "analyst"})
	require.NoError(t, err)
	_, err = v.Submit(t.Context(), "mine", &agent.TurnRequest{Message: "x", Agent: "clerk"})
	require.Equal(t, agent.CodeDenied, agent.CodeOf(err))
	_, err = v.Turn(t.Context(), receipt.TurnID)
	require.NoError(t, err)
	require.Equal(t, agent.CodeDenied, agent.CodeOf(v.Decide(t.Context(), receipt.TurnID, agent.Decision{ApprovalID: "a", Decision: "approve"})))
	require.Equal(t, agent.CodeDenied, agent.CodeOf(v.Cancel(t.Context(), receipt.TurnID, agent.CancelRequest{})))
	_, _, err = v.Message(t.Context(), "mine", receipt.TurnID, &agent.TurnRequest{Message: "x"})
	require.NoError(t, err)
	all := d.rt.Submitted()
	require.Equal(t, "mine", all[len(all)-1].Channel)
	require.Equal(t, "ann", all[len(all)-1].Sender)

	// Who came in without a credential finds nothing, and may do nothing.
	require.Equal(t, 204, d.send("POST", "/webhook", "").status)
	v = <-seen
	_, err = v.Turn(t.Context(), receipt.TurnID)
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
	_, err = v.Submit(t.Context(), "mine", &agent.TurnRequest{Message: "x"})
	require.Error(t, err)
	require.Error(t, v.Allow(agent.ActionTurnsRun, "analyst"))
	require.Equal(t, 403, d.send("POST", "/webhook", "", "Turnstone-Tenant", "acme").status)
}

func TestKeysDoor(t *testing.T) {
	d, _, trail := guarded(t, nil)
	admin := d.make(`{"name":"admin","tenant":"acme","scopes":["keys.*","turns.*","audit.read"]}`, operatorKey())
	mine := d.make(`{"name":"mine","scopes":["turns.run:analyst"],"subject":"ann","role":"clerk","flags":{"beta":true},"expires_in":"720h"}`, admin.Key)
	require.Equal(t, "acme", mine.Tenant)
	require.Equal(t, "key/"+admin.ID, mine.CreatedBy)
	require.NotNil(t, mine.ExpiresAt)
	a := d.send("GET", "/v1/keys", "", bearer(admin.Key)...)
	require.Contains(t, string(a.body), mine.ID)
	require.NotContains(t, string(a.body), mine.Key[21:50])
	require.NotContains(t, string(a.body), `"key":`)
	page := decode[map[string]any](t, d.send("GET", "/v1/keys?page_size=1", "", bearer(admin.Key)...))
	require.Len(t, page["keys"], 1)
	next, _ := page["next_page_token"].(string)
	require.Contains(t, string(d.send("GET", "/v1/keys?page_size=1&page_token="+next, "", bearer(admin.Key)...).body), `"next_page_token":"`)

	for body, field := range map[string]string{
		`{"name":"x","scopes":["*"]}`: "scopes", `{"name":"x"}`: "scopes", `{"name":"x","tenant":"other","scopes":["turns.run"]}`: "tenant",
		`{"name":"x","tenant":"*","scopes":["turns.run"]}`: "tenant",
	} {
		a := d.send("POST", "/v1/keys", body, bearer(admin.Key)...)
		require.Equal(t, 403, a.status, "%s", a.body)
		require.Equal(t, field, a.failure(t).Field)
	}
	for body, field := range map[string]string{
		`{"name":""}`: "name", `{"name":"x","expires_in":"soon"}`: "expires_in", `{"name":"x","expires_in":"-1h"}`: "expires_in",
		`{"name":"x","expires_in":"0s"}`: "expires_in", `{"name":"x","scopes":["results.read:x"]}`: "scopes",
		`{"name":"x","scopes":["turn.s"]}`: "scopes", `{"name":"x","key":"y"}`: "key",
	} {
		a := d.send("POST", "/v1/keys", body, bearer(admin.Key)...)
		require.Equal(t, 400, a.status, "%s", a.body)
		require.Equal(t, field, a.failure(t).Field)
	}
	require.Equal(t, 403, d.send("GET", "/v1/keys", "", bearer(mine.Key)...).status)

	rotated := decode[agent.NewKey](t, d.send("POST", "/v1/keys/"+mine.ID+"/rotate", "", bearer(admin.Key)...))
	require.Equal(t, []string{"turns.run:analyst"}, rotated.Scopes)
	require.Equal(t, 400, d.send("POST", "/v1/keys/"+rotated.ID+"/rotate", `{"overlap":"x"}`, bearer(admin.Key)...).status)
	require.Equal(t, 409, d.send("POST", "/v1/keys/"+mine.ID+"/rotate", "", bearer(admin.Key)...).status)
	require.Equal(t, 200, d.send("DELETE", "/v1/keys/"+rotated.ID, "", bearer(admin.Key)...).status)
	require.Equal(t, 401, d.send("GET", "/v1/whoami", "", bearer(rotated.Key)...).status, "at once where it was revoked")
	require.Equal(t, 404, d.send("DELETE", "/v1/keys/"+rotated.ID, "", append(bearer(operatorKey()), "Turnstone-Tenant", "other")...).status)

	var deeds []string
	for _, r := range trail.Records() {
		if r.Action == agent.ActionKeysWrite && r.Outcome == agent.AuditAllowed {
			deeds = append(deeds, r.Resource)
		}
		require.NotContains(t, string(r.Detail), "tsk_")
	}
	require.Equal(t, []string{"key/" + admin.ID, "key/" + mine.ID, "key/" + mine.ID, "key/" + rotated.ID}, deeds)
	a = d.send("GET", "/v1/audit?outcome=denied&limit=2", "", bearer(admin.Key)...)
	require.Equal(t, 200, a.status, "%s", a.body)
	require.Len(t, decode[agent.AuditPage](t, a).Records, 2)
	for query, field := range map[string]string{
		"outcome=maybe": "outcome", "limit=501": "limit", "since=yesterday": "since", "before=-1": "before", "by=x": "by",
	} {
		a := d.send("GET", "/v1/audit?"+query, "", bearer(admin.Key)...)
		require.Equal(t, 400, a.status)
		require.Equal(t, field, a.failure(t).Field)
	}
	plain := open(t, nil)
	require.Equal(t, 404, plain.send("GET", "/v1/keys", "").status)
	require.Equal(t, 404, plain.send("GET", "/v1/audit", "").status)
	require.Equal(t, "none", decode[agent.Principal](t, plain.send("GET", "/v1/whoami", "")).Method)
}

// What changes something leaves a record: who, what, from where, by which request.
func TestTheTrailOfChanges(t *testing.T) {
	d, trail := with(t, "*")
	d.rt.Collections = []string{"docs"}
	d.rt.Cancelled = func(agent.TurnID, agent.CancelRequest) error { return agent.Errorf(agent.CodeConflict, "", "over") }
	d.rt.Promoted = []agent.Composite{{ID: "c", Tenant: "acme", Name: "c"}}
	d.catalog.AgentList = []agent.AgentInfo{{Name: "mine", Tenant: "acme"}}
	all := append(bearer("*"), "X-Request-Id", "r-1")
	d.send("POST", "/v1/turns?wait=false", `{"message":"x","turn_id":"t","session_id":"s"}`, all...)
	cases := []struct {
		method, path, body string
		action             agent.Action
		resource, outcome  string // empty: no record
	}{
		{"POST", "/v1/turns/t/decisions", `{"approval_id":"a","decision":"approve"}`, agent.ActionApprovalsDecide, "turn/t", "allowed"},
		{"POST", "/v1/turns/t/results", `{"tool_call_id":"a","result":1}`, agent.ActionTurnsRun, "turn/t", "allowed"},
		{"POST", "/v1/turns/t/cancel", ``, agent.ActionTurnsCancel, "turn/t", "failed"},
		{"POST", "/v1/turns/t/decisions", `{"approval_id":"","decision":"approve"}`, "", "", ""},
		{"GET", "/v1/sessions/s/export", ``, agent.ActionSessionsRead, "session/s", "allowed"},
		{"PATCH", "/v1/sessions/s", `{"title":"Flights"}`, agent.ActionTurnsRun, "session/s", "allowed"},
		{"PATCH", "/v1/sessions/none", `{"title":"Flights"}`, agent.ActionTurnsRun, "session/none", "failed"},
		{"DELETE", "/v1/sessions/s", ``, agent.ActionSessionsDelete, "session/s", "failed"},
		{"POST", "/v1/knowledge/docs/documents?id=x", `{}`, agent.ActionKnowledgeWrite, "docs", "allowed"},
		{"DELETE", "/v1/knowledge/docs/documents/x", ``, agent.ActionKnowledgeWrite, "docs", "allowed"},
		{"POST", "/v1/catalog/apply", `{"documents":[{"kind":"AgentInstance","name":"a","tenant":"acme"}]}`, agent.ActionCatalogWrite, "catalog", "allowed"},
		{"POST", "/v1/catalog/apply", `{"documents":[{"kind":"AgentInstance","name":"b","tenant":"acme"}],"dry_run":true}`, "", "", ""},
		{"POST", "/v1/catalog/publish", `{"agent":"mine"}`, agent.ActionCatalogWrite, "AgentInstance/mine", "allowed"},
		{"DELETE", "/v1/catalog/documents/AgentInstance/a", ``, agent.ActionCatalogWrite, "AgentInstance/a", "allowed"},
		{"PUT", "/v1/workflows/w", `{"nodes":[],"edges":[]}`, agent.ActionWorkflowsWrite, "w", "allowed"},
		{"POST", "/v1/workflows/w:patch", `{"operations":[]}`, agent.ActionWorkflowsWrite, "w", "allowed"},
		{"POST", "/v1/workflows/w:run", `{"run_id":"r"}`, agent.ActionWorkflowsRun, "w", "allowed"},
		{"POST", "/v1/runs/r/cancel", ``, agent.ActionWorkflowsRun, "run/r", "allowed"},
		{"DELETE", "/v1/workflows/w", ``, agent.ActionWorkflowsWrite, "w", "allowed"},
		{"PATCH", "/v1/tools/composites/c", `{"enabled":true}`, agent.ActionToolsWrite, "c", "allowed"},
		{"GET", "/v1/turns/t", ``, "", "", ""},
	}
	for _, c := range cases {
		before := len(trail.Records())
		a := d.send(c.method, c.path, c.body, all...)
		noted := trail.Records()[before:]
		if c.outcome == "" {
			require.Empty(t, noted, "%s %s", c.method, c.path)
			continue
		}
		require.Len(t, noted, 1, "%s %s: %s", c.method, c.path, a.body)
		r := noted[0]
		require.Equal(t, []any{c.action, c.resource, c.outcome}, []any{r.Action, r.Resource, r.Outcome})
		require.Equal(t, []string{"acme", "ann", "key", "key/acme-ann", "http", "r-1"}, []string{r.Tenant, r.Subject, r.Method, r.Credential, r.Channel, r.RequestID})
		require.NotEmpty(t, r.Remote)
	}
}

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func certify(t *testing.T, name string, by *authority) (tls.Certificate, *authority) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<60))
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	self := &authority{cert: template, key: key, pool: x509.NewCertPool()}
	if by == nil {
		template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
		by = self
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, key.Public(), by.key)
	require.NoError(t, err)
	self.cert, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	self.pool.AddCert(self.cert)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, self
}

func TestMutualTLS(t *testing.T) {
	_, ca := certify(t, "ca", nil)
	_, strangers := certify(t, "strangers", nil)
	server, _ := certify(t, "server", ca)
	worker, _ := certify(t, "worker", ca)
	unknown, _ := certify(t, "unknown", ca)
	forged, _ := certify(t, "worker", strangers)
	for _, require1 := range []bool{false, true} {
		set := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{server}, ClientCAs: ca.pool, ClientAuth: tls.VerifyClientCertIfGiven}
		if require1 {
			set.ClientAuth = tls.RequireAndVerifyClientCert
		}
		d := open(t, func(c *gateway.Config) {
			c.GRPCTLS = set
			c.HTTPTLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{server}}
			c.Auth = gatewaytest.Credentials{"cn:worker": gatewaytest.Caller("acme", "worker", "*"), "ann": gatewaytest.Caller("acme", "ann", "*")}
		})
		call := func(cert *tls.Certificate, bearerText string) codes.Code {
			c := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: ca.pool}
			if cert != nil {
				c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil }
			}
			conn, err := grpc.NewClient(d.GRPCAddr(), grpc.WithTransportCredentials(credentials.NewTLS(c)))
			require.NoError(t, err)
			defer conn.Close()
			ctx := t.Context()
			if bearerText != "" {
				ctx = as(ctx, bearerText)
			}
			_, err = pb.NewAgentRuntimeClient(conn).ListAgents(ctx, &pb.ListAgentsRequest{})
			return status.Code(err)
		}
		require.Equal(t, codes.OK, call(&worker, ""))
		require.Equal(t, codes.Unauthenticated, call(&unknown, ""))
		require.Equal(t, codes.Unavailable, call(&forged, ""), "no connection")
		require.Equal(t, codes.Unauthenticated, call(&worker, "wrong"))
		without, with := codes.Unauthenticated, codes.OK
		if require1 {
			without, with = codes.Unavailable, codes.Unavailable
		}
		require.Equal(t, without, call(nil, ""))
		require.Equal(t, with, call(nil, "ann"))

		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: ca.pool}, ForceAttemptHTTP2: true}}
		for path, want := range map[string]int{"/health": 200, "/v1/agents": 401} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+d.HTTPAddr()+path, nil)
			require.NoError(t, err)
			resp, err := client.Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, want, resp.StatusCode)
		}
		client.CloseIdleConnections()
	}
}

func TestGatewayWarnsOfItself(t *testing.T) {
	for address, level := range map[string]zapcore.Level{"127.0.0.1:0": zapcore.WarnLevel, "0.0.0.0:0": zapcore.ErrorLevel} {
		core, logs := observer.New(zapcore.WarnLevel)
		open(t, func(c *gateway.Config) { c.Logger, c.GRPCAddr = zap.New(core), address })
		require.Equal(t, 1, logs.Len())
		require.Equal(t, level, logs.All()[0].Level)
		require.Contains(t, logs.All()[0].Message, "authentication is off")
		require.Contains(t, logs.All()[0].ContextMap()["remedy"], "auth.keys")
	}
	core, logs := observer.New(zapcore.WarnLevel)
	open(t, func(c *gateway.Config) {
		c.Logger, c.GRPCAddr, c.Auth = zap.New(core), "0.0.0.0:0", gatewaytest.Credentials{}
	})
	require.Zero(t, logs.Len())
}

// ailing is a runtime whose health is asked while the gateway closes.
type ailing struct {
	*gatewaytest.Runtime

	asked, answer chan struct{}
}

func (a ailing) Health(ctx context.Context) gateway.Health {
	a.asked <- struct{}{}
	<-a.answer
	return a.Runtime.Health(ctx)
}

// A gateway that closes says so, ends streams behind a whole event so that they resume, and lets short calls finish.
func TestDraining(t *testing.T) {
	a := ailing{gatewaytest.New(), make(chan struct{}), make(chan struct{})}
	ports := gatewaytest.Ports(a.Runtime, &gatewaytest.Catalog{})
	ports.Health = a
	g, err := gateway.New(gateway.Config{
		HTTPAddr: "127.0.0.1:0", GRPCAddr: "127.0.0.1:0", Ports: ports,
		Auth: gatewaytest.Credentials{"ann": gatewaytest.Caller("acme", "ann", "*")},
	})
	require.NoError(t, err)
	require.NoError(t, g.Start(t.Context()))
	d := &door{Gateway: g, rt: a.Runtime, url: "http://" + g.HTTPAddr(), t: t}
	require.Equal(t, 202, d.send("POST", "/v1/turns?wait=false", `{"message":"x","turn_id":"t"}`, bearer("ann")...).status)
	a.Emit("t", gatewaytest.Status(agent.StatusRunning), gatewaytest.Token("one "))
	events := d.follow(t.Context(), "/v1/turns/t/events", bearer("ann")...)
	defer events.Body.Close()
	lines := bufio.NewReader(events.Body)
	stream, err := pb.NewAgentRuntimeClient(d.dial()).Follow(as(t.Context(), "ann"), &pb.FollowRequest{TurnId: "t"})
	require.NoError(t, err)
	for range 2 {
		_, err := stream.Recv()
		require.NoError(t, err)
	}
	seen := ""
	for !strings.Contains(seen, "id: 2\n") { // the stream stands
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		seen += line
	}
	health := make(chan answer, 1)
	go func() { health <- d.send("GET", "/health", "") }()
	<-a.asked

	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		done <- g.Shutdown(ctx)
	}()
	_, err = stream.Recv()
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.Positive(t, detail[*errdetails.RetryInfo](t, err).GetRetryDelay().AsDuration())
	rest, err := io.ReadAll(lines)
	require.NoError(t, err, "the stream ends in good order")
	require.True(t, strings.HasSuffix(string(rest), "\n\n"), "%q", rest)
	close(a.answer)
	last := <-health
	require.Equal(t, 503, last.status)
	require.Contains(t, string(last.body), `{"status":"draining","workers":0,"dependencies":[{"name":"temporal","ok":true`)
	require.NoError(t, <-done)
}
