package gateway_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

const planHash = "sha256:00000000000000000000000000000000000000000000000000000000000000aa"

// fillCatalog fills the catalog of a gateway.
func (d *testGateway) fillCatalog() {
	d.catalog.NodeList = []agent.NodeInfo{
		{NodeID: "agent", Version: "1", Type: agent.NodeAgent, Properties: json.RawMessage(`{"type":"object"}`)},
		{NodeID: "agent", Version: "2", Type: agent.NodeAgent, Labels: map[string]string{"stage": "beta", "team": "core"}},
		{NodeID: "pipeline", Version: "1", Type: agent.NodeToolkit, Tools: []agent.ToolInfo{{Name: "execute_pipeline"}}, Source: agent.SourceBuiltin},
	}
	d.catalog.AgentList = []agent.AgentInfo{
		{
			Name: "analyst", Tenant: agent.DefaultTenant, InstanceID: "analyst@1", Default: true, NodeID: "agent", NodeVersion: "1",
			PlanHash: planHash, Models: []string{"offline"}, Tools: []agent.ToolInfo{{Name: "execute_pipeline", IsFromToolkit: true}},
			Labels: map[string]string{"team": "core"}, RateLimits: agent.RateLimits{RequestsPerMinute: 60},
		},
		{Name: "shared", Tenant: agent.SharedTenant, NodeID: "agent", NodeVersion: "2"},
		{Name: "clerk", Tenant: "acme", NodeID: "agent", NodeVersion: "1"},
	}
	d.catalog.DocumentList = []agent.Document{
		document(agent.KindNode, "", "agent", "1", agent.SourceBuiltin), document(agent.KindNode, "", "agent", "2", agent.SourceAPI),
		document(agent.KindNode, "", "pipeline", "1", agent.SourceBuiltin), document(agent.KindAgent, "default", "analyst", "", agent.SourceFolder),
		document(agent.KindAgent, "*", "shared", "", agent.SourceAPI), document(agent.KindAgent, "acme", "clerk", "", agent.SourceAPI),
		document(agent.KindAgent, "acme", "shared", "", agent.SourceAPI),
	}
	d.catalog.Entries = []agent.AuditEntry{
		{DocumentChange: agent.DocumentChange{DocumentKey: d.catalog.DocumentList[3].DocumentKey, Action: agent.ActionCreated}, Revision: 1, By: "ann"},
	}
	d.catalog.Plans = map[string][]byte{planHash: []byte(`{"agent":"analyst","schema":"plan.v1"}`)}
}

func document(kind agent.Kind, tenant, name, version, source string) agent.Document {
	return agent.Document{
		DocumentKey: agent.DocumentKey{Kind: kind, Tenant: tenant, Name: name, Version: version},
		Body:        json.RawMessage(fmt.Sprintf(`{"kind":%q,"name":%q}`, kind, name)), Revision: 1, Source: source, UpdatedAt: gatewaytest.Epoch(),
	}
}

