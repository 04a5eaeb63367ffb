// Command customtool is a Turnstone worker with custom tools: the agent "analyst" can call local_time and airport_city in addition to the built-in
// tools. local_time is the smallest possible tool. The toolkit of airport_city needs outbound HTTP and has a parameter. The worker has the same settings
// as the shipped one (docs/reference/configuration.md). docs/guides/extending.md says how to try it.
package main

import (
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
		Settings: settings, Env: env, Toolkits: []agent.Toolkit{turnstone.SingleTool(localTime())}, Factories: []turnstone.ToolkitFactory{factory()},
	})
	if err != nil {
		return err
	}
	return service.Run(ctx)
}

type place struct {
	Zone string `json:"zone" jsonschema:"minLength=1" jsonschema_description:"IANA time zone, such as Asia/Tokyo"`
}

func localTime() agent.Tool {
	return turnstone.Tool("local_time", "The time at a place", func(_ context.Context, in place) (string, error) {
		zone, err := time.LoadLocation(in.Zone)
		if err != nil {
			return "", agent.Invalid("zone", "%w", err)
		}
		return time.Now().In(zone).Format(time.RFC1123), nil
	}, turnstone.ReadOnly())
}

// factory returns the factory of the toolkit. A worker without outbound HTTP does not start with it. The HTTP client obeys the egress rules of the
// runtime.
func factory() turnstone.ToolkitFactory {
	return turnstone.ToolkitFactory{
		Name: "airports", Needs: []turnstone.Need{turnstone.NeedHTTP},
		New: func(d turnstone.ToolDependencies) (agent.Toolkit, error) { return newAirports(d.HTTP), nil },
	}
}

// doer is an HTTP client.
type doer interface {
	Do(req *http.Request) (*http.Response, error)
}

// airports is a toolkit with a parameter.
type airports struct{ agent.Toolkit }

func newAirports(web doer) airports {
	return airports{turnstone.Toolkit("airports", airportCity(web))}
}

// Properties returns the JSON schema of the parameters that a ToolBinding may set.
func (airports) Properties() json.RawMessage {
	return json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"directory":{"type":"string","pattern":"^https?://",` +
		`"description":"URL below which a service answers with {\"city\":…} for codes that are not built in"}}}`)
}

// airport is the input of the tool airport_city.
type airport struct {
	Code string `json:"code" jsonschema:"pattern=^[A-Z]{3}$" jsonschema_description:"IATA code, such as JFK"`
}

// airportCity returns the tool airport_city. If the model can correct its call, the result is a failure. If the directory cannot be reached, the error
// has the code unavailable, and the runtime retries the call.
func airportCity(web doer) agent.Tool {
	return turnstone.Tool("airport_city", "The city of an airport, by its IATA code", func(ctx context.Context, in airport) (map[string]string, error) {
		city, ok := map[string]string{"JFK": "New York", "LAX": "Los Angeles", "SFO": "San Francisco"}[in.Code]
		if !ok {
			inv := turnstone.InvocationFrom(ctx)
			inv.Report("looking up " + in.Code)
			address, _ := inv.Parameter("directory", "").(string) // the schema and the default say that it is a string
			var err error
			if city, err = (directory{web, address}).lookUp(ctx, in.Code); err != nil {
				return nil, err
			}
		}
		return map[string]string{"code": in.Code, "city": city}, nil
	}, turnstone.ReadOnly())
}

// directory is a service that knows the cities of airports.
type directory struct {
	web     doer
	address string // empty: no directory
}

// lookUp requests the city of an airport.
func (d directory) lookUp(ctx context.Context, code string) (string, error) {
	if d.address == "" {
		return "", agent.FieldErrorf(agent.CodeNotFound, "code", "there is no airport %s", code)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(d.address, "/")+"/"+code, http.NoBody)
	if err != nil {
		return "", agent.Invalid("directory", "is no URL")
	}
	resp, err := d.web.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close() //nolint:errcheck // read-only
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
