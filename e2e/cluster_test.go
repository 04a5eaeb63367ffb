package e2e_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/cluster"
	"github.com/turnstone-run/turnstone/internal/devstack"
	"github.com/turnstone-run/turnstone/internal/devstack/embedded"
)

// TestClusterWithoutSearchAttributes: turns run on a cluster that knows nothing of ours, and "starter setup" teaches it.
func TestClusterWithoutSearchAttributes(t *testing.T) {
	t.Parallel()
	bare, err := embedded.Start(t.Context(), devstack.TemporalConfig{AnyPort: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, bare.Stop()) })
	s := start(t, func(c *app.Config) { c.Temporal.Address = bare.Address() })
	out, _ := s.run(agent.TurnRequest{Message: mainJob})
	require.Equal(t, agent.TurnCompleted, out.Status, "%+v", out.Error)
	s.closed(out.TurnID)
	events, _ := size(s.replay("turn_without_attributes", out.TurnID.WorkflowID(), ""))
	require.Equal(t, 22, events, "one less: nothing is indexed")

	temporal, err := client.Dial(client.Options{HostPort: bare.Address()})
	require.NoError(t, err)
	defer temporal.Close()
	known, err := cluster.FindAttributes(t.Context(), temporal, "default")
	require.NoError(t, err)
	require.Zero(t, known)
	for range 2 { // idempotent
		require.NoError(t, cluster.AddAttributes(t.Context(), temporal, "default"))
	}
	require.Eventually(t, func() bool {
		known, err := cluster.FindAttributes(t.Context(), temporal, "default")
		return err == nil && known == cluster.Attributes{Turn: true, Status: true}
	}, 15*time.Second, 50*time.Millisecond)
}
