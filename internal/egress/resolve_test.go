package egress_test

import (
	"net"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/egress"
	"github.com/turnstone-run/turnstone/internal/egress/egresstest"
)

// A name that resolves to a public address when checked and to loopback when dialled must not pass. Here every name that is none of the
// world's resolves to loopback, and the server that would answer exists.
func TestNameThatResolvesToLoopback(t *testing.T) {
	w := egresstest.NewWorld(t, "[]", "application/json")
	port := w.Port()
	address := (&url.URL{Scheme: "http", Host: net.JoinHostPort("rebind.example.com", port), Path: "/"}).String()
	get := func(cfg egress.Config) error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		require.NoError(t, err)
		resp, err := w.Client(t, cfg, 10*time.Second).Do(req)
		if err == nil {
			require.NoError(t, resp.Body.Close())
		}
		return err
	}
	err := get(egress.Config{})
	require.Equal(t, agent.CodeDenied, agent.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "rebind.example.com")
	require.Zero(t, w.Reached())

	_ = get(egress.Config{AllowPrivate: []string{"rebind.example.com:" + port}})
	require.NotZero(t, w.Reached(), "the test's resolver does not work")
}
