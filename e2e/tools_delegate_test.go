package e2e_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// TestContainerWithoutACluster: where no cluster is configured, a container is not run: nobody is asked about it, the model gets the manifest
// of its job, and the turn goes on.
func TestContainerWithoutACluster(t *testing.T) {
	t.Parallel()
	provider := newScript(t,
		calls("delegate_to_agent", `{"agent_type":"custom_container","container_image":"registry.example.com/agents/ocr:2.1","inputs":{"page":1}}`),
		says("here is its specification"))
	s := start(t)
	s.worksFor(provider, "[]\ndelegates: [analyst]")
	receipt, err := s.client.Start(t.Context(), agent.TurnRequest{Agent: "clerk", Message: "read the page", SessionID: "containers"})
	require.NoError(t, err)
	out, events := s.sound("", receipt)
	require.Equal(t, agent.TurnCompleted, out.Status, "%+v", out.Error)
	require.Len(t, out.ToolCalls, 1)
	require.Equal(t, agent.ResultSuccess, out.ToolCalls[0].Status, toolOutput(events))
	for _, want := range []string{`"dry_run":true`, "no cluster is configured", `"kind":"Job"`, `"image":"registry.example.com/agents/ocr:2.1"`} {
		require.Contains(t, toolOutput(events), want)
	}
	require.Contains(t, provider.requests()[1].body, "no cluster is configured", "the model is told why")
}
