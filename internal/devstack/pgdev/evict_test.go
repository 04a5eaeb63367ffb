//go:build unix

package pgdev

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Where the kernel does not end a server with its owner, or is late with it, the next owner meets it alive.
func TestServerOfADeadOwnerIsStopped(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "pgdev-test-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })

	former, err := Start(t.Context(), Config{DataDir: dir})
	require.NoError(t, err)
	require.NoError(t, former.home.lock.Release()) // all that is left of a dead owner is its server

	heir, err := Start(t.Context(), Config{DataDir: dir})
	require.NoError(t, err)
	select {
	case <-former.Exited():
	case <-time.After(30 * time.Second):
		require.FailNow(t, "the former server still runs")
	}
	require.NotZero(t, heir.Pid())
	require.NoError(t, heir.Stop(t.Context()))
}
