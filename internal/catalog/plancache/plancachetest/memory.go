package plancachetest

import (
	"bytes"
	"context"
	"sync"

	"github.com/turnstone-run/turnstone/internal/catalog/plancache"
)

// Memory is a shared tier in memory. Before, when it is set, is called first by every method with the method's name; its error is the
// method's.
type Memory struct {
	Before func(ctx context.Context, call string) error

	mu     sync.Mutex
	bodies map[string][]byte
}

var _ plancache.Shared = (*Memory)(nil)

// Get implements [plancache.Shared].
func (m *Memory) Get(ctx context.Context, hash string) ([]byte, bool, error) {
	if err := m.begin(ctx, "get"); err != nil {
		return nil, false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	body, ok := m.bodies[hash]
	return bytes.Clone(body), ok, nil
}

// Set implements [plancache.Shared].
func (m *Memory) Set(ctx context.Context, hash string, body []byte) error {
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

// Drop implements [plancache.Shared].
func (m *Memory) Drop(ctx context.Context, hash string) error {
	if err := m.begin(ctx, "drop"); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.bodies, hash)
	return nil
}

func (m *Memory) begin(ctx context.Context, call string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if m.Before == nil {
		return nil
	}
	return m.Before(ctx, call)
}
