package postgres

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// SessionStore reads and changes sessions: their turns, transcripts, titles, notes, references and datasets.
type SessionStore struct{ *database }

func unknownSession(id agent.SessionID) error {
	return agent.Errorf(agent.CodeNotFound, "", "session %q is not known", id)
}

// SessionTurn is a turn in the list of a session.
type SessionTurn struct {
	Seq        int64 // the turn's number in the session, from 1
	TurnID     agent.TurnID
	Agent      string
	State      string // as in [agent.TurnState]
	CreatedAt  time.Time
	FinishedAt *time.Time // nil while the turn is queued or running
	Holds      bool       // whether the turn holds the session
}

const readTurns = `
SELECT t.seq, ` + shownTurn + `, t.agent, t.state, t.created_at, t.finished_at, coalesce(t.turn_id = s.holder, false)
FROM turns t JOIN sessions s USING (tenant, session_id)
WHERE t.tenant = $1 AND t.session_id = $2 AND t.seq > $3
ORDER BY t.seq LIMIT $4`

// Turns returns a page of a session's turns in order: those after a sequence number, at most limit (100 by default, 1,000 at most). The error is
// [agent.CodeNotFound] if the tenant does not have the session.
func (s *SessionStore) Turns(ctx context.Context, tenant string, id agent.SessionID, after int64, limit int) (page []SessionTurn, err error) {
	var b pgx.Batch
	queueExists(&b, unknownSession(id), sessionExists, tenant, id)
	queueRows(&b, &page, pgx.RowToStructByPos[SessionTurn], readTurns, tenant, id, after, pageSize(limit))
	return page, mapError("list turns", s.send(ctx, &b))
}

// TranscriptMessage is a message of a session.
type TranscriptMessage struct {
	Position  int64 // contiguous from 1 within the session
	TurnID    agent.TurnID
	CreatedAt time.Time
	Message   agent.Message
}

const sessionExists = `
SELECT FROM sessions WHERE tenant = $1 AND session_id = $2`

const readMessages = `
SELECT m.position, ` + shownTurn + `, m.created_at, m.role, m.blocks FROM (
	SELECT *, sum(size) OVER (ORDER BY position ROWS UNBOUNDED PRECEDING) AS total, row_number() OVER (ORDER BY position) AS n
	FROM messages WHERE tenant = $1 AND session_id = $2 AND position > $3
	ORDER BY position LIMIT $4
) m JOIN turns t ON t.turn_id = m.turn_id WHERE m.n = 1 OR m.total <= $5 ORDER BY m.position`

// Messages returns a page of a session's transcript: the messages after a position, oldest first, at most limit (100 by default, 1,000 at most) and at most
// [Config.PromptBytes], but at least one. The error is [agent.CodeNotFound] if the tenant does not have the session.
func (s *SessionStore) Messages(
	ctx context.Context, tenant string, id agent.SessionID, after int64, limit int,
) (page []TranscriptMessage, err error) {
	var b pgx.Batch
	queueExists(&b, unknownSession(id), sessionExists, tenant, id)
	queueRows(&b, &page, func(row pgx.CollectableRow) (m TranscriptMessage, err error) {
		err = row.Scan(&m.Position, &m.TurnID, &m.CreatedAt, &m.Message.Role, &m.Message.Blocks)
		return m, err
	}, readMessages, tenant, id, after, pageSize(limit), s.cfg.PromptBytes)
	return page, mapError("read transcript", s.send(ctx, &b))
}

const setTitle = `
UPDATE sessions SET title = $3, titled_by = $4 WHERE tenant = $1 AND session_id = $2`

// SetTitle sets or removes the title of a session, and stores who did so. The error is [agent.CodeNotFound] if the tenant does not have the session.
func (s *SessionStore) SetTitle(ctx context.Context, tenant string, id agent.SessionID, title, by string) error {
	tag, err := s.pool.Exec(ctx, setTitle, tenant, id, title, by)
	if err == nil && tag.RowsAffected() == 0 {
		err = unknownSession(id)
	}
	return mapError("set title", err)
}

const maxNoteBytes = 256 << 10

