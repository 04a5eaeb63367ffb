package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	datasetTurns   = 50       // how many turns of a session are looked through
	maxDatasets    = 50       // that are returned
	maxDatasetArgs = 16 << 10 // longer arguments of a call are left out
)

const readDatasets = `
SELECT c.turn_id, c.name, CASE WHEN octet_length(c.args::text) <= $5 THEN c.args END, c.dataset
FROM (
	SELECT turn_id, seq FROM turns
	WHERE tenant = $1 AND session_id = $2 AND state NOT IN ('queued', 'running')
		AND seq < (SELECT seq FROM turns WHERE turn_id = $3 AND tenant = $1 AND session_id = $2)
	ORDER BY seq DESC LIMIT $6
) t JOIN tool_calls c ON c.turn_id = t.turn_id
WHERE c.dataset IS NOT NULL
ORDER BY t.seq DESC, c.step DESC, c.call_id DESC LIMIT $4`

// Datasets returns the newest datasets that the turns of a session left before one of its turns, at most n and at most 50, the newest
// first; of the last 50 turns, as far as they have finished. A turn that the session does not have sees none. Arguments beyond 16 KiB are
// left out.
func (s *Store) Datasets(ctx context.Context, tenant string, id agent.SessionID, before agent.TurnID, n int) ([]agent.SessionDataset, error) {
	if n <= 0 {
		return nil, nil
	}
	rows, err := s.pool.Query(ctx, readDatasets, tenant, id, before, min(n, maxDatasets), maxDatasetArgs, datasetTurns)
	if err != nil {
		return nil, mapError("read datasets", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (d agent.SessionDataset, err error) {
		err = row.Scan(&d.TurnID, &d.Tool, (*[]byte)(&d.Args), &d.Dataset)
		return d, err
	})
	return found, mapError("read datasets", err)
}
