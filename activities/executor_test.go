package activities_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/activities"
	"github.com/turnstone-run/turnstone/agent"
)

// counted counts how often the middleware of a plan is built, and fails while it is told to.
type counted struct {
	activities.Middleware

	built atomic.Int64
	fault atomic.Pointer[agent.Error]
}

func (c *counted) Chain(p *agent.Plan) ([]agent.Middleware, error) {
	c.built.Add(1)
	if err := c.fault.Load(); err != nil {
		return nil, err
	}
	return c.Middleware.Chain(p)
}

// TestExecutorIsBuiltOnce: fifty turns that begin at the same time build their plan once; the next ones not at all.
func TestExecutorIsBuiltOnce(t *testing.T) {
	var c counted
	h := newHarness(t, func(cfg *activities.Config) { c.Middleware, cfg.Middleware = cfg.Middleware, &c })
	c.fault.Store(agent.Errorf(agent.CodeUnavailable, "", "not now"))
	begin := func(i int) error {
		id := agent.TurnID(fmt.Sprintf("t%d", i))
		_, err := h.Begin(t.Context(), agent.TurnRequest{TurnID: id, Message: "x"}, activities.BeginTurnInput{RunID: string(id)})
		return err
	}
	require.ErrorContains(t, begin(0), "not now")
	c.fault.Store(nil)
	require.NoError(t, begin(0), "a failed build is tried again")
	require.Equal(t, int64(2), c.built.Load())

	p := h.catalog.plan
	p.System = "changed"
	h.catalog.put(p)
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
	_, err := h.CallModel(t.Context(), activities.CallModelInput{TurnID: "t7", Step: 1})
	require.NoError(t, err)
	require.Equal(t, int64(3), c.built.Load())
	require.Contains(t, h.model.seen[0].System, "changed")
}
