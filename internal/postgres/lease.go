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

// A row that somebody has locked for a moment is left for the next time, so that one turn does not keep the leases of all others from being renewed.
const renewLeases = `
WITH held AS (
	SELECT turn_id FROM turns WHERE turn_id = ANY ($1) AND mode = 'direct' AND state = 'running'
), free AS (
	SELECT t.turn_id FROM turns t JOIN held USING (turn_id) FOR NO KEY UPDATE OF t SKIP LOCKED
), renewed AS (
	UPDATE turns t SET lease_until = greatest(lease_until, $2) FROM free WHERE t.turn_id = free.turn_id AND mode = 'direct' AND state = 'running'
)
SELECT turn_id FROM held`

// A turn that waits may be handed over too: its workflow goes on waiting.
const handOverTurn = `
UPDATE turns SET mode = 'durable', lease_until = NULL, workflow_id = $2, fallback = coalesce(nullif(fallback, ''), $3)
WHERE turn_id = $1 AND state IN ('queued', 'running') AND (mode = 'direct' OR workflow_id = $2)`

const readDriver = `
SELECT state FROM turns WHERE turn_id = $1`

// Renew moves the leases of direct turns that hold their sessions, never back, and returns those turns. The process of any other, which waits, has
// ended, is no longer direct or is unknown, is to stop.
func (s *Store) Renew(ctx context.Context, ids []agent.TurnID, until time.Time) ([]agent.TurnID, error) {
	rows, err := s.pool.Query(ctx, renewLeases, ids, until)
	if err != nil {
		return nil, mapError("renew leases", err)
	}
	held, err := pgx.CollectRows(rows, pgx.RowTo[agent.TurnID])
	return held, mapError("renew leases", err)
}

// HandOver makes a direct turn a durable one, which the workflow drives and which has no lease, and records why. Doing it again changes nothing. A turn
// that has ended, or that another workflow drives, is [agent.CodeConflict]; an unknown one [agent.CodeNotFound].
func (s *Store) HandOver(ctx context.Context, id agent.TurnID, workflowID string, why agent.Fallback) error {
	const op = "hand over turn"
	var (
		b       pgx.Batch
		applied bool
		refusal error
	)
	b.Queue(handOverTurn, id, workflowID, string(why)).Exec(func(tag pgconn.CommandTag) error {
		applied = tag.RowsAffected() > 0
		return nil
	})
	b.Queue(readDriver, id).QueryRow(func(row pgx.Row) error {
		var state string
		switch err := row.Scan(&state); {
		case errors.Is(err, pgx.ErrNoRows):
			return unknownTurn("", id)
		case err != nil:
			return err
		case state != agent.StateQueued && state != agent.StateRunning:
			refusal = agent.Errorf(agent.CodeConflict, op, "turn %q has ended", id)
		default:
			refusal = agent.Errorf(agent.CodeConflict, op, "turn %q is driven by another workflow", id)
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
