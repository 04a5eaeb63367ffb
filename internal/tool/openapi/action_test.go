package openapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// TestSchema compares the schema and the description with those in docs/reference/requirements.md.
func TestSchema(t *testing.T) {
	const want = `{"name":"openapi_action","strict":true,"description":"Call any OpenAPI-compliant API dynamically","parameters":{"type":"object",
	"required":["openapi_url","operation_id"],"additionalProperties":false,"properties":{
	"openapi_url":{"type":"string","description":"URL to OpenAPI spec (JSON/YAML)"},
	"operation_id":{"type":"string","description":"Operation ID from spec"},
	"params":{"type":"object","description":"Parameters for the operation"},
	"auth_profile":{"type":"string","description":"Named auth configuration to use"}}}}`
	spec := New(Config{}).Tools()[0].Spec()
	require.False(t, spec.Idempotent)
	require.False(t, spec.InherentlySafe)
	got, err := json.Marshal(map[string]any{"name": spec.Name, "strict": spec.Strict, "description": spec.Description, "parameters": spec.Parameters})
	require.NoError(t, err)
	require.JSONEq(t, want, string(got))
}

func TestBadCalls(t *testing.T) {
	s := newSite(t, weather, func(http.ResponseWriter, *http.Request) {})
	a := kitFor(t, Config{}, s)
	at := func(rest string) string { return `{"openapi_url":"` + s.URL + `/openapi.json",` + rest + `}` }
	for _, c := range []struct{ args, code, field, says string }{
		{`{"operation_id":"x"}`, "invalid", "openapi_url", "is required"},
		{`{"openapi_url":"x"}`, "invalid", "operation_id", "is required"},
		{`{"openapi_url":"x","operation_id":"y","more":1}`, "invalid", "more", ""},
		{at(`"operation_id":"x","params":[]`), "invalid", "params", "no object"},
		{at(`"operation_id":"getWether"`), "not_found", "operation_id", `did you mean "getWeather"`},
		{at(`"operation_id":"getWeather"`), "invalid", "params", "params.city is required (path, string: Name of the city)"},
		{at(`"operation_id":"getWeather","params":{"city":"x","days":99}`), "invalid", "params", "params.days: want at most 10, got 99"},
		{at(`"operation_id":"getWeather","params":{"city":"x"},"auth_profile":"boss"`), "denied", "auth_profile", `"boss" is not granted: granted are none`},
		{`{"openapi_url":"file:///etc/passwd","operation_id":"x"}`, "invalid", "openapi_url", `the scheme "file" is not fetched`},
		{`{"openapi_url":"gopher://h/","operation_id":"x"}`, "invalid", "openapi_url", `the scheme "gopher"`},
		{`{"openapi_url":"catalog:none","operation_id":"x"}`, "not_found", "openapi_url", `there is no document "catalog:none": the catalog has none`},
		{`{"openapi_url":"http://u:p@` + s.host() + `/openapi","operation_id":"x"}`, "invalid", "openapi_url", "user information"},
		{`{"openapi_url":"http://127.0.0.1:1/x","operation_id":"x"}`, "denied", "openapi_url", "not a public address"},
		{`{"openapi_url":"http://[::ffff:127.0.0.1]/x","operation_id":"x"}`, "denied", "openapi_url", "not a public address"},
		{`{"openapi_url":"http://2130706433/x","operation_id":"x"}`, "invalid", "openapi_url", "not a valid name"},
		{`{"openapi_url":"` + s.URL + `/nothing","operation_id":"x"}`, "invalid", "openapi_url", "is empty"},
	} {
		res, _ := call(t, a, invocation(), c.args)
		require.NotNil(t, res.Failure, c.args)
		require.Equal(t, c.code+" "+c.field, res.Failure.Type+" "+res.Failure.Field, "%s %+v", c.args, res.Failure)
		require.Contains(t, res.Failure.Message, c.says)
		require.Equal(t, ToolName, res.Failure.Tool)
		require.False(t, res.Failure.Retryable)
	}
	require.LessOrEqual(t, len(s.calls()), 1, "nothing but the document was asked for")

	without, ok := New(Config{}).(*toolkit)
	require.True(t, ok)
	res, _ := call(t, without.tool, invocation(), at(`"operation_id":"getWeather"`))
	require.Equal(t, "denied", res.Failure.Type)
}

