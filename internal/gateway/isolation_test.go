package gateway_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/access/accesstest"
	"github.com/turnstone-run/turnstone/internal/access/credentials"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

// startWithTenants starts a gateway with the tenants acme and other. Acme has one of every resource, with the name or id mine.
func startWithTenants(t *testing.T) (d *testGateway, key agent.NewKey) {
	t.Helper()
	k, err := credentials.NewKeys(credentials.KeysConfig{Store: &accesstest.KeyStore{}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.Close(t.Context())) })
	d = startGateway(t, func(c *gateway.Config) {
		c.Keys, c.Audit = k, &gatewaytest.Trail{}
		c.Auth = gatewaytest.Credentials{
			"acme": gatewaytest.Caller("acme", "ann", "*"), "other": gatewaytest.Caller("other", "eve", "*"),
			"any": gatewaytest.Caller(agent.AnyTenant, "", "*"),
		}
	})
	d.rt.Collections = []string{"docs"}
	plan := `{"schema":"plan.v1","tenant":"acme","agent":"mine"}`
	d.catalog.AgentList = []agent.AgentInfo{{Name: "mine", Tenant: "acme", PlanHash: "sha256:" + strings.Repeat("a", 64)}}
	d.catalog.Plans = map[string][]byte{"sha256:" + strings.Repeat("a", 64): []byte(plan)}
	d.catalog.DocumentList = []agent.Document{
		document(agent.KindAgent, "acme", "mine", "", agent.SourceAPI), document(agent.KindAgent, agent.SharedTenant, "shared", "", agent.SourceBuiltin),
	}
	acme := bearer("acme")
	for _, r := range [][3]string{
		{"POST", "/v1/turns?wait=false", `{"message":"x","turn_id":"mine","session_id":"mine"}`},
		{"POST", "/v1/knowledge/docs/documents?id=mine", `hello`},
		{"PUT", "/v1/workflows/mine", mainFlow},
		{"POST", "/v1/workflows/mine:run", `{"run_id":"mine"}`},
	} {
		header := acme
		if strings.Contains(r[1], "knowledge") {
			header = append(header, "Content-Type", "text/plain")
		}
		a := d.send(r[0], r[1], r[2], header...)
		require.Less(t, a.status, 300, "%s", a.body)
	}
	d.rt.StoreRows("acme", "artifact://mine-rows", `[{"a":1}]`)
	d.rt.Emit("mine", gatewaytest.Status(agent.StatusRunning), agent.Event{
		Type: agent.EventApprovalRequested, Approval: &agent.Approval{ApprovalID: "mine", ToolName: "send_mail", Args: json.RawMessage(`{}`)},
	}, gatewaytest.Status(agent.StatusWaiting))
	return d, decode[agent.NewKey](t, d.send("POST", "/v1/keys", `{"name":"mine"}`, acme...))
}

