package gateway_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

const (
	mainFlow         = `{"description":"watch prices","nodes":[{"id":"wait","type":"timer","config":{"duration":"1h"}}],"edges":[]}`
	patchDescription = `{"operations":[{"op":"replace","path":"/description","value":"x"}]}`
)

// decodeStatus decodes the body of a response with a status.
func decodeStatus[T any](t *testing.T, status int, a answer) (v T) {
	t.Helper()
	require.Equal(t, status, a.status, "%s", a.body)
	require.NoError(t, json.Unmarshal(a.body, &v))
	return v
}

func requireRefusal(t *testing.T, status int, field string, a answer) {
	t.Helper()
	failure := decodeStatus[struct{ Error agent.Failure }](t, status, a).Error
	require.Equal(t, field, failure.Field, "%s", a.body)
}

func TestWorkflows(t *testing.T) {
	d := startGateway(t, nil)
	put := d.send("PUT", "/v1/workflows/main?by=ops&description=first", mainFlow, "Idempotency-Key", "k1")
	first := decodeStatus[agent.WorkflowPatchResult](t, 200, put)
	require.Equal(t, agent.WorkflowKey{Tenant: "default", Owner: "default", Tag: "main"}, first.WorkflowKey)
	require.Equal(t, `"1"`, put.header.Get("ETag"))
	again := decodeStatus[agent.WorkflowPatchResult](t, 200, d.send("PUT", "/v1/workflows/main?by=ops&description=first", mainFlow, "Idempotency-Key", "k1"))
	require.Equal(t, first, again)
	requireRefusal(t, 409, "idempotency_key", d.send("PUT", "/v1/workflows/main", mainFlow, "Idempotency-Key", "k1"))

	operations := `[{"op":"replace","path":"/description","value":"price < 500"}]`
	for body, version := range map[string]int64{
		`{"operations":` + operations + `,"description":"why","workflow_owner":"default","base_version":1,"by":"ann"}`:          2,
		`{"patch_spec":{"operations":` + operations + `,"description":"why"},"workflow_owner":"default","base_version":1}`:      2,
		`{"workflow_tag":"main","workflow_owner":null,"patch_spec":{"operations":` + operations + `,"description":"why"}}`:      2,
		`{"workflow_tag":"main","workflow_owner":"default","patch_spec":{"operations":` + operations + `,"description":"why"}}`: 2,
	} {
		d := startGateway(t, nil)
		d.send("PUT", "/v1/workflows/main", mainFlow)
		a := d.send("POST", "/v1/workflows/main:patch", body, "If-Match", `"1"`)
		require.Equal(t, version, decodeStatus[agent.WorkflowPatchResult](t, 200, a).Version)
		require.Equal(t, `"2"`, a.header.Get("ETag"))
		got := decodeStatus[agent.StoredWorkflow](t, 200, d.send("GET", "/v1/workflows/main", ""))
		require.Contains(t, string(got.Definition), "500")
		page := decodeStatus[agent.WorkflowPatchPage](t, 200, d.send("GET", "/v1/workflows/main/patches?page_size=1", ""))
		require.Equal(t, "why", page.Patches[0].Description)
		require.NotEmpty(t, page.Next)
	}
	d.send("POST", "/v1/workflows/main:patch?owner=default", `{"operations":`+operations+`}`)
	dry := decodeStatus[agent.WorkflowPatchResult](t, 200, d.send("POST", "/v1/workflows/main:revert", `{"patch_id":"patch_main_2","dry_run":true}`))
	require.EqualValues(t, 3, dry.Version)
	back := decodeStatus[agent.WorkflowPatchResult](t, 200, d.send("POST", "/v1/workflows/main:revert", `{"patch_id":"patch_main_2","by":"ann"}`))
	require.EqualValues(t, 3, back.Version, "the dry run changed nothing")
	a := d.send("GET", "/v1/workflows/main?version=3&owner=default", "")
	require.JSONEq(t, mainFlow, string(decodeStatus[agent.StoredWorkflow](t, 200, a).Definition))
	require.Equal(t, `"3"`, a.header.Get("ETag"))

	d.send("PUT", "/v1/workflows/other?owner=ann", mainFlow, "If-None-Match", "*")
	list := decodeStatus[agent.WorkflowPage](t, 200, d.send("GET", "/v1/workflows?page_size=1", ""))
	require.Equal(t, "main", list.Workflows[0].Tag)
	list = decodeStatus[agent.WorkflowPage](t, 200, d.send("GET", "/v1/workflows?page_token="+list.Next, ""))
	require.Equal(t, "other", list.Workflows[0].Tag)
	list = decodeStatus[agent.WorkflowPage](t, 200, d.send("GET", "/v1/workflows?owner=ann", ""))
	require.Len(t, list.Workflows, 1)
	require.JSONEq(t, `{"workflows":[],"next_page_token":""}`, string(d.send("GET", "/v1/workflows", "", "Turnstone-Tenant", "acme").body))
	requireRefusal(t, 404, "workflow_tag", d.send("GET", "/v1/workflows/main", "", "Turnstone-Tenant", "acme"))

	gone := decodeStatus[agent.WorkflowPatchResult](t, 200, d.send("DELETE", "/v1/workflows/main?base_version=3&by=ann&description=old", ""))
	require.EqualValues(t, 4, gone.Version)
	requireRefusal(t, 404, "workflow_tag", d.send("GET", "/v1/workflows/main", ""))
}

