package devstack

import (
	"context"
	"os/exec"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A child process that is just being started has a copy of the listeners. ChoosePorts must wait until the child has closed it.
func TestChosenPortsAreFreeWhileChildrenStart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var children sync.WaitGroup
	for range 2 {
		children.Go(func() {
			for ctx.Err() == nil {
				_ = exec.CommandContext(ctx, "true").Run()
			}
		})
	}
	defer children.Wait()
	defer cancel()
	for range 150 {
		ports, err := ChoosePorts(false, make([]Port, 4)...)
		require.NoError(t, err)
		for _, port := range ports {
			// The Temporal server listens in the same way, which fails while a copy listens.
			listener, err := listen(port)
			require.NoError(t, err)
			require.NoError(t, release(listener))
		}
	}
}

func TestChoosePorts(t *testing.T) {
	busy, err := listen(0)
	require.NoError(t, err)
	defer busy.Close()
	taken := busy.addr.Port

	free, err := ChoosePorts(false, make([]Port, 8)...)
	require.NoError(t, err)
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(free))), 8, "all distinct")
	for _, port := range free {
		listener, err := listen(port)
		require.NoError(t, err, "still free for who asks by number")
		require.NoError(t, listener.Close())
	}

	same, err := ChoosePorts(false, Port{"this", free[0]})
	require.NoError(t, err)
	require.Equal(t, free[:1], same, "a wanted port that is free is taken")

	_, err = ChoosePorts(false, Port{"this", free[0]}, Port{"the demo", taken})
	require.ErrorIs(t, err, ErrPortInUse)
	require.ErrorContains(t, err, "the demo wants port")
	_, err = ChoosePorts(false, Port{"this", free[0]}, Port{"that", free[0]})
	require.ErrorIs(t, err, ErrPortInUse, "one port for two")

	other, err := ChoosePorts(true, Port{"the demo", taken})
	require.NoError(t, err)
	require.NotEqual(t, taken, other[0])
}
