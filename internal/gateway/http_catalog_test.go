package gateway_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
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

func TestCatalogBadRequests(t *testing.T) {
	d := startGateway(t, func(c *gateway.Config) { c.Limits.BodyBytes = 100_000 })
	d.fillCatalog()
	yaml := []string{"Content-Type", "application/yaml"}
	labels := "?label=a" + strings.Repeat("&label=a", 1)
	many := ""
	for i := range 17 {
		many += fmt.Sprintf("&label=k%d=v", i)
	}
	cases := map[string]struct {
		request, body string
		header        []string
		want          string // status and field
	}{
		"page size":            {request: "GET /v1/agents?page_size=1001", want: "400 page_size"},
		"page size, negative":  {request: "GET /v1/catalog/nodes?page_size=-1", want: "400 page_size"},
		"page size, no number": {request: "GET /v1/catalog/documents?page_size=ten", want: "400 page_size"},
		"page token":           {request: "GET /v1/catalog/history?page_token=zzz", want: "400 page_token"},
		"page token, long":     {request: "GET /v1/agents?page_token=" + strings.Repeat("x", 1025), want: "400 page_token"},
		"label":                {request: "GET /v1/agents?label=team", want: "400 label"},
		"label twice":          {request: "GET /v1/agents" + labels, want: "400 label"},
		"label without key":    {request: "GET /v1/catalog/nodes?label==x", want: "400 label"},
		"labels":               {request: "GET /v1/catalog/nodes?node_id=x" + many, want: "400 label"},
		"type":                 {request: "GET /v1/catalog/nodes?type=model", want: "400 type"},
		"node id":              {request: "GET /v1/catalog/nodes?node_id=a/b", want: "400 node_id"},
		"node":                 {request: "GET /v1/agents?node=a%20b", want: "400 node"},
		"tool":                 {request: "GET /v1/agents?tool=%1b[2J", want: "400 tool"},
		"kind":                 {request: "GET /v1/catalog/documents?kind=agents", want: "400 kind"},
		"kind of history":      {request: "GET /v1/catalog/history?kind=agents", want: "400 kind"},
		"name":                 {request: "GET /v1/catalog/documents?name=a/b", want: "400 name"},
		"version":              {request: "GET /v1/catalog/documents?version=a%0ab", want: "400 version"},
		"source":               {request: "GET /v1/catalog/documents?source=git", want: "400 source"},
		"tenant":               {request: "GET /v1/agents?tenant=a%20b", want: "400 tenant"},
		"two tenants":          {request: "GET /v1/agents?tenant=a", header: []string{"Turnstone-Tenant", "b"}, want: "400 tenant"},
		"every tenant's head":  {request: "GET /v1/agents", header: []string{"Turnstone-Tenant", "*"}, want: "400 tenant"},
		"parameter twice":      {request: "GET /v1/agents?node=x&node=y", want: "400 node"},
		"query":                {request: "GET /v1/agents?node=%zz", want: "400 "},
		"after":                {request: "GET /v1/catalog/stream?after=x", want: "400 after"},
		"last event id":        {request: "GET /v1/catalog/stream", header: []string{"Last-Event-ID", "x"}, want: "400 Last-Event-ID"},
		"stream's tenant":      {request: "GET /v1/catalog/stream?tenant=a%20b", want: "400 tenant"},

		"nothing":            {request: "POST /v1/catalog/apply", body: `{}`, want: "400 files"},
		"nothing in YAML":    {request: "POST /v1/catalog/apply", body: " \n", header: yaml, want: "400 files"},
		"no body":            {request: "POST /v1/catalog/apply", want: "400 "},
		"unknown":            {request: "POST /v1/catalog/apply", body: `{"file":[]}`, want: "400 file"},
		"unknown, deeper":    {request: "POST /v1/catalog/apply", body: `{"files":[{"data":"","path":"x"}]}`, want: "400 files[0].path"},
		"data":               {request: "POST /v1/catalog/apply", body: `{"files":[{"data":{"kind":"x"}}]}`, want: "400 files[0].data"},
		"document":           {request: "POST /v1/catalog/apply", body: `{"documents":[{},"x"]}`, want: "400 documents[1]"},
		"document, key":      {request: "POST /v1/catalog/apply", body: `{"documents":[{"a":1,"a":2}]}`, want: "400 documents[0].a"},
		"base revision":      {request: "POST /v1/catalog/apply", body: `{"prune":true,"base_revision":-1}`, want: "400 base_revision"},
		"too many files":     {request: "POST /v1/catalog/apply", body: `{"documents":[{}` + strings.Repeat(",{}", 1000) + `]}`, want: "400 files"},
		"too many deletes":   {request: "POST /v1/catalog/apply", body: `{"delete":[{}` + strings.Repeat(",{}", 1000) + `]}`, want: "400 delete"},
		"delete what":        {request: "POST /v1/catalog/apply", body: `{"delete":[{"kind":"Thing","name":"x"}]}`, want: "400 kind"},
		"file name":          {request: "POST /v1/catalog/apply", body: `{"files":[{"name":"a\u001b","data":"x"}]}`, want: "400 files[0].name"},
		"by":                 {request: "POST /v1/catalog/apply", body: `{"prune":true,"by":"` + strings.Repeat("x", 257) + `"}`, want: "400 by"},
		"comment":            {request: "POST /v1/catalog/apply", body: `{"prune":true,"comment":"\u0000"}`, want: "400 comment"},
		"query besides JSON": {request: "POST /v1/catalog/apply?dry_run=true", body: `{"prune":true}`, want: "400 dry_run"},
		"dry run":            {request: "POST /v1/catalog/apply?dry_run=perhaps", body: manifest, header: yaml, want: "400 dry_run"},
		"content type":       {request: "POST /v1/catalog/apply", body: manifest, header: []string{"Content-Type", "text/plain"}, want: "415 "},
		"large":              {request: "POST /v1/catalog/apply", body: strings.Repeat("#", 100_001), header: yaml, want: "413 "},
		"large JSON":         {request: "POST /v1/catalog/apply", body: `{"by":"` + strings.Repeat("#", 100_001), want: "413 "},

		"publish what":          {request: "POST /v1/catalog/publish", body: `{}`, want: "400 agent"},
		"publish whom":          {request: "POST /v1/catalog/publish", body: `{"agent":"a b"}`, want: "400 agent"},
		"publish nobody":        {request: "POST /v1/catalog/publish", body: `{"agent":"nobody"}`, want: "404 agent"},
		"publish more":          {request: "POST /v1/catalog/publish", body: `{"agent":"analyst","all":true}`, want: "400 all"},
		"publish, two tenants":  {request: "POST /v1/catalog/publish?tenant=b", body: `{"agent":"analyst","tenant":"a"}`, want: "400 tenant"},
		"publish, by":           {request: "POST /v1/catalog/publish", body: `{"agent":"analyst","by":"\u0007"}`, want: "400 by"},
		"route, unknown":        {request: "POST /v1/routes/dry-run", body: `{"agnet":"x"}`, want: "400 agnet"},
		"route, context":        {request: "POST /v1/routes/dry-run", body: `{"context":{"role":"x"}}`, want: "400 context.role"},
		"route, type":           {request: "POST /v1/routes/dry-run", body: `{"message":{"text":"x"}}`, want: "400 message"},
		"route, session":        {request: "POST /v1/routes/dry-run", body: `{"session_id":"a b"}`, want: "400 session_id"},
		"route, agent":          {request: "POST /v1/routes/dry-run", body: `{"agent":"a b"}`, want: "400 agent"},
		"route, nobody":         {request: "POST /v1/routes/dry-run", body: `{"agent":"nobody"}`, want: "404 agent"},
		"route, channel":        {request: "POST /v1/routes/dry-run", body: `{"channel":"\u0000"}`, want: "400 channel"},
		"route, tenant":         {request: "POST /v1/routes/dry-run", body: `{"context":{"tenant":"*"}}`, want: "400 context.tenant"},
		"route, two tenants":    {request: "POST /v1/routes/dry-run", body: `{"context":{"tenant":"a"}}`, header: []string{"Turnstone-Tenant", "b"}, want: "400 context.tenant"},
		"route, what it cannot": {request: "POST /v1/routes/dry-run", body: `{"limits":{}}`, want: "400 limits"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			method, path, _ := strings.Cut(c.request, " ")
			a := d.send(method, path, c.body, c.header...)
			require.Equal(t, c.want, fmt.Sprint(a.status, " ", a.failure(t).Field), "%s", a.body)
		})
	}
	require.Empty(t, d.catalog.Applied(), "what is refused never reaches the catalog")
	require.Equal(t, 413, d.send("POST", "/v1/catalog/apply", strings.Repeat("#", 100_001), yaml...).status)
	require.Equal(t, 200, d.send("POST", "/v1/catalog/apply", strings.Repeat("#", 100_000), yaml...).status)
}

