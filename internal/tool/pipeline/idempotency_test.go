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

// sent runs requests of these methods, one after the other.
func (r *receiver) sent(t *testing.T, web *egress.Client, key string, methods ...string) agent.ToolResult {
	t.Helper()
	var steps []any
	for _, m := range methods {
		steps = append(steps, map[string]any{"step": "http_request", "url": r.URL, "method": m})
	}
	args, err := json.Marshal(map[string]any{"session_id": "s", "pipeline": steps})
	require.NoError(t, err)
	res, err := pipeline.New(pipeline.Config{HTTP: web}).Tools()[0].Call(t.Context(), agent.Invocation{IdempotencyKey: key}, agent.ToolCall{Args: args})
	require.NoError(t, err)
	return res
}

// A server tells a repeated attempt from another call, and the requests of one call from each other.
func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	web := client(t, egress.Config{}, r.URL)
	for _, c := range []struct {
		key     string
		methods []string
		want    []string
	}{
		{"turn/1/a", []string{"POST"}, []string{"turn/1/a"}},
		{"turn/1/a", []string{"POST"}, []string{"turn/1/a"}},
		{"turn/1/b", []string{"POST"}, []string{"turn/1/b"}},
		{"turn/1/c", []string{"POST", "GET", "POST", "POST"}, []string{"turn/1/c", "", "turn/1/c#2", "turn/1/c#3"}},
		{"turn/1/c", []string{"POST", "GET", "POST", "POST"}, []string{"turn/1/c", "", "turn/1/c#2", "turn/1/c#3"}},
		{"turn/1/d", []string{"GET"}, []string{""}},
		{"", []string{"POST", "POST"}, []string{"", ""}},
	} {
		require.Nil(t, r.sent(t, web, c.key, c.methods...).Failure)
		keys, _ := r.got()
		require.Equal(t, c.want, keys, fmt.Sprint(c))
	}
}

// With an Idempotency-Key Go's transport sends a request again that was lost on a connection of before, where it can. Ours it must not.
func TestALostPostIsNotRepeated(t *testing.T) {
	t.Parallel()
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