func TestWorkflowsRefuse(t *testing.T) {
	d := startGateway(t, nil)
	d.send("PUT", "/v1/workflows/main", mainFlow)
	d.send("PUT", "/v1/workflows/twice?owner=ann", mainFlow)
	d.send("PUT", "/v1/workflows/twice?owner=bob", mainFlow)
	long := strings.Repeat("x", 2<<20)
	cases := map[string]struct {
		method, path, body string
		header             []string
		status             int
		field              string
	}{
		"unknown":              {"GET", "/v1/workflows/nope", "", nil, 404, "workflow_tag"},
		"no tag":               {"GET", "/v1/workflows/a%20b", "", nil, 404, "workflow_tag"},
		"several owners":       {"GET", "/v1/workflows/twice", "", nil, 409, "workflow_owner"},
		"no version":           {"GET", "/v1/workflows/main?version=9", "", nil, 404, "version"},
		"odd version":          {"GET", "/v1/workflows/main?version=x", "", nil, 400, "version"},
		"odd owner":            {"GET", "/v1/workflows/main?owner=a%20b", "", nil, 400, "owner"},
		"no body":              {"PUT", "/v1/workflows/main", "", nil, 400, ""},
		"no object":            {"PUT", "/v1/workflows/main", "[]", nil, 400, ""},
		"a large definition":   {"PUT", "/v1/workflows/main", `{"x":"` + long + `"}`, nil, 413, ""},
		"an old base":          {"PUT", "/v1/workflows/main?base_version=7", mainFlow, nil, 409, "base_version"},
		"an old tag":           {"PUT", "/v1/workflows/main", mainFlow, []string{"If-Match", `"7"`}, 409, "base_version"},
		"an odd tag":           {"PUT", "/v1/workflows/main", mainFlow, []string{"If-Match", `W/"x"`}, 400, "base_version"},
		"two bases":            {"DELETE", "/v1/workflows/main?base_version=1", "", []string{"If-Match", `"2"`}, 400, "base_version"},
		"a long key":           {"PUT", "/v1/workflows/main", mainFlow, []string{"Idempotency-Key", strings.Repeat("x", 300)}, 400, "idempotency_key"},
		"no action":            {"POST", "/v1/workflows/main", "{}", nil, 404, ""},
		"an unknown action":    {"POST", "/v1/workflows/main:burn", "{}", nil, 404, ""},
		"no operations":        {"POST", "/v1/workflows/main:patch", "{}", nil, 400, "operations"},
		"operations elsewhere": {"POST", "/v1/workflows/main:patch", `{"patch_spec":{}}`, nil, 400, "patch_spec.operations"},
		"operations twice":     {"POST", "/v1/workflows/main:patch", `{"patch_spec":{"operations":[]},"operations":[]}`, nil, 400, "patch_spec"},
		"another tag":          {"POST", "/v1/workflows/main:patch", `{"workflow_tag":"twice","patch_spec":{"operations":[]}}`, nil, 400, "workflow_tag"},
		"there is one":         {"PUT", "/v1/workflows/main", mainFlow, []string{"If-None-Match", "*"}, 409, "workflow_tag"},
		"new, but which":       {"PUT", "/v1/workflows/new", mainFlow, []string{"If-None-Match", `"1"`}, 400, "If-None-Match"},
		"new, but of a base":   {"PUT", "/v1/workflows/new?base_version=1", mainFlow, []string{"If-None-Match", "*"}, 400, "If-None-Match"},
		"new, but any":         {"PUT", "/v1/workflows/new", mainFlow, []string{"If-None-Match", "*", "If-Match", "*"}, 400, "If-None-Match"},
		"an unknown member":    {"POST", "/v1/workflows/main:patch", `{"operations":[],"opertions":[]}`, nil, 400, "opertions"},
		"a bad operation":      {"POST", "/v1/workflows/main:patch", `{"operations":[{"op":"remove","path":"/x"}]}`, nil, 400, "operations[0].path"},
		"two owners":           {"POST", "/v1/workflows/main:patch?owner=ann", `{"operations":[],"workflow_owner":"bob"}`, nil, 400, "workflow_owner"},
		"a negative base":      {"POST", "/v1/workflows/main:patch", `{"operations":[],"base_version":-1}`, nil, 400, "base_version"},
		"an old tag to patch":  {"POST", "/v1/workflows/main:patch", patchDescription, []string{"If-Match", `"7"`}, 409, "base_version"},
		"no patch id":          {"POST", "/v1/workflows/main:revert", "{}", nil, 400, "patch_id"},
		"an unknown patch":     {"POST", "/v1/workflows/main:revert", `{"patch_id":"p"}`, nil, 404, "patch_id"},
		"an odd run id":        {"POST", "/v1/workflows/main:run", `{"run_id":"a b"}`, nil, 400, "run_id"},
		"a negative version":   {"POST", "/v1/workflows/main:run", `{"version":-1}`, nil, 400, "version"},
		"a large input":        {"POST", "/v1/workflows/main:run", `{"input":"` + long + `"}`, nil, 413, "input"},
		"another tenant":       {"POST", "/v1/workflows/main:run", `{"context":{"tenant":"b"}}`, []string{"Turnstone-Tenant", "a"}, 400, "context.tenant"},
		"an unknown run":       {"GET", "/v1/runs/nope", "", nil, 404, "run_id"},
		"no run id":            {"GET", "/v1/runs/a%20b", "", nil, 404, "run_id"},
		"an odd status":        {"GET", "/v1/runs?status=odd", "", nil, 400, "status"},
		"an odd page":          {"GET", "/v1/runs?page_token=x", "", nil, 400, "page_token"},
		"cancel nothing":       {"POST", "/v1/runs/nope/cancel", "", nil, 404, "run_id"},
		"no composite":         {"PATCH", "/v1/tools/composites/nope", `{"enabled":true}`, nil, 404, "composite"},
		"no change":            {"PATCH", "/v1/tools/composites/nope", `{}`, nil, 400, ""},
		"an odd change":        {"PATCH", "/v1/tools/composites/nope", `{"enabled":"yes"}`, nil, 400, "enabled"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			requireRefusal(t, c.status, c.field, d.send(c.method, c.path, c.body, c.header...))
		})
	}
	require.Equal(t, "GET, HEAD, POST, PUT, DELETE", d.send("PATCH", "/v1/workflows/main", "").header.Get("Allow"))
	require.Equal(t, "PATCH", d.send("GET", "/v1/tools/composites/x", "").header.Get("Allow"))
	list := decodeStatus[agent.WorkflowPage](t, 200, d.send("GET", "/v1/workflows", ""))
	for _, w := range list.Workflows {
		require.EqualValues(t, 1, w.Version, "nothing was changed")
	}
}

