package admission_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/admission"
)

// fill takes all places of a capacity, without waiting for any, and returns how to give them back.
func fill(c *admission.Capacity) (leave []func(bool)) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for {
		l, err := c.Enter(ctx)
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
		leave, err := c.Enter(t.Context())
		require.NoError(t, err)
		leave(true)
		fill(c)
		_, err = c.Enter(t.Context())
		e, ok := err.(*agent.Error) //nolint:errorlint // itself
		require.True(t, ok)
		require.Equal(t, agent.CodeUnavailable, e.Code)
		require.GreaterOrEqual(t, e.RetryAfter, time.Second)
	})
	leave, err := admission.NewCapacity(0).Enter(t.Context())
	require.NoError(t, err, "no bound")
	leave(true)
}

// TestTurnsWaitForAPlace: a few turns wait until others have begun, in the order in which they came, and no longer than half
// the time in which a turn must begin; the wait counts as part of that time.
func TestTurnsWaitForAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := admission.NewCapacity(time.Second)
		places := fill(c)
		const waiting = 256 // as long as nothing is measured
		entered := make(chan error, waiting)
		for range waiting {
			go func() {
				_, err := c.Enter(t.Context())
				entered <- err
			}()
		}
		synctest.Wait()
		began := time.Now()
		_, err := c.Enter(t.Context())
		require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err), "too many wait")
		require.Zero(t, time.Since(began))
		for _, leave := range places {
			leave(false)
			require.NoError(t, <-entered)
		}
		require.Zero(t, time.Since(began))
		for range waiting - len(places) {
			require.Equal(t, agent.CodeUnavailable, agent.CodeOf(<-entered))
		}
		require.Equal(t, time.Second/2, time.Since(began))
	})
}

// TestWaitingFollowsThePace: as many turns wait as get a place in time, if that is more than the bound.
func TestWaitingFollowsThePace(t *testing.T) {
	for pace, want := range map[time.Duration]int{5 * time.Millisecond: 100, 50 * time.Millisecond: 32} {
		synctest.Test(t, func(t *testing.T) {
			c := admission.NewCapacity(time.Second)
			places := fill(c)
			ctx, cancel := context.WithCancel(t.Context())
			refused := make(chan error, 300)
			wait := func() {
				if _, err := c.Enter(ctx); err != nil {
					refused <- err
				}
			}
			for range 10 {
				go wait()
			}
			synctest.Wait()
			for _, leave := range places[:9] { // one waits still
				time.Sleep(pace)
				leave(false)
			}
			for range 200 {
				go wait()
			}
			synctest.Wait()
			require.Len(t, refused, 200+1-want)
			cancel()
		})
	}
}

// TestWaitingCounts: a turn that waited and then began is late when both together took too long.
func TestWaitingCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := admission.NewCapacity(time.Second)
		places := fill(c)
		leaveLate := make(chan func(bool))
		go func() {
			if leave, err := c.Enter(t.Context()); err == nil {
				leaveLate <- leave
			}
		}()
		synctest.Wait()
		time.Sleep(400 * time.Millisecond)
		for _, leave := range places {
			leave(false)
		}
		leave := <-leaveLate
		time.Sleep(700 * time.Millisecond)
		leave(true)
		require.Len(t, fill(c), len(places)*7/10)
	})
}
