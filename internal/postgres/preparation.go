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
	SELECT $1, $4, $5::bigint, $8::json` + allowedNow + `
	ON CONFLICT DO NOTHING RETURNING turn_id
)` + stepAnswer

const readPrepared = `
SELECT s.producer, s.epoch, s.body, (` + ledgerRows + `0)
FROM prepared s WHERE s.turn_id = $1`

// SavePrepared stores the result of a turn's preparation, under the rules of [StepStore.SaveModelStep]. Its ledger rows have step 0.
func (s *StepStore) SavePrepared(ctx context.Context, p agent.Prepared) error {
	const op = "save preparation"
	body, err := encode(p)
	if err != nil {
		return mapError(op, err)
	}
	var b pgx.Batch
	b.Queue(savePrepared, p.TurnID, p.Tenant, p.Fence.StreamID, p.Fence.Producer, p.Fence.Epoch, 0, 0, body).
		QueryRow(func(row pgx.Row) error {
			_, err := scanStepAnswer(row, p.TurnID)
			return err
		})
	queueCharge(&b, agent.StepKey{TurnID: p.TurnID}, p.Tenant, p.Calls)
	return mapError(op, s.send(ctx, &b))
}

// Prepared returns the result of a turn's preparation; ok is false if there is none.
func (s *StepStore) Prepared(ctx context.Context, id agent.TurnID) (p agent.Prepared, ok bool, err error) {
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

const maxTurnTools = 16 << 20 // bytes

const saveTurnTools = `
INSERT INTO turn_tools (turn_id, body) SELECT turn_id, $2::json FROM turns WHERE turn_id = $1 ON CONFLICT DO NOTHING`

const readTurnTools = `
SELECT body FROM turn_tools WHERE turn_id = $1`

// SaveTurnTools stores the tools that a turn's dynamic toolkits have when it begins, unless some are stored, and returns what is stored. The error is
// [agent.CodeNotFound] if there is no such turn, and [agent.CodeOverflow] for more than 16 MiB.
func (s *StepStore) SaveTurnTools(ctx context.Context, id agent.TurnID, t agent.TurnTools) (agent.TurnTools, error) {
	const op = "save tools of turn"
	body, err := encode(t)
	if err != nil {
		return agent.TurnTools{}, mapError(op, err)
	}
	if len(body) > maxTurnTools {
		return agent.TurnTools{}, agent.Errorf(agent.CodeOverflow, op, "the tools of turn %q are %d bytes, at most %d", id, len(body), maxTurnTools)
	}
	var (
		b      pgx.Batch
		stored agent.TurnTools
	)
	b.Queue(saveTurnTools, id, body)
	queueRow(&b, &stored, unknownTurn(op, id), pgx.RowTo[agent.TurnTools], readTurnTools, id)
	return stored, mapError(op, s.send(ctx, &b))
}

// TurnTools returns the tools that [StepStore.SaveTurnTools] stored; ok is false if there are none.
func (s *StepStore) TurnTools(ctx context.Context, id agent.TurnID) (t agent.TurnTools, ok bool, err error) {
	err = s.pool.QueryRow(ctx, readTurnTools, id).Scan(&t)
	if errors.Is(err, pgx.ErrNoRows) {
		return agent.TurnTools{}, false, nil
	}
	return t, err == nil, mapError("read tools of turn", err)
}
