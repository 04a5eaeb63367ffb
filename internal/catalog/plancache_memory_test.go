package catalog

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// Nobody asks for what has expired, so it goes when something else comes. The clock is synctest's.
func TestWhatHasExpiredMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := newPlanMemory(10, 1000, time.Minute)
		require.NoError(t, err)
		add := func(hash string, plans int, bytes int64) {
			t.Helper()
			m.add(hash, &cachedPlan{plan: &agent.Plan{}, body: make([]byte, 100)})
			require.Equal(t, plans, m.lru.Len())
			require.Equal(t, bytes, m.bytes)
		}
		add("a", 1, 100)
		add("b", 2, 200)
		time.Sleep(30 * time.Second)
		add("c", 3, 300)
		time.Sleep(31 * time.Second)
		add("d", 2, 200)
		require.Nil(t, m.get("a"))
		require.NotNil(t, m.get("c"))
		time.Sleep(30 * time.Second)
		require.Nil(t, m.get("c"))
		require.Equal(t, int64(100), m.bytes)
	})
}