func TestCatalogLists(t *testing.T) {
	d := startGateway(t, nil)
	d.fillCatalog()
	names := func(a answer, list string) []string {
		t.Helper()
		require.Equal(t, 200, a.status, "%s", a.body)
		var entries []map[string]any
		require.NoError(t, json.Unmarshal(decode[map[string]json.RawMessage](t, a)[list], &entries))
		out := []string{}
		for _, e := range entries {
			name, tenant, version := e["name"], e["tenant"], e["version"]
			if list == "nodes" {
				name = e["node_id"]
			}
			text := fmt.Sprint(name)
			if tenant != nil {
				text = fmt.Sprintf("%v/%s", tenant, text)
			}
			if version != nil {
				text = fmt.Sprintf("%s@%v", text, version)
			}
			out = append(out, text)
		}
		return out
	}
	for _, path := range []string{"/v1/agents", "/v1/catalog/agents"} {
		for query, want := range map[string]string{
			"": "default/analyst */shared", "?tenant=acme": "*/shared acme/clerk", "?tenant=*": "default/analyst */shared acme/clerk",
			"?node=agent": "default/analyst */shared", "?node=other": "", "?tool=execute_pipeline": "default/analyst",
			"?label=team=core": "default/analyst", "?label=team=core&label=x=": "", "?page_size=1": "default/analyst",
			"?page_size=1&page_token=1": "*/shared", "?tenant=default&page_size=1000": "default/analyst */shared",
		} {
			require.Equal(t, strings.Fields(want), names(d.send("GET", path+query, ""), "agents"), path+query)
		}
		require.Equal(t, []string{"*/shared", "acme/clerk"}, names(d.send("GET", path, "", "Turnstone-Tenant", "acme"), "agents"))
	}
	for query, want := range map[string]string{
		"": "agent@1 agent@2 pipeline@1", "?type=toolkit": "pipeline@1", "?node_id=agent": "agent@1 agent@2",
		"?label=stage=beta&label=team=core": "agent@2", "?page_size=2": "agent@1 agent@2", "?page_token=2": "pipeline@1", "?tenant=acme": "agent@1 agent@2 pipeline@1",
	} {
		require.Equal(t, strings.Fields(want), names(d.send("GET", "/v1/catalog/nodes"+query, ""), "nodes"), query)
	}
	for query, want := range map[string]string{
		"": "default/analyst", "?tenant=acme": "acme/clerk acme/shared", "?kind=NodeDefinition": "agent@1 agent@2 pipeline@1",
		"?tenant=acme&name=clerk": "acme/clerk", "?tenant=*&kind=AgentInstance": "default/analyst */shared acme/clerk acme/shared",
		"?kind=NodeDefinition&version=2": "agent@2", "?source=folder": "default/analyst", "?kind=ModelProfile": "", "?tenant=*&source=api&page_size=1": "agent@2",
	} {
		require.Equal(t, strings.Fields(want), names(d.send("GET", "/v1/catalog/documents"+query, ""), "documents"), query)
	}
	for query, want := range map[string]string{"": "default/analyst", "?tenant=acme": "", "?tenant=*&kind=AgentInstance&name=analyst": "default/analyst"} {
		require.Equal(t, strings.Fields(want), names(d.send("GET", "/v1/catalog/history"+query, ""), "entries"), query)
	}
}

// Lists are never null, and numbers are never strings.
func TestCatalogJSON(t *testing.T) {
	d := startGateway(t, nil)
	require.JSONEq(t, `{"agents":[],"next_page_token":"","revision":1}`, string(d.send("GET", "/v1/agents", "").body))
	require.JSONEq(t, `{"nodes":[],"next_page_token":"","revision":1}`, string(d.send("GET", "/v1/catalog/nodes", "").body))
	require.JSONEq(t, `{"documents":[],"next_page_token":"","revision":1}`, string(d.send("GET", "/v1/catalog/documents", "").body))
	require.JSONEq(t, `{"entries":[],"next_page_token":""}`, string(d.send("GET", "/v1/catalog/history", "").body))
	require.JSONEq(t, `{"revision":1,"loaded_at":"2026-11-21T12:00:00Z","counts":{},"sources":[]}`, string(d.send("GET", "/v1/catalog/status", "").body))

	d.catalog.AgentList = []agent.AgentInfo{{Name: "a", Tools: []agent.ToolInfo{{Name: "t"}}}}
	d.catalog.NodeList = []agent.NodeInfo{{NodeID: "n"}}
	d.catalog.Sources = []agent.SourceStatus{{Name: "store", OK: true, At: gatewaytest.Epoch()}}
	require.JSONEq(t, `{"agents":[{"name":"a","tenant":"","instance_id":"","description":"","labels":{},"default":false,"node_id":"","node_version":"",
		"plan_hash":"","models":[],"middleware":[],"limits":{},"rate_limits":{"requests_per_minute":0,"tokens_per_minute":0,"concurrent_turns":0},
		"tools":[{"name":"t","description":"","toolkit":"","node_id":"","node_version":"","source_node_name":"","is_from_toolkit":false,
			"parameters":null,"idempotent":false,"inherently_safe":false,"approval":""}],
		"capabilities":[],"artifact":null,"revision":0,"source":""}],"next_page_token":"","revision":1}`, string(d.send("GET", "/v1/agents", "").body))
	require.Contains(t, string(d.send("GET", "/v1/catalog/nodes", "").body), `"labels":{},"properties":null,"tools":[]`)
	require.Contains(t, string(d.send("GET", "/v1/catalog/status", "").body), `"faults":[]`)
}

