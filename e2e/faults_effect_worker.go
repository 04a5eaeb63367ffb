//go:build ignore

// A worker with one tool of its own, as a user builds it. The tool takes effect and then never answers.
// TestEffectIsNotRepeated builds it and kills it between the two.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/turnstone-run/turnstone"
	"github.com/turnstone-run/turnstone/agent"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	settings, err := turnstone.Load(os.Args[2:], os.Environ())
	if err != nil {
		return err
	}
	service, err := turnstone.New(turnstone.Config{
		Settings: settings, Env: os.Environ(), Toolkits: []agent.Toolkit{travel{booking{url: os.Args[1]}}},
	})
	if err != nil {
		return err
	}
	return service.Run(ctx)
}

// travel is the toolkit.
type travel struct{ tool agent.Tool }

func (travel) Name() string          { return "travel" }
func (k travel) Tools() []agent.Tool { return []agent.Tool{k.tool} }

// booking posts to a URL: that is its effect.
type booking struct{ url string }

func (booking) Spec() agent.ToolSpec {
	return agent.ToolSpec{
		Name: "book", Description: "Books a flight.", Parameters: json.RawMessage(`{"type":"object"}`), InherentlySafe: true,
	}
}

func (b booking) Call(ctx context.Context, inv agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url, bytes.NewReader(call.Args))
	if err != nil {
		return agent.ToolResult{}, err
	}
	req.Header.Set("Idempotency-Key", inv.IdempotencyKey)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return agent.ToolResult{}, &agent.Error{Code: agent.CodeUnavailable, Op: "book", Err: err}
	}
	return agent.ToolResult{Output: json.RawMessage(`"booked"`)}, resp.Body.Close()
}
