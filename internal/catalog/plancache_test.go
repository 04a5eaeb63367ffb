package catalog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/turnstone-run/turnstone/agent"
)

func planHash(body []byte) string {
	s := sha256.Sum256(body)
	return "sha256:" + hex.EncodeToString(s[:])
}

// testPlan returns the plan of an agent, its JSON and its hash.
func testPlan(name string) (p *agent.Plan, body []byte, hash string) {
	p = &agent.Plan{Schema: agent.PlanSchema, Agent: name, System: strings.Repeat("x", 100)}
	body, err := json.Marshal(p)
	if err != nil {
		return nil, nil, ""
	}
	return p, body, planHash(body)
}

// planStore is a backend in memory.
type planStore struct {
	mu     sync.Mutex
	bodies map[string][]byte
	reads  atomic.Int32
	before func(ctx context.Context) error // called first, if set; its error fails the read
}

func (s *planStore) PlanBytes(ctx context.Context, hash string) ([]byte, error) {
	s.reads.Add(1)
	if s.before != nil {
		if err := s.before(ctx); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	body, ok := s.bodies[hash]
	if !ok {
		return nil, agent.Errorf(agent.CodeNotFound, "read plan", "plan %q is not known", hash)
	}
	return bytes.Clone(body), nil
}

// storedPlans returns a backend with the plans of the agents, and their hashes in the same order.
func storedPlans(names ...string) (s *planStore, hashes []string) {
	s = &planStore{bodies: map[string][]byte{}}
	for _, name := range names {
		_, body, hash := testPlan(name)
		s.bodies[hash] = body
		hashes = append(hashes, hash)
	}
	return s, hashes
}

func openPlanCache(t testing.TB, s *planStore, cfg PlanCacheConfig) *planCache {
	t.Helper()
	return openLoggedPlanCache(t, s, cfg, zap.NewNop())
}

func openLoggedPlanCache(t testing.TB, s *planStore, cfg PlanCacheConfig, logger *zap.Logger) *planCache {
	t.Helper()
	c, err := newPlanCache(cfg, s, logger, func(planTier) {})
	require.NoError(t, err)
	return c
}

func TestNewPlanCacheRefuses(t *testing.T) {
	for _, cfg := range []PlanCacheConfig{{Size: -1}, {TTL: -1}} {
		_, err := newPlanCache(cfg, nil, nil, nil)
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	}
}

func TestPlanCacheReadsOnce(t *testing.T) {
	s, h := storedPlans("a")
	var tiers []planTier
	c := openPlanCache(t, s, PlanCacheConfig{})
	c.onLookup = func(tier planTier) { tiers = append(tiers, tier) }
	want, body, _ := testPlan("a")
	p, err := c.Plan(t.Context(), h[0])
	require.NoError(t, err)
	require.Equal(t, want, p)
	again, err := c.Plan(t.Context(), h[0])
	require.NoError(t, err)
	require.Same(t, p, again)
	got, err := c.Bytes(t.Context(), h[0])
	require.NoError(t, err)
	require.Equal(t, body, got)
	require.Equal(t, int32(1), s.reads.Load())
	_, err = c.Plan(t.Context(), planHash([]byte("unknown")))
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
	require.Equal(t, []planTier{planTierBackend, planTierMemory, planTierMemory, planTierNone}, tiers)
}

func TestPlanCacheIgnoresLaterFields(t *testing.T) {
	body := []byte(`{"schema":"plan.v1","agent":"a","invented_later":{"x":1}}`)
	s := &planStore{bodies: map[string][]byte{planHash(body): body}}
	p, err := openPlanCache(t, s, PlanCacheConfig{}).Plan(t.Context(), planHash(body))
	require.NoError(t, err)
	require.Equal(t, "a", p.Agent)
}

func TestPlanCacheRefusesBadHashes(t *testing.T) {
	s, h := storedPlans("a")
	c := openPlanCache(t, s, PlanCacheConfig{})
	for name, hash := range map[string]string{
		"empty": "", "another algorithm": "md5:" + h[0][7:], "no algorithm": h[0][7:], "a path": "../" + h[0], "too short": h[0][:70], "too long": h[0] + "0",
		"upper case": strings.ToUpper(h[0][:7]) + h[0][7:], "upper case digits": "sha256:" + strings.Repeat("A", 64), "no digits": "sha256:" + strings.Repeat("g", 64),
		"a digit in between": "sha256:" + strings.Repeat("0", 30) + "x" + strings.Repeat("0", 33), "endless": strings.Repeat("x", 1e6),
	} {
		t.Run(name, func(t *testing.T) {
			for _, ask := range []func() error{
				func() error { _, err := c.Plan(t.Context(), hash); return err },
				func() error { _, err := c.Bytes(t.Context(), hash); return err },
			} {
				err := ask()
				require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
				require.ErrorContains(t, err, "hash: want sha256:<64 lower-case hex digits>")
				require.Less(t, len(err.Error()), 300)
			}
		})
	}
	require.Zero(t, s.reads.Load())
}

func TestPlanCacheRefusesWrongBytes(t *testing.T) {
	_, body, hash := testPlan("a")
	large := append(bytes.Repeat([]byte(" "), maxStoredPlan), body...)
	cases := map[string]struct {
		hash    string
		body    []byte
		code    agent.Code
		message string
	}{
		"other bytes": {hash, []byte("{}"), agent.CodeInternal, "load plan: stored plan " + hash + " has hash " + planHash([]byte("{}"))},
		"no plan":     {planHash([]byte("[]")), []byte("[]"), agent.CodeInternal, "load plan: stored plan " + planHash([]byte("[]")) + ": json: cannot unmarshal array"},
		"too large":   {planHash(large), large, agent.CodeOverflow, "load plan: stored plan " + planHash(large) + " is larger than 8,388,608 bytes"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := &planStore{bodies: map[string][]byte{tc.hash: tc.body}}
			c := openPlanCache(t, s, PlanCacheConfig{})
			for range 2 {
				_, err := c.Plan(t.Context(), tc.hash)
				require.ErrorContains(t, err, tc.message)
				require.Equal(t, tc.code, agent.CodeOf(err))
			}
			require.Equal(t, int32(2), s.reads.Load(), "failures are not cached")
		})
	}
}

