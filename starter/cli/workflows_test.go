package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

const flowYAML = `description: watch prices
nodes:
  - {id: fetch, type: task, config: {action: pipeline, pipeline: [{step: sort}]}}
  - {id: check, type: condition, expr: price < 500}
edges:
  - {from: fetch, to: check}
schedules:
  - {id: daily, cron: "0 8 * * *"}
`

func TestWorkflows(t *testing.T) {
	t.Chdir(t.TempDir())
	writeFile(t, "- {op: replace, path: /description, value: from a file}\n", "ops.yaml")
	b := setup(t)
	b.rt.OnRun = func(rt *gatewaytest.Runtime, id string) {
		switch id {
		case "lives":
		case "fails":
			rt.EndRun(id, agent.RunFailed, &agent.Failure{Type: "denied", Message: "no"}, agent.RunStep{
				NodeID: "mail", Visit: 1, Type: "task", Status: agent.RunFailed, StartedAt: gatewaytest.Epoch(), Error: &agent.Failure{Type: "denied", Message: "no"},
			})
		default:
			rt.EndRun(id, agent.RunCompleted, nil,
				agent.RunStep{NodeID: "fetch", Visit: 1, Type: "task", Status: agent.RunCompleted, StartedAt: gatewaytest.Epoch(), FinishedAt: new(gatewaytest.Epoch()), Ref: "cas://sha256:12"},
				agent.RunStep{NodeID: "check", Visit: 1, Type: "condition", Status: agent.RunCompleted, StartedAt: gatewaytest.Epoch(), FinishedAt: new(gatewaytest.Epoch()), Outcome: "true"})
		}
	}
	b.steps("workflows",
		commandLine{flowYAML, []string{"put", "main", "-f", "-", "--by", "ann", "--description", "first"}, 0},
		line(0, "list"),
		line(0, "patch", "main", "--op", `replace /description "cheap < flights"`, "--description", "shorter", "--base-version", "1"),
		line(0, "patch", "main", "-f", "ops.yaml", "--op", "move /nodes/0 /nodes/1", "--dry-run"),
		line(exitUsage, "patch", "main", "--op", `test /description "x"`, "--base-version", "1"),
		line(exitUsage, "patch", "main", "--op", "remove /nodes/9"),
		line(0, "revert", "main", "patch_main_2", "--by", "bob"),
		line(0, "history", "main"),
		line(0, "get", "main"),
		line(0, "get", "main", "--version", "2"),
		line(0, "run", "main", "--input", `{"price":480}`),
		line(0, "run", "main", "--run-id", "done", "--user", "u1", "--wait"),
		line(exitFailed, "run", "main", "--run-id", "fails", "--wait"),
		line(0, "run", "main", "--run-id", "lives"),
		line(0, "cancel", "lives"),
		line(exitUsage, "cancel", "lives"),
		line(exitCancelled, "run", "main", "--run-id", "lives", "--wait"),
		line(0, "delete", "main"),
		line(exitUsage, "get", "main"),
		line(exitUsage, "show", "nope"),
	)
	golden(t, "workflows", b.screen.String())

	r := answer[agent.Run](b, "workflows", "show", "done")
	require.Len(t, r.Steps, 2)
	b.show(0, "workflows", "runs", "--tag", "main", "--status", "failed", "-o", "json")
	require.Contains(t, b.screen.out(), `"run_id": "fails"`)
}

// The output of get is valid input of put, and does not change the definition.
func TestWorkflowsGetAndPut(t *testing.T) {
	b := setup(t)
	definition := `{"nodes":[{"id":"a","type":"condition","expr":"x < 1 && y == \"no\""}],"edges":[],` +
		`"schedules":[{"id":"s","interval_sec":60,"input":[1.5,12345678901,true,null,"on","2026-01-01"]}]}`
	require.Equal(t, 0, b.run(strings.NewReader(definition), "workflows", "put", "main", "-f", "-"))
	b.show(0, "workflows", "get", "main")
	text := b.screen.out()
	require.Equal(t, 0, b.run(strings.NewReader(text), "workflows", "put", "copy", "-f", "-"))
	w := answer[agent.StoredWorkflow](b, "workflows", "get", "copy")
	require.JSONEq(t, definition, string(w.Definition))
}

