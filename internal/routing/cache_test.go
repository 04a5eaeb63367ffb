package routing

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

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
