package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// optional forgives a query that found nothing.
func optional(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	return err
}

// encoded is messages on their way to the transcript, column by column.
type encoded struct {
	roles  []string
	blocks []string
}

func encodeMessages(messages []agent.Message) (encoded, error) {
	e := encoded{roles: []string{}, blocks: []string{}} // NULL is not an empty array
	for _, m := range messages {
		b, err := encode(m.Blocks)
		if err != nil {
			return encoded{}, err
		}
		e.roles = append(e.roles, string(m.Role))
		e.blocks = append(e.blocks, string(b))
	}
	return e, nil
}

const appendMessages = `
INSERT INTO messages (tenant, session_id, turn_id, position, role, blocks, size)
SELECT $1, $2, $3, $4::bigint + m.n, m.role, m.blocks::json, octet_length(m.blocks)
FROM unnest($5::text[], $6::text[]) WITH ORDINALITY AS m (role, blocks, n)`

// queue queues the append behind the position last.
func (e encoded) queue(b *pgx.Batch, tenant string, session agent.SessionID, turn agent.TurnID, last int64) {
	if len(e.roles) > 0 {
		b.Queue(appendMessages, tenant, session, turn, last, e.roles, e.blocks)
	}
}

// TranscriptMessage is one message of a session with its place.
type TranscriptMessage struct {
	Position  int64 // contiguous from 1 within the session
	TurnID    agent.TurnID
	CreatedAt time.Time
	Message   agent.Message
}

const (
	defaultPage = 100
	maxPage     = 1000
)

func pageSize(limit int) int {
	if limit <= 0 {
		return defaultPage
	}
	return min(limit, maxPage)
}

const sessionExists = `
SELECT FROM sessions WHERE tenant = $1 AND session_id = $2`

const readMessages = `
SELECT position, turn_id, created_at, role, blocks FROM (
	SELECT *, sum(size) OVER (ORDER BY position ROWS UNBOUNDED PRECEDING) AS total, row_number() OVER (ORDER BY position) AS n
	FROM messages WHERE tenant = $1 AND session_id = $2 AND position > $3
	ORDER BY position LIMIT $4
) m WHERE n = 1 OR total <= $5 ORDER BY position`

// Messages returns a page of a session's transcript: those behind the position after, oldest first, at most limit (100 by default,
// 1,000 at most) and at most as many bytes as a prompt may have, yet at least one while there is one. A session that the tenant
// does not have is [agent.CodeNotFound].
func (s *Store) Messages(ctx context.Context, tenant string, id agent.SessionID, after int64, limit int) ([]TranscriptMessage, error) {
	var (
		b    pgx.Batch
		page []TranscriptMessage
	)
	b.Queue(sessionExists, tenant, id).QueryRow(func(row pgx.Row) error { return knownSession(row, id) })
	b.Queue(readMessages, tenant, id, after, pageSize(limit), s.cfg.PromptBytes).Query(func(rows pgx.Rows) (err error) {
		page, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (m TranscriptMessage, err error) {
			err = row.Scan(&m.Position, &m.TurnID, &m.CreatedAt, &m.Message.Role, &m.Message.Blocks)
			return m, err
		})
		return err
	})
	if err := s.pool.SendBatch(ctx, &b).Close(); err != nil {
		return nil, mapError("read transcript", err)
	}
	return page, nil
}

func knownSession(row pgx.Row, id agent.SessionID) error {
	err := row.Scan()
	if errors.Is(err, pgx.ErrNoRows) {
		return unknownSession(id)
	}
	return err
}
