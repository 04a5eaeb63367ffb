package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	savePlan    = `INSERT INTO plans (hash, body) VALUES ($1, $2) ON CONFLICT DO NOTHING`
	comparePlan = `SELECT body = $2 FROM plans WHERE hash = $1`
	readPlan    = `SELECT body FROM plans WHERE hash = $1`
)

// SavePlan keeps the body of a compiled plan under its hash, for as long as the database lives. Saving it again changes nothing;
// another body under the same hash is [agent.CodeConflict].
func (s *Store) SavePlan(ctx context.Context, hash string, body []byte) error {
	var b pgx.Batch
	b.Queue(savePlan, hash, body)
	b.Queue(comparePlan, hash, body).QueryRow(func(row pgx.Row) error {
		var same bool
		if err := row.Scan(&same); err != nil || same {
			return err
		}
		return agent.Errorf(agent.CodeConflict, "", "plan %q has another body", hash)
	})
	return mapError("save plan", s.pool.SendBatch(ctx, &b).Close())
}

// Plan returns the bytes that were saved under a hash; [agent.CodeNotFound] when none were.
func (s *Store) Plan(ctx context.Context, hash string) ([]byte, error) {
	const op = "read plan"
	rows, err := s.pool.Query(ctx, readPlan, hash)
	if err != nil {
		return nil, mapError(op, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	switch {
	case err != nil:
		return nil, mapError(op, err)
	case len(found) == 0:
		return nil, agent.Errorf(agent.CodeNotFound, op, "plan %q is not known", hash)
	}
	return found[0], nil
}
