package admission_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/admission"
)

// fill takes all places of a capacity and returns how to give them back.
func fill(c *admission.Capacity) (leave []func(bool)) {
	for {
		l, err := c.Enter()
		if err != nil {
			return leave
		}
		leave = append(leave, l)
	}
}

// TestCapacity: the bound rises while turns begin in time, falls once for all that began late together, and never below its least.
func TestCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := admission.NewCapacity(time.Second)
		round := func(took time.Duration, begun bool) int {
			places := fill(c)
			time.Sleep(took)
			for _, leave := range places {
				leave(begun)
			}
			return len(places)
		}
		first := round(0, true)
		require.Greater(t, round(0, true), first, "it rises")
		high := round(2*time.Second, false)
		require.Equal(t, high, round(2*time.Second, true), "what did not begin says nothing")
		low := round(2*time.Second, true)
		require.Equal(t, high*7/10, low, "once for all of a round")
		for range 20 {
			low = round(2*time.Second, true)
		}
		require.Equal(t, 8, low)
		for range 10 {
			round(0, true)
		}
		require.Greater(t, round(0, true), 12)
		leave, err := c.Enter()
		require.NoError(t, err)
		leave(true)
		fill(c)
		_, err = c.Enter()
		e, ok := err.(*agent.Error) //nolint:errorlint // itself
		require.True(t, ok)
		require.Equal(t, agent.CodeUnavailable, e.Code)
		require.GreaterOrEqual(t, e.RetryAfter, time.Second)
	})
	leave, err := admission.NewCapacity(0).Enter()
	require.NoError(t, err, "no bound")
	leave(true)
}
