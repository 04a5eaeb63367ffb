package pipeline_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/egress"
	"github.com/turnstone-run/turnstone/internal/tool/pipeline"
)

// receiver is a server that records its requests, and can close the connection instead of answering.
type receiver struct {
	*httptest.Server

	mu      sync.Mutex
	keys    []string // Idempotency-Key of each request
	remotes []string // the client's address of each request
	hangsUp bool
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	_, _ = io.Copy(io.Discard, req.Body)
	r.mu.Lock()
	r.keys, r.remotes = append(r.keys, req.Header.Get("Idempotency-Key")), append(r.remotes, req.RemoteAddr)
	hangsUp := r.hangsUp
	r.mu.Unlock()
	if !hangsUp {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `[{"a":1}]`)
		return
	}
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = conn.Close()
	}
}

// takeRequests returns the keys and client addresses of the requests since the last call.
func (r *receiver) takeRequests() (keys, remotes []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	keys, remotes = r.keys, r.remotes
	r.keys, r.remotes = nil, nil
	return keys, remotes
}

// runRequest runs a pipeline with one request to the receiver.
func (r *receiver) runRequest(t *testing.T, web *egress.Client, key, method string) agent.ToolResult {
	t.Helper()
	args := fmt.Sprintf(`{"session_id":"s","pipeline":[{"step":"http_request","url":%q,"method":%q}]}`, r.URL, method)
	res, err := pipeline.New(pipeline.Config{HTTP: web}).Tools()[0].Call(t.Context(), agent.Invocation{IdempotencyKey: key},
		agent.ToolCall{Args: json.RawMessage(args)})
	require.NoError(t, err)
	return res
}

// TestIdempotencyKeys checks that a server can recognise a repeated attempt. A pipeline has at most one request, so the key of the call is the
// key of the request.
func TestIdempotencyKeys(t *testing.T) {
	r := newReceiver(t)
	web := client(t, egress.Config{}, r.URL)
	for _, key := range []string{"turn/1/a", "turn/1/a", "turn/1/b", ""} {
		require.Nil(t, r.runRequest(t, web, key, "POST").Failure)
	}
	require.Nil(t, r.runRequest(t, web, "turn/1/c", "GET").Failure)
	keys, _ := r.takeRequests()
	require.Equal(t, []string{"turn/1/a", "turn/1/a", "turn/1/b", "", ""}, keys)
}

// TestLostPostIsNotRepeated checks that net/http does not repeat a POST that was lost on a reused connection, as it would by default with an
// Idempotency-Key.
func TestLostPostIsNotRepeated(t *testing.T) {
	for _, key := range []string{"turn/1/a", ""} {
		r := newReceiver(t)
		web := client(t, egress.Config{}, r.URL)
		require.Nil(t, r.runRequest(t, web, "before", "POST").Failure) // opens the connection
		_, first := r.takeRequests()
		r.hangsUp = true
		res := r.runRequest(t, web, key, "POST")
		_, remotes := r.takeRequests()
		require.Equal(t, first, remotes, "sent once, over the open connection")
		require.Equal(t, string(agent.CodeUnavailable), res.Failure.Type)
		require.False(t, res.Failure.Retryable)
		require.Contains(t, res.Failure.Message, "whether the POST took effect is unknown")
	}
}
