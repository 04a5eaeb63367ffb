//go:build ignore

// A worker with tools of its own, as a user builds it. Each posts to a path of a URL, and the test behind that decides what happens:
// TestEffectIsNotRepeated and TestKilledAtEveryBoundary build this worker and kill it.
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
		Settings: settings, Env: os.Environ(), Toolkits: []agent.Toolkit{travel{url: os.Args[1]}},
	})
	if err != nil {
		return err
	}
	return service.Run(ctx)
}

// travel is the toolkit.
type travel struct{ url string }

func (travel) Name() string { return "travel" }

func (k travel) Tools() []agent.Tool {
	anything := json.RawMessage(`{"type":"object"}`)
	return []agent.Tool{
		post{url: k.url, spec: agent.ToolSpec{Name: "book", Description: "Books a flight.", Parameters: anything, InherentlySafe: true}},
		post{url: k.url, spec: agent.ToolSpec{Name: "pay", Description: "Pays a flight; a person agrees first.", Parameters: anything}},
		post{url: k.url, spec: agent.ToolSpec{
			Name: "reserve", Description: "Reserves a seat; twice is once.", Parameters: anything, InherentlySafe: true, Idempotent: true,
		}},
		look{post{url: k.url, spec: agent.ToolSpec{Name: "look", Description: "Looks a flight up.", Parameters: anything}}},
	}
}

// post posts to a URL: that is its effect.
type post struct {
	url  string
	spec agent.ToolSpec
}

func (p post) Spec() agent.ToolSpec { return p.spec }

func (p post) Call(ctx context.Context, inv agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/"+p.spec.Name, bytes.NewReader(call.Args))
	if err != nil {
		return agent.ToolResult{}, err
	}
	req.Header.Set("Idempotency-Key", inv.IdempotencyKey)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return agent.ToolResult{}, &agent.Error{Code: agent.CodeUnavailable, Op: p.spec.Name, Err: err}
	}
	return agent.ToolResult{Output: json.RawMessage(`"done"`)}, resp.Body.Close()
}

// look has no side effects.
type look struct{ post }

func (look) EffectFree(json.RawMessage) bool { return true }
