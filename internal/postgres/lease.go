package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/turnstone-run/turnstone/agent"
)

// Who drives a turn, and how the others know that the driver lives:
//
//   - A durable turn is driven by its workflow. Whether that is closed is for Temporal to say; the turn has no lease.
//   - A direct turn is driven by a process, which promises by lease_until to be heard of again. While it waits in the queue, every
//     Begin is a sign of life and moves its lease; once it holds the session, Renew does. So a turn that is handed the session has the
//     lease of the last time that it asked: one whose process died while it waited is passed over as soon as that is over, and
//     nobody needs to have noticed before. A lease never moves back.
//   - A direct turn becomes durable by HandOver, or when a workflow begins it; its process finds out when it renews or begins
//     again: both are conflicts.

// driver says who drives a turn from now on, after record t began it.
func (p *place) driver(t *agent.TurnRecord) (agent.Mode, *time.Time) {
	switch {
	case t.Mode != agent.ModeDirect && p.known && p.mode != agent.ModeDirect:
		return p.mode, nil
	case t.Mode != agent.ModeDirect:
		return t.Mode, nil
	case t.LeaseUntil.IsZero() || p.lease != nil && !t.LeaseUntil.After(*p.lease):
		return t.Mode, p.lease
	default:
		until := t.LeaseUntil.UTC().Truncate(time.Microsecond) // as PostgreSQL keeps it
		return t.Mode, &until
	}
}

func sameTime(a, b *time.Time) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Equal(*b)
}

const renewLease = `
UPDATE turns SET lease_until = greatest(lease_until, $2) WHERE turn_id = $1 AND mode = 'direct' AND state = 'running'`

// A turn that waits may be handed over too: its workflow goes on waiting.
const handOverTurn = `
UPDATE turns SET mode = 'durable', lease_until = NULL, workflow_id = $2, fallback = coalesce(nullif(fallback, ''), $3)
WHERE turn_id = $1 AND state IN ('queued', 'running') AND (mode = 'direct' OR workflow_id = $2)`

const readDriver = `
SELECT state, mode FROM turns WHERE turn_id = $1`

// Renew moves the lease of a direct turn that holds its session, never back. A turn that does not, because it waits, has ended or is no
// longer direct, is [agent.CodeConflict]: its process is to stop. An unknown one is [agent.CodeNotFound].
func (s *Store) Renew(ctx context.Context, id agent.TurnID, until time.Time) error {
	return s.drive(ctx, "renew lease", id, renewLease, until)
}

// HandOver makes a direct turn a durable one, which the workflow drives and which has no lease, and records why. Doing it again changes nothing. A turn
// that has ended, or that another workflow drives, is [agent.CodeConflict]; an unknown one [agent.CodeNotFound].
func (s *Store) HandOver(ctx context.Context, id agent.TurnID, workflowID string, why agent.Fallback) error {
	return s.drive(ctx, "hand over turn", id, handOverTurn, workflowID, string(why))
}

// drive runs an update of one turn and, in the same round trip, finds out why it did not apply.
func (s *Store) drive(ctx context.Context, op string, id agent.TurnID, update string, args ...any) error {
	var (
		b       pgx.Batch
		applied bool
		refusal error
	)
	b.Queue(update, append([]any{id}, args...)...).Exec(func(tag pgconn.CommandTag) error {
		applied = tag.RowsAffected() > 0
		return nil
	})
	b.Queue(readDriver, id).QueryRow(func(row pgx.Row) error {
		var (
			state string
			mode  agent.Mode
		)
		switch err := row.Scan(&state, &mode); {
		case errors.Is(err, pgx.ErrNoRows):
			return unknownTurn("", id)
		case err != nil:
			return err
		case state != agent.StateQueued && state != agent.StateRunning:
			refusal = agent.Errorf(agent.CodeConflict, op, "turn %q has ended", id)
		case mode != agent.ModeDirect:
			refusal = agent.Errorf(agent.CodeConflict, op, "turn %q is driven by a workflow", id)
		default:
			refusal = agent.Errorf(agent.CodeConflict, op, "turn %q does not hold its session", id)
		}
		return nil
	})
	if err := s.pool.SendBatch(ctx, &b).Close(); err != nil {
		return mapError(op, err)
	}
	if applied {
		return nil
	}
	return refusal
}