func TestCatalogDocument(t *testing.T) {
	d := startGateway(t, nil)
	d.fillCatalog()
	for path, want := range map[string]string{
		"AgentInstance/analyst": "AgentInstance default/analyst", "AgentInstance/clerk?tenant=acme": "AgentInstance acme/clerk",
		"AgentInstance/shared?tenant=*": "AgentInstance */shared", "AgentInstance/shared?tenant=acme": "AgentInstance acme/shared",
		"NodeDefinition/agent?version=2": "NodeDefinition agent@2", "NodeDefinition/pipeline?tenant=acme": "NodeDefinition pipeline@1",
	} {
		a := d.send("GET", "/v1/catalog/documents/"+path, "")
		require.Equal(t, 200, a.status, "%s: %s", path, a.body)
		require.Equal(t, want, decode[agent.Document](t, a).String())
	}
	require.JSONEq(t, `{"kind":"AgentInstance","tenant":"default","name":"analyst","body":{"kind":"AgentInstance","name":"analyst"},"revision":1,
		"source":"folder","updated_at":"2026-11-21T12:00:00Z","updated_by":""}`, string(d.send("GET", "/v1/catalog/documents/AgentInstance/analyst", "").body))
	for path, want := range map[string]string{
		"AgentInstance/nobody": "not_found ", "AgentInstance/a%20b": "not_found ", "AgentInstance/clerk": "not_found ", "NodeDefinition/agent?version=3": "not_found ",
		"Agent/analyst": "invalid kind", "AgentInstance/analyst?version=1": "invalid version", "NodeDefinition/agent": "invalid version",
		"AgentInstance/analyst?tenant=a%20b": "invalid tenant", "AgentInstance/analyst?teant=x": "invalid teant",
	} {
		require.Equal(t, want, d.send("GET", "/v1/catalog/documents/"+path, "").fault(t), path)
	}
}

func TestCatalogPlans(t *testing.T) {
	d := startGateway(t, nil)
	d.fillCatalog()
	for _, path := range []string{"/v1/catalog/plans/" + planHash, "/v1/catalog/agents/analyst/plan", "/v1/catalog/agents/analyst/plan?tenant=default"} {
		a := d.send("GET", path, "")
		require.Equal(t, 200, a.status, "%s", a.body)
		require.Equal(t, string(d.catalog.Plans[planHash]), string(a.body), "the bytes that were hashed")
		require.Equal(t, planHash, a.header.Get("Turnstone-Plan-Hash"))
		require.Equal(t, `"`+planHash+`"`, a.header.Get("ETag"))
		require.Equal(t, "application/json", a.header.Get("Content-Type"))
		require.Contains(t, a.header.Get("Cache-Control"), "private")
		again := d.send("GET", path, "", "If-None-Match", a.header.Get("ETag"))
		require.Equal(t, 304, again.status)
		require.Empty(t, again.body)
		require.Equal(t, 200, d.send("GET", path, "", "If-None-Match", `"sha256:other"`).status)
		require.Empty(t, d.send("HEAD", path, "").body)
	}
	for _, path := range []string{
		"/v1/catalog/plans/sha256:00", "/v1/catalog/plans/" + strings.ToUpper(planHash), "/v1/catalog/plans/" + planHash[:70] + "b",
		"/v1/catalog/agents/nobody/plan", "/v1/catalog/agents/a%20b/plan", "/v1/catalog/agents/clerk/plan?tenant=default",
	} {
		require.Equal(t, 404, d.send("GET", path, "").status, path)
	}
	require.Equal(t, "tenant", d.send("GET", "/v1/catalog/agents/analyst/plan?tenant=acme", "", "Turnstone-Tenant", "default").failure(t).Field)
}

const manifest = `# a comment
kind: AgentInstance
name: writer
node_id: agent
node_version: "1"
---
kind: NodeDefinition
node_id: poet
version: "1"
type: agent
`

