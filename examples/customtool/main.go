// Command customtool is a Turnstone worker with a tool of its own: the agent "analyst" can call airport_city besides the built-in
// tools. It takes the same settings as the worker (docs/configuration.md); docs/extending.md says how to try it.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/turnstone-run/turnstone"
	"github.com/turnstone-run/turnstone/agent"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Environ()); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1) //nolint:gocritic // nothing is deferred that matters once the process ends
	}
}

func run(ctx context.Context, args, env []string) error {
	settings, err := turnstone.Load(args, env)
	if err != nil {
		return err
	}
	service, err := turnstone.New(turnstone.Config{Settings: settings, Env: env, Toolkits: []agent.Toolkit{airports{}}})
	if err != nil {
		return err
	}
	return service.Run(ctx)
}

// airports is a toolkit of one tool.
type airports struct{}

func (airports) Name() string { return "airports" }

func (airports) Tools() []agent.Tool { return []agent.Tool{airportCity{}} }

// airportCity is the tool airport_city.
type airportCity struct{}

// Spec is what the model sees. The bytes are new each time: they are the caller's to change.
func (airportCity) Spec() agent.ToolSpec {
	return agent.ToolSpec{
		Name: "airport_city", Description: "The city of an airport, by its IATA code", Idempotent: true,
		Parameters: json.RawMessage(`{"type":"object","properties":{"code":{"type":"string","description":"IATA code, such as JFK"}},` +
			`"required":["code"],"additionalProperties":false}`),
	}
}

// EffectFree says that no call changes anything: nobody is asked for an approval, and the call runs as a local activity.
func (airportCity) EffectFree(json.RawMessage) bool { return true }

// Summarize describes a call in the Web UI: airport_city(JFK).
func (airportCity) Summarize(args json.RawMessage) string {
	code, _ := decode(args) // Call tells the model what is wrong with it
	return code[:min(len(code), 8)]
}

// Call answers. What the model can mend is a failed result; an error would mean that the tool could not be reached.
func (airportCity) Call(_ context.Context, inv agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
	code, err := decode(call.Args)
	if err != nil {
		return failed(agent.CodeInvalid, err.Error()), nil
	}
	inv.Report("looking up " + code)
	cities := map[string]string{"JFK": "New York", "LAX": "Los Angeles", "SFO": "San Francisco"}
	city, ok := cities[code]
	if !ok {
		return failed(agent.CodeNotFound, fmt.Sprintf("no airport %.10q", code)), nil
	}
	output, err := json.Marshal(map[string]string{"code": code, "city": city})
	return agent.ToolResult{Output: output}, err
}

// decode reads the arguments strictly: the model may send anything.
func decode(args json.RawMessage) (code string, err error) {
	var in struct {
		Code string `json:"code"`
	}
	d := json.NewDecoder(bytes.NewReader(args))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return "", fmt.Errorf("arguments: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return "", errors.New("arguments: want one JSON object")
	}
	if in.Code == "" {
		return "", errors.New("code: is empty")
	}
	return in.Code, nil
}

func failed(code agent.Code, message string) agent.ToolResult {
	return agent.ToolResult{Output: json.RawMessage("null"), Failure: &agent.Failure{Type: string(code), Message: message}}
}