func TestBinding(t *testing.T) {
	s := newSite(t, weather, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `[]`) })
	a := kitFor(t, Config{}, s)
	stored := strings.Replace(weather, `"paths"`, `"servers":[{"url":"`+s.URL+`/{base}","variables":{"base":{"default":"none"}}}],"paths"`, 1)
	inv := invocation()
	inv.Open = func(_ context.Context, ref string) (io.ReadCloser, error) {
		require.Equal(t, "cas://sha256:1", ref)
		return io.NopCloser(strings.NewReader(stored)), nil
	}
	inv.Parameters = json.RawMessage(`{"documents":{"remote":{"url":"` + s.URL + `/openapi.yaml"},"stored":{"ref":"cas://sha256:1"},"own":{"document":` + stored + `},
		"bare":{"document":` + weather + `}},"servers":{"own":{"variables":{"base":"b"}},"bare":{"url":"` + s.URL + `/c"}},"max_response_bytes":100}`)
	for name, want := range map[string]string{"remote": "/v1/x", "stored": "/none/v1/x", "own": "/b/v1/x", "bare": "/c/v1/x"} {
		res, out := call(t, a, inv, `{"openapi_url":"catalog:`+name+`","operation_id":"getWeather","params":{"city":"x"}}`)
		require.Nil(t, res.Failure, "%+v", res.Failure)
		require.Equal(t, s.URL+want, out["url"])
	}
	require.False(t, a.EffectFree(json.RawMessage(`{"openapi_url":"catalog:own","operation_id":"getWeather"}`)), "the binding is not known here")
	for call, free := range map[string]bool{
		`"catalog:own","operation_id":"getWeather"`:    true,
		`"catalog:stored","operation_id":"getWeather"`: true,
		`"catalog:own","operation_id":"setWeather"`:    false,
		`"catalog:own","operation_id":"getWether"`:     true, // there is no such operation
		`"catalog:none","operation_id":"setWeather"`:   true, // there is no such document
		`"` + s.URL + `/openapi/../x.json`:             true, // no arguments
		`"http://127.0.0.1:1/x","operation_id":"get"`:  false,
	} {
		require.Equal(t, free, a.CheckEffects(t.Context(), inv, json.RawMessage(`{"openapi_url":`+call+`}`)), call)
	}

	for parameters, says := range map[string]string{
		`{"documents":[]}`:                                   "the parameters of the tool's binding: documents",
		`{"max_response_bytes":0}`:                           "max_response_bytes: want 1 to",
		`{"allow_host":["x"]}`:                               "allow_host",
		`{"allow_hosts":["other"]}`:                          "is not among the hosts that the tool's binding allows",
		`{"allow_hosts":["*.` + s.host() + `"]}`:             "is not among the hosts",
		`{"servers":{"` + s.URL + `/openapi":{"url":"/x"}}}`: "",
		`{"allow_hosts":["127.0.0.1"]}`:                      "",
		`{"allow_hosts":["` + s.host() + `"]}`:               "",
	} {
		inv.Parameters = json.RawMessage(parameters)
		res, _ := call(t, a, inv, `{"openapi_url":"`+s.URL+`/openapi","operation_id":"getWeather","params":{"city":"x"}}`)
		if says == "" {
			require.Nil(t, res.Failure, "%s %+v", parameters, res.Failure)
			continue
		}
		require.Contains(t, res.Failure.Message, says)
	}
	inv.Parameters = json.RawMessage(`{"validate":{"request":false,"response":false}}`)
	_, out := call(t, a, inv, `{"openapi_url":"`+s.URL+`/openapi","operation_id":"getWeather","params":{"city":"x","days":99}}`)
	require.Equal(t, s.URL+"/v1/x?days=99", out["url"])
	require.NotContains(t, out, "warnings")
}

