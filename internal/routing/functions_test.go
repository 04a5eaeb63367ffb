package routing

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPercentIsEven: a rollout to p % of the sessions reaches p % of them, and two rollouts with different salts are independent.
func TestPercentIsEven(t *testing.T) {
	const sessions = 100_000
	salts := []string{"", "one", "two"}
	counts := make([][100]int, len(salts))
	both := make([]int, len(salts)) // in the first 30 % of a salt and of the next
	for n := range sessions {
		id := fmt.Sprint("session-", n)
		p := []int64{percent(id), percent(salted(id, "one")), percent(salted(id, "two"))}
		for i := range p {
			counts[i][p[i]]++
			if p[i] < 30 && p[(i+1)%len(p)] < 30 {
				both[i]++
			}
		}
	}
	for i, salt := range salts {
		reached := 0
		for p, count := range counts[i] {
			require.InDelta(t, sessions/100, count, 150, "salt %q, %d", salt, p)
			reached += count
			require.InDelta(t, float64(p+1)/100, float64(reached)/sessions, 0.01, "salt %q, below %d", salt, p+1)
		}
		require.Equal(t, sessions, reached)
		require.InDelta(t, 0.09, float64(both[i])/sessions, 0.01, "salt %q and the next", salt)
	}
}
