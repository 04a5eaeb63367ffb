package client_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

// Start a turn, show its words as they come, and approve the calls that wait for a person.
func Example() {
	server, stop := exampleServer() // http://127.0.0.1:8080
	defer stop()
	if err := approveAll(context.Background(), server); err != nil {
		fmt.Println(err)
	}
	// Output:
	// approved: book {"flight":"AU164"}
	// Three flights leave today.
}

func approveAll(ctx context.Context, server string) error {
	c, err := client.New(client.Config{Server: server})
	if err != nil {
		return err
	}
	turn, err := c.Start(ctx, agent.TurnRequest{Message: "fetch flights from NYC to LAX, sort by price, show top 3"})
	if err != nil {
		return err
	}
	for event, err := range c.Follow(ctx, turn.TurnID, 0) {
		switch {
		case err != nil:
			return err
		case event.Type == agent.EventToken:
			fmt.Print(event.Text)
		case event.Type == agent.EventApprovalRequested:
			a := event.Approval
			fmt.Printf("approved: %s %s\n", a.ToolName, a.Args)
			if err := c.Decide(ctx, a.TurnID, agent.Decision{ApprovalID: a.ApprovalID, Decision: agent.DecisionApprove, By: "ops"}); err != nil {
				return err
			}
		}
	}
	return nil
}

// exampleServer starts a server whose turns ask for an approval and then follow a script.
func exampleServer() (url string, stop func()) {
	runtime := gatewaytest.New()
	runtime.Script = func(rt *gatewaytest.Runtime, id agent.TurnID, _ agent.TurnRequest) {
		rt.Emit(id, agent.Event{Type: agent.EventApprovalRequested, Approval: &agent.Approval{
			ApprovalID: "a1", TurnID: id, ToolName: "book", Args: json.RawMessage(`{"flight":"AU164"}`),
		}})
	}
	runtime.Decided = func(id agent.TurnID, _ agent.Decision) error {
		runtime.Say(id, "Three flights leave today.")
		return nil
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
