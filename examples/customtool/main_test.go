package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone"
	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool"
	"github.com/turnstone-run/turnstone/internal/tool/tooltest"
)

func TestToolkit(t *testing.T) {
	tooltest.Exercise(t, newAirports(nil))
	tooltest.Exercise(t, turnstone.SingleTool(localTime()))
}

// TestFactory checks that the toolkit gets an HTTP client, and that a worker without one does not start.
func TestFactory(t *testing.T) {
	_, err := tool.Build(tool.Dependencies{}, factory())
	require.ErrorContains(t, err, `toolkit "airports" needs outbound HTTP`)
	r, err := tool.Build(tool.Dependencies{HTTP: http.DefaultClient}, factory())
	require.NoError(t, err)
	_, err = r.Tool("airports", "airport_city")
	require.NoError(t, err)
}

func TestCall(t *testing.T) {
	directory := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/ZRH":
			fmt.Fprint(w, `{"city":"Zürich"}`)
		case "/v1/BAD":
			fmt.Fprint(w, `{}`)
		case "/v1/OFF":
			w.WriteHeader(http.StatusBadGateway)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer directory.Close()
	bound := fmt.Sprintf(`{"directory":%q}`, directory.URL+"/v1/")
	tests := []struct {
		code, parameters, output, failure string
	}{
		{code: "JFK", output: `{"code":"JFK","city":"New York"}`},
		{code: "ZRH", failure: "code: there is no airport ZRH"},
		{code: "ZRH", parameters: bound, output: `{"code":"ZRH","city":"Zürich"}`},
		{code: "XXX", parameters: bound, failure: "code: there is no airport XXX"},
		{code: "BAD", parameters: bound, failure: "names no city"},
		{code: "../", parameters: bound, failure: `code: does not match the pattern ^[A-Z]{3}$, got "../"`},
	}
	airport := airportCity(directory.Client())
	for _, tt := range tests {
		res, err := airport.Call(t.Context(), agent.Invocation{Parameters: json.RawMessage(tt.parameters)},
			agent.ToolCall{Args: json.RawMessage(fmt.Sprintf(`{"code":%q}`, tt.code))})
		require.NoError(t, err)
		tooltest.CheckResult(t, res)
		if tt.failure != "" {
			require.NotNil(t, res.Failure)
			require.Contains(t, res.Failure.Message, tt.failure)
			continue
		}
		require.Nil(t, res.Failure)
		require.JSONEq(t, tt.output, string(res.Output))
	}
	_, err := airport.Call(t.Context(), agent.Invocation{Parameters: json.RawMessage(bound)}, agent.ToolCall{Args: json.RawMessage(`{"code":"OFF"}`)})
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
}

// unreachable is an HTTP client whose requests fail with a code.
type unreachable struct{ code agent.Code }

func (u unreachable) Do(*http.Request) (*http.Response, error) {
	return nil, &agent.Error{Code: u.code, Err: errors.New("no way")}
}

func TestCallWithoutNetwork(t *testing.T) {
	inv := agent.Invocation{Parameters: json.RawMessage(`{"directory":"http://directory.test"}`)}
	call := agent.ToolCall{Args: json.RawMessage(`{"code":"ZRH"}`)}
	_, err := airportCity(unreachable{agent.CodeUnavailable}).Call(t.Context(), inv, call)
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err), "for the runtime to retry")
	res, err := airportCity(unreachable{agent.CodeDenied}).Call(t.Context(), inv, call)
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(res.Failure.Message, "no way"), "for the model to see")
}

func TestLocalTime(t *testing.T) {
	for zone, want := range map[string]string{"Asia/Tokyo": "JST", "Nowhere/At_All": "unknown time zone", "../../etc/passwd": "zone"} {
		res, err := localTime().Call(t.Context(), agent.Invocation{}, agent.ToolCall{Args: json.RawMessage(fmt.Sprintf(`{"zone":%q}`, zone))})
		require.NoError(t, err)
		require.Contains(t, string(res.Output), want)
	}
}

func TestRunNeedsSettings(t *testing.T) {
	t.Chdir(t.TempDir())
	require.ErrorContains(t, run(t.Context(), nil, nil), "database.url")
}
