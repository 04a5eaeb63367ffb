// Command custommiddleware is a Turnstone worker with a custom middleware: tool_timeout bounds the tool calls of agents that use it. The worker has the
// same settings as the shipped one (docs/reference/configuration.md). docs/guides/extending.md says how to try it.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/turnstone-run/turnstone"
	"github.com/turnstone-run/turnstone/agent"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Environ()); err != nil && !errors.Is(err, turnstone.ErrHelp) {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1) //nolint:gocritic // the deferred call has no effect after the process ends
	}
}

func run(ctx context.Context, args, env []string) error {
	settings, err := turnstone.Load(args, env)
	if err != nil {
		return err
	}
	service, err := turnstone.New(turnstone.Config{
		Settings: settings, Env: env, Middleware: []turnstone.Middleware{{Name: "tool_timeout", New: newToolTimeout}},
	})
	if err != nil {
		return err
	}
	return service.Run(ctx)
}

// toolTimeout bounds tool calls. A call that takes longer has a failed result, which the model sees.
type toolTimeout struct {
	agent.Pass

	after time.Duration
}

// newToolTimeout returns the middleware for the options in an agent's document.
func newToolTimeout(options json.RawMessage) (agent.Middleware, error) {
	o := struct {
		Seconds float64 `json:"seconds"` // default 30
	}{Seconds: 30}
	if len(options) > 0 {
		d := json.NewDecoder(bytes.NewReader(options))
		d.DisallowUnknownFields()
		if err := d.Decode(&o); err != nil {
			return nil, agent.Invalid("", "%w", err)
		}
	}
	if o.Seconds <= 0 || o.Seconds > 600 {
		return nil, agent.Invalid("seconds", "want more than 0, at most 600")
	}
	return toolTimeout{after: time.Duration(o.Seconds * float64(time.Second))}, nil
}

// WrapTool calls next with a deadline.
func (m toolTimeout) WrapTool(next agent.ToolFunc) agent.ToolFunc {
	return func(ctx context.Context, inv agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
		bounded, cancel := context.WithTimeout(ctx, m.after)
		defer cancel()
		result, err := next(bounded, inv, call)
		if err != nil && bounded.Err() != nil && ctx.Err() == nil {
			f := &agent.Failure{Type: string(agent.CodeUnavailable), Message: "took longer than " + m.after.String(), Retryable: true}
			return agent.ToolResult{Failure: f}, nil
		}
		return result, err
	}
}
