package patch_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions/definitionstest"
	"github.com/turnstone-run/turnstone/internal/definitions/library"
	"github.com/turnstone-run/turnstone/internal/tool"
	"github.com/turnstone-run/turnstone/internal/tool/patch"
	"github.com/turnstone-run/turnstone/internal/tool/tooltest"
)

// workflows is a [tool.Workflows] that records patches and can return errors.
type workflows struct {
	tool.Workflows

	asked    []agent.WorkflowPatchRequest
	listErr  error
	patchErr error
}

func (w *workflows) PatchWorkflow(ctx context.Context, r agent.WorkflowPatchRequest) (agent.WorkflowPatchResult, error) {
	w.asked = append(w.asked, r)
	if w.patchErr != nil {
		return agent.WorkflowPatchResult{}, w.patchErr
	}
	return w.Workflows.PatchWorkflow(ctx, r)
}

func (w *workflows) ListWorkflows(ctx context.Context, q agent.WorkflowQuery) (agent.WorkflowPage, error) {
	if w.listErr != nil {
		return agent.WorkflowPage{}, w.listErr
	}
	return w.Workflows.ListWorkflows(ctx, q)
}

// newWorkflows returns a library with the workflow main of each owner.
func newWorkflows(t testing.TB, owners ...string) *workflows {
	t.Helper()
	l, err := library.New(library.Config{Store: new(definitionstest.LibraryStore)})
	require.NoError(t, err)
	for _, owner := range owners {
		_, err := l.Put(t.Context(), library.PutRequest{
			WorkflowKey: agent.WorkflowKey{Tag: "main", Owner: owner},
			Definition: json.RawMessage(`{"nodes":[{"id":"fetch_flights","type":"task","config":{"action":"pipeline","pipeline":[{"step":"http_request"}]}},
				{"id":"process_data","type":"condition","expr":"true"}]}`),
		})
		require.NoError(t, err)
	}
	return &workflows{Workflows: l}
}

// patchTool has all interfaces of the tool.
type patchTool interface {
	agent.Tool
	agent.EffectFree
	agent.Summarizer
}

func theTool(t testing.TB, w tool.Workflows) patchTool {
	t.Helper()
	kit, err := patch.New(w)
	require.NoError(t, err)
	a, ok := kit.Tools()[0].(patchTool)
	require.True(t, ok)
	return a
}

func call(t *testing.T, w tool.Workflows, inv agent.Invocation, args string) agent.ToolResult {
	t.Helper()
	res, err := theTool(t, w).Call(t.Context(), inv, agent.ToolCall{ID: "c", Name: patch.ToolName, Args: json.RawMessage(args)})
	require.NoError(t, err)
	tooltest.CheckResult(t, res)
	return res
}

func fixture(t testing.TB, name string) string {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	return string(raw)
}

func TestToolkit(t *testing.T) {
	w := newWorkflows(t)
	kit, err := patch.New(w)
	require.NoError(t, err)
	tooltest.Exercise(t, kit)
	require.Empty(t, w.asked, "bad calls patch nothing")
	_, err = tool.Build(tool.Dependencies{}, patch.Factory())
	require.ErrorContains(t, err, "needs workflow definitions: none is configured")
	_, err = tool.Build(tool.Dependencies{Workflows: w}, patch.Factory())
	require.NoError(t, err)
	_, err = patch.New(nil)
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
}

func TestSpec(t *testing.T) {
	spec := theTool(t, newWorkflows(t)).Spec()
	require.Equal(t, "patch_workflow", spec.Name)
	require.True(t, strings.HasPrefix(spec.Description, "Create persistent workflow changes (always/whenever/schedule)"))
	require.True(t, spec.Strict)
	require.True(t, spec.Idempotent)
	require.False(t, spec.InherentlySafe)
	var seed struct {
		Function struct {
			Name       string
			Parameters json.RawMessage
		}
	}
	require.NoError(t, json.Unmarshal([]byte(fixture(t, "seed_5_2.json")), &seed))
	require.Equal(t, seed.Function.Name, spec.Name)
	require.JSONEq(t, string(seed.Function.Parameters), string(spec.Parameters))
}