func TestRuns(t *testing.T) {
	d := startGateway(t, nil)
	d.send("PUT", "/v1/workflows/main", mainFlow, "Turnstone-Tenant", "acme")
	d.send("PUT", "/v1/workflows/main", mainFlow)
	a := d.send("POST", "/v1/workflows/main:run", `{"input":{"price":1.50},"context":{"user_id":"u1"}}`, "Idempotency-Key", "k1", "Turnstone-Tenant", "acme")
	require.Equal(t, "/v1/runs/run-1", a.header.Get("Location"))
	require.Equal(t, http.StatusAccepted, a.status)
	require.JSONEq(t, `{"run_id":"run-1","workflow_id":"workflow/acme/default/main/run-1","workflow_owner":"default","workflow_tag":"main"}`, string(a.body))
	a = d.send("POST", "/v1/workflows/main:run", "", "Idempotency-Key", "k1", "Turnstone-Tenant", "acme")
	require.Contains(t, string(a.body), `"joined":true`)
	decodeStatus[struct{}](t, 202, d.send("POST", "/v1/workflows/main:run", `{"run_id":"nightly:7","version":1}`))

	a = d.send("GET", "/v1/runs/run-1", "")
	run := decodeStatus[agent.Run](t, 200, a)
	require.Equal(t, "acme u1 running", strings.Join([]string{run.Tenant, run.UserID, string(run.Status)}, " "))
	require.Contains(t, string(a.body), `"input":{"price":1.50}`)
	require.Contains(t, string(a.body), `"steps":[]`)
	requireRefusal(t, 404, "run_id", d.send("GET", "/v1/runs/run-1", "", "Turnstone-Tenant", "evil"))
	page := decodeStatus[agent.RunPage](t, 200, d.send("GET", "/v1/runs?tag=main&status=running", ""))
	require.Len(t, page.Runs, 1, "of the tenant")
	require.Equal(t, "nightly:7", page.Runs[0].RunID)

	require.JSONEq(t, `{"run_id":"nightly:7"}`, string(d.send("POST", "/v1/runs/nightly:7/cancel", `{"reason":"wrong"}`).body))
	requireRefusal(t, 409, "", d.send("POST", "/v1/runs/nightly:7/cancel", ""))
	requireRefusal(t, 404, "run_id", d.send("POST", "/v1/runs/run-1/cancel", "", "Turnstone-Tenant", "evil"))
	require.JSONEq(t, `{"runs":[],"next_page_token":""}`, string(d.send("GET", "/v1/runs?status=running", "").body))
}

