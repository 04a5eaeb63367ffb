package access_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/access"
)

func TestScopesThatConfineNothingAreNone(t *testing.T) {
	for _, scope := range []string{"*", "turns.run:analyst", "turns.*:a*", "*:analyst", "results.read", "results.read:*", "catalog.*:AgentInstance/x", "turn*:x"} {
		require.True(t, access.ValidScope(scope), scope)
	}
	for _, scope := range []string{"", "nothing", "results.read:x", "sessions.*:trip", "keys.write:mine", "audit.read:a*", "turns.run:"} {
		require.False(t, access.ValidScope(scope), scope)
	}
	for _, a := range agent.Actions() {
		require.Equal(t, access.Confinable(a), access.ValidScope(string(a)+":x"), a)
	}
}
