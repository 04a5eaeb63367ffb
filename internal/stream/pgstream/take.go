package pgstream

import (
	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// takenEvents implements [agent.UnstoredEvents] for a caller that stores them in a transaction of this database. The writer leaves them alone
// until Done.
type takenEvents struct {
	log     *Log
	chunk   *chunk
	answers map[string]storeAnswer // of the stream alone
	over    bool                   // Done was called
}

// Take returns what is not stored of a producer's stream; see turns.EventLog. It returns nil if nothing is, if the database is being sent
// some of it, and if this process does not own the stream.
func (l *Log) Take(f agent.Fence) agent.UnstoredEvents {
	s := l.lookup(f.StreamID)
	if s == nil || l.isLost(f) {
		return nil
	}
	if c := s.take(f); c != nil {
		return &takenEvents{log: l, chunk: c, answers: map[string]storeAnswer{}}
	}
	return nil
}

func (s *live) take(f agent.Fence) *chunk {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.producers[f.Producer]
	if s.state != owned || p == nil || p.epoch != f.Epoch || s.sending != nil || s.dirtySince.IsZero() {
		return nil
	}
	s.taken = true
	return s.nextChunkLocked()
}

// Position returns the generation of the stream's owner and the index of the last event.
func (t *takenEvents) Position() (generation, lastIndex int64) {
	return t.chunk.s.generation, t.chunk.last
}

// Queue queues the statement that stores the events.
func (t *takenEvents) Queue(b *pgx.Batch) {
	b.Queue(sqlStore, t.log.storeArgs(true, []*chunk{t.chunk})...).Query(func(rows pgx.Rows) error {
		return scanAnswers(rows, t.answers)
	})
}

// Done gives the events back, once. The writer stores them at once if they are not stored.
func (t *takenEvents) Done(committed bool) {
	if t.over {
		return
	}
	t.over = true
	s := t.chunk.s
	s.mu.Lock()
	s.taken = false
	s.mu.Unlock()
	if a := t.answers[s.id]; committed && a.stored {
		t.log.applyAnswer(t.chunk, a)
		return
	}
	t.log.storeNow(s)
}
