package postgres

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

func TestTurnstilesLetOneThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			all    turnstiles
			wg     sync.WaitGroup
			inside int
			passed int
		)
		for range 50 {
			wg.Go(func() {
				leave, err := all.enter(t.Context(), "op", "acme")
				if err != nil {
					return
				}
				inside++ // the race detector watches
				passed += inside
				inside--
				leave()
			})
		}
		wg.Wait()
		require.Equal(t, 50, passed)
		require.Empty(t, all.of, "nothing is kept of a tenant for whom nobody waits")

		leave, err := all.enter(t.Context(), "op", "acme")
		require.NoError(t, err)
		other, err := all.enter(t.Context(), "op", "other")
		require.NoError(t, err)
		other()
		waiting, cancel := context.WithCancel(t.Context())
		errs := make([]error, maxWaiting-1)
		for i := range errs {
			wg.Go(func() { _, errs[i] = all.enter(waiting, "op", "acme") })
		}
		synctest.Wait()
		_, err = all.enter(t.Context(), "op", "acme")
		require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err), "as many wait as may")
		cancel()
		wg.Wait()
		for _, err := range errs {
			require.Equal(t, agent.CodeCancelled, agent.CodeOf(err))
		}
		leave()
		require.Empty(t, all.of)
	})
}
