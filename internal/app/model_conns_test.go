package app

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestManyModelCalls: a thousand model calls at one host are under way at the same time. None waits for the end of another.
func TestManyModelCalls(t *testing.T) {
	t.Parallel()
	const calls = 1000
	var arrived sync.WaitGroup
	arrived.Add(calls)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived.Done()
		arrived.Wait()
	}))
	t.Cleanup(server.Close)
	cfg := Default()
	cfg.Egress.AllowPrivate = []string{server.Listener.Addr().String()}
	models, err := profileHTTP(&cfg)
	require.NoError(t, err)
	var done sync.WaitGroup
	for range calls {
		done.Go(func() {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
			if err != nil {
				t.Error(err)
				return
			}
			resp, err := models.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			_ = resp.Body.Close()
		})
	}
	done.Wait()
}
