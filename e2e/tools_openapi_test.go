package e2e_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/turnstonetest"
)

// bearerProfile is an auth profile of the secret for the server of a test.
func bearerProfile(name string, server *httptest.Server) string {
	return fmt.Sprintf("kind: AuthProfile\nname: %s\ntype: bearer\nsecret: env:%s\nhosts: [%q]", name, keyVariable, server.Listener.Addr())
}

// TestOpenAPIWithASecret calls an API by its document. The secret reaches the API, which repeats it, and nobody else.
func TestOpenAPIWithASecret(t *testing.T) {
	t.Parallel()
	const document = `openapi: 3.1.0
info: {title: Weather, version: "1"}
security: [{key: []}]
paths:
  /weather/{city}:
    parameters: [{name: city, in: path, required: true, schema: {type: string}}]
    get:
      operationId: getWeather
      parameters: [{name: days, in: query, schema: {type: integer, maximum: 10}}]
      responses: {"200": {description: ok, content: {application/json: {schema: {type: object}}}}}
    post:
      operationId: reportWeather
      requestBody: {required: true, content: {application/json: {schema: {type: object, required: [temp], properties: {temp: {type: number}}}}}}
      responses: {"201": {description: made}}
components:
  securitySchemes: {key: {type: http, scheme: bearer}}
`
	var mu sync.Mutex
	var got []*http.Request
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/openapi.yaml" {
			if r.Header.Get("Authorization") != "" {
				http.Error(w, "a document needs no key", http.StatusTeapot)
				return
			}
			fmt.Fprint(w, document)
			return
		}
		mu.Lock()
		got = append(got, r)
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusCreated)
		}
		fmt.Fprintf(w, `{"temp":21.5,"path":%q,"you_sent":%q}`, r.URL.String(), r.Header.Get("Authorization"))
	}))
	t.Cleanup(api.Close)
	at := `{"openapi_url":"` + api.URL + `/openapi.yaml","operation_id":`
	provider := turnstonetest.NewModel(t,
		asks("c1", "openapi_action", at+`"getWeather","params":{"city":"Oslo","days":3}}`), turnstonetest.Say("21.5 degrees"),
		asks("c2", "openapi_action", at+`"getWeather","params":{"city":"Oslo","days":99}}`), turnstonetest.Say("too many days"),
		asks("c3", "openapi_action", at+`"reportWeather","params":{"city":"Oslo","temp":20}}`), turnstonetest.Say("reported"),
	)
	s := keepsSecret(t, reach(api))
	s.worksFor(provider, "[weather]", bearerProfile("weather-key", api),
		"kind: ToolBinding\nname: weather\nnode_id: openapi\nnode_version: \"1\"\nauth: [weather-key]")

	turn := func(message string) (*agent.AgentStepOutput, []agent.Event) {
		receipt, err := s.client.Start(t.Context(), agent.TurnRequest{Agent: "clerk", Message: message, SessionID: "weather"})
		require.NoError(t, err)
		s.approve(receipt.TurnID)
		out, events := s.follow(t.Context(), receipt.TurnID)
		require.Equal(t, agent.TurnCompleted, out.Status, "%+v", out.Error)
		s.requireKept(out, events)
		return out, events
	}
	out, events := s.ask("weather", "how warm?") // the document is read before anybody is asked: a GET asks nobody, the first one included
	s.requireKept(out, events)
	require.Equal(t, "success", out.ToolCalls[0].Status, toolOutput(events))
	require.Contains(t, toolOutput(events), "21.5")
	mu.Lock()
	require.Len(t, got, 1)
	require.Equal(t, "Bearer "+scenarioKey, got[0].Header.Get("Authorization"))
	require.Equal(t, "/weather/Oslo?days=3", got[0].URL.String())
	mu.Unlock()

	out, events = s.ask("weather", "how warm, of 99 days?")
	require.Equal(t, "error", out.ToolCalls[0].Status)
	require.Contains(t, toolOutput(events), "params.days")
	s.requireKept(out, events)

	out, events = turn("report 20 degrees")
	require.Equal(t, "success", out.ToolCalls[0].Status, toolOutput(events))
	mu.Lock()
	require.Len(t, got, 2, "what the document refuses is not sent")
	require.Equal(t, http.MethodPost, got[1].Method)
	require.NotEmpty(t, got[1].Header.Get("Idempotency-Key"))
	mu.Unlock()
	for _, r := range provider.Requests() {
		require.NotContains(t, r.Body, scenarioKey, "the model is not told the secret")
	}
}

// TestWeatherWithoutPrebuild: with nothing but the API's document and a key, the agent calls an operation for which no tool was built, and
// nobody is asked.
func TestWeatherWithoutPrebuild(t *testing.T) {
	t.Parallel()
	const document = `{"openapi":"3.0.3","info":{"title":"WeatherAPI","version":"1.0"},"security":[{"key":[]}],
"components":{"securitySchemes":{"key":{"type":"apiKey","in":"header","name":"X-API-Key"}}},
"paths":{"/v1/current.json":{"get":{"operationId":"realtime-weather","parameters":[{"name":"q","in":"query","required":true,"schema":{"type":"string"}}],
"responses":{"200":{"description":"ok","content":{"application/json":{"schema":{"type":"object","required":["current"]}}}}}}}}}`
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/openapi.json":
			fmt.Fprint(w, document)
		case r.URL.Path != "/v1/current.json", r.Header.Get("X-API-Key") != scenarioKey:
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"error":{"code":2006,"message":"API key provided is invalid"}}`)
		default:
			fmt.Fprintf(w, `{"location":{"name":%q},"current":{"temp_c":7.5}}`, r.URL.Query().Get("q"))
		}
	}))
	t.Cleanup(api.Close)
	provider := turnstonetest.NewModel(t,
		asks("c1", "openapi_action", `{"openapi_url":"`+api.URL+`/openapi.json","operation_id":"realtime-weather","params":{"q":"Oslo"},"auth_profile":"weatherapi"}`),
		turnstonetest.Say("It is 7.5 degrees in Oslo."))
	s := keepsSecret(t, reach(api))
	s.worksFor(provider, "[weather]",
		fmt.Sprintf("kind: AuthProfile\nname: weatherapi\ntype: api_key\nheader: X-API-Key\nsecret: env:%s\nhosts: [%q]", keyVariable, api.Listener.Addr()),
		"kind: ToolBinding\nname: weather\nnode_id: openapi\nnode_version: \"1\"\nauth: [weatherapi]")
	out, events := s.ask("weather", "fetch weather from weatherapi.com")
	require.Equal(t, "success", out.ToolCalls[0].Status, toolOutput(events))
	require.Contains(t, toolOutput(events), `"temp_c":7.5`)
	require.Equal(t, "It is 7.5 degrees in Oslo.", out.Output)
	for i := range events {
		require.NotEqual(t, agent.EventApprovalRequested, events[i].Type)
	}
	s.requireKept(out, events)
}
