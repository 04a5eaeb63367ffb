package gateway_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/turnstone-run/turnstone/agent"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

func TestRightsToResources(t *testing.T) {
	d, trail := startWithScopes(t, "turns.run:analyst", "turns.read:analyst", "turns.*:an*", "turns.*:clerk", "turns.cancel:analyst", "approvals.*:send_mail",
		"approvals.*:delete_*", "knowledge.*:docs", "workflows.*:mine", "workflows.write", "catalog.*:AgentInstance/mine", "catalog.*:AgentInstance/*",
		"catalog.*", "health.read", "metrics.read", "agents.read", "results.read", "*",
		"turns.*:analyst", "turns.*:analyst,catalog.write:AgentInstance/clerk", "turns.*:analyst,catalog.write:AgentInstance/analyst",
		"sessions.read", "sessions.read,turns.run:analyst")
	d.rt.Collections = []string{"docs", "secrets"}
	d.catalog.DocumentList = []agent.Document{
		document(agent.KindAgent, "acme", "mine", "", agent.SourceAPI), document(agent.KindAgent, "acme", "yours", "", agent.SourceAPI),
		document(agent.KindModel, "acme", "m", "", agent.SourceAPI), document(agent.KindNode, "", "n", "1", agent.SourceAPI),
	}
	d.catalog.AgentList = []agent.AgentInfo{{Name: "mine", Tenant: "acme"}, {Name: "yours", Tenant: "acme"}}
	all := bearer("*")
	for _, r := range [][2]string{
		{"/v1/turns?wait=false", `{"message":"x","turn_id":"t","agent":"analyst","session_id":"s"}`},
		{"/v1/turns?wait=false", `{"message":"x","turn_id":"c","agent":"clerk"}`},
		{"/v1/turns?wait=false", `{"message":"x","turn_id":"e","agent":"analyst","session_id":"ended"}`},
	} {
		require.Equal(t, 202, d.send("POST", r[0], r[1], all...).status)
	}
	d.rt.Emit("t", agent.Event{Type: agent.EventApprovalRequested, Approval: &agent.Approval{ApprovalID: "a", ToolName: "send_mail"}})
	d.rt.Finish("e", agent.TurnCompleted, "said")
	for _, tag := range []string{"mine", "yours"} {
		require.Equal(t, 200, d.send("PUT", "/v1/workflows/"+tag, mainFlow, all...).status)
		require.Equal(t, 202, d.send("POST", "/v1/workflows/"+tag+":run", `{"run_id":"`+tag+`"}`, all...).status)
	}
	decide := `{"approval_id":"a","decision":"approve"}`
	node := `{"documents":[{"kind":"NodeDefinition","node_id":"n","version":"1","type":"tool"}],"dry_run":true}`
	apply := func(name string) string {
		return `{"documents":[{"kind":"AgentInstance","name":"` + name + `","tenant":"acme"}],"dry_run":true}`
	}
	cases := []struct {
		scopes, method, path, body string
		want                       int
	}{
		{"turns.run:analyst", "POST", "/v1/turns?wait=false", `{"message":"x","agent":"analyst"}`, 202},
		{"turns.run:analyst", "POST", "/v1/turns?wait=false", `{"message":"x","agent":"clerk"}`, 403},
		{"turns.run:analyst", "POST", "/v1/turns?wait=false", `{"message":"x"}`, 202}, // the runtime checks the chosen agent
		{"turns.run:analyst", "POST", "/v1/turns?wait=false", `{"message":"x","agent":"analyst","turn_id":"c"}`, 403},
		{"turns.run:analyst", "POST", "/v1/turns?wait=false", `{"message":"x","agent":"analyst","turn_id":"t"}`, 202},
		{"turns.run:analyst", "POST", "/test/chat", `{"prompt":"x","agent":"clerk"}`, 403},
		{"turns.run:analyst", "GET", "/v1/turns/t", ``, 403},
		{"turns.run:analyst", "POST", "/v1/turns/t/messages", `{"message":"x"}`, 202},
		{"turns.run:analyst", "POST", "/v1/turns/t/messages", `{"message":"x","agent":"clerk"}`, 403},
		{"turns.run:analyst", "POST", "/v1/turns/c/messages", `{"message":"x"}`, 403},
		{"turns.run:analyst", "POST", "/v1/turns/t/results", `{"tool_call_id":"c","result":1}`, 200},
		{"turns.run:analyst", "POST", "/v1/turns/c/results", `{"tool_call_id":"c","result":1}`, 403},
		{"turns.run:analyst", "POST", "/v1/turns/t/cancel", ``, 403},
		{"turns.read:analyst", "GET", "/v1/turns/t", ``, 200},
		{"turns.read:analyst", "GET", "/v1/turns/c", ``, 403},
		{"turns.read:analyst", "GET", "/v1/turns/c/events", ``, 403},
		{"turns.read:analyst", "GET", "/v1/turns/none", ``, 404},
		{"turns.cancel:analyst", "POST", "/v1/turns/t/cancel", ``, 202},
		{"turns.cancel:analyst", "POST", "/v1/turns/c/cancel", ``, 403},
		{"turns.*:an*", "GET", "/v1/turns/t", ``, 200},
		{"turns.*:an*", "GET", "/v1/turns/c", ``, 403},
		{"turns.*:an*", "POST", "/v1/turns/t/decisions", decide, 403},
		{"turns.*:clerk", "GET", "/v1/turns/c", ``, 200},

		{"turns.run:analyst", "POST", "/v1/turns/e/rerun?wait=false", ``, 403}, // without turns.read
		{"turns.read:analyst", "POST", "/v1/turns/e/rerun?wait=false", ``, 403},
		{"turns.*:analyst", "POST", "/v1/turns/e/rerun?wait=false", ``, 202},
		{"turns.*:analyst", "POST", "/v1/turns/e/rerun?wait=false", `{"agent":"clerk"}`, 403},
		{"turns.*:analyst", "POST", "/v1/turns/e/rerun?wait=false", `{"prompt":"p"}`, 403},
		{"turns.*:analyst,catalog.write:AgentInstance/clerk", "POST", "/v1/turns/e/rerun?wait=false", `{"prompt":"p"}`, 403},
		{"turns.*:analyst,catalog.write:AgentInstance/analyst", "POST", "/v1/turns/e/rerun?wait=false", `{"prompt":"p"}`, 202},
		{"sessions.read", "POST", "/v1/sessions/ended/fork", ``, 403},
		{"turns.*:analyst", "POST", "/v1/sessions/ended/fork", ``, 403},
		{"sessions.read,turns.run:analyst", "POST", "/v1/sessions/ended/fork", ``, 201},

		{"approvals.*:send_mail", "POST", "/v1/turns/t/decisions", decide, 200},
		{"approvals.*:delete_*", "POST", "/v1/turns/t/decisions", decide, 403},
		{"approvals.*:delete_*", "POST", "/v1/turns/t/decisions", `{"approval_id":"none","decision":"approve"}`, 404},
		{"approvals.*:send_mail", "GET", "/v1/approvals/a", ``, 200},
		{"approvals.*:delete_*", "GET", "/v1/approvals/a", ``, 403},

		{"knowledge.*:docs", "GET", "/v1/knowledge/docs/documents", ``, 200},
		{"knowledge.*:docs", "GET", "/v1/knowledge/secrets/documents", ``, 403},
		{"knowledge.*:docs", "GET", "/v1/knowledge/secrets/search?q=x", ``, 403},
		{"knowledge.*:docs", "POST", "/v1/knowledge/secrets/documents", `x`, 403},
		{"knowledge.*:docs", "DELETE", "/v1/knowledge/secrets/documents/x", ``, 403},

		{"workflows.*:mine", "GET", "/v1/workflows/mine", ``, 200},
		{"workflows.*:mine", "GET", "/v1/workflows/yours", ``, 403},
		{"workflows.*:mine", "GET", "/v1/workflows/yours/patches", ``, 403},
		{"workflows.*:mine", "PUT", "/v1/workflows/yours", `{}`, 403},
		{"workflows.*:mine", "DELETE", "/v1/workflows/yours", ``, 403},
		{"workflows.*:mine", "POST", "/v1/workflows/yours:patch", patchDescription, 403},
		{"workflows.*:mine", "POST", "/v1/workflows/yours:run", ``, 403},
		{"workflows.*:mine", "POST", "/v1/workflows/mine:run", ``, 202},
		{"workflows.*:mine", "GET", "/v1/runs/mine", ``, 200},
		{"workflows.*:mine", "GET", "/v1/runs/yours", ``, 403},
		{"workflows.*:mine", "POST", "/v1/runs/yours/cancel", ``, 403},
		{"workflows.write", "POST", "/v1/workflows/mine:run", ``, 403},
		{"workflows.write", "POST", "/v1/workflows/mine:patch", patchDescription, 200},

		{"catalog.*:AgentInstance/mine", "GET", "/v1/catalog/documents/AgentInstance/mine", ``, 200},
		{"catalog.*:AgentInstance/mine", "GET", "/v1/catalog/documents/AgentInstance/yours", ``, 403},
		{"catalog.*:AgentInstance/mine", "GET", "/v1/catalog/documents/ModelProfile/m", ``, 403},
		{"catalog.*:AgentInstance/mine", "POST", "/v1/catalog/apply", apply("mine"), 200},
		{"catalog.*:AgentInstance/mine", "POST", "/v1/catalog/apply", apply("yours"), 403},
		{"catalog.*:AgentInstance/mine", "POST", "/v1/catalog/apply", node, 403},
		{"catalog.*:AgentInstance/*", "POST", "/v1/catalog/apply", apply("yours"), 200},
		{"catalog.*:AgentInstance/*", "DELETE", "/v1/catalog/documents/ModelProfile/m?dry_run=true", ``, 403},
		{"catalog.*:AgentInstance/mine", "DELETE", "/v1/catalog/documents/AgentInstance/mine?dry_run=true", ``, 200},
		{"catalog.*:AgentInstance/mine", "POST", "/v1/catalog/publish", `{"agent":"yours"}`, 403},
		{"catalog.*:AgentInstance/mine", "POST", "/v1/catalog/publish", `{"agent":"mine"}`, 200},
		{"catalog.*:AgentInstance/mine", "GET", "/v1/catalog/agents/yours/plan", ``, 403},
		{"catalog.*", "POST", "/v1/catalog/apply", node, 403}, // nodes are shared
		{"catalog.*", "POST", "/v1/catalog/apply", strings.Replace(apply("x"), `"acme"`, `"*"`, 1), 403},
		{"catalog.*", "POST", "/v1/catalog/apply", strings.Replace(apply("x"), `"acme"`, `"other"`, 1), 403},
		{"any", "POST", "/v1/catalog/apply", node, 200},
		{"any", "POST", "/v1/catalog/apply", strings.Replace(apply("x"), `"acme"`, `"other"`, 1), 200},
		{"agents.read", "GET", "/v1/catalog/documents", ``, 403},
		{"results.read", "GET", "/v1/sessions/s/messages", ``, 403},
	}
	for _, c := range cases {
		t.Run(c.scopes+" "+c.method+" "+c.path+" "+c.body, func(t *testing.T) {
			before := len(trail.Records())
			a := d.send(c.method, c.path, c.body, bearer(c.scopes)...)
			require.Equal(t, c.want, a.status, "%s", a.body)
			if c.want != 403 {
				return
			}
			require.Equal(t, "denied", a.failure(t).Type)
			records := trail.Records()[before:]
			require.Len(t, records, 1)
			require.Equal(t, agent.AuditDenied, records[0].Outcome)
			require.Equal(t, "acme", records[0].Tenant)
			require.Equal(t, "ann", records[0].Subject)
			require.Contains(t, agent.Actions(), records[0].Action)
			require.Equal(t, a.header.Get("X-Request-Id"), records[0].RequestID)
		})
	}
	for _, r := range d.catalog.Applied() {
		require.True(t, r.DryRun, "a refused change was made")
	}

	rt, conn := pb.NewAgentRuntimeClient(d.dial()), pb.NewCatalogClient(d.dial())
	for scopes, try := range map[string]func(scopes string) error{
		"turns.run:analyst": func(s string) error {
			return errorOf(rt.Invoke(withBearer(t.Context(), s), &pb.TurnRequest{Message: "x", Agent: "clerk"}))
		},
		"turns.read:analyst": func(s string) error {
			return errorOf(rt.GetTurn(withBearer(t.Context(), s), &pb.GetTurnRequest{TurnId: "c"}))
		},
		"turns.cancel:analyst": func(s string) error {
			return errorOf(rt.Cancel(withBearer(t.Context(), s), &pb.CancelRequest{TurnId: "c"}))
		},
		"approvals.*:delete_*": func(s string) error {
			return errorOf(rt.Decide(withBearer(t.Context(), s), &pb.DecideRequest{TurnId: "t", ApprovalId: "a", Decision: "approve"}))
		},
		"catalog.*:AgentInstance/mine": func(s string) error {
			return errorOf(conn.Apply(withBearer(t.Context(), s), &pb.ApplyRequest{Manifests: []*pb.Manifest{{Data: []byte(`{"kind":"AgentInstance","name":"yours","tenant":"acme"}`)}}}))
		},
		"catalog.*": func(s string) error {
			return errorOf(conn.Delete(withBearer(t.Context(), s), &pb.DeleteRequest{Key: &pb.DocumentKey{Kind: "NodeDefinition", Name: "n", Version: "1"}}))
		},
	} {
		require.Equal(t, codes.PermissionDenied, status.Code(try(scopes)), scopes)
	}
	reads := withBearer(t.Context(), "turns.read:analyst")
	_, err := receive(rt.Follow(reads, &pb.FollowRequest{TurnId: "e"}))
	require.NoError(t, err)
	require.Equal(t, codes.PermissionDenied, status.Code(errorOf(receive(rt.Follow(reads, &pb.FollowRequest{TurnId: "c"})))))

	// Lists have the entries that the caller may read.
	for _, c := range []struct{ scopes, path, list, want string }{
		{"approvals.*:send_mail", "/v1/approvals", "approvals", "send_mail"},
		{"approvals.*:delete_*", "/v1/approvals", "approvals", ""},
		{"workflows.*:mine", "/v1/workflows", "workflows", "mine"},
		{"workflows.*:mine", "/v1/runs", "runs", "mine"},
		{"catalog.*:AgentInstance/mine", "/v1/catalog/documents", "documents", "mine"},
	} {
		raw := decode[map[string]json.RawMessage](t, d.send("GET", c.path, "", bearer(c.scopes)...))[c.list]
		require.NotContains(t, string(raw), "yours")
		require.Contains(t, string(raw), c.want)
		if c.want == "" {
			require.Equal(t, "[]", string(raw))
		}
	}
}
