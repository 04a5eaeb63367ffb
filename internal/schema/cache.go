package schema

import (
	"crypto/sha256"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/singleflight"
)

// digest is the sha-256 of a schema's bytes.
type digest [sha256.Size]byte

// entry is what became of a schema: it is of use, or it has faults. Both are kept, so that a bad one is not compiled over and over.
type entry struct {
	compiled *compiled
	problem  *problem
	bytes    int
}

// weight is about what an entry takes in memory, in bytes.
func (e *entry) weight(source int) int {
	if e.compiled == nil {
		return 1 << 10
	}
	return 1<<10 + 4*source + 1000*len(e.compiled.byURL) + 100*e.compiled.instructions
}

// problem says why a schema is of no use; places are within it.
type problem struct{ faults []fault }

func (p *problem) String() string {
	at, words := sentence("", p.faults)
	if at == "" {
		return words
	}
	return at + ": " + words
}

// cache compiles each schema once, however many ask for it at a time, and keeps those used last.
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

func (c *cache) get(schema []byte) (*compiled, *problem) {
	if len(schema) > MaxSchema { // before the sum: it would be taken over all of it
		return nil, &problem{[]fault{tooLong(len(schema), MaxSchema)}}
	}
	sum := digest(sha256.Sum256(schema))
	if e := c.kept(sum); e != nil {
		return e.compiled, e.problem
	}
	made, _, _ := c.flight.Do(string(sum[:]), func() (any, error) {
		if e := c.kept(sum); e != nil { // made between the look and the flight
			return e, nil
		}
		e := &entry{}
		e.compiled, e.problem = compile(schema)
		e.bytes = e.weight(len(schema))
		c.keep(sum, e)
		return e, nil
	})
	e, _ := made.(*entry)
	return e.compiled, e.problem
}

func (c *cache) kept(sum digest) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, _ := c.lru.Get(sum)
	return e
}

// keep lets go of what was used least while there is too much. The newest stays.
func (c *cache) keep(sum digest, e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lru.Add(sum, e)
	c.bytes += e.bytes
	for c.lru.Len() > 1 && c.bytes > c.limit {
		c.lru.RemoveOldest()
	}
}
