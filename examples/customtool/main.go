// Command customtool is a Turnstone worker with a tool of its own: the agent "analyst" can call airport_city besides the built-in
// tools. Its toolkit declares that it needs outbound HTTP, and takes a parameter. The worker takes the same settings as the shipped one
// (docs/reference/configuration.md); docs/guides/extending.md says how to try it.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
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
	service, err := turnstone.New(turnstone.Config{Settings: settings, Env: env, Factories: []turnstone.ToolkitFactory{factory()}})
	if err != nil {
		return err
	}
	return service.Run(ctx)
}

// factory says what the toolkit needs; a worker that cannot give it does not start. The HTTP client is the runtime's, within its
// egress rules.
func factory() turnstone.ToolkitFactory {
	return turnstone.ToolkitFactory{
		Name: "airports", Needs: []turnstone.Need{turnstone.NeedHTTP},
		New: func(d turnstone.ToolDependencies) (agent.Toolkit, error) { return airports{web: d.HTTP}, nil },
	}
}

// doer is as much of an HTTP client as we need.
type doer interface {
	Do(req *http.Request) (*http.Response, error)
}

// airports is a toolkit of one tool.
type airports struct{ web doer }

func (airports) Name() string { return "airports" }

func (a airports) Tools() []agent.Tool { return []agent.Tool{airportCity(a)} }

// Properties are the parameters that a ToolBinding may set.
func (airports) Properties() json.RawMessage {
	return json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"directory":{"type":"string","pattern":"^https?://",` +
		`"description":"URL below which a service answers with {\"city\":…} for codes that are not built in"}}}`)
}

// airportCity is the tool airport_city.
type airportCity struct{ web doer }

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
	return code
}

// Call answers. What the model can mend is a failed result; an error means that the directory could not be reached, and the runtime
// tries again.
func (t airportCity) Call(ctx context.Context, inv agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
	code, err := decode(call.Args)
	if err != nil {
		return failed(err), nil
	}
	city, ok := map[string]string{"JFK": "New York", "LAX": "Los Angeles", "SFO": "San Francisco"}[code]
	if !ok {
		inv.Report("looking up " + code)
		directory, _ := inv.Parameter("directory", "").(string) // always a string, as the fallback is
		city, err = t.lookUp(ctx, directory, code)
		switch agent.CodeOf(err) {
		case "":
		case agent.CodeUnavailable, agent.CodeCancelled:
			return agent.ToolResult{}, err
		default:
			return failed(err), nil
		}
	}
	output, err := json.Marshal(map[string]string{"code": code, "city": city})
	return agent.ToolResult{Output: output}, err
}

// lookUp asks the directory, if the binding names one.
func (t airportCity) lookUp(ctx context.Context, directory, code string) (string, error) {
	if directory == "" {
		return "", agent.FieldErrorf(agent.CodeNotFound, "code", "there is no airport %s", code)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(directory, "/")+"/"+code, http.NoBody)
	if err != nil {
		return "", agent.Invalid("directory", "is no URL")
	}
	resp, err := t.web.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close() //nolint:errcheck // nothing is lost: it was read
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return "", agent.FieldErrorf(agent.CodeNotFound, "code", "there is no airport %s", code)
	case resp.StatusCode != http.StatusOK:
		return "", agent.Errorf(agent.CodeUnavailable, "look up airport", "the directory answered %d", resp.StatusCode)
	}
	var answer struct {
		City string `json:"city"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&answer); err != nil || answer.City == "" {
		return "", agent.Errorf(agent.CodeInternal, "look up airport", "the directory's answer names no city")
	}
	return answer.City, nil
}

const maxAnswer = 64 << 10 // bytes

// decode reads the arguments strictly: the model may send anything.
func decode(args json.RawMessage) (code string, err error) {
	var in struct {
		Code string `json:"code"`
	}
	d := json.NewDecoder(bytes.NewReader(args))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return "", agent.Invalid("", "arguments: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return "", agent.Invalid("", "arguments: want one JSON object")
	}
	if len(in.Code) != 3 || strings.Trim(in.Code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return "", agent.Invalid("code", "want three capital letters, got %.10q", in.Code)
	}
	return in.Code, nil
}

func failed(err error) agent.ToolResult {
	return agent.ToolResult{Output: json.RawMessage("null"), Failure: agent.FailureOf(err)}
}
