package turns_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/middleware"
	"github.com/turnstone-run/turnstone/internal/turns"
)

// countingMiddleware counts how often the middleware of a plan is built, and can fail.
type countingMiddleware struct {
	turns.Middleware

	built atomic.Int64
	fault atomic.Pointer[agent.Error]
}

func (c *countingMiddleware) Chain(p *agent.Plan) ([]agent.Middleware, error) {
	c.built.Add(1)
	if err := c.fault.Load(); err != nil {
		return nil, err
	}
	return c.Middleware.Chain(p)
}

// TestExecutorIsBuiltOnce: fifty turns that begin at the same time build their plan once, and later turns do not build it again.
func TestExecutorIsBuiltOnce(t *testing.T) {
	var c countingMiddleware
	h := newHarness(t, func(cfg *turns.Config) { c.Middleware, cfg.Middleware = cfg.Middleware, &c })
	c.fault.Store(agent.Errorf(agent.CodeUnavailable, "", "not now"))
	begin := func(i int) error {
		id := agent.TurnID(fmt.Sprintf("t%d", i))
		_, err := h.Begin(t.Context(), agent.TurnRequest{TurnID: id, Message: "x"}, turns.BeginTurnInput{RunID: string(id)})
		return err
	}
	require.ErrorContains(t, begin(0), "not now")
	c.fault.Store(nil)
	require.NoError(t, begin(0), "a failed build is retried")
	require.Equal(t, int64(2), c.built.Load())

	h.catalog.change(func(p *agent.Plan) { p.System = "changed" })
	var wg sync.WaitGroup
	for i := 1; i <= 50; i++ {
		wg.Go(func() {
			if err := begin(i); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, int64(3), c.built.Load())
	h.model.script(says("hi"))
	h.callModel("t7", 1)
	require.Equal(t, int64(3), c.built.Load())
	require.Contains(t, h.model.seen[0].System, "changed")
}

// TestFailedCallIsMadeAgain: a model call that fails for a temporary reason is retried as often as configured, even without model_retry in
// the plan. The options of model_retry take precedence. The ledger has each try that the provider has billed.
func TestFailedCallIsMadeAgain(t *testing.T) {
	once := agent.PlanMiddleware{Name: "model_retry", Options: json.RawMessage(`{"max_retries":1}`)}
	fallback := agent.PlanMiddleware{Name: "model_fallback", Options: json.RawMessage(`{"models":["other"]}`)}
	for name, c := range map[string]struct {
		retries int // configured
		plan    []agent.PlanMiddleware
		asked   []string
	}{
		"as configured":         {2, nil, []string{"scripted-1", "scripted-1", "scripted-1"}},
		"not at all":            {0, nil, []string{"scripted-1"}},
		"as the option says":    {0, []agent.PlanMiddleware{once}, []string{"scripted-1", "scripted-1"}},
		"without its option":    {1, []agent.PlanMiddleware{{Name: "model_retry"}}, []string{"scripted-1", "scripted-1"}},
		"before the next model": {1, []agent.PlanMiddleware{fallback}, []string{"scripted-1", "scripted-1", "scripted-2", "scripted-2"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, func(cfg *turns.Config) {
				set, err := middleware.NewSet(middleware.Builtin(c.retries, nil)...)
				require.NoError(t, err)
				cfg.Middleware = set
			})
			h.catalog.change(func(p *agent.Plan) { p.Middleware = c.plan })
			ref := h.begin(agent.TurnRequest{TurnID: "t1"})
			busy := func(context.Context, agent.ModelRequest, func(agent.Delta) error) (agent.ModelReply, error) {
				return agent.ModelReply{Usage: agent.Usage{InputTokens: 7}}, &agent.Error{
					Code: agent.CodeRateLimited, RetryAfter: 20 * time.Millisecond, Err: errors.New("busy"),
				}
			}
			h.model.script(slices.Repeat([]modelStep{busy}, len(c.asked))...)
			started := time.Now()
			v := h.callModel(ref.TurnID, 1)
			require.Equal(t, string(agent.CodeRateLimited), v.Failure.Type)
			require.GreaterOrEqual(t, time.Since(started), time.Duration(len(c.asked)/2)*20*time.Millisecond, "the call waits for Retry-After")
			var asked []string
			for i := range h.model.seen {
				asked = append(asked, h.model.seen[i].Model)
			}
			require.Equal(t, c.asked, asked)
			page, err := h.store.Usage(t.Context(), agent.UsageQuery{Tenant: "default", TurnID: "t1"})
			require.NoError(t, err)
			require.EqualValues(t, len(c.asked), page.Totals.Calls)
		})
	}
}
