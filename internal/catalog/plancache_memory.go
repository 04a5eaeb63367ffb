package catalog

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/turnstone-run/turnstone/agent"
)

// cachedPlan is a plan and its verified bytes.
type cachedPlan struct {
	plan      *agent.Plan
	body      []byte
	expiresAt time.Time
}

// planMemory is an LRU cache whose entries expire and whose total size is bounded in bytes. The expirable cache of the library bounds only
// the number of entries, and its goroutine cannot be stopped.
type planMemory struct {
	ttl   time.Duration
	limit int64

	mu    sync.Mutex
	lru   *simplelru.LRU[string, *cachedPlan]
	bytes int64
}

func newPlanMemory(size int, limit int64, ttl time.Duration) (*planMemory, error) {
	m := &planMemory{ttl: ttl, limit: limit}
	lru, err := simplelru.NewLRU(size, func(_ string, e *cachedPlan) { m.bytes -= int64(len(e.body)) })
	m.lru = lru
	return m, err
}

// get returns the plan with a hash, nil if there is none.
func (m *planMemory) get(hash string) *cachedPlan {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.lru.Get(hash)
	if !ok {
		return nil
	}
	if time.Now().After(e.expiresAt) {
		m.lru.Remove(hash)
		return nil
	}
	return e
}

// add adds an entry. It then removes the least recently used entries while they have expired or the cache is too large, but never the new entry.
func (m *planMemory) add(hash string, e *cachedPlan) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	e.expiresAt = now.Add(m.ttl)
	m.lru.Remove(hash) // Add does not call the eviction function for a replaced entry
	m.lru.Add(hash, e)
	m.bytes += int64(len(e.body))
	for m.lru.Len() > 1 {
		_, oldest, _ := m.lru.GetOldest()
		if m.bytes <= m.limit && now.Before(oldest.expiresAt) {
			return
		}
		m.lru.RemoveOldest()
	}
}
