package pipeline_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/egress"
	"github.com/turnstone-run/turnstone/internal/tool/pipeline"
)

func TestUpstreamTrouble(t *testing.T) {
	t.Parallel()
	write := func(code int, contentType, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		}
	}
	hang := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // so that the server notices when the client hangs up
		<-r.Context().Done()
	}
	tests := []struct {
		name, method string
		h            http.HandlerFunc
		typ          agent.Code
		retryable    bool
		says         string
	}{
		{"500", "GET", write(500, "text/html", "<html>boom"), agent.CodeUnavailable, true, "500 Internal Server Error"},
		{"500 to a POST", "POST", write(500, "text/html", ""), agent.CodeUnavailable, false, "500"},
		{"503 to a POST", "POST", write(503, "text/html", ""), agent.CodeUnavailable, true, "retry after 7"},
		{"429", "GET", write(429, "application/json", `{"error":"slow down"}`), agent.CodeRateLimited, true, "slow down"},
		{"404", "GET", write(404, "text/plain", "no such flight"), agent.CodeNotFound, false, "no such flight"},
		{"403", "GET", write(403, "text/html", ""), agent.CodeDenied, false, "403"},
		{"400", "GET", write(400, "application/problem+json", `{"detail":"bad origin"}`), agent.CodeInvalid, false, "bad origin"},
		{"HTML", "GET", write(200, "text/html; charset=utf-8", "<html>"), agent.CodeInvalid, false, `"text/html; charset=utf-8": want JSON`},
		{"HTML as text", "GET", write(200, "text/plain", "<html>"), agent.CodeInvalid, false, "not JSON"},
		{"ragged CSV", "GET", write(200, "text/csv", "a,b\n1,2\n3\n"), agent.CodeInvalid, false, "line 3"},
		{"Latin-1 CSV", "GET", write(200, "text/csv; charset=iso-8859-1", "a\n1"), agent.CodeInvalid, false, "UTF-8"},
		{"broken line", "GET", write(200, "application/x-ndjson", "{}\n{\n"), agent.CodeInvalid, false, "line 2"},
		{"name twice", "GET", write(200, "application/json", `[{"a":1},{"a":{"b":1,"b":2}}]`), agent.CodeInvalid, false, "row 1.a.b"},
		{"beyond float64", "GET", write(200, "application/json", `[{"a":1e400}]`), agent.CodeInvalid, false, "row 0.a"},
		{"invalid UTF-8", "GET", write(200, "application/json", "[\"\xff\"]"), agent.CodeInvalid, false, "UTF-8"},
		{"no media type", "GET", write(200, "json;;", "[]"), agent.CodeInvalid, false, "want JSON"},
		{"empty", "GET", write(200, "application/json", ""), agent.CodeInvalid, false, "empty body"},
		{"blank", "GET", write(200, "application/json", " "), agent.CodeInvalid, false, "is empty"},
		{"cut off", "GET", write(200, "application/json", `[{"a":1},{"a"`), agent.CodeInvalid, false, "malformed JSON"},
		{"two documents", "GET", write(200, "application/json", `[1] [2]`), agent.CodeInvalid, false, "follows its end"},
		{"a number", "GET", write(200, "application/json", `42`), agent.CodeInvalid, false, "no JSON array or object"},
		{"several arrays", "GET", write(200, "application/json", `{"b":[{}],"a":[{}]}`), agent.CodeInvalid, false, "a, b"},
		{"too many rows", "GET", write(200, "application/json", `[1,2,3,4,5,6,7,8,9,10,11]`), agent.CodeOverflow, false, "10 rows"},
		{"2 GB", "GET", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "2147483648")
			_, _ = io.WriteString(w, "[")
		}, agent.CodeOverflow, false, "larger than 1000 bytes"},
		{"endless", "GET", func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := w.Write([]byte(strings.Repeat("[", 512))); err != nil {
					return
				}
			}
		}, agent.CodeOverflow, false, "larger than 1000 bytes"},
		{"hang", "GET", hang, agent.CodeUnavailable, true, "timed out"},
		{"hang of a POST", "POST", hang, agent.CodeUnavailable, false, "unknown"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(tt.h)
			t.Cleanup(srv.Close)
			cfg := egress.Config{MaxBytes: 1000, Timeout: 500 * time.Millisecond}
			res := call(t, pipeline.Config{HTTP: client(t, cfg, srv.URL), MaxRows: 10},
				fmt.Sprintf(`{"session_id":"s","pipeline":[{"step":"http_request","url":"%s/?key=hunter2","method":%q}]}`, srv.URL, tt.method))
			require.NotNil(t, res.Failure)
			require.Equal(t, string(tt.typ), res.Failure.Type, res.Failure.Message)
			require.Equal(t, tt.retryable, res.Failure.Retryable)
			require.Equal(t, "http_request", res.Failure.Step)
			require.Contains(t, res.Failure.Message, tt.says)
			require.NotContains(t, res.Failure.Message, "hunter2")
		})
	}
}

// TestAnswerWithoutContent checks that an empty answer has no rows and is no failure if the request was a POST or the status says so.
func TestAnswerWithoutContent(t *testing.T) {
	for name, c := range map[string]struct {
		method string
		status int
	}{"to a POST": {"POST", 200}, "created": {"POST", 201}, "no content": {"GET", 204}} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(c.status) }))
			t.Cleanup(srv.Close)
			res := call(t, pipeline.Config{HTTP: client(t, egress.Config{}, srv.URL)},
				fmt.Sprintf(`{"session_id":"s","pipeline":[{"step":"http_request","url":%q,"method":%q},{"step":"top_k","k":1}]}`, srv.URL, c.method))
			require.Nil(t, res.Failure)
			require.Contains(t, string(res.Output), `"rows":[],"row_count":0`)
		})
	}
}

// TestFailureAfterAPost checks that a store that is not available after a POST is an error for the runtime, which does not repeat a call with
// effects, and that a pipeline cannot post twice.
func TestFailureAfterAPost(t *testing.T) {
	var posts atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		posts.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `[{"a":1}]`)
	}))
	t.Cleanup(srv.Close)
	cfg := pipeline.Config{HTTP: client(t, egress.Config{}, srv.URL), Datasets: away{}}
	post := fmt.Sprintf(`{"step":"http_request","url":%q,"method":"POST"}`, srv.URL)
	join := fmt.Sprintf(`{"step":"join","right":"cas://sha256:%s","on":"a"}`, strings.Repeat("a", 64))
	tl := pipeline.New(cfg).Tools()[0]
	args := `{"session_id":"s","pipeline":[` + post + `,` + join + `]}`
	_, err := tl.Call(t.Context(), agent.Invocation{Tenant: "acme", IdempotencyKey: "key-1"},
		agent.ToolCall{ID: "c", Name: pipeline.ToolName, Args: json.RawMessage(args)})
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err), "%v", err)
	require.EqualValues(t, 1, posts.Load())
	res := call(t, cfg, `{"session_id":"s","pipeline":[`+post+`,`+post+`]}`)
	require.NotNil(t, res.Failure)
	require.False(t, res.Failure.Retryable)
	require.EqualValues(t, 1, posts.Load(), "refused before anything is sent")
}

// away is a dataset store that is not available.
type away struct{}

func (away) Open(context.Context, string, string) (io.ReadCloser, error) {
	return nil, agent.Errorf(agent.CodeUnavailable, "open dataset", "away")
}