func TestAnswers(t *testing.T) {
	var contentType, body string
	var status int
	s := newSite(t, weather, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("X-Request-Id", "r1")
		w.Header().Set("Set-Cookie", "a=b")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	})
	a := kitFor(t, Config{MaxResponse: 300_000}, s)
	args := `{"openapi_url":"` + s.URL + `/openapi","operation_id":"getWeather","params":{"city":"x"}}`
	for _, c := range []struct {
		status            int
		contentType, body string
		want, data        string
	}{
		{200, "application/json", `{"temp":"warm"}`, `"warnings":["the body is not as documented: body.temp: want a number, got a string"]`, ""},
		{200, "application/json", `{"temp":`, `"text":"{\"temp\":","warnings":["the body is not well-formed JSON: unexpected EOF"`, ""},
		{200, "application/json", `[{"a":1},{"a":2}]`, `"body":[{"a":1},{"a":2}]`, `[{"a":1},{"a":2}]`},
		{200, "application/json", `{"total":2, "items":[{"a":1}]}`, `"body":{"total":2,"items":[{"a":1}]}`, `[{"a":1}]`},
		{200, "application/json", `{"x":[{"a":1}],"data":[{"b":1}]}`, ``, `[{"b":1}]`},
		{200, "application/json", `{"x":[{"a":1}],"y":[{"b":1}]}`, ``, ``},
		{200, "application/json", `{"x":[1]}`, ``, ``},
		{200, "text/plain; charset=utf-8", `hello <b>`, `"text":"hello <b>"`, ""},
		{200, "text/plain", strings.Repeat("x", 280_000), `the text is cut off: it has 280000 bytes`, ""},
		{200, "image/png", "\x89PNG", `"bytes":4,"warnings":["the content is binary and not shown"`, ""},
		{204, "", ``, `"warnings":["the status 204 is not documented"]`, ""},
	} {
		status, contentType, body = c.status, c.contentType, c.body
		res, out := call(t, a, invocation(), args)
		require.Nil(t, res.Failure, "%+v", res.Failure)
		require.Contains(t, string(res.Output), c.want)
		require.Equal(t, c.data, string(res.Data))
		require.Equal(t, map[string]any{"x-request-id": "r1"}, out["headers"])
		if c.data != "" {
			require.Contains(t, string(res.Preview), `"type":"dataset"`)
		}
	}
	status, contentType, body = 200, "application/json", `"`+strings.Repeat("x", 300_001)+`"`
	res, _ := call(t, a, invocation(), args)
	require.Equal(t, "overflow", res.Failure.Type)
	require.Contains(t, res.Failure.Message, "longer than 300000 bytes")
	post := `{"openapi_url":"` + s.URL + `/openapi","operation_id":"setWeather","params":{"city":"x","temp":1}}`
	res, out := call(t, a, invocation(), post)
	require.Nil(t, res.Failure, "it has taken effect")
	require.Contains(t, fmt.Sprint(out["warnings"]), "it is cut off")
}

func TestRefusals(t *testing.T) {
	var header, body string
	var status int
	s := newSite(t, weather, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", header)
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	})
	a := kitFor(t, Config{}, s)
	get := `{"openapi_url":"` + s.URL + `/openapi","operation_id":"getWeather","params":{"city":"x"}}`
	post := `{"openapi_url":"` + s.URL + `/openapi","operation_id":"setWeather","params":{"city":"x","temp":1}}`
	for _, c := range []struct {
		args         string
		status       int
		header, body string
		code         string
		retryable    bool
		says         string
	}{
		{get, 404, "application/problem+json", `{"title":"Not here","detail":"no such city","status":404}`, "not_found", false, "getWeather: " + s.host() + " answered 404 Not Found (retry after 7): Not here: no such city"},
		{get, 400, "application/json", `{"error":{"message":"bad","code":7}}`, "invalid", false, "400 Bad Request (retry after 7): bad"},
		{get, 422, "application/json", `{"errors":[{"field":"a"}]}`, "invalid", false, `: [{"field":"a"}]`},
		{get, 401, "text/html", `<html>`, "denied", false, "401 Unauthorized (retry after 7)"},
		{get, 409, "text/plain", " in\n use ", "conflict", false, ": in use"},
		{get, 429, "", ``, "rate_limited", true, "429"},
		{post, 429, "", ``, "rate_limited", false, "429 Too Many Requests (retry after 7)"},
		{get, 503, "", ``, "unavailable", true, "503"},
		{post, 503, "", ``, "unavailable", false, "503 Service Unavailable (retry after 7)"},
		{get, 304, "", ``, "invalid", false, "304 Not Modified (retry after 7)"},
		{get, 500, "", ``, "unavailable", true, "500"},
		{post, 500, "", ``, "unavailable", false, "500"},
		{post, 502, "", ``, agent.OutcomeUnknown, false, "whether the POST took effect is unknown"},
		{get, 502, "", ``, "unavailable", true, "502"},
		{get, 400, "text/plain", strings.Repeat("long ", 10_000), "invalid", false, "long"},
	} {
		status, header, body = c.status, c.header, c.body
		res, _ := call(t, a, invocation(), c.args)
		require.NotNil(t, res.Failure)
		require.Equal(t, c.code, res.Failure.Type, "%+v", res.Failure)
		require.Equal(t, c.retryable, res.Failure.Retryable, "%+v", res.Failure)
		require.Contains(t, res.Failure.Message, c.says)
		require.Less(t, len(res.Failure.Message), 1000)
		require.NotContains(t, res.Failure.Message, "redirect")
	}
}

