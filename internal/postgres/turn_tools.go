package postgres

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

const maxTurnTools = 16 << 20 // bytes

const saveTurnTools = `
INSERT INTO turn_tools (turn_id, body) SELECT turn_id, $2::json FROM turns WHERE turn_id = $1 ON CONFLICT DO NOTHING`

const readTurnTools = `
SELECT body FROM turn_tools WHERE turn_id = $1`

// SaveTurnTools keeps what a turn's dynamic toolkits had when it began, and answers what is kept: the first stands. An unknown turn is
// [agent.CodeNotFound], more than 16 MiB [agent.CodeOverflow]. One round trip.
func (s *Store) SaveTurnTools(ctx context.Context, id agent.TurnID, t agent.TurnTools) (agent.TurnTools, error) {
	const op = "save tools of turn"
	body, err := encode(t)
	if err != nil {
		return agent.TurnTools{}, mapError(op, err)
	}
	if len(body) > maxTurnTools {
		return agent.TurnTools{}, agent.Errorf(agent.CodeOverflow, op, "the tools of turn %q are %d bytes, at most %d", id, len(body), maxTurnTools)
	}
	var (
		b    pgx.Batch
		kept agent.TurnTools
	)
	b.Queue(saveTurnTools, id, body)
	b.Queue(readTurnTools, id).QueryRow(func(row pgx.Row) (err error) {
		kept, err = scanTurnTools(row)
		if errors.Is(err, pgx.ErrNoRows) {
			return unknownTurn(op, id)
		}
		return err
	})
	return kept, mapError(op, s.pool.SendBatch(ctx, &b).Close())
}

// TurnTools returns what [Store.SaveTurnTools] kept; ok is false when there is nothing.
func (s *Store) TurnTools(ctx context.Context, id agent.TurnID) (t agent.TurnTools, ok bool, err error) {
	t, err = scanTurnTools(s.pool.QueryRow(ctx, readTurnTools, id))
	if errors.Is(err, pgx.ErrNoRows) {
		return agent.TurnTools{}, false, nil
	}
	return t, err == nil, mapError("read tools of turn", err)
}

func scanTurnTools(row pgx.Row) (t agent.TurnTools, err error) {
	var body []byte
	if err = row.Scan(&body); err == nil {
		err = json.Unmarshal(body, &t)
	}
	return t, err
}
