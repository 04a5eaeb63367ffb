package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/turnstone-run/turnstone/agent"
)

func TestPlanCacheReadsOnceForMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := storedPlans("a")
		s.before = func(context.Context) error { time.Sleep(time.Second); return nil }
		c := openPlanCache(t, s, PlanCacheConfig{})
		var g errgroup.Group
		for i := range 100 {
			g.Go(func() error {
				time.Sleep(time.Duration(i) * 11 * time.Millisecond) // the last callers come after the plan is loaded
				p, err := c.Plan(t.Context(), h[0])
				if err == nil && p.Agent != "a" {
					err = errors.New(p.Agent)
				}
				return err
			})
		}
		require.NoError(t, g.Wait())
		require.Equal(t, int32(1), s.reads.Load())
	})
}

// Plans of earlier releases have auth profiles without a tenant. Their secrets are those of the plan's own tenant.
func TestPlanCacheSetsTenantsOfOldPlans(t *testing.T) {
	body := `{"tenant":"acme","models":[{"profile":"m","auth":{"name":"k"}},{"profile":"n"}],"tools":[{"auth":[{"name":"k"},{"tenant":"*","name":"s"}]}],` +
		`"sources":[{"auth":[{"name":"k"}]}],"prepare":[{"kind":"retrieve","embedding":{"profile":"e","auth":{"name":"k"}}},{"kind":"classify"}]}`
	sum := sha256.Sum256([]byte(body))
	hash := "sha256:" + hex.EncodeToString(sum[:])
	p, err := openPlanCache(t, &planStore{bodies: map[string][]byte{hash: []byte(body)}}, PlanCacheConfig{}).Plan(t.Context(), hash)
	require.NoError(t, err)
	for _, auth := range []agent.PlanAuth{*p.Models[0].Auth, p.Tools[0].Auth[0], p.Sources[0].Auth[0], *p.Prepare[0].Embedding.Auth} {
		require.Equal(t, agent.PlanAuth{Tenant: "acme", Name: "k"}, auth)
	}
	require.Equal(t, agent.SharedTenant, p.Tools[0].Auth[1].Tenant)
}

func TestPlanCacheLoadOutlivesItsCaller(t *testing.T) {
	s, h := storedPlans("a")
	began, finish := make(chan struct{}), make(chan struct{})
	s.before = func(ctx context.Context) error {
		close(began)
		select {
		case <-finish:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	c := openPlanCache(t, s, PlanCacheConfig{})
	ctx, leave := context.WithCancel(t.Context())
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { _, err := c.Plan(ctx, h[0]); first <- err }()
	<-began
	go func() { _, err := c.Plan(t.Context(), h[0]); second <- err }()
	leave()
	require.Equal(t, agent.CodeCancelled, agent.CodeOf(<-first))
	close(finish)
	require.NoError(t, <-second)
	require.Equal(t, int32(1), s.reads.Load())

	_, err := c.Plan(ctx, h[0])
	require.NoError(t, err, "a plan in memory is returned at once")
	_, _, other := testPlan("b")
	_, err = c.Plan(ctx, other)
	require.Equal(t, agent.CodeCancelled, agent.CodeOf(err))
	require.Equal(t, int32(1), s.reads.Load())
}

// meanwhileContext is a context that calls a function when it is first asked whether it has ended.
type meanwhileContext struct {
	context.Context

	do func()
}

func (m *meanwhileContext) Err() error {
	do := m.do
	m.do = func() {}
	do()
	return m.Context.Err()
}

func TestPlanCacheLooksAgainBeforeLoading(t *testing.T) {
	s, h := storedPlans("a")
	c := openPlanCache(t, s, PlanCacheConfig{})
	ctx := &meanwhileContext{Context: t.Context(), do: func() {
		_, err := c.Plan(context.Background(), h[0])
		require.NoError(t, err)
	}}
	_, err := c.Plan(ctx, h[0])
	require.NoError(t, err)
	require.Equal(t, int32(1), s.reads.Load())
}

func TestPlanCacheBackendTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := storedPlans("a")
		s.before = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		c := openPlanCache(t, s, PlanCacheConfig{})
		_, err := c.Plan(t.Context(), h[0])
		require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
		s.before = func(context.Context) error { return agent.Errorf(agent.CodeUnavailable, "read plan", "no connection") }
		_, err = c.Plan(t.Context(), h[0])
		require.EqualError(t, err, fmt.Sprintf("load plan %q: read plan: no connection", h[0]))
		require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
	})
}

func TestPlanCacheConcurrentUse(t *testing.T) {
	names := strings.Split("abcdefgh", "")
	s, h := storedPlans(names...)
	c := openPlanCache(t, s, PlanCacheConfig{Size: 3})
	var g errgroup.Group
	for i := range 16 {
		g.Go(func() error {
			for n := range 200 {
				at := (i + n) % len(h)
				if n%50 == 0 {
					p, body, hash := testPlan(names[at])
					c.Add(hash, p, body)
				}
				p, err := c.Plan(t.Context(), h[at])
				if err != nil {
					return err
				}
				if p.Agent != names[at] {
					return fmt.Errorf("%s instead of %s", p.Agent, names[at])
				}
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
}
