package agent_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// A scope that covers another one allows everything that the other one allows.
func TestCovers(t *testing.T) {
	scopes := []string{
		"*", "t*", "turns.*", "turns.run", "turns.r*", "turns.run:*", "turns.run:a*", "turns.run:ab", "turns.run:ab*", "turns.*:a*", "*:a", "*:*",
		"keys.write", "nonsense",
	}
	for _, own := range scopes {
		for _, wanted := range scopes {
			by := agent.Principal{Method: agent.MethodKey, Scopes: []string{own}}
			got := agent.Principal{Method: agent.MethodKey, Scopes: []string{wanted}}
			if !by.Covers(wanted) {
				continue
			}
			for _, a := range agent.Actions() {
				require.False(t, got.MayAll(a) && !by.MayAll(a), "%s covers %s: all %s", own, wanted, a)
				for _, resource := range []string{"", "a", "ab", "abc", "b"} {
					require.False(t, got.May(a, resource) && !by.May(a, resource), "%s covers %s: %s of %q", own, wanted, a, resource)
				}
			}
		}
	}
	for _, scope := range scopes {
		by := agent.Principal{Method: agent.MethodKey, Scopes: []string{scope}}
		require.True(t, by.Covers(scope), scope)
	}
	for _, scope := range agent.UserScopes() {
		require.True(t, agent.ValidScope(scope), scope)
	}
}

func TestBy(t *testing.T) {
	for want, p := range map[string]agent.Principal{
		"ann": {Method: agent.MethodJWT, Subject: "ann", Credential: "jwt/x"}, "key/1": {Method: agent.MethodKey, Credential: "key/1"},
		"": {Method: agent.MethodNone, Subject: "ann"},
	} {
		require.Equal(t, want, p.By())
	}
}