func TestComposites(t *testing.T) {
	d := startGateway(t, nil)
	d.rt.Promoted = []agent.Composite{
		{ID: "c1", Tenant: "default", Name: "one", Enabled: true, CreatedAt: gatewaytest.Epoch(), Parameters: json.RawMessage(`{}`)},
		{ID: "c2", Tenant: "default", Name: "two"},
		{ID: "c3", Tenant: "acme", Name: "three"},
	}
	list := decodeStatus[struct{ Composites []agent.Composite }](t, 200, d.send("GET", "/v1/tools/composites", ""))
	require.Len(t, list.Composites, 2)
	changed := decodeStatus[agent.Composite](t, 200, d.send("PATCH", "/v1/tools/composites/one", `{"name":"first","enabled":false}`))
	require.Equal(t, "first", changed.Name)
	require.False(t, changed.Enabled)
	changed = decodeStatus[agent.Composite](t, 200, d.send("PATCH", "/v1/tools/composites/c1", `{"description":"x"}`))
	require.Equal(t, "x", changed.Description)
	requireRefusal(t, 409, "name", d.send("PATCH", "/v1/tools/composites/first", `{"name":"two"}`))
	requireRefusal(t, 404, "composite", d.send("PATCH", "/v1/tools/composites/three", `{"enabled":true}`))
	require.JSONEq(t, `{"composites":[]}`, string(d.send("GET", "/v1/tools/composites", "", "Turnstone-Tenant", "none").body))
}
