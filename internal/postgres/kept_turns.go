package postgres

import (
	"cmp"
	"slices"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/turnstone-run/turnstone/agent"
)

// Bounds of what a process keeps of its live turns.
const (
	maxKeptTurns     = 1024
	maxKeptBytes     = 32 << 20 // of all turns together, as JSON
	maxKeptTurnBytes = 1 << 20  // a turn with more is read from the database
)

// keptTurns keeps, for turns that this process runs, what was said before their first step, and the steps that it stored itself. Nobody changes
// either. The zero value is empty.
type keptTurns struct {
	mu    sync.Mutex
	turns *lru.LRU[agent.TurnID, *keptTurn]
	bytes int
}

type keptTurn struct {
	transcript *keptTranscript // nil: it was not read
	steps      []keptStep      // in the order in which the database returns them
	bytes      int
}

type keptTranscript struct {
	of       agent.PromptQuery // without step and aside
	messages []promptMessage
}

// keptStep is a step with the calls that a reply asks for.
type keptStep struct {
	step
	asks []agent.CallID
}

// transcriptOf returns the part of a query that decides which transcript it is about.
func transcriptOf(q *agent.PromptQuery) agent.PromptQuery {
	of := *q
	of.Step, of.Aside = 0, ""
	return of
}

// transcript returns a copy of a turn's transcript, which the caller may change; ok is false if it is not kept.
func (k *keptTurns) transcript(q *agent.PromptQuery) (messages []promptMessage, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.get(q.TurnID)
	if t == nil || t.transcript == nil || t.transcript.of != transcriptOf(q) {
		return nil, false
	}
	return copyMessages(t.transcript.messages), true
}

// keepTranscript keeps a turn's transcript.
func (k *keptTurns) keepTranscript(q *agent.PromptQuery, messages []promptMessage) {
	size := 0
	for i := range messages {
		size += messages[i].size
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	kept := &keptTurn{bytes: size}
	if t := k.get(q.TurnID); t != nil && t.transcript == nil {
		kept.steps, kept.bytes = t.steps, t.bytes+size
	}
	kept.transcript = &keptTranscript{of: transcriptOf(q), messages: copyMessages(messages)}
	k.put(q.TurnID, kept)
}

// keepStep keeps a step that this process has stored.
func (k *keptTurns) keepStep(s keptStep) {
	k.mu.Lock()
	defer k.mu.Unlock()
	kept := &keptTurn{}
	if t := k.get(s.key.TurnID); t != nil {
		*kept = *t
	}
	i, found := slices.BinarySearchFunc(kept.steps, s, func(a, b keptStep) int {
		return cmp.Or(cmp.Compare(a.key.Step, b.key.Step), cmp.Compare(a.key.CallID, b.key.CallID))
	})
	if found {
		return
	}
	kept.steps = slices.Insert(slices.Clone(kept.steps), i, s)
	kept.bytes += len(s.content) + len(s.verdict) + len(s.feedback) + len(s.args) + len(s.data) + len(s.preview)
	k.put(s.key.TurnID, kept)
}

// stepsBefore returns the steps of a tenant's turn before one, and the reply of that one, as the database has them. ok is false if a step or the
// result of a call is missing: another process may have stored it.
func (k *keptTurns) stepsBefore(id agent.TurnID, tenant string, before int) (steps []step, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.get(id)
	if t == nil || len(t.steps) == 0 || t.steps[0].tenant != tenant {
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

// allSteps returns all steps of a turn, of which the last is a reply that asks for nothing; ok is false if they are not kept.
func (k *keptTurns) allSteps(id agent.TurnID) (steps []step, ok bool) {
	k.mu.Lock()
	var last keptStep
	if t := k.get(id); t != nil && len(t.steps) > 0 {
		last = t.steps[len(t.steps)-1]
	}
	k.mu.Unlock()
	if last.key.Step == 0 || last.key.CallID != "" || len(last.asks) > 0 {
		return nil, false
	}
	return k.stepsBefore(id, last.tenant, last.key.Step)
}

// drop forgets a turn.
func (k *keptTurns) drop(id agent.TurnID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.turns != nil {
		k.turns.Remove(id)
	}
}

// get returns what is kept of a turn, which nobody changes, nil if nothing is. The caller holds the lock.
func (k *keptTurns) get(id agent.TurnID) *keptTurn {
	if k.turns == nil {
		return nil
	}
	t, _ := k.turns.Get(id)
	return t
}

// put replaces what is kept of a turn, and lets go of the turns that were not asked for the longest if that is too much. The caller holds the lock.
func (k *keptTurns) put(id agent.TurnID, t *keptTurn) {
	if k.turns == nil {
		// The only error is a size that is not positive.
		k.turns, _ = lru.NewLRU(maxKeptTurns, func(_ agent.TurnID, gone *keptTurn) { k.bytes -= gone.bytes })
	}
	k.turns.Remove(id)
	if t.bytes > maxKeptTurnBytes {
		return
	}
	k.turns.Add(id, t)
	for k.bytes += t.bytes; k.bytes > maxKeptBytes; {
		k.turns.RemoveOldest()
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
