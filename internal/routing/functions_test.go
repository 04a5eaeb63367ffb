package routing

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// A rollout to p % of the sessions reaches p % of them, and rollouts with different salts are independent.
func TestPercentIsUniform(t *testing.T) {
	const sessions = 100_000
	salts := []string{"", "one", "two"}
	counts := make([][100]int, len(salts))
	both := make([]int, len(salts)) // below 30 % for a salt and for the next one
	for n := range sessions {
		id := fmt.Sprint("session-", n)
		p := []int64{percent(id), percent(addSalt(id, "one")), percent(addSalt(id, "two"))}
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

// An expression is compiled once for all tenants and compilations of a table. The cache has a maximum size.
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
		_, problems := c.compileExpression(fmt.Sprintf(`role == "%d"`, i))
		require.Empty(t, problems)
		_, problems = c.compileExpression(fmt.Sprintf(`nobody == %d`, i))
		require.NotEmpty(t, problems)
	}
	require.Equal(t, 8, c.cache.Len())
}

// SetTimes sets the time limits of one expression and of all expressions of a decision, for routers that are compiled later.
// Tests of steps need long times, for slow machines; tests of the time limits need short ones.
func (c *Compiler) SetTimes(expression, decision time.Duration) {
	c.bounds.expressionTime, c.bounds.time = expression, decision
}