// The response for another tenant's resource is that for an unknown one.
func TestIDsOfOthersAreUnknown(t *testing.T) {
	d, key := startWithTenants(t)
	hash := "sha256:" + strings.Repeat("a", 64)
	noHash := "sha256:" + strings.Repeat("b", 64)
	noKey := strings.Repeat("a", 16)
	decision := `{"approval_id":"mine","decision":"approve"}`
	// ID stands for the id.
	cases := []struct{ method, path, body, mine, nobodys string }{
		{"GET", "/v1/turns/ID", "", "mine", "none"},
		{"GET", "/v1/turns/ID/events", "", "mine", "none"},
		{"POST", "/v1/turns/ID/decisions", decision, "mine", "none"},
		{"POST", "/v1/turns/ID/results", `{"tool_call_id":"c","result":1}`, "mine", "none"},
		{"POST", "/v1/turns/ID/cancel", "", "mine", "none"},
		{"POST", "/v1/turns/ID/messages", `{"message":"x"}`, "mine", "none"},
		{"POST", "/v1/turns/ID/rerun", "", "mine", "none"},
		{"GET", "/v1/approvals/ID", "", "mine", "none"},
		{"GET", "/v1/results/ID", "", "mine", "none"},
		{"GET", "/v1/results/artifact://result-of-ID", "", "mine", "none"},
		{"GET", "/v1/results/artifact://ID/data", "", "mine-rows", "none-rows"},
		{"GET", "/v1/sessions/ID/messages", "", "mine", "none"},
		{"GET", "/v1/sessions/ID/export", "", "mine", "none"},
		{"DELETE", "/v1/sessions/ID", "", "mine", "none"},
		{"POST", "/v1/sessions/ID/fork", "", "mine", "none"},
		{"DELETE", "/v1/knowledge/docs/documents/ID", "", "mine", "none"},
		{"GET", "/v1/catalog/documents/AgentInstance/ID", "", "mine", "none"},
		{"DELETE", "/v1/catalog/documents/AgentInstance/ID", "", "mine", "none"},
		{"GET", "/v1/catalog/agents/ID/plan", "", "mine", "none"},
		{"GET", "/v1/catalog/plans/ID", "", hash, noHash},
		{"POST", "/v1/catalog/publish", `{"agent":"ID"}`, "mine", "none"},
		{"POST", "/v1/routes/dry-run", `{"agent":"ID"}`, "mine", "none"},
		{"GET", "/v1/workflows/ID", "", "mine", "absent"},
		{"GET", "/v1/workflows/ID/patches", "", "mine", "absent"},
		{"DELETE", "/v1/workflows/ID", "", "mine", "absent"},
		{"POST", "/v1/workflows/ID:patch", patchDescription, "mine", "absent"},
		{"POST", "/v1/workflows/ID:revert", `{"patch_id":"x"}`, "mine", "absent"},
		{"POST", "/v1/workflows/ID:run", `{}`, "mine", "absent"},
		{"GET", "/v1/runs/ID", "", "mine", "none"},
		{"POST", "/v1/runs/ID/cancel", "", "mine", "none"},
		{"POST", "/v1/keys/ID/rotate", "", key.ID, noKey},
		{"DELETE", "/v1/keys/ID", "", key.ID, noKey},
	}
	for _, c := range cases {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			try := func(credential, id string) answer {
				return d.send(c.method, strings.ReplaceAll(c.path, "ID", id), strings.ReplaceAll(c.body, "ID", id), bearer(credential)...)
			}
			eve, nobody := try("other", c.mine), try("other", c.nobodys)
			require.Equal(t, 404, eve.status, "%s", eve.body)
			require.Equal(t, 404, nobody.status, "%s", nobody.body)
			require.Equal(t, strings.ReplaceAll(string(nobody.body), c.nobodys, c.mine), string(eve.body))
			for name := range nobody.header {
				require.Contains(t, eve.header, name)
			}
			require.Empty(t, eve.header.Get("Turnstone-Turn-Id"))
			if !strings.HasSuffix(c.path, "/events") { // would last as long as the turn
				require.NotEqual(t, 403, try("acme", c.mine).status)
			}
		})
	}
	// The owner finds all resources.
	d, _ = startWithTenants(t)
	for _, path := range []string{
		"/v1/turns/mine", "/v1/approvals/mine", "/v1/sessions/mine/export", "/v1/sessions/mine/messages", "/v1/catalog/documents/AgentInstance/mine",
		"/v1/catalog/documents/AgentInstance/shared?tenant=*", "/v1/catalog/plans/" + hash, "/v1/workflows/mine", "/v1/runs/mine",
		"/v1/results/artifact://mine-rows/data",
	} {
		require.Equal(t, 200, d.send("GET", path, "", bearer("acme")...).status, path)
	}
	require.Equal(t, 200, d.send("GET", "/v1/turns/mine", "", bearer("any")...).status)
	require.Equal(t, 404, d.send("GET", "/v1/turns/mine", "", append(bearer("any"), "Turnstone-Tenant", "other")...).status)
	require.Equal(t, 200, d.send("GET", "/v1/catalog/documents/AgentInstance/shared?tenant=*", "", bearer("other")...).status, "shared is for all")

	for path, list := range map[string]string{
		"/v1/turns": "turns", "/v1/sessions": "sessions", "/v1/approvals": "approvals", "/v1/workflows": "workflows", "/v1/runs": "runs", "/v1/keys": "keys", "/v1/agents": "agents",
		"/v1/catalog/documents": "documents", "/v1/knowledge/docs/documents": "documents", "/v1/audit": "records",
	} {
		mine := decode[map[string]json.RawMessage](t, d.send("GET", path, "", bearer("acme")...))
		theirs := decode[map[string]json.RawMessage](t, d.send("GET", path, "", bearer("other")...))
		require.NotEqual(t, "[]", string(mine[list]), path)
		require.Equal(t, "[]", string(theirs[list]), path)
	}
}

