// Package accesstest is a store of API keys in memory, for tests.
package accesstest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// KeyStore is a store of API keys that counts calls and can fail.
type KeyStore struct {
	mu      sync.Mutex
	keys    []storedKey
	err     error
	lookups int
	touches int
}

type storedKey struct {
	agent.APIKey

	hash []byte
}

// Fail makes every call fail; nil ends that.
func (m *KeyStore) Fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

// Lookups returns the number of calls of KeyByID.
func (m *KeyStore) Lookups() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lookups
}

// Touches returns the number of calls of TouchKeys.
func (m *KeyStore) Touches() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.touches
}

// Hashes returns the stored hashes.
func (m *KeyStore) Hashes() [][]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all [][]byte
	for _, k := range m.keys {
		all = append(all, k.hash)
	}
	return all
}

func (m *KeyStore) find(tenant, id string) (*storedKey, error) {
	if m.err != nil {
		return nil, m.err
	}
	for i := range m.keys {
		if k := &m.keys[i]; k.ID == id && (tenant == agent.AnyTenant || k.Tenant == tenant) {
			return k, nil
		}
	}
	return nil, agent.Errorf(agent.CodeNotFound, "", "there is no key %q", id)
}

// CreateKey implements credentials.KeyStore.
func (m *KeyStore) CreateKey(_ context.Context, k agent.APIKey, hash []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return m.err
	}
	if _, err := m.find(agent.AnyTenant, k.ID); err == nil {
		return agent.Errorf(agent.CodeConflict, "", "key %q exists", k.ID)
	}
	m.keys = append(m.keys, storedKey{k, hash})
	slices.SortFunc(m.keys, func(a, b storedKey) int { return strings.Compare(a.ID, b.ID) })
	return nil
}

// KeyByID implements credentials.KeyStore.
func (m *KeyStore) KeyByID(_ context.Context, id string) (agent.APIKey, []byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lookups++
	k, err := m.find(agent.AnyTenant, id)
	if err != nil {
		return agent.APIKey{}, nil, err
	}
	return k.APIKey, k.hash, nil
}

// ListKeys implements credentials.KeyStore.
func (m *KeyStore) ListKeys(_ context.Context, tenant, after string, limit int) ([]agent.APIKey, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []agent.APIKey
	for _, k := range m.keys {
		if k.ID > after && len(found) < limit && (tenant == agent.AnyTenant || tenant == k.Tenant) {
			found = append(found, k.APIKey)
		}
	}
	return found, m.err
}

// RevokeKey implements credentials.KeyStore.
func (m *KeyStore) RevokeKey(_ context.Context, tenant, id string, at time.Time) (agent.APIKey, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, err := m.find(tenant, id)
	if err != nil {
		return agent.APIKey{}, err
	}
	if k.RevokedAt == nil {
		k.RevokedAt = &at
	}
	return k.APIKey, nil
}

// ExpireKey implements credentials.KeyStore.
func (m *KeyStore) ExpireKey(_ context.Context, tenant, id string, at time.Time, replacedBy string) (agent.APIKey, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, err := m.find(tenant, id)
	if err != nil {
		return agent.APIKey{}, err
	}
	if replacedBy != "" && (k.RevokedAt != nil || (k.ReplacedBy != "" && k.ReplacedBy != replacedBy)) {
		return agent.APIKey{}, agent.Errorf(agent.CodeConflict, "", "key %q was revoked, or rotated into %q", id, k.ReplacedBy)
	}
	k.ExpiresAt, k.ReplacedBy = &at, replacedBy
	return k.APIKey, nil
}

// TouchKeys implements credentials.KeyStore.
func (m *KeyStore) TouchKeys(_ context.Context, used map[string]time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.touches++
	if m.err != nil {
		return m.err
	}
	for id, at := range used {
		if k, err := m.find(agent.AnyTenant, id); err == nil {
			k.LastUsedAt = &at
		}
	}
	return nil
}
