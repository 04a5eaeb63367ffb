package pipeline_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/egress"
	"github.com/turnstone-run/turnstone/internal/egress/egresstest"
	"github.com/turnstone-run/turnstone/internal/tool/pipeline"
)

// TestAttacks checks that no URL in http_request reaches a private address, and that no answer exceeds the bounds.
func TestAttacks(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"GET", "POST"} {
		t.Run(method, func(t *testing.T) {
			egresstest.Exercise(t, egresstest.Harness{Fetch: func(ctx context.Context, c *egress.Client, url string) error {
				args, err := json.Marshal(map[string]any{
					"session_id": "s", "pipeline": []any{map[string]any{"step": "http_request", "method": method, "url": url}},
				})
				require.NoError(t, err)
				res, err := pipeline.New(pipeline.Config{HTTP: c}).Tools()[0].Call(ctx, agent.Invocation{}, agent.ToolCall{Args: args})
				if err != nil || res.Failure == nil {
					return err
				}
				return res.Failure.AsError()
			}})
		})
	}
}
