package library_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions/library"
)

func revert(t *testing.T, l *library.Library, id string) (agent.WorkflowPatchResult, error) {
	t.Helper()
	return l.PatchWorkflow(t.Context(), agent.WorkflowPatchRequest{Revert: id, By: "cid"})
}

const watchedFlow = `{"description":"d","nodes":[{"id":"a","type":"condition","expr":"x > 1"},{"id":"b","type":"task","config":{"action":"email"}}],
	"edges":[{"from":"a","to":"b","condition":"true"}],"schedules":[{"id":"s","interval_sec":60}]}`

func TestRevertRestoresPreviousVersion(t *testing.T) {
	for name, operations := range map[string]string{
		"added":          `[{"op":"add","path":"/nodes/-","value":` + mailNode("c") + `},{"op":"add","path":"/edges/-","value":{"from":"b","to":"c"}},{"op":"add","path":"/schedules/0","value":{"id":"t","cron":"@daily"}}]`,
		"removed":        `[{"op":"remove","path":"/edges/0"},{"op":"remove","path":"/nodes/0"},{"op":"remove","path":"/schedules/0"}]`,
		"changed":        `[{"op":"replace","path":"/nodes/0/expr","value":"x > 2"},{"op":"replace","path":"/edges/0/condition","value":"false"},{"op":"replace","path":"/schedules/0/interval_sec","value":90},{"op":"replace","path":"/description","value":""}]`,
		"the whole":      `[{"op":"replace","path":"","value":{"nodes":[` + mailNode("z") + `]}}]`,
		"another id":     `[{"op":"replace","path":"/nodes/1/id","value":"c"},{"op":"replace","path":"/edges/0/to","value":"c"}]`,
		"both and again": `[{"op":"remove","path":"/edges/0"},{"op":"remove","path":"/nodes/1"},{"op":"add","path":"/nodes/0","value":` + mailNode("q") + `}]`,
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := newLibrary(t)
			first := mustPut(t, l, annsKey("main"), json.RawMessage(watchedFlow))
			second := mustPatch(t, l, annsKey("main"), operations)
			third, err := revert(t, l, second.PatchID)
			require.NoError(t, err)
			require.EqualValues(t, 3, third.Version)
			require.Equal(t, first.Hash, third.Hash)
			p, err := l.Patch(t.Context(), "", third.PatchID)
			require.NoError(t, err)
			require.Equal(t, second.PatchID, p.Revert)
			require.Equal(t, "Take back "+second.PatchID, p.Description)
			require.Equal(t, "cid", p.By)
			require.NotEmpty(t, p.Operations)

			again, err := revert(t, l, second.PatchID)
			require.NoError(t, err)
			require.True(t, again.Unchanged, "it is already reverted")
			fourth, err := revert(t, l, third.PatchID)
			require.NoError(t, err)
			require.Equal(t, second.Hash, fourth.Hash, "a revert can be reverted")
		})
	}
}

func TestRevertKeepsLaterChanges(t *testing.T) {
	l, _ := newLibrary(t)
	mustPut(t, l, annsKey("main"), json.RawMessage(watchedFlow))
	notify := mustPatch(t, l, annsKey("main"), `[{"op":"add","path":"/nodes/-","value":`+mailNode("notify")+`},{"op":"add","path":"/edges/-","value":{"from":"a","to":"notify","condition":"true"}}]`)
	mustPatch(t, l, annsKey("main"), `[{"op":"add","path":"/nodes/0","value":`+mailNode("first")+`},{"op":"replace","path":"/nodes/1/expr","value":"x > 9"},{"op":"remove","path":"/edges/0"},{"op":"replace","path":"/description","value":"new"}]`)
	r, err := revert(t, l, notify.PatchID)
	require.NoError(t, err)
	require.EqualValues(t, 4, r.Version)
	require.JSONEq(t, `{"description":"new","nodes":[`+mailNode("first")+`,{"id":"a","type":"condition","expr":"x > 9"},`+mailNode("b")+`],"edges":[],"schedules":[{"id":"s","interval_sec":60}]}`,
		string(mustRead(t, l, annsKey("main")).Definition))
}

