package gateway_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

// routesDoor is a door with some routes.
type routesDoor []gateway.Route

func (d routesDoor) Routes() []gateway.Route { return d }

// drainingDoor is a door that records its shutdown.
type drainingDoor struct {
	routesDoor

	shut chan struct{}
}

func (d drainingDoor) Shutdown(context.Context) error {
	close(d.shut)
	return nil
}

func TestDoors(t *testing.T) {
	seen := make(chan *gateway.Call, 1)
	handle := func(w http.ResponseWriter, _ *http.Request, v *gateway.Call) error {
		seen <- v
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	mine := func(_ int, f *agent.Failure) any { return "mine: " + f.Type }
	shut := make(chan struct{})
	t.Cleanup(func() { // after the gateway's cleanup
		select {
		case <-shut:
		default:
			require.Fail(t, "the door was not shut down")
		}
	})
	d := startGateway(t, func(c *gateway.Config) {
		c.Auth = gatewaytest.Credentials{"ann": gatewaytest.Caller("acme", "ann", "turns.run:analyst", "turns.read")}
		c.Doors = []gateway.Door{drainingDoor{routesDoor{
			{Method: "POST", Path: "/webhook", Public: true, Handle: handle},
			{Method: "GET", Path: "/run", Action: agent.ActionTurnsRun, Handle: handle, ErrorBody: mine},
			{Method: "GET", Path: "/keys", Action: agent.ActionKeysRead, Handle: handle, ErrorBody: mine},
			{Method: "GET", Path: "/forgotten", Handle: handle},
		}, shut}}
	})
	d.catalog.AgentList = []agent.AgentInfo{{Name: "analyst", Tenant: "acme"}, {Name: "clerk", Tenant: "acme"}}
	require.Equal(t, 403, d.send("GET", "/forgotten", "", bearer("ann")...).status)
	a := d.send("GET", "/run", "")
	require.Equal(t, 401, a.status)
	require.Equal(t, "\"mine: unauthenticated\"\n", string(a.body))
	require.Contains(t, a.header.Get("WWW-Authenticate"), "Bearer")
	a = d.send("GET", "/keys", "", bearer("ann")...)
	require.Equal(t, 403, a.status)
	require.Equal(t, "\"mine: denied\"\n", string(a.body))

	require.Equal(t, 204, d.send("GET", "/run", "", append(bearer("ann"), "X-Request-Id", "r-1")...).status)
	v := <-seen
	require.Equal(t, "acme", v.Tenant())
	require.Equal(t, "ann", v.Principal().Subject)
	require.Equal(t, "r-1", v.RequestID())
	page, err := v.Agents(t.Context(), agent.AgentQuery{})
	require.NoError(t, err)
	require.Len(t, page.Agents, 1)
	receipt, err := v.Submit(t.Context(), "mine", &agent.TurnRequest{Message: "x", Agent: "analyst"})
	require.NoError(t, err)
	_, err = v.Submit(t.Context(), "mine", &agent.TurnRequest{Message: "x", Agent: "clerk"})
	require.Equal(t, agent.CodeDenied, agent.CodeOf(err))
	_, err = v.Turn(t.Context(), receipt.TurnID)
	require.NoError(t, err)
	require.Equal(t, agent.CodeDenied, agent.CodeOf(v.Decide(t.Context(), receipt.TurnID, agent.Decision{ApprovalID: "a", Decision: "approve"})))
	require.Equal(t, agent.CodeDenied, agent.CodeOf(v.Cancel(t.Context(), receipt.TurnID, agent.CancelRequest{})))
	_, _, err = v.Message(t.Context(), "mine", receipt.TurnID, &agent.TurnRequest{Message: "x"})
	require.NoError(t, err)
	require.Equal(t, "mine", d.lastSubmitted().Channel)
	require.Equal(t, "ann", d.lastSubmitted().Sender)

	// A caller without a credential finds nothing and may do nothing.
	require.Equal(t, 204, d.send("POST", "/webhook", "").status)
	v = <-seen
	_, err = v.Turn(t.Context(), receipt.TurnID)
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
	_, err = v.Submit(t.Context(), "mine", &agent.TurnRequest{Message: "x"})
	require.Error(t, err)
	require.Error(t, v.Allow(agent.ActionTurnsRun, "analyst"))
	require.Equal(t, 403, d.send("POST", "/webhook", "", "Turnstone-Tenant", "acme").status)
}