func TestExamples(t *testing.T) {
	w := newWorkflows(t, "sdutt")
	res := call(t, w, agent.Invocation{Tenant: agent.DefaultTenant, UserID: "ann", IdempotencyKey: "k1"}, fixture(t, "price_drop.json"))
	require.Nil(t, res.Failure)
	var out map[string]any
	require.NoError(t, json.Unmarshal(res.Output, &out))
	require.Regexp(t, `^patch_[0-9a-f-]{36}$`, out["patch_id"])
	delete(out, "patch_id")
	require.Equal(t, map[string]any{
		"version": 2.0, "base_version": 1.0, "workflow_tag": "main", "workflow_owner": "sdutt", "description": "Add price drop email notification",
		"summary": "Workflow main is at version 2: added node price_check, added node send_email, added edge fetch_flights → price_check, added edge price_check → send_email.",
	}, out)
	require.Equal(t, "ann", w.asked[0].By)
	require.Equal(t, "k1", w.asked[0].Idempotency)
	require.Zero(t, w.asked[0].BaseVersion)

	again := call(t, w, agent.Invocation{Tenant: agent.DefaultTenant, UserID: "ann", IdempotencyKey: "k1"}, fixture(t, "price_drop.json"))
	require.Equal(t, string(res.Output), string(again.Output), "the same call changes nothing and returns the same")

	res = call(t, newWorkflows(t, "sdutt"), agent.Invocation{IdempotencyKey: "k2"}, fixture(t, "after_processing.json"))
	require.Nil(t, res.Failure, "%s", res.Output)
	require.Contains(t, string(res.Output), `"workflow_owner":"sdutt"`)
}

func TestOwner(t *testing.T) {
	const args = `{"workflow_tag":"main","patch_spec":{"operations":[{"op":"replace","path":"/description","value":"x"}]}}`
	ofJob := func(w *workflows, user string, job agent.WorkflowKey, args string) string {
		res := call(t, w, agent.Invocation{UserID: user, IdempotencyKey: "k", Workflow: job}, args)
		var out struct {
			Owner string `json:"workflow_owner"`
			Error struct{ Type, Field string }
		}
		require.NoError(t, json.Unmarshal(res.Output, &out))
		return out.Owner + out.Error.Type + " " + out.Error.Field
	}
	owner := func(w *workflows, user, args string) string { return ofJob(w, user, agent.WorkflowKey{}, args) }
	require.Equal(t, "ann ", owner(newWorkflows(t, "ann", "bob"), "ann", args), "the user's own")
	require.Equal(t, "bob ", owner(newWorkflows(t, "bob"), "ann", args), "the only one")
	require.Equal(t, "conflict workflow_owner", owner(newWorkflows(t, "bob", "cid"), "ann", args))
	require.Equal(t, "conflict workflow_owner", owner(newWorkflows(t, "bob", "cid"), "", args))
	require.Equal(t, "not_found workflow_tag", owner(newWorkflows(t), "ann", args))
	named := strings.Replace(args, `{"workflow_tag"`, `{"workflow_owner":"bob","workflow_tag"`, 1)
	require.Equal(t, "bob ", owner(newWorkflows(t, "ann", "bob"), "ann", named))
	null := strings.Replace(args, `{"workflow_tag"`, `{"workflow_owner":null,"workflow_tag"`, 1)
	require.Equal(t, "ann ", owner(newWorkflows(t, "ann", "bob"), "ann", null))
	whole := `{"workflow_tag":"new","patch_spec":{"operations":[{"op":"add","path":"","value":{"nodes":[{"id":"a","type":"condition","expr":"true"}]}}]}}`
	require.Equal(t, "default ", owner(newWorkflows(t), "ann", whole))

	// The job supplies what the arguments leave out.
	job := agent.WorkflowKey{Tag: "main", Owner: "bob"}
	untagged := strings.Replace(args, `"workflow_tag":"main",`, "", 1)
	for _, incomplete := range []string{untagged, args, null, strings.Replace(args, `"main"`, `""`, 1), strings.Replace(args, `"main"`, `null`, 1)} {
		require.Equal(t, "bob ", ofJob(newWorkflows(t, "ann", "bob"), "ann", job, incomplete), incomplete)
	}
	require.Equal(t, "ann ", ofJob(newWorkflows(t, "ann", "bob"), "ann", agent.WorkflowKey{Tag: "main"}, untagged), "a job without an owner")
	require.Equal(t, "bob ", ofJob(newWorkflows(t, "ann", "bob"), "ann", agent.WorkflowKey{Owner: "bob"}, args), "a job without a tag")
	require.Equal(t, "ann ", ofJob(newWorkflows(t, "ann", "bob"), "ann", agent.WorkflowKey{Tag: "other", Owner: "bob"}, args), "another workflow than the job's")
	require.Equal(t, "ann ", ofJob(newWorkflows(t, "ann", "bob"), "ann", job, strings.Replace(args, `{`, `{"workflow_owner":"ann",`, 1)), "the arguments come first")
	require.Equal(t, "invalid workflow_tag", ofJob(newWorkflows(t, "bob"), "bob", agent.WorkflowKey{Owner: "bob"}, untagged))
}

