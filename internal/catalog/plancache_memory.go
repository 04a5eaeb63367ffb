package catalog

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/turnstone-run/turnstone/agent"
)

// cachedPlan is a plan whose bytes have its hash.
type cachedPlan struct {
	plan  *agent.Plan
	body  []byte
	until time.Time
}

// planMemory is an LRU cache with entries that expire and a bound in bytes. The library has an expirable cache too, but it bounds only the number
// of entries, and its goroutine cannot be stopped.
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

// get returns the entry of a hash, nil if there is none.
func (m *planMemory) get(hash string) *cachedPlan {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.lru.Get(hash)
	if !ok {
		return nil
	}
	if time.Now().After(e.until) {
		m.lru.Remove(hash)
		return nil
	}
	return e
}

// add keeps an entry and drops those used least, as long as they have expired or there is too much. The newest stays, whatever its size.
func (m *planMemory) add(hash string, e *cachedPlan) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	e.until = now.Add(m.ttl)
	m.lru.Remove(hash) // Add alone would forget the bytes of the one that it replaces
	m.lru.Add(hash, e)
	m.bytes += int64(len(e.body))
	for m.lru.Len() > 1 {
		_, oldest, _ := m.lru.GetOldest()
		if m.bytes <= m.limit && now.Before(oldest.until) {
			return
		}
		m.lru.RemoveOldest()
	}
}
