package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// For each key the newest decision that fits it: of this very call, or of every call of the tool.
const readRemembered = `
SELECT DISTINCT r.tool, r.args_hash, r.decision, r.message, r.by, r.created_at
FROM unnest($3::text[], $4::text[]) AS k (tool, args_hash), LATERAL (
	SELECT * FROM remembered_decisions d
	WHERE d.tenant = $1 AND d.session_id = $2 AND d.tool = k.tool AND d.args_hash IN ('', k.args_hash)
	ORDER BY d.created_at DESC, d.args_hash DESC LIMIT 1
) r
ORDER BY r.created_at DESC, r.tool, r.args_hash DESC`

// Remembered returns the decisions of a session that stand for calls of these keys, the newest first: the first one that fits a call,
// by its key or by the empty hash, is the call's. In one round trip.
func (s *Store) Remembered(ctx context.Context, tenant string, id agent.SessionID, keys []agent.RememberKey) ([]agent.Remembered, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	tools, hashes := make([]string, len(keys)), make([]string, len(keys))
	for i, key := range keys {
		tools[i], hashes[i] = plain(key.Tool), key.ArgsHash
	}
	rows, err := s.pool.Query(ctx, readRemembered, tenant, id, tools, hashes)
	if err != nil {
		return nil, mapError("read decisions", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r agent.Remembered, err error) {
		err = row.Scan(&r.Key.Tool, &r.Key.ArgsHash, &r.Decision, &r.Message, &r.By, nil)
		return r, err
	})
	return found, mapError("read decisions", err)
}