// hangUp closes the connection instead of answering.
func hangUp(w http.ResponseWriter, _ *http.Request) {
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = conn.Close()
	}
}

const methods = `{"openapi":"3.1.0","info":{"title":"t","version":"1"},"paths":{"/x":{
"get":{"operationId":"get"},"put":{"operationId":"put"},"delete":{"operationId":"delete"},"options":{"operationId":"options"},
"post":{"operationId":"post"},"patch":{"operationId":"patch","requestBody":{"content":{"application/json":{}}}}}}}`

// TestLostAnswer checks that only repeatable requests are sent twice, and that an unknown outcome is reported.
func TestLostAnswer(t *testing.T) {
	s := newSite(t, methods, nil)
	fine := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
	s.serve(fine)
	a := kitFor(t, Config{}, s)
	for _, c := range []struct {
		id, code  string
		retryable bool
		maxSent   int // net/http repeats idempotent requests on a reused connection
	}{
		{"get", "unavailable", true, 3},
		{"put", "unavailable", true, 3},
		{"delete", "unavailable", true, 3},
		{"post", agent.OutcomeUnknown, false, 1},
		{"patch", agent.OutcomeUnknown, false, 1},
	} {
		args := `{"openapi_url":"` + s.URL + `/openapi","operation_id":"` + c.id + `"}`
		if c.id == "patch" {
			args = strings.Replace(args, "}", `,"params":{"body":{"a":1}}}`, 1)
		}
		s.serve(fine)
		res, _ := call(t, a, invocation(), args) // opens the connection
		require.Nil(t, res.Failure)
		s.serve(hangUp)
		before := len(s.calls())
		res, _ = call(t, a, invocation(), args)
		require.Equal(t, c.code, res.Failure.Type, "%s: %+v", c.id, res.Failure)
		require.Equal(t, c.retryable, res.Failure.Retryable)
		require.LessOrEqual(t, len(s.calls())-before, c.maxSent, c.id)
		key := s.calls()[before].header.Get("Idempotency-Key")
		require.Equal(t, c.id == "post" || c.id == "patch", key == "turn/1/call", c.id)
	}

	inv := invocation()
	inv.Repeatable = true
	_, err := a.Call(t.Context(), inv, agent.ToolCall{Args: json.RawMessage(`{"openapi_url":"` + s.URL + `/openapi","operation_id":"get"}`)})
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err), "the runtime repeats it")
	res, _ := call(t, a, inv, `{"openapi_url":"`+s.URL+`/openapi","operation_id":"post"}`)
	require.Equal(t, "conflict", res.Failure.Type, "it was thought to be without effects")
}

// TestNeverSent checks that a request that was not sent has no unknown outcome.
func TestNeverSent(t *testing.T) {
	away := newSite(t, "", nil)
	s := newSite(t, strings.Replace(methods, `"paths"`, `"servers":[{"url":"`+away.URL+`"}],"paths"`, 1), nil)
	a := kitFor(t, Config{}, s, away)
	away.Close()
	for _, id := range []string{"get", "post", "put"} {
		args := `{"openapi_url":"` + s.URL + `/openapi","operation_id":"` + id + `"}`
		res, _ := call(t, a, invocation(), args)
		require.Equal(t, "unavailable", res.Failure.Type, "%s %+v", id, res.Failure)
		require.True(t, res.Failure.Retryable)
	}
	// Servers of a document at private addresses are refused.
	for _, server := range []string{"http://127.0.0.1:9", "http://10.0.0.1", "http://169.254.169.254/latest", "http://[::1]:80", "http://localhost:1", "http://[fe80::1]"} {
		s.mu.Lock()
		s.doc = strings.Replace(methods, `"paths"`, `"servers":[{"url":"`+server+`"}],"paths"`, 1)
		s.mu.Unlock()
		a := kitFor(t, Config{}, s)
		res, _ := call(t, a, invocation(), `{"openapi_url":"`+s.URL+`/openapi","operation_id":"post"}`)
		require.Equal(t, "denied", res.Failure.Type, "%s %+v", server, res.Failure)
	}
}

