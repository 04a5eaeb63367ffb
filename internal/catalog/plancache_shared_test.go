package catalog

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/turnstone-run/turnstone/agent"
)

func TestSharedPlansServeASecondProcess(t *testing.T) {
	s, h := storedPlans("a")
	shared := &fakeTier{}
	_, err := openPlanCache(t, s, PlanCacheConfig{Shared: shared}).Plan(t.Context(), h[0])
	require.NoError(t, err)
	var tiers []planTier
	second := openPlanCache(t, s, PlanCacheConfig{Shared: shared})
	second.onLookup = func(tier planTier) { tiers = append(tiers, tier) }
	for range 2 {
		p, err := second.Plan(t.Context(), h[0])
		require.NoError(t, err)
		require.Equal(t, "a", p.Agent)
	}
	require.Equal(t, int32(1), s.reads.Load())
	require.Equal(t, []planTier{planTierShared, planTierMemory}, tiers)
}

func TestSharedPlansWithWrongBytes(t *testing.T) {
	_, other, _ := testPlan("b")
	for name, body := range map[string][]byte{
		"another plan": other, "nothing": {}, "rubbish": []byte("x"), "too much": bytes.Repeat([]byte(" "), maxStoredPlan+1),
	} {
		t.Run(name, func(t *testing.T) {
			s, h := storedPlans("a")
			shared := &fakeTier{}
			require.NoError(t, shared.Set(t.Context(), h[0], body))
			var calls []string
			shared.before = func(_ context.Context, call string) error {
				calls = append(calls, call)
				return nil
			}
			core, logs := observer.New(zapcore.WarnLevel)
			p, err := openLoggedPlanCache(t, s, PlanCacheConfig{Shared: shared}, zap.New(core)).Plan(t.Context(), h[0])
			require.NoError(t, err)
			require.Equal(t, "a", p.Agent)
			require.Equal(t, []string{"get", "drop", "set"}, calls)
			require.Equal(t, 1, logs.Len())
			got, _, err := shared.Get(t.Context(), h[0])
			require.NoError(t, err)
			require.Equal(t, s.bodies[h[0]], got)
		})
	}
}

func TestSharedPlansGetNoWrongBytes(t *testing.T) {
	s, h := storedPlans("a")
	s.bodies[h[0]] = []byte("{}")
	shared := &fakeTier{}
	_, err := openPlanCache(t, s, PlanCacheConfig{Shared: shared}).Plan(t.Context(), h[0])
	require.Equal(t, agent.CodeInternal, agent.CodeOf(err))
	_, ok, err := shared.Get(t.Context(), h[0])
	require.NoError(t, err)
	require.False(t, ok)
}

// Uses the clock of synctest.
func TestSharedPlansThatFailAreSkipped(t *testing.T) {
	silent := func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }
	gone := func(context.Context, string) error { return errors.New("gone") }
	for name, c := range map[string]struct {
		before func(ctx context.Context, call string) error
		delay  time.Duration // of a lookup that asks the shared tier
	}{
		"at once": {gone, 0}, "by its silence": {silent, 250 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, h := storedPlans("a", "b", "c", "d", "e", "f", "g", "h", "i")
				asked := 0
				failing := true
				shared := &fakeTier{before: func(ctx context.Context, call string) error {
					asked++
					if failing {
						return c.before(ctx, call)
					}
					return nil
				}}
				core, logs := observer.New(zapcore.WarnLevel)
				cache := openLoggedPlanCache(t, s, PlanCacheConfig{Shared: shared}, zap.New(core))
				ask := func(calls int, delay time.Duration) {
					t.Helper()
					before, began := asked, time.Now()
					_, err := cache.Plan(t.Context(), h[0])
					h = h[1:]
					require.NoError(t, err)
					require.Equal(t, calls, asked-before)
					require.Equal(t, delay, time.Since(began))
				}
				for range 3 {
					ask(1, c.delay) // the shared tier is not asked again to store the loaded plan
				}
				ask(0, 0)
				time.Sleep(6 * time.Second)
				ask(1, c.delay) // a single attempt
				ask(0, 0)
				require.Equal(t, 1, logs.Len(), "%v", logs.All())
				failing = false
				time.Sleep(6 * time.Second)
				ask(2, 0)
				ask(2, 0)
				failing = true
				ask(1, c.delay)
				require.Equal(t, 2, logs.Len(), "failures are logged, but not each of them")
			})
		})
	}
}
