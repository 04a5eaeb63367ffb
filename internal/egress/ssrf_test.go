package egress_test

import (
	"context"
	"encoding/json"
	"io"
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

// TestAttacks runs the suite with the simplest tool, which reads JSON.
func TestAttacks(t *testing.T) {
	t.Parallel()
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		t.Run(method, func(t *testing.T) {
			egresstest.Exercise(t, egresstest.Harness{Fetch: func(ctx context.Context, c *egress.Client, url string) error {
				req, err := http.NewRequestWithContext(ctx, method, url, nil)
				if err != nil {
					return agent.Invalid("url", "is not a valid URL")
				}
				resp, err := c.Do(req)
				if err != nil {
					return err
				}
				defer resp.Body.Close()
				body, err := io.ReadAll(resp.Body)
				if err != nil {
					return err
				}
				if !json.Valid(body) {
					return agent.Invalid("", "is not JSON")
				}
				return nil
			}})
		})
	}
}

// A name that resolves to loopback is refused. The world's DNS server resolves every other name to loopback, where a server listens.
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
