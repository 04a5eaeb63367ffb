package postgres

import (
	"cmp"
	"context"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// Bounds of the steps that are not stored yet. A step beyond them is stored at once.
const (
	maxLaterTurns = 1024
	maxLaterBytes = 64 << 10 // of one step, as JSON
)

// laterSteps are finished calls that are stored together with the next step or the end of their turn. If the process dies, they are lost,
// and the process that takes over the turn makes the calls again. The zero value is empty.
type laterSteps struct {
	mu    sync.Mutex
	turns map[agent.TurnID][]*laterStep
}

// laterStep is the statement that stores a step.
type laterStep struct {
	sql     string
	args    []any
	refused error // set when the statement runs: why the step was not stored
}

// add adds a step. ok is false if there is no room, so that the step has to be stored at once.
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

// queue removes a turn's steps and queues their statements. After the transaction the caller must call done.
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

// waitingSteps are the steps of a turn that a transaction stores.
type waitingSteps struct {
	later *laterSteps
	id    agent.TurnID
	steps []*laterStep
}

// done puts the steps back if the transaction was not committed. Otherwise it returns the error of the first step that was refused, if any.
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

// store stores a turn's steps.
func (l *laterSteps) store(ctx context.Context, db *database, id agent.TurnID) error {
	var b pgx.Batch
	waited := l.queue(&b, id)
	if b.Len() == 0 {
		return nil
	}
	err := db.send(ctx, &b)
	return cmp.Or(err, waited.done(err == nil))
}
