package client_test

import (
	"context"
	"fmt"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

// Start a turn, show its words as they come, and take its result from the last event.
func Example() {
	server, stop := exampleServer() // "http://localhost:8080"
	defer stop()
	ctx := context.Background()
	c, err := client.New(client.Config{Server: server})
	if err != nil {
		fmt.Println(err)
		return
	}
	receipt, err := c.Start(ctx, agent.TurnRequest{Agent: "analyst", Message: "Which flights leave today?"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for e, err := range c.Follow(ctx, receipt.TurnID, 0) {
		switch {
		case err != nil:
			fmt.Println(err)
		case e.Type == agent.EventToken:
			fmt.Print(e.Text)
		case e.Type == agent.EventReset: // a worker died: what e.Producer said from e.FromIndex on is said again
		case e.Terminal():
			fmt.Println()
			fmt.Println(e.Result.Status, e.Result.StopReason)
		}
	}
	// Output:
	// Three flights leave today.
	// completed end_turn
}

// exampleServer starts a server whose turns follow a script.
func exampleServer() (url string, stop func()) {
	runtime := gatewaytest.New()
	runtime.Script = func(rt *gatewaytest.Runtime, id agent.TurnID, _ agent.TurnRequest) {
		rt.Say(id, "Three flights leave today.")
		rt.Finish(id, agent.TurnCompleted, "Three flights leave today.")
	}
	g, err := gateway.New(gateway.Config{HTTPAddr: "127.0.0.1:0", Ports: gatewaytest.Ports(runtime, &gatewaytest.Catalog{})})
	if err == nil {
		err = g.Start(context.Background())
	}
	if err != nil {
		fmt.Println(err)
	}
	return "http://" + g.HTTPAddr(), func() { _ = g.Shutdown(context.Background()) }
}
