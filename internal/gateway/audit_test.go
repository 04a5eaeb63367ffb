package gateway_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/turnstone-run/turnstone/agent"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

// Every change leaves an audit record.
func TestTheTrailOfChanges(t *testing.T) {
	d, trail := startWithScopes(t, "*")
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
		{"PUT", "/v1/workflows/w", mainFlow, agent.ActionWorkflowsWrite, "w", "allowed"},
		{"POST", "/v1/workflows/w:patch", patchDescription, agent.ActionWorkflowsWrite, "w", "allowed"},
		{"POST", "/v1/workflows/w:run", `{"run_id":"r"}`, agent.ActionWorkflowsRun, "w", "allowed"},
		{"POST", "/v1/runs/r/cancel", ``, agent.ActionWorkflowsRun, "run/r", "allowed"},
		{"DELETE", "/v1/workflows/w", ``, agent.ActionWorkflowsWrite, "w", "allowed"},
		{"PATCH", "/v1/tools/composites/c", `{"enabled":true}`, agent.ActionToolsWrite, "c", "allowed"},
		{"GET", "/v1/turns/t", ``, "", "", ""},
	}
	for _, c := range cases {
		before := len(trail.Records())
		a := d.send(c.method, c.path, c.body, all...)
		records := trail.Records()[before:]
		if c.outcome == "" {
			require.Empty(t, records, "%s %s", c.method, c.path)
			continue
		}
		require.Len(t, records, 1, "%s %s: %s", c.method, c.path, a.body)
		r := records[0]
		require.Equal(t, []any{c.action, c.resource, c.outcome}, []any{r.Action, r.Resource, r.Outcome})
		require.Equal(t, []string{"acme", "ann", "key", "key/acme-ann", "http", "r-1"}, []string{r.Tenant, r.Subject, r.Method, r.Credential, r.Channel, r.RequestID})
		require.NotEmpty(t, r.Remote)
	}
}

// The audit record of a refused tenant has the action of the path or method.
func TestTheTrailSaysWhatAForeignTenantWasNamedFor(t *testing.T) {
	d, trail := startWithScopes(t, "*")
	rt, catalog := pb.NewAgentRuntimeClient(d.dial()), pb.NewCatalogClient(d.dial())
	rest := func(method, path, body string, header ...string) func() {
		return func() {
			a := d.send(method, path, body, append(header, bearer("*")...)...)
			require.Equal(t, 403, a.status, "%s", a.body)
		}
	}
	for name, c := range map[string]struct {
		try  func()
		want agent.Action
	}{
		"a header":     {rest("GET", "/v1/agents", "", "Turnstone-Tenant", "other"), agent.ActionAgentsRead},
		"a parameter":  {rest("DELETE", "/v1/sessions/s?tenant=other", ""), agent.ActionSessionsDelete},
		"a body":       {rest("POST", "/v1/turns", `{"message":"x","context":{"tenant":"other"}}`), agent.ActionTurnsRun},
		"a job":        {rest("POST", "/test/chat", `{"prompt":"x","tenant":"other"}`), agent.ActionTurnsRun},
		"a catalog":    {rest("GET", "/v1/catalog/documents?tenant=other", ""), agent.ActionCatalogRead},
		"who somebody": {rest("GET", "/v1/whoami", "", "Turnstone-Tenant", "other"), agent.AuditAuthenticate},
		"a call": {func() {
			_, err := rt.GetTurn(metadata.AppendToOutgoingContext(withBearer(t.Context(), "*"), "turnstone-tenant", "other"), &pb.GetTurnRequest{TurnId: "t"})
			require.Equal(t, codes.PermissionDenied, status.Code(err))
		}, agent.ActionTurnsRead},
		"a call's body": {func() {
			_, err := catalog.ListDocuments(withBearer(t.Context(), "*"), &pb.ListDocumentsRequest{Tenant: "other"})
			require.Equal(t, codes.PermissionDenied, status.Code(err))
		}, agent.ActionCatalogRead},
	} {
		before := len(trail.Records())
		c.try()
		records := trail.Records()[before:]
		require.Len(t, records, 1, name)
		require.Equal(t, c.want, records[0].Action, name)
		require.Equal(t, []string{"tenant/other", agent.AuditDenied, "acme"}, []string{records[0].Resource, records[0].Outcome, records[0].Tenant}, name)
	}
}
