package routing

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
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

// TestProgramsAreShared: tenants that share a table, and a table compiled anew, compile an expression once; there is room for so many.
func TestProgramsAreShared(t *testing.T) {
	c, err := New()
	require.NoError(t, err)
	shared := &agent.RouteTable{Tenant: agent.SharedTenant, Name: "base", Rules: []agent.RouteRule{
		{Name: "r", Agent: "a", When: agent.RouteWhen{Expression: `role == "clerk"`}},
	}}
	require.Empty(t, c.Check(shared))
	one, err := c.Engine(nil, []*agent.RouteTable{shared})
	require.NoError(t, err)
	two, err := c.Engine([]*agent.RouteTable{{Name: "mine"}}, []*agent.RouteTable{shared})
	require.NoError(t, err)
	require.Same(t, one.rules[0].conditions[0], two.rules[0].conditions[0])

	c.cache.Resize(8)
	for i := range 20 {
		_, problems := c.expression(fmt.Sprintf(`role == "%d"`, i))
		require.Empty(t, problems)
		_, problems = c.expression(fmt.Sprintf(`nobody == %d`, i))
		require.NotEmpty(t, problems)
	}
	require.Equal(t, 8, c.cache.Len())
}

// SetTimes replaces how long one expression, and all expressions of a decision, may take in the routers made from now on. Tests about
// steps need much time, for slow machines; tests about time need little.
func (c *Compiler) SetTimes(expression, decision time.Duration) {
	c.bounds.expressionTime, c.bounds.time = expression, decision
}
