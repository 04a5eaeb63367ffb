package turns_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/middleware"
	"github.com/turnstone-run/turnstone/internal/turns"
)

// TestUsageOfACutRequest: the usage of a request that is cut off is what the provider has reported plus an estimate. The verdict, the
// ledger and the last usage event have it and mark it as estimated.
func TestUsageOfACutRequest(t *testing.T) {
	away := agent.Errorf(agent.CodeUnavailable, "", "connection cut")
	words := strings.Repeat("word ", 80) // 400 bytes
	for name, c := range map[string]struct {
		says     string
		told     agent.Usage
		received int64
		err      error // nil to cancel the turn
		input    int64 // -1: estimated from the request
		output   int64
	}{
		"cancelled, input told":        {says: words, told: agent.Usage{InputTokens: 700, OutputTokens: 1, CachedTokens: 10}, input: 700, output: 100},
		"cancelled, all told":          {says: words, told: agent.Usage{InputTokens: 700, OutputTokens: 120}, input: 700, output: 120},
		"cancelled, nothing told":      {says: words, input: -1, output: 100},
		"cancelled before a word":      {input: -1},
		"cancelled within a call":      {says: "I will", received: 801, input: -1, output: 201},
		"broken, input told":           {says: words, told: agent.Usage{InputTokens: 700}, err: away, input: 700, output: 100},
		"broken, nothing told":         {says: words, err: away, input: -1, output: 100},
		"broken before a word":         {err: away},
		"broken within a call, untold": {received: 801, err: away, input: -1, output: 201},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, func(cfg *turns.Config) {
				set, err := middleware.NewSet(middleware.Builtin(0, nil)...)
				require.NoError(t, err)
				cfg.Middleware = set
			})
			h.catalog.change(func(p *agent.Plan) { p.Middleware = nil })
			ref := h.begin(agent.TurnRequest{TurnID: "t1"})
			h.model.script(func(ctx context.Context, _ agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
				reply := agent.ModelReply{Usage: c.told, Received: c.received}
				if c.says != "" {
					if err := emit(agent.Delta{Text: c.says}); err != nil {
						return reply, err
					}
				}
				if c.err != nil {
					return reply, c.err
				}
				if err := h.MarkCancelled(context.WithoutCancel(ctx), "t1"); err != nil {
					return reply, err
				}
				<-ctx.Done()
				return reply, context.Cause(ctx)
			})
			v := h.callModel(ref.TurnID, 1)
			require.Equal(t, c.err == nil, v.Cancelled)
			used := v.Usage
			if c.input < 0 {
				require.Greater(t, used.InputTokens, int64(10), "the prompt and the tools")
				require.Less(t, used.InputTokens, int64(100))
			} else {
				require.Equal(t, c.input, used.InputTokens)
			}
			require.Equal(t, c.output, used.OutputTokens)
			require.Equal(t, c.told.CachedTokens, used.CachedTokens)
			require.Equal(t, used.InputTokens > 0, used.Estimated)
			require.Equal(t, used.InputTokens > 0, used.CostUSD > 0, "the ledger has it")

			page, err := h.store.Usage(t.Context(), agent.UsageQuery{Tenant: "default", TurnID: "t1"})
			require.NoError(t, err)
			require.Equal(t, used.InputTokens+used.OutputTokens, page.Totals.EstimatedTokens)
			require.Equal(t, used.OutputTokens, page.Totals.OutputTokens)
			billed, _, err := h.store.BilledUsage(t.Context(), "t1")
			require.NoError(t, err)
			require.Equal(t, used.Estimated, billed.Estimated)
			var told *agent.Usage
			for _, e := range h.events("t1") {
				switch e.Type {
				case agent.EventReset:
					told = nil
				case agent.EventUsage:
					told = e.Usage
				default:
				}
			}
			if !used.Estimated {
				require.Nil(t, told)
				return
			}
			require.Equal(t, used.OutputTokens, told.OutputTokens)
			require.True(t, told.Estimated)
			raw, err := json.Marshal(v)
			require.NoError(t, err)
			require.Contains(t, string(raw), `"estimated":true`, "the verdict says so")
		})
	}
}