func TestRefusals(t *testing.T) {
	spec := func(operations string) string {
		return `{"workflow_tag":"main","patch_spec":{"operations":` + operations + `}}`
	}
	for name, c := range map[string]struct{ args, kind, field, message string }{
		"no tag":         {`{"patch_spec":{"operations":[{"op":"remove","path":"/x"}]}}`, "invalid", "workflow_tag", "is required"},
		"empty tag":      {`{"workflow_tag":"","patch_spec":{"operations":[{"op":"remove","path":"/x"}]}}`, "invalid", "workflow_tag", "is required"},
		"bad tag":        {`{"workflow_tag":"a b","patch_spec":{"operations":[{"op":"remove","path":"/x"}]}}`, "invalid", "workflow_tag", "want 1 to 128"},
		"no spec":        {`{"workflow_tag":"main"}`, "invalid", "patch_spec", "is required"},
		"null spec":      {`{"workflow_tag":"main","patch_spec":null}`, "invalid", "patch_spec", "is required"},
		"no operations":  {`{"workflow_tag":"main","patch_spec":{}}`, "invalid", "patch_spec.operations", "is required"},
		"unknown member": {`{"workflow_tag":"main","operations":[]}`, "invalid", "operations", "unknown field"},
		"in the spec":    {`{"workflow_tag":"main","patch_spec":{"ops":[]}}`, "invalid", "patch_spec.ops", "unknown field"},
		"move":           {spec(`[{"op":"move","path":"/nodes/-","value":{}}]`), "invalid", "patch_spec.operations[0].op", "want one of add, remove, replace"},
		"no path":        {spec(`[{"op":"remove"}]`), "invalid", "patch_spec.operations[0].path", "is required"},
		"no value":       {spec(`[{"op":"add","path":"/nodes/-"}]`), "invalid", "patch_spec.operations[0].value", "is required for add"},
		"many":           {spec(`[` + strings.Repeat(`{"op":"remove","path":"/x"},`, 100) + `{"op":"remove","path":"/x"}]`), "overflow", "patch_spec.operations", "are 101, at most 100"},
		"no such place":  {spec(`[{"op":"replace","path":"/description","value":"x"},{"op":"remove","path":"/nodes/5"}]`), "invalid", "patch_spec.operations[1].path", "remove /nodes/5 does not apply: there is no such place; the nodes are: 0 fetch_flights, 1 process_data"},
		"slack":          {spec(`[{"op":"add","path":"/nodes/-","value":{"id":"s","type":"task","config":{"action":"slack"}}}]`), "invalid", "", `nodes[2].config.action: want one of email, webhook, pipeline, got "slack"`},
		"dangling":       {spec(`[{"op":"add","path":"/edges/-","value":{"from":"fetch_flights","to":"x"}}]`), "invalid", "", `edges[0].to: there is no node "x"`},
		"no workflow":    {`{"workflow_tag":"other","patch_spec":{"operations":[{"op":"remove","path":"/x"}]}}`, "not_found", "workflow_tag", "there is no workflow other; there are: main of ann"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorkflows(t, "ann")
			res := call(t, w, agent.Invocation{IdempotencyKey: "k"}, c.args)
			require.NotNil(t, res.Failure)
			require.Equal(t, c.kind, res.Failure.Type)
			require.Equal(t, c.field, res.Failure.Field)
			require.Contains(t, res.Failure.Message, c.message)
			require.Equal(t, patch.ToolName, res.Failure.Tool)
			require.False(t, res.Failure.Retryable)
			require.Less(t, len(res.Failure.Message), 2100)
			page, err := w.Workflows.ListWorkflows(t.Context(), agent.WorkflowQuery{})
			require.NoError(t, err)
			require.EqualValues(t, 1, page.Workflows[0].Version, "nothing is changed")
		})
	}
}

