package schema

import (
	"crypto/sha256"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/singleflight"
)

// digest is the SHA-256 of a schema's text.
type digest [sha256.Size]byte

// entry is a compiled schema or its faults. Faults are cached too, so that an invalid schema is not compiled repeatedly.
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

// cache is an LRU cache of compiled schemas. Concurrent callers share one compilation.
type cache struct {
	compilations singleflight.Group
	limit        int // bytes

	mu    sync.Mutex
	lru   *simplelru.LRU[digest, *entry]
	bytes int
}

func newCache(size, limit int) *cache {
	c := &cache{limit: limit}
	c.lru, _ = simplelru.NewLRU(max(size, 1), func(_ digest, e *entry) { c.bytes -= e.bytes }) // fails only if the size is less than 1
	return c
}

// get returns the compiled schema of a text, or its faults.
func (c *cache) get(text []byte) (*Schema, []Fault) {
	if len(text) > MaxSchema { // before the digest of the whole text
		return nil, []Fault{tooLong(len(text), MaxSchema)}
	}
	sum := digest(sha256.Sum256(text))
	if e := c.lookup(sum); e != nil {
		return e.schema, e.faults
	}
	v, _, _ := c.compilations.Do(string(sum[:]), func() (any, error) {
		if e := c.lookup(sum); e != nil { // another caller has compiled it
			return e, nil
		}
		e := &entry{}
		e.schema, e.faults = compileText(text)
		e.bytes = e.weight(len(text))
		c.store(sum, e)
		return e, nil
	})
	e, _ := v.(*entry)
	return e.schema, e.faults
}

func (c *cache) lookup(sum digest) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, _ := c.lru.Get(sum)
	return e
}

// store adds an entry and removes the least recently used ones beyond the limit. It never removes the new entry.
func (c *cache) store(sum digest, e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lru.Add(sum, e)
	c.bytes += e.bytes
	for c.lru.Len() > 1 && c.bytes > c.limit {
		c.lru.RemoveOldest()
	}
}
