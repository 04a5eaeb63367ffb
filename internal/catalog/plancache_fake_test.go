package catalog

import (
	"bytes"
	"context"
	"sync"
)

// fakeTier is a shared tier in memory. before, if set, is called first by every method with the method's name; its error is the
// method's.
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
