package client_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
)

func TestWorkflows(t *testing.T) {
	rt, c := serve(t, func(c *client.Config) { c.Tenant = "acme" })
	key := agent.WorkflowKey{Tag: "main", Owner: "ops"}
	definition := json.RawMessage(`{"description":"price < 500","nodes":[{"id":"wait","type":"timer","config":{"duration":"1h"}}],"edges":[]}`)
	put, err := c.PutWorkflow(t.Context(), client.WorkflowPut{WorkflowKey: key, Definition: definition, Description: "first", By: "ann"})
	require.NoError(t, err)
	require.Equal(t, agent.WorkflowKey{Tenant: "acme", Owner: "ops", Tag: "main"}, put.WorkflowKey)
	_, err = c.PutWorkflow(t.Context(), client.WorkflowPut{WorkflowKey: key, Definition: definition, DryRun: true})
	require.NoError(t, err)
	patch := agent.WorkflowPatchRequest{
		WorkflowKey: key, Operations: json.RawMessage(`[{"op":"replace","path":"/description","value":"x"}]`), Description: "why", BaseVersion: 1, Idempotency: "k1",
	}
	patched, err := c.PatchWorkflow(t.Context(), patch)
	require.NoError(t, err)
	require.EqualValues(t, 2, patched.Version, "the dry run made none")
	again, err := c.PatchWorkflow(t.Context(), patch)
	require.NoError(t, err)
	require.Equal(t, patched, again)
	patch.Idempotency = ""
	_, err = c.PatchWorkflow(t.Context(), patch)
	require.Equal(t, agent.CodeConflict, agent.CodeOf(err))
	require.Equal(t, "base_version", agent.FailureOf(err).Field)
	_, err = c.RevertWorkflow(t.Context(), agent.WorkflowPatchRequest{WorkflowKey: key, Revert: patched.PatchID})
	require.NoError(t, err)
	stored, err := c.Workflow(t.Context(), key, 0)
	require.NoError(t, err)
	require.EqualValues(t, 3, stored.Version)
	require.JSONEq(t, string(definition), string(stored.Definition))
	history, err := c.WorkflowPatches(t.Context(), key, agent.Page{Size: 2})
	require.NoError(t, err)
	require.Len(t, history.Patches, 2)
	require.NotEmpty(t, history.Next)
	page, err := c.Workflows(t.Context(), agent.WorkflowQuery{Owner: "ops", Tag: "main"})
	require.NoError(t, err)
	require.Len(t, page.Workflows, 1)

	receipt, err := c.StartRun(t.Context(), agent.RunRequest{Tag: "main", Owner: "ops", Version: 2, Input: json.RawMessage(`[1.50]`)}, "r1")
	require.NoError(t, err)
	joined, err := c.StartRun(t.Context(), agent.RunRequest{Tag: "main"}, "r1")
	require.NoError(t, err)
	require.Equal(t, receipt.RunID, joined.RunID)
	run, err := c.Run(t.Context(), receipt.RunID)
	require.NoError(t, err)
	require.EqualValues(t, 2, run.Version)
	require.NoError(t, c.CancelRun(t.Context(), receipt.RunID, agent.CancelRequest{Reason: "x"}))
	runs, err := c.Runs(t.Context(), agent.RunQuery{Tag: "main", Owner: "ops", Status: agent.RunCancelled})
	require.NoError(t, err)
	require.Len(t, runs.Runs, 1)
	_, err = c.DeleteWorkflow(t.Context(), client.WorkflowDelete{WorkflowKey: key, BaseVersion: 3, Description: "old"})
	require.NoError(t, err)
	_, err = c.Workflow(t.Context(), key, 0)
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))

	rt.Promoted = []agent.Composite{{ID: "c1", Tenant: "acme", Name: "one"}}
	on := true
	changed, err := c.ChangeComposite(t.Context(), "one", agent.CompositeChange{Enabled: &on})
	require.NoError(t, err)
	require.True(t, changed.Enabled)
	all, err := c.Composites(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
}
