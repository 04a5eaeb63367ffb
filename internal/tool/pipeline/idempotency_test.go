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

// receiver remembers what was posted to it, and can hang up in place of an answer.
type receiver struct {
	*httptest.Server

	mu        sync.Mutex
	keys      []string // as sent, "" for none
	remotes   []string
	isHanging bool
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
	isHanging := r.isHanging
	r.mu.Unlock()
	if !isHanging {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `[{"a":1}]`)
		return
	}
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = conn.Close()
	}
}

// got returns what came since it was last asked.
func (r *receiver) got() (keys, remotes []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	keys, remotes = r.keys, r.remotes
	r.keys, r.remotes = nil, nil
	return keys, remotes
}

// sent runs a pipeline of one request.
func (r *receiver) sent(t *testing.T, web *egress.Client, key, method string) agent.ToolResult {
	t.Helper()
	args := fmt.Sprintf(`{"session_id":"s","pipeline":[{"step":"http_request","url":%q,"method":%q}]}`, r.URL, method)
	res, err := pipeline.New(pipeline.Config{HTTP: web}).Tools()[0].Call(t.Context(), agent.Invocation{IdempotencyKey: key},
		agent.ToolCall{Args: json.RawMessage(args)})
	require.NoError(t, err)
	return res
}

// A server tells a repeated attempt from another call. A pipeline has one request at most, so that the call's key is the request's.
func TestIdempotencyKeys(t *testing.T) {
	r := newReceiver(t)
	web := client(t, egress.Config{}, r.URL)
	for _, key := range []string{"turn/1/a", "turn/1/a", "turn/1/b", ""} {
		require.Nil(t, r.sent(t, web, key, "POST").Failure)
	}
	require.Nil(t, r.sent(t, web, "turn/1/c", "GET").Failure)
	keys, _ := r.got()
	require.Equal(t, []string{"turn/1/a", "turn/1/a", "turn/1/b", "", ""}, keys)
}

// With an Idempotency-Key Go's transport sends a request again that was lost on a connection of before, where it can. Ours it must not.
func TestALostPostIsNotRepeated(t *testing.T) {
	for _, key := range []string{"turn/1/a", ""} {
		r := newReceiver(t)
		web := client(t, egress.Config{}, r.URL)
		require.Nil(t, r.sent(t, web, "before", "POST").Failure) // leaves a connection
		_, first := r.got()
		r.isHanging = true
		res := r.sent(t, web, key, "POST")
		_, remotes := r.got()
		require.Equal(t, first, remotes, "sent once, over the connection of before")
		require.Equal(t, string(agent.CodeUnavailable), res.Failure.Type)
		require.False(t, res.Failure.Retryable)
		require.Contains(t, res.Failure.Message, "whether the POST took effect is unknown")
	}
}
