package catalog

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// fakeTier is a shared tier in memory. Every method first calls before, if it is set, with the method's name,
// and fails with its error.
type fakeTier struct {
	before func(ctx context.Context, call string) error

	mu     sync.Mutex
	bodies map[string][]byte
}

func (m *fakeTier) Get(ctx context.Context, hash string) ([]byte, bool, error) {
	if err := m.begin(ctx, "get"); err != nil {
		return nil, false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	body, ok := m.bodies[hash]
	return bytes.Clone(body), ok, nil
}

func (m *fakeTier) Set(ctx context.Context, hash string, body []byte) error {
	if err := m.begin(ctx, "set"); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.bodies == nil {
		m.bodies = map[string][]byte{}
	}
	m.bodies[hash] = bytes.Clone(body)
	return nil
}

func (m *fakeTier) Drop(ctx context.Context, hash string) error {
	if err := m.begin(ctx, "drop"); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.bodies, hash)
	return nil
}

func (m *fakeTier) begin(ctx context.Context, call string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if m.before == nil {
		return nil
	}
	return m.before(ctx, call)
}

// Expired plans are dropped when another plan is stored. Uses the clock of synctest.
func TestPlanMemoryDropsExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := newPlanMemory(10, 1000, time.Minute)
		require.NoError(t, err)
		add := func(hash string, plans int, bytes int64) {
			t.Helper()
			m.add(hash, &cachedPlan{plan: &agent.Plan{}, body: make([]byte, 100)})
			require.Equal(t, plans, m.lru.Len())
			require.Equal(t, bytes, m.bytes)
		}
		add("a", 1, 100)
		add("b", 2, 200)
		time.Sleep(30 * time.Second)
		add("c", 3, 300)
		time.Sleep(31 * time.Second)
		add("d", 2, 200)
		require.Nil(t, m.get("a"))
		require.NotNil(t, m.get("c"))
		time.Sleep(30 * time.Second)
		require.Nil(t, m.get("c"))
		require.Equal(t, int64(100), m.bytes)
	})
}
