package postgres

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

const savePrepared = stepAllowed + `, step AS (
	INSERT INTO prepared (turn_id, producer, epoch, body)
	SELECT $1, $4, $5::bigint, $6::json FROM allowed WHERE live AND newest
	ON CONFLICT DO NOTHING RETURNING turn_id
)` + stepAnswer

const readPrepared = `
SELECT s.producer, s.epoch, s.body, (` + ledgerRows + `0)
FROM prepared s WHERE s.turn_id = $1`

// SavePrepared keeps what the preparation of a turn found out, with its ledger rows as step 0, under the rules of
// [Store.SaveModelStep]: the first complete one stands.
func (s *Store) SavePrepared(ctx context.Context, p agent.Prepared) error {
	const op = "save preparation"
	body, err := encode(p)
	if err != nil {
		return mapError(op, err)
	}
	var b pgx.Batch
	b.Queue(savePrepared, p.TurnID, p.Tenant, p.Fence.StreamID, p.Fence.Producer, p.Fence.Epoch, body).
		QueryRow(func(row pgx.Row) error {
			_, err := saved(row, p.TurnID)
			return err
		})
	queueCharge(&b, agent.StepKey{TurnID: p.TurnID}, p.Tenant, p.Calls)
	return mapError(op, s.pool.SendBatch(ctx, &b).Close())
}

// Prepared returns what the preparation of a turn found out; ok is false when there is nothing.
func (s *Store) Prepared(ctx context.Context, id agent.TurnID) (p agent.Prepared, ok bool, err error) {
	const op = "read preparation"
	var (
		fence = agent.Fence{StreamID: string(id)}
		body  []byte
		calls []agent.UsageEntry
	)
	err = s.pool.QueryRow(ctx, readPrepared, id).Scan(&fence.Producer, &fence.Epoch, &body, &calls)
	if errors.Is(err, pgx.ErrNoRows) {
		return agent.Prepared{}, false, nil
	}
	if err == nil {
		err = json.Unmarshal(body, &p)
	}
	if err != nil {
		return agent.Prepared{}, false, mapError(op, err)
	}
	p.Fence, p.Calls = fence, calls
	return p, true, nil
}
