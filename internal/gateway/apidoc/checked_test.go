package apidoc_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

// checked is a server every exchange with which is held against its own document.
type checked struct {
	*server

	doc    *openapi3.T
	router routers.Router
	met    map[string][]int // statuses by operation
}

func openChecked(t *testing.T, change ...func(*gateway.Ports)) *checked {
	t.Helper()
	s := open(t, change...)
	doc := load(t, s)
	router, err := gorillamux.NewRouter(doc)
	require.NoError(t, err)
	return &checked{server: s, doc: doc, router: router, met: map[string][]int{}}
}

// exchange is a request and what must come of it.
type exchange struct {
	as       string // credential; empty: the operator's; "nobody": none
	method   string
	path     string
	body     string
	header   []string
	status   int
	contains string // within the answer
	refused  bool   // the document does not allow the request either
}

// do sends a request and holds it and its answer against the document.
func (c *checked) do(t *testing.T, e exchange) answer {
	t.Helper()
	what := e.method + " " + e.path
	credential := e.as
	switch credential {
	case "":
		credential = operator
	case "nobody":
		credential = ""
	}
	described := c.request(credential, e.method, e.path, e.body, e.header...)
	route, params, err := c.router.FindRoute(described)
	require.NoError(t, err, what)
	in := &openapi3filter.RequestValidationInput{
		Request: described, PathParams: params, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true, MultiError: true},
	}
	err = openapi3filter.ValidateRequest(t.Context(), in)
	if e.refused {
		require.Error(t, err, "%s: the document allows what the server refuses", what)
	} else {
		require.NoError(t, err, what)
	}
	if !e.refused {
		requireDescribed(t, what, route, described, e.header)
	}
	a := c.send(credential, e.method, e.path, e.body, e.header...)
	require.Equal(t, e.status, a.status, "%s: %s", what, a.body)
	require.Contains(t, string(a.body), e.contains, what)
	c.check(t, in, a)
	name := route.Method + " " + route.Path
	c.met[name] = append(c.met[name], a.status)
	return a
}

// requireDescribed makes sure that the document has what a request says besides its body, which kin-openapi does not ask.
func requireDescribed(t *testing.T, what string, route *routers.Route, r *http.Request, header []string) {
	t.Helper()
	parameters := route.Operation.Parameters
	for name := range r.URL.Query() {
		require.NotNil(t, parameters.GetByInAndName("query", name), "%s takes the parameter %s", what, name)
	}
	for i := 0; i+1 < len(header); i += 2 {
		switch header[i] {
		case "Accept", "Content-Type", "Origin": // HTTP's own
		default:
			require.NotNil(t, parameters.GetByInAndName("header", header[i]), "%s takes the header %s", what, header[i])
		}
	}
}

// check holds an answer against the document: status, headers, and body.
func (c *checked) check(t *testing.T, in *openapi3filter.RequestValidationInput, a answer) {
	t.Helper()
	what := in.Route.Method + " " + in.Route.Path
	media, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
	options := *in.Options
	options.ExcludeResponseBody = media == "text/event-stream" || media == "application/x-ndjson"
	out := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: a.status, Header: a.header, Body: io.NopCloser(bytes.NewReader(a.body)), Options: &options,
	}
	require.NoError(t, openapi3filter.ValidateResponse(t.Context(), out), "%s: %d %s", what, a.status, a.body)
	response := in.Route.Operation.Responses.Status(a.status)
	if response == nil || a.status == http.StatusNotModified {
		return
	}
	for name := range c.doc.Components.Headers { // that they are there where they are described, kin-openapi asks
		if a.header.Get(name) != "" {
			require.Contains(t, response.Value.Headers, name, "%s: %d", what, a.status)
		}
	}
	require.Equal(t, len(a.body) > 0, response.Value.Content.Get(media) != nil, "%s: %d has a body of type %q", what, a.status, media)
	if media == "text/event-stream" {
		c.checkEvents(t, what, response.Value.Content.Get(media), a.body)
	}
}

