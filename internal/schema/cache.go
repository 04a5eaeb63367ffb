package schema

import (
	"crypto/sha256"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/singleflight"
)

// digest is the sha-256 of a schema's bytes.
type digest [sha256.Size]byte

// entry is a compiled schema or its faults. Faults are kept too, so that a bad schema is not compiled again and again.
type entry struct {
	schema *Schema
	faults []Fault
	bytes  int
}

// weight estimates the memory of an entry in bytes.
func (e *entry) weight(source int) int {
	if e.schema == nil {
		return 1 << 10
	}
	return 1<<10 + 4*source + 1000*len(e.schema.byURL) + 100*e.schema.instructions
}

// cache compiles each schema once, also for callers at the same time, and keeps those used last.
type cache struct {
	flight singleflight.Group
	limit  int // bytes

	mu    sync.Mutex
	lru   *simplelru.LRU[digest, *entry]
	bytes int
}

func newCache(size, limit int) *cache {
	c := &cache{limit: limit}
	c.lru, _ = simplelru.NewLRU(max(size, 1), func(_ digest, e *entry) { c.bytes -= e.bytes }) // fails for a size below 1 alone
	return c
}

func (c *cache) get(text []byte) (*Schema, []Fault) {
	if len(text) > MaxSchema { // before the digest, which would read all of it
		return nil, []Fault{tooLong(len(text), MaxSchema)}
	}
	sum := digest(sha256.Sum256(text))
	if e := c.lookup(sum); e != nil {
		return e.schema, e.faults
	}
	made, _, _ := c.flight.Do(string(sum[:]), func() (any, error) {
		if e := c.lookup(sum); e != nil { // compiled since the first lookup
			return e, nil
		}
		e := &entry{}
		e.schema, e.faults = compileText(text)
		e.bytes = e.weight(len(text))
		c.store(sum, e)
		return e, nil
	})
	e, _ := made.(*entry)
	return e.schema, e.faults
}

func (c *cache) lookup(sum digest) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, _ := c.lru.Get(sum)
	return e
}

// store keeps an entry and drops those used least while there is too much. The newest stays.
func (c *cache) store(sum digest, e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lru.Add(sum, e)
	c.bytes += e.bytes
	for c.lru.Len() > 1 && c.bytes > c.limit {
		c.lru.RemoveOldest()
	}
}
