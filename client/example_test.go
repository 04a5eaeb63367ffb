package client_test

import (
	"context"
	"fmt"
	"log"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
)

// Start a turn, show its words as they come, and take its result from the last event.
func Example() {
	ctx := context.Background()
	c, err := client.New(client.Config{Server: "http://localhost:8080"})
	if err != nil {
		log.Fatal(err)
	}
	receipt, err := c.Start(ctx, agent.TurnRequest{Agent: "poet", Message: "A haiku about rivers."})
	if err != nil {
		log.Fatal(err)
	}
	for e, err := range c.Follow(ctx, receipt.TurnID, 0) {
		switch {
		case err != nil:
			log.Fatal(err)
		case e.Type == agent.EventToken:
			fmt.Print(e.Text)
		case e.Type == agent.EventReset: // a worker died: what its producer said from e.FromIndex on is said again
			fmt.Println()
		case e.Terminal():
			fmt.Println(e.Result.Status, e.Result.ResultRef)
		}
	}
}

// Answer what a turn waits for.
func ExampleClient_Decide() {
	ctx := context.Background()
	c, err := client.New(client.Config{Server: "http://localhost:8080", Key: "tsk_…"})
	if err != nil {
		log.Fatal(err)
	}
	page, err := c.Approvals(ctx, agent.ApprovalQuery{})
	if err != nil {
		log.Fatal(err)
	}
	for _, a := range page.Approvals {
		err := c.Decide(ctx, a.TurnID, agent.Decision{ApprovalID: a.ApprovalID, Decision: agent.DecisionApprove, By: "ann"})
		if agent.CodeOf(err) == agent.CodeConflict { // somebody was faster
			continue
		}
		if err != nil {
			log.Fatal(err)
		}
	}
}
