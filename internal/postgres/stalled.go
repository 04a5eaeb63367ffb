package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// In any order, so that turns which are only slow cannot keep others out of a bounded list for ever.
const readStalled = `
SELECT turn_id, workflow_id, reason FROM (
	SELECT t.turn_id, t.workflow_id, 'decided' AS reason
	FROM turns t CROSS JOIN LATERAL (
		SELECT max(a.step) AS step, max(a.decided_at) AS at, bool_and(a.decision IS NOT NULL) AS decided
		FROM approvals a WHERE a.turn_id = t.turn_id
	) a
	WHERE t.state = 'running' AND t.mode <> 'direct' AND a.decided AND a.at < clock_timestamp() - $1::interval
		AND NOT EXISTS (SELECT FROM turn_steps s WHERE s.turn_id = t.turn_id AND s.step > a.step)
	UNION ALL
	SELECT t.turn_id, t.workflow_id, 'session' FROM turns t
	WHERE t.state = 'running' AND t.mode <> 'direct' AND t.cursor IS NULL AND t.held_at < clock_timestamp() - $1::interval
	UNION ALL
	SELECT t.turn_id, t.workflow_id, 'cancelled'
	FROM (SELECT * FROM turns WHERE state = 'running' UNION ALL SELECT * FROM turns WHERE state = 'queued') t
		JOIN streams s ON s.stream_id = t.turn_id
	WHERE t.mode <> 'direct' AND s.cancelled AND s.closed_at IS NULL
) stalled WHERE workflow_id <> '' ORDER BY random() LIMIT $2`

// StalledTurns returns at most limit turns, driven by workflows, that the store gave a reason to go on and that have not for a while: for
// quiet, except that the store does not know when a turn was cancelled. Some are only slow; their workflows know.
func (s *Store) StalledTurns(ctx context.Context, quiet time.Duration, limit int) ([]agent.StalledTurn, error) {
	const op = "find stalled turns"
	rows, err := s.pool.Query(ctx, readStalled, quiet, limit)
	if err != nil {
		return nil, mapError(op, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[agent.StalledTurn])
	return found, mapError(op, err)
}