func TestRevertConflicts(t *testing.T) {
	change := `[{"op":"replace","path":"/nodes/0/expr","value":"x > 2"},{"op":"add","path":"/nodes/-","value":` + mailNode("c") + `},{"op":"remove","path":"/schedules/0"},{"op":"replace","path":"/description","value":"changed"}]`
	for name, c := range map[string]struct{ since, field, message string }{
		"changed otherwise": {`[{"op":"replace","path":"/nodes/0/expr","value":"x > 3"}]`, "nodes[0]", `"a" was changed since`},
		"removed":           {`[{"op":"remove","path":"/edges/0"},{"op":"remove","path":"/nodes/0"}]`, "nodes", `"a" was changed by the patch and removed since`},
		"name of the added": {`[{"op":"add","path":"/nodes/2/name","value":"x"}]`, "nodes[2]", `"c" was changed since`},
		"came back":         {`[{"op":"add","path":"/schedules/-","value":{"id":"s","interval_sec":999}}]`, "schedules[0]", `"s" was removed by the patch and added otherwise since`},
		"description":       {`[{"op":"replace","path":"/description","value":"other"}]`, "description", "was changed since"},
		"is needed":         {`[{"op":"add","path":"/edges/-","value":{"from":"b","to":"c"}}]`, "patch_id", `what came since needs it: check definition: edges[1].to: there is no node "c"`},
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := newLibrary(t)
			mustPut(t, l, annsKey("main"), json.RawMessage(watchedFlow))
			second := mustPatch(t, l, annsKey("main"), change)
			mustPatch(t, l, annsKey("main"), c.since)
			_, err := revert(t, l, second.PatchID)
			requireRefusal(t, err, agent.CodeConflict, c.field, c.message)
			require.EqualValues(t, 3, mustRead(t, l, annsKey("main")).Version)
		})
	}
}

func TestRevertRefuses(t *testing.T) {
	l, _ := newLibrary(t)
	first := mustPut(t, l, annsKey("main"), json.RawMessage(watchedFlow))
	second := mustPatch(t, l, annsKey("main"), string(addMailNode("c")))
	_, err := revert(t, l, first.PatchID)
	requireRefusal(t, err, agent.CodeConflict, "patch_id", "made the first version")
	_, err = revert(t, l, "patch_none")
	requireRefusal(t, err, agent.CodeNotFound, "patch_id", "there is no patch")
	for name, r := range map[string]agent.WorkflowPatchRequest{
		"tenant": {WorkflowKey: agent.WorkflowKey{Tenant: "globex"}, Revert: second.PatchID},
		"tag":    {WorkflowKey: agent.WorkflowKey{Tag: "other"}, Revert: second.PatchID},
		"owner":  {WorkflowKey: agent.WorkflowKey{Owner: "bob"}, Revert: second.PatchID},
	} {
		_, err = l.PatchWorkflow(t.Context(), r)
		requireRefusal(t, err, agent.CodeNotFound, "patch_id", "patch")
		require.NotEmpty(t, name)
	}
	_, err = l.PatchWorkflow(t.Context(), agent.WorkflowPatchRequest{Revert: second.PatchID, Operations: addMailNode("x")})
	requireRefusal(t, err, agent.CodeInvalid, "operations", "give revert_of alone")
	_, err = l.PatchWorkflow(t.Context(), agent.WorkflowPatchRequest{Revert: second.PatchID, BaseVersion: 1})
	requireRefusal(t, err, agent.CodeConflict, "base_version", "is 1")

	dry, err := l.PatchWorkflow(t.Context(), agent.WorkflowPatchRequest{Revert: second.PatchID, DryRun: true})
	require.NoError(t, err)
	require.Equal(t, first.Hash, dry.Hash)
	ask := agent.WorkflowPatchRequest{WorkflowKey: annsKey("main"), Revert: second.PatchID, Idempotency: "k"}
	one, err := l.PatchWorkflow(t.Context(), ask)
	require.NoError(t, err)
	mustPatch(t, l, annsKey("main"), string(addMailNode("c")))
	again, err := l.PatchWorkflow(t.Context(), ask)
	require.NoError(t, err)
	require.Equal(t, one, again)
	require.True(t, strings.HasSuffix(nodeIDs(t, mustRead(t, l, annsKey("main"))), "c"))
}

func TestRevertDeletion(t *testing.T) {
	l, _ := newLibrary(t)
	first := mustPut(t, l, annsKey("main"), json.RawMessage(watchedFlow))
	patch := mustPatch(t, l, annsKey("main"), string(addMailNode("c")))
	gone, err := l.Delete(t.Context(), library.DeleteRequest{WorkflowKey: annsKey("main")})
	require.NoError(t, err)
	_, err = revert(t, l, patch.PatchID)
	requireRefusal(t, err, agent.CodeConflict, "patch_id", "was deleted since")
	back, err := revert(t, l, gone.PatchID)
	require.NoError(t, err)
	require.EqualValues(t, 4, back.Version)
	require.Equal(t, patch.Hash, back.Hash)
	_, err = revert(t, l, gone.PatchID)
	requireRefusal(t, err, agent.CodeConflict, "patch_id", "made again since")
	_, err = revert(t, l, back.PatchID)
	requireRefusal(t, err, agent.CodeConflict, "patch_id", "made the workflow again")
	r, err := revert(t, l, patch.PatchID)
	require.NoError(t, err)
	require.Equal(t, first.Hash, r.Hash)
}