func TestCatalogErrors(t *testing.T) {
	d := startGateway(t, nil)
	var refuse error
	d.catalog.Refuse = func(agent.ApplyRequest) error { return refuse }
	faults := agent.Faults{
		{File: "a.yaml", Line: 3, Column: 7, Document: "AgentInstance default/writer", Path: "models[0]", Message: `there is no model "gpt"`},
		{File: "a.yaml", Line: 9, Message: "unknown kind"},
	}
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"faults": {faults.Err(), 400}, "wrapped": {fmt.Errorf("apply: %w", faults.Err()), 400}, "conflict": {agent.Errorf(agent.CodeConflict, "", "changed since"), 409},
		"away": {agent.Errorf(agent.CodeUnavailable, "", "storage is away"), 503}, "bug": {errors.New("dial postgres://user:secret@db"), 500},
		"faults of ours": {&agent.Error{Code: agent.CodeInternal, Err: agent.Faults{{Message: "secret"}}}, 500},
	} {
		refuse = c.err
		a := d.send("POST", "/v1/catalog/apply", `{"prune":true}`)
		require.Equal(t, c.want, a.status, name)
		f := a.failure(t)
		require.NotContains(t, string(a.body), "secret")
		if c.want == 400 {
			require.Equal(t, faults, f.Faults)
			require.Equal(t, `a.yaml:3:7: AgentInstance default/writer: models[0]: there is no model "gpt" (and 1 more)`, f.Message)
		} else {
			require.Empty(t, f.Faults)
		}
	}
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