func TestIDsOfOthersAreUnknownToGRPC(t *testing.T) {
	d, _ := startWithTenants(t)
	conn := d.dial()
	rt, catalog := pb.NewAgentRuntimeClient(conn), pb.NewCatalogClient(conn)
	ctx := withBearer(t.Context(), "other")
	hash := "sha256:" + strings.Repeat("a", 64)
	cases := map[string]func(id string) error{
		"GetTurn": func(id string) error { return errorOf(rt.GetTurn(ctx, &pb.GetTurnRequest{TurnId: id})) },
		"Decide": func(id string) error {
			return errorOf(rt.Decide(ctx, &pb.DecideRequest{TurnId: id, ApprovalId: "mine", Decision: "approve"}))
		},
		"Provide": func(id string) error {
			return errorOf(rt.Provide(ctx, &pb.ProvideRequest{TurnId: id, ToolCallId: "c", Result: "1"}))
		},
		"Cancel": func(id string) error { return errorOf(rt.Cancel(ctx, &pb.CancelRequest{TurnId: id})) },
		"Follow": func(id string) error { return errorOf(receive(rt.Follow(ctx, &pb.FollowRequest{TurnId: id}))) },
		"GetResult": func(id string) error {
			return errorOf(receive(rt.GetResult(ctx, &pb.GetResultRequest{Ref: "artifact://result-of-" + id})))
		},
		"ExportSession": func(id string) error {
			return errorOf(receive(rt.ExportSession(ctx, &pb.ExportSessionRequest{SessionId: id})))
		},
		"RenameSession": func(id string) error {
			return errorOf(rt.RenameSession(ctx, &pb.RenameSessionRequest{SessionId: id, Title: "x"}))
		},
		"DeleteSession": func(id string) error { return errorOf(rt.DeleteSession(ctx, &pb.DeleteSessionRequest{SessionId: id})) },
		"Publish":       func(id string) error { return errorOf(catalog.Publish(ctx, &pb.PublishRequest{Agent: id})) },
		"Delete": func(id string) error {
			return errorOf(catalog.Delete(ctx, &pb.DeleteRequest{Key: &pb.DocumentKey{Kind: "AgentInstance", Name: id}}))
		},
		"GetPlan of an agent": func(id string) error { return errorOf(catalog.GetPlan(ctx, &pb.GetPlanRequest{Agent: id})) },
		"GetPlan of a hash": func(id string) error {
			return errorOf(catalog.GetPlan(ctx, &pb.GetPlanRequest{Hash: strings.NewReplacer("mine", hash, "none", "sha256:"+strings.Repeat("b", 64)).Replace(id)}))
		},
	}
	for name, try := range cases {
		t.Run(name, func(t *testing.T) {
			eve, nobody := try("mine"), try("none")
			require.Equal(t, codes.NotFound, status.Code(eve), "%v", eve)
			require.Equal(t, codes.NotFound, status.Code(nobody), "%v", nobody)
			words := strings.NewReplacer("none", "mine", strings.Repeat("b", 64), strings.Repeat("a", 64)).Replace(status.Convert(nobody).Message())
			require.Equal(t, words, status.Convert(eve).Message())
		})
	}
}

// A new turn whose tenant the port does not know yet is found by the tenant that has submitted it, and by no other.
func TestNewTurnWithoutTenant(t *testing.T) {
	d, _ := startWithTenants(t)
	d.rt.Hide("mine", true)
	require.Equal(t, 200, d.send("GET", "/v1/turns/mine", "", bearer("acme")...).status)
	require.Equal(t, 404, d.send("GET", "/v1/turns/mine", "", bearer("other")...).status)
	require.Equal(t, 404, d.send("GET", "/v1/turns/mine/events", "", bearer("other")...).status)
	require.Equal(t, 200, d.send("GET", "/v1/turns/mine", "", bearer("any")...).status)

	// A turn that was submitted to another gateway is found when the port knows its tenant.
	_, err := d.rt.Submit(t.Context(), agent.Envelope{Request: agent.TurnRequest{TurnID: "elsewhere", Context: agent.InvocationContext{Tenant: "acme"}}})
	require.NoError(t, err)
	d.rt.Hide("elsewhere", true)
	require.Equal(t, 404, d.send("GET", "/v1/turns/elsewhere", "", bearer("acme")...).status, "but not for ever")
	found := make(chan int)
	go func() { found <- d.send("GET", "/v1/turns/elsewhere", "", bearer("acme")...).status }()
	d.rt.Hide("elsewhere", false)
	require.Equal(t, 200, <-found)
	require.Equal(t, 404, d.send("GET", "/v1/turns/elsewhere", "", bearer("other")...).status)
}