// The JSON output of get is valid input of put, unless the definition was changed meanwhile.
func TestWorkflowsPutWhatIsStored(t *testing.T) {
	b := setup(t)
	run := func(want int, in string, args ...string) string {
		t.Helper()
		return b.showInput(in, want, append([]string{"workflows"}, args...)...)
	}
	stored := func(args ...string) (w agent.StoredWorkflow, text string) {
		t.Helper()
		text = run(0, "", append([]string{"get", "-o", "json"}, args...)...)
		require.NoError(t, json.Unmarshal([]byte(text), &w))
		return w, text
	}
	run(0, flowYAML, "put", "main", "-f", "-", "--owner", "ann")
	before, text := stored("main")
	changed := strings.Replace(text, "watch prices", "watch them", 1)
	require.Contains(t, run(0, changed, "put", "main", "-f", "-"), "of owner ann: version 2")
	after, _ := stored("main")
	require.JSONEq(t, strings.Replace(string(before.Definition), "watch prices", "watch them", 1), string(after.Definition))

	require.Contains(t, run(exitUsage, text, "put", "main", "-f", "-"), "base_version", "version 1 is old")
	run(exitUsage, text, "put", "main", "-f", "-", "--base-version", "7")
	require.Contains(t, run(0, text, "put", "main", "-f", "-", "--base-version", "0"), "version 3")
	require.Contains(t, run(0, changed, "put", "main", "-f", "-", "--base-version", "3"), "of owner ann: version 4")
	_, text = stored("main")
	require.Contains(t, run(0, text, "put", "copy", "-f", "-"), "copy of owner default: version 1", "the definition of another tag")
	require.Contains(t, run(0, text, "put", "main", "-f", "-", "--owner", "bob"), "main of owner bob: version 1", "the definition of another owner")
	copied, _ := stored("copy")
	require.JSONEq(t, string(after.Definition), string(copied.Definition))
}

func TestReadOperation(t *testing.T) {
	for text, want := range map[string]string{
		`add /nodes/- {"id": "a b"}`: `{"op":"add","path":"/nodes/-","value":{"id":"a b"}}`,
		`replace /a/b  "x y" `:       `{"op":"replace","path":"/a/b","value":"x y"}`,
		`test /a null`:               `{"op":"test","path":"/a","value":null}`,
		`remove /a`:                  `{"op":"remove","path":"/a"}`,
		`move /a /b`:                 `{"op":"move","from":"/a","path":"/b"}`,
		` copy  /a  /b`:              `{"op":"copy","from":"/a","path":"/b"}`,
	} {
		got, err := readOperation(text)
		require.NoError(t, err, text)
		require.JSONEq(t, want, string(got), text)
	}
	for _, text := range []string{"", "add", "add /a", "add /a text", "add a 1", "remove", "remove /a /b", "move /a", "move /a /b /c", "burn /a", "replace /a {"} {
		_, err := readOperation(text)
		require.Error(t, err, text)
	}
}

func TestWorkflowsUsage(t *testing.T) {
	b := setup(t)
	for text, args := range map[string][]string{
		"--file is missing":  {"put", "main"},
		"no such file":       {"put", "main", "-f", "/nope/x"},
		"is empty":           {"put", "main", "-f", "-"},
		"nothing to do":      {"patch", "main"},
		"want add, remove":   {"patch", "main", "--op", "burn /a"},
		"is no name":         {"get", "a b"},
		"--version is -1":    {"get", "main", "--version", "-1"},
		"--base-version":     {"delete", "main", "--base-version", "-1"},
		"--limit is -1":      {"history", "main", "--limit", "-1"},
		"--input is no JSON": {"run", "main", "--input", "{"},
		"want running":       {"runs", "--status", "odd"},
		"there is no workfl": {"run", "nope"},
	} {
		require.Contains(t, b.show(exitUsage, append([]string{"workflows"}, args...)...), text)
	}
}

func TestTools(t *testing.T) {
	b := setup(t)
	b.rt.Promoted = []agent.Composite{
		{ID: "c1", Tenant: "default", Name: "fetch_flights", Description: "Fetches\x1b[31m flights.", Version: 2, Uses: 7, Enabled: true, UpdatedAt: gatewaytest.Epoch()},
		{ID: "c2", Tenant: "default", Name: "top_prices", Version: 1, Uses: 2, UpdatedAt: gatewaytest.Epoch()},
	}
	b.steps("tools",
		line(0, "list"),
		line(0, "rename", "fetch_flights", "cheap_flights"),
		line(0, "describe", "c2", "The", "best", "prices."),
		line(0, "disable", "cheap_flights"),
		line(0, "enable", "top_prices"),
		line(exitUsage, "rename", "top_prices", "cheap_flights"),
		line(exitUsage, "disable", "nope"),
		line(0, "list"),
	)
	golden(t, "tools", b.screen.String())
	b.show(0, "tools", "disable", "c2", "-o", "json")
	require.Contains(t, b.screen.out(), `"enabled": false`)
}
