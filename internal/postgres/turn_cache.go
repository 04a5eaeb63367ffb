package postgres

import (
	"cmp"
	"slices"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/turnstone-run/turnstone/agent"
)

// Bounds of the cache.
const (
	maxCachedTurns     = 1024
	maxCacheBytes      = 32 << 20 // of all turns, as JSON
	maxCachedTurnBytes = 1 << 20  // of one turn; a larger turn is read from the database
)

// turnCache holds, for turns that this process runs, the transcript before the first step, and the steps that this process has stored.
// Neither changes in the database.
type turnCache struct {
	mu    sync.Mutex
	turns *lru.LRU[agent.TurnID, *cachedTurn]
	bytes int
}

func newTurnCache() *turnCache {
	c := &turnCache{}
	// NewLRU only fails if the size is not positive.
	c.turns, _ = lru.NewLRU(maxCachedTurns, func(_ agent.TurnID, evicted *cachedTurn) { c.bytes -= evicted.bytes })
	return c
}

type cachedTurn struct {
	isNew      bool              // this process recorded the turn and has stored no step of it
	transcript *cachedTranscript // nil if it was not read yet
	steps      []cachedStep      // in the order in which the database returns them
	bytes      int
}

type cachedTranscript struct {
	query    agent.PromptQuery // the [transcriptQuery] of the query that read it
	messages []promptMessage
}

// cachedStep is a step, with the ids of its calls if it is a reply.
type cachedStep struct {
	step
	asks []agent.CallID
}

// size returns the size of a step's columns in bytes.
func (s *step) size() int {
	return len(s.content) + len(s.verdict) + len(s.feedback) + len(s.args) + len(s.data) + len(s.preview)
}

// transcriptQuery returns the part of a query on which the transcript depends.
func transcriptQuery(q *agent.PromptQuery) agent.PromptQuery {
	query := *q
	query.Step, query.Aside = 0, ""
	return query
}

// transcript returns a copy of a turn's transcript. ok is false if it is not cached.
func (c *turnCache) transcript(q *agent.PromptQuery) (messages []promptMessage, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.get(q.TurnID)
	if t == nil || t.transcript == nil || t.transcript.query != transcriptQuery(q) {
		return nil, false
	}
	return copyMessages(t.transcript.messages), true
}

// addTranscript adds a turn's transcript.
func (c *turnCache) addTranscript(q *agent.PromptQuery, messages []promptMessage) {
	size := 0
	for i := range messages {
		size += messages[i].size
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := &cachedTurn{bytes: size}
	if t := c.get(q.TurnID); t != nil && t.transcript == nil {
		changed.steps, changed.bytes = t.steps, t.bytes+size
	}
	changed.transcript = &cachedTranscript{query: transcriptQuery(q), messages: copyMessages(messages)}
	c.put(q.TurnID, changed)
}

// addFirstTurn adds a turn that this process has just recorded as the first of its session, whose transcript is the turn's input.
func (c *turnCache) addFirstTurn(t *agent.TurnRecord, input messageColumns) {
	q := agent.PromptQuery{TurnID: t.TurnID, Tenant: t.Tenant, SessionID: t.SessionID, Cursor: int64(len(input.roles)), History: t.History}
	added := &cachedTurn{isNew: true, transcript: &cachedTranscript{query: q, messages: make([]promptMessage, len(input.roles))}}
	for i, blocks := range input.blocks {
		m := &added.transcript.messages[i]
		m.Role, m.position, m.size, m.isInput = agent.Role(input.roles[i]), int64(i+1), len(blocks), true
		if decode([]byte(blocks), &m.Blocks) != nil { // decoded as from the database
			return
		}
		added.bytes += m.size
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(t.TurnID, added)
}

// addStep adds a step that this process has stored.
func (c *turnCache) addStep(s cachedStep) {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := &cachedTurn{}
	if t := c.get(s.key.TurnID); t != nil {
		*changed = *t
	}
	i, found := slices.BinarySearchFunc(changed.steps, s, func(a, b cachedStep) int {
		return cmp.Or(cmp.Compare(a.key.Step, b.key.Step), cmp.Compare(a.key.CallID, b.key.CallID))
	})
	if found {
		return
	}
	changed.isNew, changed.steps = false, slices.Insert(slices.Clone(changed.steps), i, s)
	changed.bytes += s.size()
	c.put(s.key.TurnID, changed)
}

// stepsBefore returns the steps of a tenant's turn before a step, and the reply of that step, in the order of the database. ok is false if a
// step or the result of a call is missing, because another process may have stored it.
func (c *turnCache) stepsBefore(id agent.TurnID, tenant string, before int) (steps []step, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.get(id)
	switch {
	case t != nil && t.isNew && before <= 1:
		return nil, t.transcript.query.Tenant == tenant
	case t == nil || len(t.steps) == 0 || t.steps[0].tenant != tenant:
		return nil, false
	}
	reply, unanswered := 0, 0
	for i := range t.steps {
		s := &t.steps[i]
		switch isReply := s.key.CallID == ""; {
		case s.key.Step > before, s.key.Step == before && !isReply:
			return steps, unanswered == 0 && reply >= before-1
		case isReply && (s.key.Step != reply+1 || unanswered > 0):
			return nil, false
		case isReply:
			reply, unanswered = s.key.Step, len(s.asks)
			if reply == before {
				unanswered = 0
			}
		case s.key.Step != reply:
			return nil, false
		default:
			unanswered--
		}
		steps = append(steps, s.step)
	}
	return steps, unanswered == 0 && reply >= before-1
}

// callSteps returns the cached reply of a step and the cached result of one of its calls. It returns nil if the reply is not cached.
func (c *turnCache) callSteps(key agent.StepKey) (steps []step) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.get(key.TurnID)
	if t == nil {
		return nil
	}
	for i := range t.steps {
		s := &t.steps[i]
		isReply := s.key.CallID == ""
		if s.key.Step == key.Step && (isReply || s.key.CallID == key.CallID && len(steps) > 0) {
			steps = append(steps, s.step)
		}
	}
	return steps
}

// allSteps returns all steps of a turn that ends with a reply without calls. ok is false if any of them is not cached.
func (c *turnCache) allSteps(id agent.TurnID) (steps []step, ok bool) {
	c.mu.Lock()
	var last cachedStep
	if t := c.get(id); t != nil && len(t.steps) > 0 {
		last = t.steps[len(t.steps)-1]
	}
	c.mu.Unlock()
	if last.key.Step == 0 || last.key.CallID != "" || len(last.asks) > 0 {
		return nil, false
	}
	return c.stepsBefore(id, last.tenant, last.key.Step)
}

// drop removes a turn.
func (c *turnCache) drop(id agent.TurnID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turns.Remove(id)
}

// get returns a turn, or nil. The turn must not be changed. The caller holds the lock.
func (c *turnCache) get(id agent.TurnID) *cachedTurn {
	t, _ := c.turns.Get(id)
	return t
}

// put replaces a turn, and removes the least recently used turns if the cache is too large. The caller holds the lock.
func (c *turnCache) put(id agent.TurnID, t *cachedTurn) {
	c.turns.Remove(id)
	if t.bytes > maxCachedTurnBytes {
		return
	}
	c.turns.Add(id, t)
	for c.bytes += t.bytes; c.bytes > maxCacheBytes; {
		c.turns.RemoveOldest()
	}
}

// copyMessages copies messages and their lists of blocks, which middleware may change.
func copyMessages(messages []promptMessage) []promptMessage {
	copied := slices.Clone(messages)
	for i := range copied {
		copied[i].Blocks = slices.Clone(copied[i].Blocks)
	}
	return copied
}
