package postgres

import (
	"slices"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/turnstone-run/turnstone/agent"
)

// Bounds of the transcripts that a process keeps for its live turns.
const (
	keptTranscripts     = 1024
	keptTranscriptBytes = 32 << 20 // of all together, as JSON
	longestTranscript   = 1 << 20  // a longer one is read for every model call
)

// transcripts keeps, for turns that this process runs, what was said before their first step. Nobody changes that while a turn holds its
// session, so that it cannot become stale; what the turn itself adds is not in it. The zero value is empty.
type transcripts struct {
	mu    sync.Mutex
	turns *lru.LRU[agent.TurnID, transcript]
	bytes int
}

type transcript struct {
	of       agent.PromptQuery // without step and aside
	messages []promptMessage
	bytes    int
}

// transcriptOf returns the part of a query that decides which transcript it is about.
func transcriptOf(q *agent.PromptQuery) agent.PromptQuery {
	of := *q
	of.Step, of.Aside = 0, ""
	return of
}

// get returns a copy of a turn's transcript, which the caller may change; ok is false if it is not kept.
func (t *transcripts) get(q *agent.PromptQuery) (messages []promptMessage, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.turns == nil {
		return nil, false
	}
	kept, ok := t.turns.Get(q.TurnID)
	if !ok || kept.of != transcriptOf(q) {
		return nil, false
	}
	return copyMessages(kept.messages), true
}

// put keeps a turn's transcript, and lets go of those that were not asked for the longest if there are too many.
func (t *transcripts) put(q *agent.PromptQuery, messages []promptMessage) {
	kept := transcript{of: transcriptOf(q), messages: copyMessages(messages)}
	for i := range messages {
		kept.bytes += messages[i].size
	}
	if kept.bytes > longestTranscript {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.turns == nil {
		// The only error is a size that is not positive.
		t.turns, _ = lru.NewLRU(keptTranscripts, func(_ agent.TurnID, gone transcript) { t.bytes -= gone.bytes })
	}
	t.turns.Remove(q.TurnID)
	t.turns.Add(q.TurnID, kept)
	for t.bytes += kept.bytes; t.bytes > keptTranscriptBytes; {
		t.turns.RemoveOldest()
	}
}

// drop forgets a turn that has ended.
func (t *transcripts) drop(id agent.TurnID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.turns != nil {
		t.turns.Remove(id)
	}
}

// copyMessages copies messages with their lists of blocks: middleware may change those.
func copyMessages(messages []promptMessage) []promptMessage {
	copied := slices.Clone(messages)
	for i := range copied {
		copied[i].Blocks = slices.Clone(copied[i].Blocks)
	}
	return copied
}
