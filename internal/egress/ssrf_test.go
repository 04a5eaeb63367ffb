package egress_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/egress"
	"github.com/turnstone-run/turnstone/internal/egress/egresstest"
)

// The client by itself, with the least that a tool does: read JSON.
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
					return agent.Invalid("", "is no JSON")
				}
				return nil
			}})
		})
	}
}
