package e2e_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone"
	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/turnstonetest"
)

// TestStackOfATest is the example of docs/guides/extending.md: a tool of one's own in the whole runtime.
func TestStackOfATest(t *testing.T) {
	clock := turnstone.Tool("local_time", "Tells the time in a zone.", func(_ context.Context, in struct {
		Zone string `json:"zone"`
	},
	) (string, error) {
		return "23:15 in " + in.Zone, nil
	}, turnstone.InherentlySafe())
	model := turnstonetest.NewModel(t, turnstonetest.Call("local_time", `{"zone":"Asia/Tokyo"}`), turnstonetest.Say("Late."))
	stack := turnstonetest.Start(t, turnstone.Config{Toolkits: []agent.Toolkit{turnstone.SingleTool(clock)}}, model.Use)
	out, _ := stack.Run(agent.TurnRequest{Message: "how late is it?"})
	require.Equal(t, "Late.", out.Output)
	require.Contains(t, model.Requests()[1].Body, "23:15 in Asia/Tokyo")
}
