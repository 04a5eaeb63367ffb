package chat_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

// TestCredentials: what a credential says, the body does not.
func TestCredentials(t *testing.T) {
	d := open(t, func(c *gateway.Config) {
		c.Auth = gatewaytest.Credentials{
			"ann": gatewaytest.Caller("acme", "ann", "turns.run:analyst"), "robot": gatewaytest.Caller("acme", "", "turns.run"),
			"reader": gatewaytest.Caller("acme", "", "turns.read"),
		}
	})
	d.rt.Script = func(rt *gatewaytest.Runtime, id agent.TurnID, _ agent.TurnRequest) { rt.Say(id, "x") }
	as := func(key string) []string { return []string{"Authorization", "Bearer " + key} }
	require.Equal(t, 401, d.chat(`{"message":"x"}`).status)
	require.Equal(t, 403, d.chat(`{"message":"x"}`, as("reader")...).status)
	require.Equal(t, 403, d.chat(`{"message":"x","agent":"writer"}`, as("ann")...).status)
	require.Equal(t, 403, d.chat(`{"message":"x","agent":"analyst","context":{"tenant":"globex"}}`, as("ann")...).status)
	require.Empty(t, d.rt.Submitted())

	require.Equal(t, 200, d.chat(`{"message":"x","agent":"analyst","user_id":"eve","context":{"user_role":"admin","flags":{"beta":true}}}`, as("ann")...).status)
	require.Equal(t, 200, d.chat(`{"message":"x","user_id":"eve"}`, as("robot")...).status)
	seen := d.rt.Submitted()
	require.Equal(t, "ann", seen[0].Request.Context.UserID)
	require.Empty(t, seen[0].Request.Context.UserRole)
	require.Empty(t, seen[0].Request.Context.Flags)
	require.Equal(t, "eve", seen[1].Request.Context.UserID)
	require.Equal(t, "acme", seen[1].Request.Context.Tenant)
}
