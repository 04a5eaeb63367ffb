package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/turnstone-run/turnstone/agent"
)

// A turn that runs has written an event or a step. A queued one is looked at when it holds its session: until then it has nothing to do.
const readStranded = `
SELECT t.turn_id FROM turns t
WHERE t.state = 'running' AND t.mode = 'durable' AND t.start_by_id AND coalesce(t.held_at, t.created_at) < clock_timestamp() - $1::interval
	AND NOT EXISTS (SELECT FROM streams s WHERE s.stream_id = t.turn_id) AND NOT EXISTS (SELECT FROM turn_steps p WHERE p.turn_id = t.turn_id)
UNION ALL
SELECT t.turn_id FROM turns t WHERE t.state IN ('queued', 'running') AND t.mode = 'direct' AND t.lease_until < clock_timestamp()
LIMIT $2`

// Stranded calls work with turns that nobody may be driving, at most limit (100 by default, 1,000 at most): recorded by a door longer than
// age ago and not begun, or direct with a lease that has run out. Of all processes one does so at a time; ran is false in the others.
func (s *Store) Stranded(ctx context.Context, age time.Duration, limit int, work func(context.Context, []agent.TurnID) error) (ran bool, err error) {
	const op = "list stranded turns"
	return s.alone(ctx, op, "turnstone stranded turns", func(ctx context.Context, conn *pgxpool.Conn) error {
		rows, err := conn.Query(ctx, readStranded, age, pageSize(limit))
		if err != nil {
			return mapError(op, err)
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[agent.TurnID])
		if err != nil {
			return mapError(op, err)
		}
		return work(ctx, ids)
	})
}
