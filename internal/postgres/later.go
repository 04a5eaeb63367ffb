package postgres

import (
	"cmp"
	"context"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// Bounds of the steps that wait. A step beyond them is stored at once.
const (
	maxLaterTurns = 1024
	maxLaterBytes = 64 << 10 // of one step, as JSON
)

// laterSteps are finished calls that are stored with the next step of their turn, or before its end. A process that dies loses them, and
// whoever takes the turn over makes them again. The zero value is empty.
type laterSteps struct {
	mu    sync.Mutex
	turns map[agent.TurnID][]*laterStep
}

// laterStep is the statement that stores a step, and its answer.
type laterStep struct {
	sql     string
	args    []any
	refused error
}

// add adds a step; ok is false if it has to be stored at once.
func (l *laterSteps) add(id agent.TurnID, s *laterStep, size int) (ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.turns == nil {
		l.turns = map[agent.TurnID][]*laterStep{}
	}
	if size > maxLaterBytes || l.turns[id] == nil && len(l.turns) >= maxLaterTurns {
		return false
	}
	l.turns[id] = append(l.turns[id], s)
	return true
}

// queue takes a turn's steps and queues their statements. Its caller says by done how the transaction ended.
func (l *laterSteps) queue(b *pgx.Batch, id agent.TurnID) waitingSteps {
	l.mu.Lock()
	defer l.mu.Unlock()
	steps := l.turns[id]
	delete(l.turns, id)
	for _, s := range steps {
		b.Queue(s.sql, s.args...).QueryRow(func(row pgx.Row) error {
			_, s.refused = scanStepAnswer(row, id)
			return nil
		})
	}
	return waitingSteps{l, id, steps}
}

// waitingSteps are steps that a transaction is to store.
type waitingSteps struct {
	later *laterSteps
	id    agent.TurnID
	steps []*laterStep
}

// done gives the steps back if the transaction was not committed. Else it returns the reason why one of them was refused, if one was.
func (s waitingSteps) done(committed bool) error {
	if len(s.steps) == 0 {
		return nil
	}
	if !committed {
		s.later.mu.Lock()
		defer s.later.mu.Unlock()
		s.later.turns[s.id] = append(s.steps, s.later.turns[s.id]...)
		return nil
	}
	for _, step := range s.steps {
		if step.refused != nil {
			return step.refused
		}
	}
	return nil
}

// store stores a turn's steps now.
func (l *laterSteps) store(ctx context.Context, db *database, id agent.TurnID) error {
	var b pgx.Batch
	waited := l.queue(&b, id)
	if b.Len() == 0 {
		return nil
	}
	err := db.send(ctx, &b)
	return cmp.Or(err, waited.done(err == nil))
}