func TestCancelledCall(t *testing.T) {
	reached := make(chan struct{}, 2)
	s := newSite(t, methods, func(_ http.ResponseWriter, r *http.Request) {
		reached <- struct{}{}
		<-r.Context().Done()
	})
	a := kitFor(t, Config{}, s)
	for id, want := range map[string]string{"post": agent.OutcomeUnknown, "get": ""} {
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-reached; cancel() }()
		res, err := a.Call(ctx, invocation(), agent.ToolCall{Args: json.RawMessage(`{"openapi_url":"` + s.URL + `/openapi","operation_id":"` + id + `"}`)})
		if want == "" {
			require.ErrorIs(t, err, context.Canceled)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, want, res.Failure.Type)
	}
}

// TestRedirects checks that a redirect must not leave the binding's hosts, and that a PATCH is not redirected.
func TestRedirects(t *testing.T) {
	other := newSite(t, "", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "other") })
	s := newSite(t, methods, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+"/y", http.StatusTemporaryRedirect)
	})
	a := kitFor(t, Config{}, s, other)
	inv := invocation()
	inv.Parameters = json.RawMessage(`{"allow_hosts":["` + s.host() + `"]}`)
	res, _ := call(t, a, inv, `{"openapi_url":"`+s.URL+`/openapi","operation_id":"get"}`)
	require.Equal(t, "denied", res.Failure.Type)
	require.Contains(t, res.Failure.Message, "is not among the hosts")
	before := len(other.calls())
	res, _ = call(t, a, invocation(), `{"openapi_url":"`+s.URL+`/openapi","operation_id":"patch","params":{"body":{"a":1}}}`)
	require.Contains(t, res.Failure.Message, "307 Temporary Redirect; it redirects to another place, which is not followed")
	require.Len(t, other.calls(), before)
}

// TestEffectsAreNotRedirected checks that a request with effects is not sent again after a redirect, not even as a GET.
func TestEffectsAreNotRedirected(t *testing.T) {
	other := newSite(t, "", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "other") })
	for _, to := range []string{"/elsewhere", other.URL + "/y"} {
		for _, status := range []int{301, 302, 303, 307, 308} {
			s := newSite(t, methods, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", to)
				w.WriteHeader(status)
			})
			a := kitFor(t, Config{}, s, other)
			for _, id := range []string{"post", "put", "delete"} {
				before := len(s.calls())
				res, _ := call(t, a, invocation(), `{"openapi_url":"`+s.URL+`/openapi","operation_id":"`+id+`"}`)
				require.NotNil(t, res.Failure, "%s %d %s", id, status, to)
				require.Equal(t, "invalid", res.Failure.Type)
				require.False(t, res.Failure.Retryable)
				require.Contains(t, res.Failure.Message, "redirects to another place, which is not followed")
				require.Equal(t, id == "post" && status <= 303, strings.Contains(res.Failure.Message, "whether the POST took effect is unknown"), "%s %d", id, status)
				require.Len(t, s.calls()[before:], 1, "%s %d %s", id, status, to)
			}
		}
	}
	require.Empty(t, other.calls())
}

// TestDocs parses the examples in docs/guides/openapi.md.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../../../docs/guides/openapi.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```json call\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	require.NotEmpty(t, blocks)
	for _, block := range blocks {
		_, err := parseArguments(json.RawMessage(block[1]))
		require.NoError(t, err, block[1])
	}
	for _, block := range regexp.MustCompile("(?s)```json parameters\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		_, err := parseBinding(json.RawMessage(block[1]))
		require.NoError(t, err, block[1])
	}
}