func TestUnavailableWorkflows(t *testing.T) {
	const args = `{"workflow_tag":"main","patch_spec":{"operations":[{"op":"replace","path":"/description","value":"x"}]}}`
	for _, err := range []error{
		agent.Errorf(agent.CodeUnavailable, "", "down"), agent.Errorf(agent.CodeRateLimited, "", "slow"), errors.New("bug"),
	} {
		for _, w := range []*workflows{{Workflows: newWorkflows(t, "ann"), patchErr: err}, {Workflows: newWorkflows(t, "ann"), listErr: err}} {
			_, got := theTool(t, w).Call(t.Context(), agent.Invocation{UserID: "ann"}, agent.ToolCall{Args: json.RawMessage(args)})
			require.ErrorIs(t, got, err, "the runtime may retry")
		}
	}
	w := &workflows{Workflows: newWorkflows(t, "ann"), patchErr: agent.Errorf(agent.CodeDenied, "", "%s", strings.Repeat("x", 5000))}
	res := call(t, w, agent.Invocation{}, args)
	require.Equal(t, "denied", res.Failure.Type)
	require.Less(t, len(res.Failure.Message), 2100)
}

func TestNothingToChange(t *testing.T) {
	res := call(t, newWorkflows(t, "ann"), agent.Invocation{}, `{"workflow_tag":"main","patch_spec":{"operations":[{"op":"replace","path":"/description","value":""}]}}`)
	require.Nil(t, res.Failure)
	require.Contains(t, string(res.Output), `"summary":"Workflow main was so already, since version 1: nothing is changed.","unchanged":true`)
}

func TestSummarizeAndEffects(t *testing.T) {
	tl := theTool(t, newWorkflows(t))
	one := `{"workflow_tag":"main","patch_spec":{"operations":[{"op":"remove","path":"/x"}]}}`
	require.Equal(t, "main: 4 operations", tl.Summarize(json.RawMessage(fixture(t, "price_drop.json"))))
	require.Equal(t, "main: 1 operation", tl.Summarize(json.RawMessage(one)))
	require.Equal(t, "the workflow of the job: 1 operation", tl.Summarize(json.RawMessage(strings.Replace(one, `"main"`, `""`, 1))))
	require.Equal(t, "invalid arguments", tl.Summarize(json.RawMessage(`{}`)))
	require.LessOrEqual(t, len(tl.Summarize(json.RawMessage(strings.Replace(one, "main", strings.Repeat("é", 300), 1)))), 100)
	require.False(t, tl.EffectFree(json.RawMessage(one)))
	require.False(t, tl.EffectFree(json.RawMessage(strings.Replace(one, `"main"`, `null`, 1))), "the job may name the workflow")
	require.True(t, tl.EffectFree(json.RawMessage(`{}`)))
}

func TestSummaries(t *testing.T) {
	for operation, want := range map[string]string{
		`{"op":"add","path":"/schedules/-","value":{"id":"daily","cron":"@daily"}}`:                  "added schedule daily.",
		`{"op":"replace","path":"/nodes/1/expr","value":"false"}`:                                    "changed /nodes/1/expr.",
		`{"op":"remove","path":"/nodes/1","value":null}`:                                             "removed /nodes/1.",
		`{"op":"replace","path":"","value":{"nodes":[{"id":"a","type":"condition","expr":"true"}]}}`: "changed the whole definition.",
		`{"op":"replace","path":"/description","value":"new"}`:                                       "changed /description.",
	} {
		res := call(t, newWorkflows(t, "ann"), agent.Invocation{}, `{"workflow_tag":"main","patch_spec":{"operations":[`+operation+`]}}`)
		require.Nil(t, res.Failure, "%s", res.Output)
		require.Contains(t, string(res.Output), want)
	}
	many := strings.TrimSuffix(strings.Repeat(`{"op":"replace","path":"/description","value":"x"},`, 12), ",")
	res := call(t, newWorkflows(t, "ann"), agent.Invocation{}, `{"workflow_tag":"main","patch_spec":{"operations":[`+many+`]}}`)
	require.Contains(t, string(res.Output), "changed /description, and 4 more.")
}

func FuzzCall(f *testing.F) {
	f.Add(fixture(f, "price_drop.json"))
	f.Add(fixture(f, "after_processing.json"))
	f.Add(`{"workflow_tag":"main","workflow_owner":null,"patch_spec":{"operations":[{"op":"remove","path":"/nodes/0","value":null}],"description":null}}`)
	f.Fuzz(func(t *testing.T, args string) {
		w := newWorkflows(t, "ann")
		res, err := theTool(t, w).Call(t.Context(), agent.Invocation{IdempotencyKey: "k"}, agent.ToolCall{Args: json.RawMessage(args)})
		require.NoError(t, err)
		tooltest.CheckResult(t, res)
		if theTool(t, w).EffectFree(json.RawMessage(args)) {
			require.NotNil(t, res.Failure)
			require.Empty(t, w.asked)
		}
	})
}