func TestCatalogApply(t *testing.T) {
	d := startGateway(t, nil)
	for _, media := range []string{"application/yaml", "text/yaml", "application/x-yaml", "application/yaml; charset=utf-8"} {
		a := d.send("POST", "/v1/catalog/apply?dry_run=true&name=a.yaml", manifest, "Content-Type", media)
		require.Equal(t, 200, a.status, "%s", a.body)
		r := decode[agent.ApplyResult](t, a)
		require.True(t, r.DryRun)
		require.EqualValues(t, 1, r.Revision)
		require.Len(t, r.Changes, 2)
	}
	require.Equal(t, agent.ApplyRequest{
		Files: []agent.ManifestFile{{Name: "a.yaml", Data: []byte(manifest)}}, DryRun: true, Source: agent.SourceAPI,
	}, d.catalog.Applied()[0])

	for _, want := range []agent.ApplyRequest{{FromEmpty: true}, {BaseRevision: 1}, {}} {
		number := strconv.FormatInt(want.BaseRevision, 10)
		query, member := "&base_revision="+number, `,"base_revision":`+number
		if !want.FromEmpty && want.BaseRevision == 0 {
			query, member = "", ""
		}
		d.send("POST", "/v1/catalog/apply?dry_run=1"+query, "kind: ModelProfile\nname: x\n", "Content-Type", "text/yaml")
		d.send("POST", "/v1/catalog/apply", `{"dry_run":true,"documents":[{"kind":"ModelProfile","name":"x"}]`+member+`}`)
		seen := d.catalog.Applied()
		for _, r := range seen[len(seen)-2:] {
			require.Equal(t, want, agent.ApplyRequest{BaseRevision: r.BaseRevision, FromEmpty: r.FromEmpty})
		}
	}
	a := d.send("POST", "/v1/catalog/apply?by=ann&comment=first+one&publish=1&base_revision=1", manifest, "Content-Type", "text/yaml")
	require.Equal(t, 200, a.status, "%s", a.body)
	require.EqualValues(t, 2, decode[agent.ApplyResult](t, a).Revision)
	require.Contains(t, string(a.body), `{"kind":"NodeDefinition","name":"poet","version":"1","action":"created","after":{`)
	entry := decode[agent.HistoryPage](t, d.send("GET", "/v1/catalog/history?kind=AgentInstance", "")).Entries[0]
	require.Equal(t, "ann first one api", entry.By+" "+entry.Comment+" "+entry.Source)
	list := decode[agent.AgentPage](t, d.send("GET", "/v1/agents", "")).Agents
	require.Equal(t, "writer", list[0].Name)
	require.NotNil(t, list[0].Artifact)

	// The same documents in JSON change nothing.
	body, err := json.Marshal(map[string]any{
		"files": []map[string]string{{"name": "b.yaml", "data": manifest}}, "documents": []any{map[string]any{"kind": "ModelProfile", "name": "m"}},
		"delete": []any{}, "base_revision": 2, "by": "bob", "comment": "in JSON", "prune": false, "dry_run": false, "publish": false,
	})
	require.NoError(t, err)
	a = d.send("POST", "/v1/catalog/apply", string(body))
	require.Equal(t, 200, a.status, "%s", a.body)
	var actions []string
	for _, c := range decode[agent.ApplyResult](t, a).Changes {
		actions = append(actions, c.String()+" "+c.Action)
	}
	require.Equal(t, []string{"AgentInstance default/writer unchanged", "NodeDefinition poet@1 unchanged", "ModelProfile default/m created"}, actions)
	applied := d.catalog.Applied()
	require.Equal(t, []string{"b.yaml", "documents[0]"}, []string{applied[len(applied)-1].Files[0].Name, applied[len(applied)-1].Files[1].Name})

	// Keys without a tenant get the caller's.
	a = d.send("POST", "/v1/catalog/apply", `{"delete":[{"kind":"ModelProfile","name":"m"},{"kind":"NodeDefinition","name":"poet","version":"1","tenant":"x"}]}`)
	require.Equal(t, 200, a.status, "%s", a.body)
	require.Equal(t, 200, d.send("POST", "/v1/catalog/apply?prune=true", "", "Content-Type", "application/yaml").status)
	require.Empty(t, decode[agent.DocumentPage](t, d.send("GET", "/v1/catalog/documents?tenant=*", "")).Documents)
	require.JSONEq(t, `{"revision":5,"dry_run":false,"changes":[]}`, string(d.send("POST", "/v1/catalog/apply", `{"prune":true}`).body))
}

