package patch

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/egress"
	"github.com/turnstone-run/turnstone/internal/egress/egresstest"
)

// TestAttacks checks that hostile answers of an orchestrator, such as redirects, reach no private address, and that a refused request is not
// repeated.
func TestAttacks(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(ctx context.Context, c *Orchestrator) error{
		"patch": func(ctx context.Context, c *Orchestrator) error {
			_, err := c.PatchWorkflow(ctx, patchRequest())
			return err
		},
		"list": func(ctx context.Context, c *Orchestrator) error {
			_, err := c.ListWorkflows(ctx, agent.WorkflowQuery{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			egresstest.Exercise(t, egresstest.Harness{
				Good: patched, GoodType: "application/json",
				Fetch: func(ctx context.Context, out *egress.Client, url string) error {
					web := &egresstest.Counted{HTTP: out}
					c, err := NewOrchestrator(url, web)
					if err != nil {
						return err
					}
					c.tries, c.timeout, c.pauses = 2, 5*time.Second, func() backoff.BackOff { return &backoff.ZeroBackOff{} }
					err = call(ctx, c)
					if err == nil {
						return nil
					}
					for _, hidden := range []string{"meta-data", "_GET%20", "/etc", "/redirect/", "/workflows", "key-1", "less", "bob"} {
						require.NotContains(t, err.Error(), hidden)
					}
					if agent.CodeOf(err) == agent.CodeInternal && strings.Contains(err.Error(), "is not what was expected") {
						err = agent.Invalid("", "%w", err) // the suite expects invalid for an answer of another form
					}
					if code := agent.CodeOf(err); (code == agent.CodeDenied || code == agent.CodeInvalid) && !egresstest.Costly(url) {
						require.EqualValues(t, 1, web.N.Load(), "a refusal is not tried again")
					}
					return err
				},
			})
		})
	}
}
