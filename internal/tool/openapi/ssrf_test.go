package openapi

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/egress"
	"github.com/turnstone-run/turnstone/internal/egress/egresstest"
	"github.com/turnstone-run/turnstone/internal/tool"
	"github.com/turnstone-run/turnstone/internal/tool/tooltest"
)

// attacked is a document whose operations have values that no error may repeat.
const attacked = `{"openapi":"3.1.0","info":{"title":"t","version":"1"},"paths":{"/quiet-path":{
"get":{"operationId":"get","parameters":[{"$ref":"#/components/parameters/key"}],"responses":{}},
"post":{"operationId":"post","parameters":[{"$ref":"#/components/parameters/key"}],"requestBody":{"content":{"application/json":{}}},"responses":{}}}},
"components":{"parameters":{"key":{"name":"key","in":"query","schema":{"type":"string"}}}}}`

const (
	quietQuery = "quiet-query"
	quietBody  = "quiet-body"
)

// attack calls an operation of a document. maxRequests is the number of requests after which a refusal must come.
func attack(t *testing.T, ctx context.Context, web tool.HTTP, target, document, operation string, parameters any, maxRequests int32) error {
	t.Helper()
	params := map[string]any{"key": quietQuery}
	if operation == "post" {
		params["body"] = map[string]any{"a": quietBody}
	}
	args, err := json.Marshal(map[string]any{"openapi_url": document, "operation_id": operation, "params": params})
	require.NoError(t, err)
	inv := invocation()
	if parameters != nil {
		inv.Parameters, err = json.Marshal(parameters)
		require.NoError(t, err)
	}
	counter := &egresstest.Counted{HTTP: web}
	res, err := New(Config{HTTP: counter}).Tools()[0].Call(ctx, inv, agent.ToolCall{ID: "c", Name: ToolName, Args: args})
	require.NoError(t, err)
	tooltest.CheckResult(t, res)
	require.Less(t, len(res.Output), 512<<10)
	if res.Failure == nil {
		if !strings.HasSuffix(target, "/good") { // an answered POST has taken effect, even if the answer cannot be read
			require.Equal(t, "post", operation)
			require.Contains(t, string(res.Output), `"warnings":[`)
		}
		return nil
	}
	shown := res.Failure.Message + string(res.Output)
	// A bad document may be quoted, but not the arguments and the addresses of requests.
	for _, hidden := range []string{"quiet-path", quietQuery, quietBody, "meta-data", "/redirect/"} {
		require.NotContains(t, shown, hidden)
	}
	failure := *res.Failure
	if failure.Type == agent.OutcomeUnknown { // a POST that a server has received; the suite expects the reason
		failure.Type = string(agent.CodeUnavailable)
		if strings.Contains(target, "/redirect/") {
			require.Contains(t, failure.Message, "was not repeated")
			failure.Type = string(agent.CodeDenied)
		}
	}
	if code := agent.Code(failure.Type); (code == agent.CodeDenied || code == agent.CodeInvalid) && !egresstest.Costly(target) {
		require.LessOrEqual(t, counter.N.Load(), maxRequests, "a refused request is not repeated")
		require.False(t, failure.Retryable)
	}
	return failure.AsError()
}

// TestAttackedDocument attacks by the address of a document, which a model chooses.
func TestAttackedDocument(t *testing.T) {
	t.Parallel()
	egresstest.Exercise(t, egresstest.Harness{Good: attacked, GoodType: "application/json", Fetch: func(ctx context.Context, c *egress.Client, url string) error {
		return attack(t, ctx, c, url, url, "get", nil, 2)
	}})
}

// TestAttackedServer attacks by the address of a server, which a document chooses.
func TestAttackedServer(t *testing.T) {
	t.Parallel()
	for _, operation := range []string{"get", "post"} {
		t.Run(operation, func(t *testing.T) {
			t.Parallel()
			egresstest.Exercise(t, egresstest.Harness{IgnoresBody: operation == "post", Fetch: func(ctx context.Context, c *egress.Client, url string) error {
				var document map[string]any
				require.NoError(t, json.Unmarshal([]byte(attacked), &document))
				document["servers"] = []any{map[string]any{"url": url}}
				parameters := map[string]any{"documents": map[string]any{"x": map[string]any{"document": document}}}
				return attack(t, ctx, c, url, "catalog:x", operation, parameters, 1)
			}})
		})
	}
}

// TestAttackedReference attacks by the address of another file, which a document chooses.
func TestAttackedReference(t *testing.T) {
	t.Parallel()
	egresstest.Exercise(t, egresstest.Harness{Good: attacked, GoodType: "application/json", Fetch: func(ctx context.Context, c *egress.Client, at string) error {
		document := "https://documents.example/openapi"
		if u, err := url.Parse(at); err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") {
			document = u.Scheme + "://" + u.Host + "/openapi"
		}
		ref, err := json.Marshal(at + "#/components/parameters/key")
		require.NoError(t, err)
		text := strings.ReplaceAll(attacked, `"#/components/parameters/key"`, string(ref))
		return attack(t, ctx, &firstAnswer{text: text, next: c}, at, document, "get", nil, 3)
	}})
}

// firstAnswer answers the first request with a document, and passes on all others.
type firstAnswer struct {
	text string
	next tool.HTTP
	done atomic.Bool
}

func (g *firstAnswer) Do(req *http.Request) (*http.Response, error) {
	if g.done.Swap(true) {
		return g.next.Do(req)
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(g.text)), Request: req}, nil
}
