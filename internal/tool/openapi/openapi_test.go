package openapi

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/egress"
	"github.com/turnstone-run/turnstone/internal/tool/authorize"
	"github.com/turnstone-run/turnstone/internal/tool/tooltest"
)

// site is a server of a document and of the API that it describes; it records its requests.
type site struct {
	*httptest.Server

	mu       sync.Mutex
	doc      string
	requests []request
	api      http.HandlerFunc
}

type request struct {
	method, uri, body string
	header            http.Header
}

func newSite(t *testing.T, doc string, api http.HandlerFunc) *site {
	t.Helper()
	s := &site{doc: doc, api: api}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.requests = append(s.requests, request{r.Method, r.RequestURI, string(body), r.Header})
		doc, api := s.doc, s.api
		s.mu.Unlock()
		if strings.HasPrefix(r.URL.Path, "/openapi") {
			_, _ = w.Write([]byte(doc))
			return
		}
		api(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// serve changes the handler of the API.
func (s *site) serve(api http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.api = api
}

func (s *site) host() string { return strings.TrimPrefix(s.URL, "http://") }

// calls returns the requests to the API.
func (s *site) calls() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []request
	for _, r := range s.requests {
		if !strings.HasPrefix(r.uri, "/openapi") {
			all = append(all, r)
		}
	}
	return all
}

// fetches returns the number of requests for the document.
func (s *site) fetches() int {
	calls := len(s.calls())
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests) - calls
}

// vault holds secrets by reference.
type vault map[string]string

func (v vault) Reveal(_ context.Context, _, ref string) (string, error) {
	if s, ok := v[ref]; ok {
		return s, nil
	}
	return "", agent.Errorf(agent.CodeNotFound, "", "not set")
}

const secret = "s3cr3t-Value+/x"

// kitFor returns the tool of a toolkit that may reach the sites.
func kitFor(t *testing.T, cfg Config, sites ...*site) *action {
	t.Helper()
	var private []string
	for _, s := range sites {
		private = append(private, s.host())
	}
	client, err := egress.New(egress.Config{AllowPrivate: private})
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	cfg.HTTP = client
	auth, err := authorize.New(authorize.Config{Secrets: vault{"env:S": secret}, HTTP: client})
	require.NoError(t, err)
	cfg.Auth = auth
	kit, ok := New(cfg).(*toolkit)
	require.True(t, ok)
	return kit.tool
}

func invocation() agent.Invocation {
	return agent.Invocation{Tenant: "t", TurnID: "turn", IdempotencyKey: "turn/1/call"}
}

// call calls the tool and checks that its result is well-formed. It also returns the decoded output.
func call(t *testing.T, a *action, inv agent.Invocation, args string) (agent.ToolResult, map[string]any) {
	t.Helper()
	res, err := a.Call(t.Context(), inv, agent.ToolCall{ID: "c", Name: ToolName, Args: json.RawMessage(args)})
	require.NoError(t, err)
	tooltest.CheckResult(t, res)
	var out map[string]any
	require.NoError(t, json.Unmarshal(res.Output, &out))
	return res, out
}

const weather = `{"openapi":"3.0.3","info":{"title":"Weather","version":"1"},"paths":{"/v1/{city}":{"get":{"operationId":"getWeather",
"parameters":[{"name":"city","in":"path","required":true,"schema":{"type":"string"},"description":"Name of the city"},
{"name":"days","in":"query","schema":{"type":"integer","minimum":1,"maximum":10}}],
"responses":{"200":{"description":"","content":{"application/json":{"schema":{"type":"object","required":["temp"],"properties":{"temp":{"type":"number"}}}}}}}},
"post":{"operationId":"setWeather","parameters":[{"name":"city","in":"path","required":true,"schema":{"type":"string"}}],
"requestBody":{"required":true,"content":{"application/json":{"schema":{"type":"object","required":["temp"],"properties":{"temp":{"type":"number"}}}}}},
"responses":{"201":{"description":""}}}}}}`

func TestWeather(t *testing.T) {
	s := newSite(t, weather, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"temp": 21.50}`))
	})
	a := kitFor(t, Config{}, s)
	args := `{"openapi_url":"` + s.URL + `/openapi.json","operation_id":"getWeather","params":{"city":"São Paulo/x","days":"3"}}`
	require.False(t, a.EffectFree(json.RawMessage(args)), "nothing is known of the document")
	require.True(t, a.CheckEffects(t.Context(), invocation(), json.RawMessage(args)), "it is read before a person is asked")
	require.Equal(t, 1, s.fetches())
	require.Empty(t, s.calls(), "nothing but the document is asked for")
	res, out := call(t, a, invocation(), args)
	require.Nil(t, res.Failure, "%+v", res.Failure)
	require.Equal(t, map[string]any{
		"status": 200., "operation": "getWeather", "url": s.URL + "/v1/S%C3%A3o%20Paulo%2Fx?days=3", "content_type": "application/json",
		"body": map[string]any{"temp": 21.5},
	}, out)
	require.Contains(t, string(res.Output), `"body":{"temp":21.50}`, "numbers are as they were sent")
	require.Equal(t, "/v1/S%C3%A3o%20Paulo%2Fx?days=3", s.calls()[0].uri)
	require.True(t, a.EffectFree(json.RawMessage(args)))
	require.Equal(t, "getWeather", a.Summarize(json.RawMessage(args)))

	post := strings.Replace(args, "getWeather", "setWeather", 1)
	require.False(t, a.EffectFree(json.RawMessage(post)))
	require.False(t, a.CheckEffects(t.Context(), invocation(), json.RawMessage(post)))
	post = `{"openapi_url":"` + s.URL + `/openapi.json","operation_id":"setWeather","params":{"city":"x","temp":3}}`
	res, out = call(t, a, invocation(), post)
	require.Nil(t, res.Failure, "%+v", res.Failure)
	require.Equal(t, []any{"the status 200 is not documented"}, out["warnings"])
	got := s.calls()[1]
	require.Equal(t, `POST {"temp":3} application/json turn/1/call`,
		got.method+" "+got.body+" "+got.header.Get("Content-Type")+" "+got.header.Get("Idempotency-Key"))
	require.Equal(t, 1, s.fetches(), "the document is kept")
}

func TestConformance(t *testing.T) {
	tooltest.Exercise(t, New(Config{}))
}