func TestCatalogDelete(t *testing.T) {
	d := startGateway(t, nil)
	d.fillCatalog()
	a := d.send("DELETE", "/v1/catalog/documents/AgentInstance/clerk?tenant=acme&dry_run=true", "")
	require.Equal(t, 200, a.status, "%s", a.body)
	require.Contains(t, string(a.body), `"action":"deleted"`)
	require.Equal(t, 200, d.send("GET", "/v1/catalog/documents/AgentInstance/clerk?tenant=acme", "").status, "a dry run")
	a = d.send("DELETE", "/v1/catalog/documents/AgentInstance/clerk?by=ann&comment=gone&base_revision=1", "", "Turnstone-Tenant", "acme")
	require.Equal(t, 200, a.status, "%s", a.body)
	require.Equal(t, 404, d.send("GET", "/v1/catalog/documents/AgentInstance/clerk?tenant=acme", "").status)
	require.Equal(t, 200, d.send("DELETE", "/v1/catalog/documents/AgentInstance/shared?tenant=*", "").status)
	require.Equal(t, 200, d.send("GET", "/v1/catalog/documents/AgentInstance/shared?tenant=acme", "").status, "another tenant's of the name stays")
	require.Equal(t, 200, d.send("DELETE", "/v1/catalog/documents/NodeDefinition/agent?version=2", "").status)
	before := len(d.catalog.Applied())
	for path, want := range map[string]string{
		"NodeDefinition/agent": "400 version", "AgentInstance/x?version=1": "400 version", "Nope/x": "400 kind", "AgentInstance/a%20b": "404 ",
		"AgentInstance/x?dry-run=true": "400 dry-run", "AgentInstance/x?dry_run=maybe": "400 dry_run", "AgentInstance/x?base_revision=-1": "400 base_revision",
		"AgentInstance/x?by=a&by=b": "400 by", "AgentInstance/x?by=%00": "400 by", "AgentInstance/x?comment=%ff": "400 comment",
	} {
		a := d.send("DELETE", "/v1/catalog/documents/"+path, "")
		require.Equal(t, want, fmt.Sprint(a.status, " ", a.failure(t).Field), path)
	}
	require.Len(t, d.catalog.Applied(), before, "what is refused never reached the catalog")
	require.Equal(t, 404, d.send("DELETE", "/v1/catalog/documents/AgentInstance/nobody", "").status)
}

func TestPublishAndRoute(t *testing.T) {
	d := startGateway(t, nil)
	d.fillCatalog()
	for _, body := range []string{`{"agent":"analyst","by":"ann"}`, `{"agent":"analyst","tenant":"default"}`} {
		a := d.send("POST", "/v1/catalog/publish", body)
		require.Equal(t, 200, a.status, "%s", a.body)
		require.Contains(t, string(a.body), `"artifact":{"tenant":"default","agent":"analyst","compiled_artifact_uri":"cas://`+planHash)
	}
	require.Equal(t, 200, d.send("POST", "/v1/catalog/publish", `{"agent":"shared","tenant":"*"}`).status)

	require.JSONEq(t, `{"agent":"analyst","reason":"default","revision":4,"rules":[]}`, string(d.send("POST", "/v1/routes/dry-run", `{"message":"hello"}`).body))
	var asked agent.RouteContext
	d.catalog.Decide = func(r agent.RouteContext) (agent.RouteDecision, error) {
		asked = r
		return agent.RouteDecision{Agent: "clerk", Reason: agent.RouteRuled, Table: "acme/main", Rule: "admins", Rules: []agent.RuleVerdict{
			{Table: "acme/main", Rule: "admins", Priority: 10, Matched: true, Chosen: true, Reason: "role is admin", Agent: "clerk"},
			{Table: "acme/main", Rule: "rest", Reason: "a rule of higher priority matched", Agent: "analyst"},
		}}, nil
	}
	a := d.send("POST", "/v1/routes/dry-run", `{"agent":"analyst","session_id":"s","context":{"tenant":"acme","user_role":"admin","flags":{"beta":true}}}`)
	require.Equal(t, 200, a.status, "%s", a.body)
	require.JSONEq(t, `{"agent":"clerk","reason":"rule","table":"acme/main","rule":"admins","revision":0,"rules":[
		{"table":"acme/main","rule":"admins","priority":10,"matched":true,"chosen":true,"reason":"role is admin","agent":"clerk"},
		{"table":"acme/main","rule":"rest","priority":0,"matched":false,"chosen":false,"reason":"a rule of higher priority matched","agent":"analyst"}]}`, string(a.body))
	require.Equal(t, agent.RouteContext{
		InvocationContext: agent.InvocationContext{Tenant: "acme", UserRole: "admin", Flags: map[string]any{"beta": true}},
		Agent:             "analyst", SessionID: "s", Channel: "http",
	}, asked)
	require.Equal(t, 200, d.send("POST", "/v1/routes/dry-run?tenant=acme", `{"channel":"telegram"}`).status)
	require.Equal(t, "acme telegram", asked.Tenant+" "+asked.Channel)
	require.Empty(t, d.rt.Submitted(), "a dry run starts nothing")
}