func TestPlanCacheAdd(t *testing.T) {
	s, _ := storedPlans()
	core, logs := observer.New(zapcore.ErrorLevel)
	c := openLoggedPlanCache(t, s, PlanCacheConfig{}, zap.New(core))
	p, body, hash := testPlan("a")
	c.Add(hash, p, body)
	got, err := c.Plan(t.Context(), hash)
	require.NoError(t, err)
	require.Same(t, p, got)
	require.Zero(t, s.reads.Load())

	_, _, other := testPlan("b")
	c.Add(other, p, body)
	require.Equal(t, 1, logs.Len())
	_, err = c.Plan(t.Context(), other)
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
}

func TestPlanCacheIsBounded(t *testing.T) {
	names := []string{"a", "b", "c"}
	_, body, _ := testPlan("a")
	for name, limit := range map[string]struct {
		plans int
		bytes int64
	}{"by plans": {2, maxCachedBytes}, "by bytes": {0, int64(2*len(body) + 1)}} {
		t.Run(name, func(t *testing.T) {
			s, h := storedPlans(names...)
			c := openPlanCache(t, s, PlanCacheConfig{Size: limit.plans})
			c.memory.limit = limit.bytes
			ask := func(i int, reads int32) {
				t.Helper()
				_, err := c.Plan(t.Context(), h[i])
				require.NoError(t, err)
				require.Equal(t, reads, s.reads.Load())
			}
			for range 3 { // adding a plan again does not count its size twice
				p, body, hash := testPlan("a")
				c.Add(hash, p, body)
			}
			ask(1, 1)
			ask(0, 1)
			ask(2, 2) // b was least recently used
			ask(0, 2)
			ask(1, 3)
			ask(0, 3)
		})
	}
	t.Run("one that is larger than all may be", func(t *testing.T) {
		s, h := storedPlans(names...)
		c := openPlanCache(t, s, PlanCacheConfig{})
		c.memory.limit = 1
		for range 2 {
			_, err := c.Plan(t.Context(), h[0])
			require.NoError(t, err)
		}
		require.Equal(t, int32(1), s.reads.Load())
	})
}

func TestPlanCacheExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := storedPlans("a")
		c := openPlanCache(t, s, PlanCacheConfig{TTL: time.Minute})
		ask := func(reads int32) {
			t.Helper()
			_, err := c.Plan(t.Context(), h[0])
			require.NoError(t, err)
			require.Equal(t, reads, s.reads.Load())
		}
		ask(1)
		time.Sleep(time.Minute) // of the synctest bubble
		ask(1)
		time.Sleep(time.Second)
		ask(2)
		time.Sleep(time.Minute)
		ask(2)
	})
}
