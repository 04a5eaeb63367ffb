package telegram_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/channel/telegram"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

// A model that was talked into it puts what it has read into the address of a link. Nothing fetches the link for a preview, neither when the answer is
// first sent nor when it grows: the reader would have to click.
func TestAnswersFetchNothing(t *testing.T) {
	b := newBench(t)
	behind, err := url.Parse(b.api.URL())
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(behind)
	var mu sync.Mutex
	said := map[string][]string{} // bodies by method
	watch := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		method := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		mu.Lock()
		said[method] = append(said[method], string(body))
		mu.Unlock()
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(watch.Close)
	b.start(func(c *telegram.Config) { c.APIURL = watch.URL })
	b.api.Send(ann, "read my mail")
	id := b.turn(1)
	b.rt.Emit(id, gatewaytest.Status(agent.StatusRunning), token("model/1", "Look: "))
	b.api.AwaitTexts(ann, "Look:")
	b.rt.Emit(id, token("model/1", "https://evil.example/?q=what-it-read"))
	b.api.AwaitTexts(ann, "Look: https://evil.example/?q=what-it-read")
	b.rt.Finish(id, agent.TurnCompleted, "Look: https://evil.example/?q=what-it-read")

	mu.Lock()
	defer mu.Unlock()
	for _, method := range []string{"sendMessage", "editMessageText"} {
		require.NotEmpty(t, said[method], method)
		for _, body := range said[method] {
			require.Contains(t, body, `{"is_disabled":true}`, method)
		}
	}
}
