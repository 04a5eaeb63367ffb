// Command mcptool is an MCP server with two tools for an agent: list_bookings, which only reads, and refund. docs/start/tutorial.md says how to try
// it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const usage = `Usage: mcptool

An MCP server on standard input and output, with the tools list_bookings and refund. Turnstone starts it: docs/start/tutorial.md.
`

type booking struct {
	ID       string `json:"id"`
	Customer string `json:"customer"`
	Paid     int    `json:"paid"`
}

type bookings struct {
	Rows []booking `json:"rows"`
}

func shop() bookings {
	return bookings{Rows: []booking{{ID: "B-1", Customer: "Ann", Paid: 250}, {ID: "B-2", Customer: "Ben", Paid: 90}}}
}

func list(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, bookings, error) {
	return nil, shop(), nil
}

type refundArgs struct {
	ID     string `json:"id"     jsonschema:"of the booking, such as B-1"`
	Amount int    `json:"amount" jsonschema:"how much to pay back"`
}

type receipt struct {
	ID       string `json:"id"`
	Refunded int    `json:"refunded"`
}

// refund stands for a request to a payment service. The model sees the error and can correct its call.
func refund(_ context.Context, _ *mcp.CallToolRequest, in refundArgs) (*mcp.CallToolResult, receipt, error) {
	for _, b := range shop().Rows {
		if b.ID == in.ID && in.Amount > 0 && in.Amount <= b.Paid {
			return nil, receipt{ID: b.ID, Refunded: in.Amount}, nil
		}
	}
	return nil, receipt{}, fmt.Errorf("no booking %q of at least %d", in.ID, in.Amount)
}

func main() {
	server := mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{
		Name: "list_bookings", Description: "All bookings", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true},
	}, list)
	mcp.AddTool(server, &mcp.Tool{Name: "refund", Description: "Pays back part of a booking"}, refund)
	flag.Usage = func() { fmt.Fprint(flag.CommandLine.Output(), usage) }
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := server.Run(ctx, &mcp.StdioTransport{}); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1) //nolint:gocritic // the deferred call has no effect after the process ends
	}
}