const readNote = `
SELECT body FROM session_notes WHERE tenant = $1 AND session_id = $2 AND name = $3`

const writeNote = `
INSERT INTO session_notes (tenant, session_id, name, body, updated_at)
SELECT tenant, session_id, $3, $4::json, clock_timestamp() FROM sessions WHERE tenant = $1 AND session_id = $2
ON CONFLICT (tenant, session_id, name) DO UPDATE SET body = excluded.body, updated_at = excluded.updated_at`

// Note returns the JSON document that is stored with a session under a name, or nil if there is none or no such session.
func (s *SessionStore) Note(ctx context.Context, tenant string, id agent.SessionID, name string) (json.RawMessage, error) {
	var body []byte
	err := s.pool.QueryRow(ctx, readNote, tenant, id, cleanText(name)).Scan(&body)
	return body, mapError("read note", ignoreNoRows(err))
}

// SetNote stores a JSON document with a session under a name, and replaces an earlier one. The error is [agent.CodeOverflow] for more than 256 KiB,
// [agent.CodeInvalid] if body is not JSON, and [agent.CodeNotFound] if the tenant does not have the session.
func (s *SessionStore) SetNote(ctx context.Context, tenant string, id agent.SessionID, name string, body json.RawMessage) error {
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
	SELECT turn_id FROM turns WHERE tenant = $1 AND session_id = $2 AND state NOT IN ('queued', 'running') AND copy_of = ''
)
SELECT NULL AS tool, count(*) FROM finished JOIN turn_steps s USING (turn_id) WHERE s.call_id = '' AND s.producer NOT LIKE 'answer/%'
UNION ALL
SELECT c.name, count(*) FROM finished JOIN tool_calls c USING (turn_id)
LEFT JOIN turn_steps s ON s.turn_id = c.turn_id AND s.step = c.step AND s.call_id = c.call_id
WHERE coalesce(s.verdict ->> 'refused', '') <> 'true'
GROUP BY c.name ORDER BY tool`

// CallCounts counts the model replies and, by tool, the tool calls of a session's finished turns, including calls without a result. It does not count
// replies that the runtime gave in place of a model, calls that were refused without running, and the calls of copied turns.
func (s *SessionStore) CallCounts(ctx context.Context, tenant string, id agent.SessionID) (agent.CallCounts, error) {
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

const (
	maxDatasetTurns = 50 // the turns whose datasets are read
	maxDatasets     = 50
	maxDatasetArgs  = 16 << 10 // bytes; larger arguments are left out
)

const readDatasets = `
SELECT ` + shownTurn + `, c.name, CASE WHEN octet_length(c.args::text) <= $5 THEN c.args END, c.dataset
FROM (
	SELECT turn_id, copy_of, seq FROM turns
	WHERE tenant = $1 AND session_id = $2 AND state NOT IN ('queued', 'running')
		AND seq < (SELECT seq FROM turns WHERE turn_id = $3 AND tenant = $1 AND session_id = $2)
	ORDER BY seq DESC LIMIT $6
) t JOIN tool_calls c ON c.turn_id = t.turn_id
WHERE c.dataset IS NOT NULL
ORDER BY t.seq DESC, c.created_at DESC, c.step DESC, c.call_id DESC LIMIT $4`

// Datasets returns the datasets that the last 50 finished turns of a session before one of its turns have stored, newest first, at most n and at most 50. It
// returns none for a turn of another session. Arguments over 16 KiB are left out.
func (s *SessionStore) Datasets(
	ctx context.Context, tenant string, id agent.SessionID, before agent.TurnID, n int,
) ([]agent.SessionDataset, error) {
	if n <= 0 {
		return nil, nil
	}
	found, err := queryRows(ctx, s.pool, func(row pgx.CollectableRow) (d agent.SessionDataset, err error) {
		err = row.Scan(&d.TurnID, &d.Tool, &d.Args, &d.Dataset)
		return d, err
	}, readDatasets, tenant, id, before, min(n, maxDatasets), maxDatasetArgs, maxDatasetTurns)
	return found, mapError("read datasets", err)
}
