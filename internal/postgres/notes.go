package postgres

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

const maxNoteBytes = 256 << 10

const readNote = `
SELECT body FROM session_notes WHERE tenant = $1 AND session_id = $2 AND name = $3`

const writeNote = `
INSERT INTO session_notes (tenant, session_id, name, body, updated_at)
SELECT tenant, session_id, $3, $4::json, clock_timestamp() FROM sessions WHERE tenant = $1 AND session_id = $2
ON CONFLICT (tenant, session_id, name) DO UPDATE SET body = excluded.body, updated_at = excluded.updated_at`

// Note returns what is kept with a session under a name, nil when there is nothing or no such session.
func (s *Store) Note(ctx context.Context, tenant string, id agent.SessionID, name string) (json.RawMessage, error) {
	var body []byte
	err := s.pool.QueryRow(ctx, readNote, tenant, id, plain(name)).Scan(&body)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return body, mapError("read note", err)
}

// SetNote keeps up to 256 KiB of JSON with a session, in place of what was kept under the name. More is [agent.CodeOverflow], what is
// no JSON [agent.CodeInvalid], a session that the tenant does not have [agent.CodeNotFound].
func (s *Store) SetNote(ctx context.Context, tenant string, id agent.SessionID, name string, body json.RawMessage) error {
	const op = "keep note"
	if err := checkText("name", name, maxNameBytes); err != nil {
		return err
	}
	if len(body) > maxNoteBytes {
		return agent.Errorf(agent.CodeOverflow, op, "note %q is %d bytes, at most %d", name, len(body), maxNoteBytes)
	}
	text, err := encode(body)
	if err != nil {
		return mapError(op, err)
	}
	tag, err := s.pool.Exec(ctx, writeNote, tenant, id, name, text)
	switch {
	case err != nil:
		return mapError(op, err)
	case tag.RowsAffected() == 0:
		return agent.Errorf(agent.CodeNotFound, op, "session %q is not known", id)
	}
	return nil
}

const countCalls = `
WITH finished AS MATERIALIZED (
	SELECT turn_id FROM turns WHERE tenant = $1 AND session_id = $2 AND state NOT IN ('queued', 'running')
)
SELECT NULL AS tool, count(*) FROM finished JOIN turn_steps s USING (turn_id) WHERE s.call_id = '' AND s.producer NOT LIKE 'answer/%'
UNION ALL
SELECT c.name, count(*) FROM finished JOIN tool_calls c USING (turn_id)
LEFT JOIN turn_steps s ON s.turn_id = c.turn_id AND s.step = c.step AND s.call_id = c.call_id
WHERE coalesce(s.verdict ->> 'refused', '') <> 'true'
GROUP BY c.name ORDER BY tool`

// CallCounts counts the model replies and the tool calls, by name, of a session's finished turns: what was asked for, also where the turn
// ended before it was answered; not what was said in a model's place, and not calls that were refused without running. A session that is not
// known has none.
func (s *Store) CallCounts(ctx context.Context, tenant string, id agent.SessionID) (agent.CallCounts, error) {
	rows, err := s.pool.Query(ctx, countCalls, tenant, id)
	if err != nil {
		return agent.CallCounts{}, mapError("count calls", err)
	}
	var (
		counts agent.CallCounts
		tool   *string
		calls  int
	)
	_, err = pgx.ForEachRow(rows, []any{&tool, &calls}, func() error {
		if tool == nil {
			counts.Model = calls
			return nil
		}
		counts.Tools = append(counts.Tools, agent.ToolCount{Tool: *tool, Calls: calls})
		return nil
	})
	return counts, mapError("count calls", err)
}