// checkEvents holds the data of each event against the schemas that the document names.
func (c *checked) checkEvents(t *testing.T, what string, m *openapi3.MediaType, body []byte) {
	t.Helper()
	names := extension[[]string](t, m.Extensions, "x-turnstone-events")
	count := 0
	for lines := bufio.NewScanner(bytes.NewReader(body)); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		count++
		var v any
		require.NoError(t, json.Unmarshal([]byte(data), &v), what)
		var faults []string
		for _, name := range names {
			if err := c.doc.Components.Schemas[name].Value.VisitJSON(v, openapi3.MultiErrors()); err != nil {
				faults = append(faults, name+": "+err.Error())
			}
		}
		require.Less(t, len(faults), len(names), "%s: %s is none of %v:\n%s", what, data, names, strings.Join(faults, "\n"))
	}
	require.Positive(t, count, "%s has no events", what)
}

// requireAll makes sure that every operation was met, and had its say.
func (c *checked) requireAll(t *testing.T) {
	t.Helper()
	each(c.doc, func(what, _, _ string, _ *openapi3.Operation) {
		statuses := c.met[what]
		require.True(t, slices.ContainsFunc(statuses, func(s int) bool { return s < 300 || s == http.StatusUpgradeRequired }), "%s was never met: %v", what, statuses)
	})
}

// followCatalog follows the one stream that ends with its server alone, until a change has come behind the snapshot.
func (c *checked) followCatalog(t *testing.T) {
	t.Helper()
	const what = "GET /v1/catalog/stream"
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	resp, err := http.DefaultClient.Do(c.request(operator, "GET", "/v1/catalog/stream", "").WithContext(ctx))
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	require.Equal(t, 200, resp.StatusCode)
	var body strings.Builder
	lines := bufio.NewScanner(resp.Body)
	until := func(text string) {
		for !strings.Contains(body.String(), text) {
			require.True(t, lines.Scan(), "the stream ended before %s: %v", text, lines.Err())
			body.WriteString(lines.Text() + "\n")
		}
	}
	until(`"snapshot":true`)
	c.catalog.Change(agent.CatalogEvent{Removed: []agent.RemovedEntry{{Kind: agent.KindNode, Name: "agent", Version: "1"}}})
	until(`"removed":[{`)
	c.checkEvents(t, what, c.doc.Paths.Find("/v1/catalog/stream").Get.Responses.Status(200).Value.Content.Get("text/event-stream"), []byte(body.String()))
	c.met[what] = append(c.met[what], resp.StatusCode)
}

// plausible is a value that a parameter may have.
func plausible(s *openapi3.Schema) string {
	switch {
	case len(s.Enum) > 0:
		return fmt.Sprint(s.Enum[0])
	case s.Type.Is("integer"):
		return "1"
	case s.Type.Is("boolean"):
		return "false"
	case s.Type.Is("array"):
		return "a=b"
	case s.Format == "date-time":
		return "2026-11-21T12:00:00Z"
	default:
		return "x"
	}
}

// No parameter is described that the server would refuse. One that it does not know is asked for besides, so that no call does anything where
// parameters are read strictly.
func TestParametersAreTaken(t *testing.T) {
	c := openChecked(t)
	strict := 0
	each(c.doc, func(what, path, method string, op *openapi3.Operation) {
		query := url.Values{"zz": {"1"}}
		for _, p := range op.Parameters {
			switch p.Value.In {
			case "path":
				value := plausible(p.Value.Schema.Value)
				if p.Value.Name == "hash" {
					value = planHash
				}
				path = strings.ReplaceAll(path, "{"+p.Value.Name+"}", value)
			case "query":
				query.Set(p.Value.Name, plausible(p.Value.Schema.Value))
			}
		}
		if query.Has("metadata") {
			query.Set("metadata", "{}")
		}
		a := c.send(operator, method, path+"?"+query.Encode(), "{}", "Content-Type", map[bool]string{true: "application/yaml"}[path == "/v1/catalog/apply"])
		if strings.Contains(string(a.body), "is no parameter") {
			strict++
			require.Contains(t, string(a.body), `"field":"zz"`, what)
		}
	})
	require.Greater(t, strict, 40)
}
