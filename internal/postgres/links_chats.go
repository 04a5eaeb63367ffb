package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// Bounds of what chats are owed.
const (
	maxOwedShown     = 100
	maxTurnQuestions = 1000
	keepSettled      = 2 * 24 * time.Hour  // longer than a channel brings anything again
	keepOwed         = 30 * 24 * time.Hour // a person may take his time
)

// ChatThread says in which conversation a chat is; 0 until it was told.
func (s *Store) ChatThread(ctx context.Context, c agent.Chat) (int64, error) {
	var thread int64
	err := s.pool.QueryRow(ctx, `SELECT thread FROM chat_threads WHERE channel = $1 AND chat_id = $2`, c.Channel, c.ChatID).Scan(&thread)
	if err != nil && codeOf(err) == agent.CodeNotFound {
		return 0, nil
	}
	return thread, mapError("read chat", err)
}

const putThread = `
INSERT INTO chat_threads (channel, chat_id, thread) VALUES ($1, $2, $3)
ON CONFLICT (channel, chat_id) DO UPDATE SET thread = greatest(chat_threads.thread, excluded.thread)`

// SetChatThread begins a conversation, unless the chat is in a later one.
func (s *Store) SetChatThread(ctx context.Context, c agent.Chat, thread int64) error {
	_, err := s.pool.Exec(ctx, putThread, c.Channel, c.ChatID, thread)
	return mapError("begin conversation", err)
}

const chatTurnColumns = `channel, account, chat_id, turn_id, tenant, user_id, messages, after_index, created_at`

func scanChatTurn(row pgx.CollectableRow) (t agent.ChatTurn, err error) {
	err = row.Scan(&t.Channel, &t.Account, &t.ChatID, &t.TurnID, &t.Tenant, &t.UserID, &t.Messages, &t.After, &t.CreatedAt)
	inUTC(&t.CreatedAt)
	return t, err
}

const oweTurn = `
INSERT INTO chat_turns (channel, account, chat_id, turn_id, tenant, user_id, messages, after_index, holder, held_until, created_at)
VALUES ($1, $2, $3, $4, $5, $6, '{}', 0, $7, clock_timestamp() + $8::interval, clock_timestamp())
ON CONFLICT DO NOTHING`

// OweTurn records that a chat is owed the answer of a turn, held by a process for as long as lease, or by nobody (holder ""). fresh is
// false when that is on record already, settled or not.
func (s *Store) OweTurn(ctx context.Context, t agent.ChatTurn, holder string, lease time.Duration) (fresh bool, err error) {
	if holder == "" {
		lease = 0
	}
	tag, err := s.pool.Exec(ctx, oweTurn, t.Channel, t.Account, t.ChatID, t.TurnID, t.Tenant, plain(t.UserID), holder, lease)
	return tag.RowsAffected() == 1, mapError("owe answer", err)
}

const sweepChatTurns = `
DELETE FROM chat_turns WHERE turn_id IN (
	SELECT turn_id FROM chat_turns
	WHERE created_at < clock_timestamp() - $1::interval
		AND (settled_at < clock_timestamp() - $1::interval OR (created_at < clock_timestamp() - $2::interval AND held_until < clock_timestamp()))
	ORDER BY created_at LIMIT $3 FOR UPDATE SKIP LOCKED)`

const claimTurns = `
UPDATE chat_turns SET holder = $3, held_until = clock_timestamp() + $4::interval
WHERE turn_id IN (
	SELECT turn_id FROM chat_turns
	WHERE channel = $1 AND account = $2 AND settled_at IS NULL AND held_until < clock_timestamp()
	ORDER BY created_at, turn_id LIMIT $5 FOR UPDATE SKIP LOCKED)
RETURNING ` + chatTurnColumns

const ordered = `WITH t AS (` + claimTurns + `) SELECT * FROM t ORDER BY created_at, turn_id`

// ClaimTurns takes hold of turns of an account that are owed and that nobody holds, oldest first. It also forgets those that were settled
// two days ago, and those that nobody has answered for 30.
func (s *Store) ClaimTurns(ctx context.Context, channel, account, holder string, lease time.Duration, limit int) ([]agent.ChatTurn, error) {
	const op = "claim answers"
	if _, err := s.pool.Exec(ctx, sweepChatTurns, keepSettled, keepOwed, sweepRows); err != nil {
		return nil, mapError(op, err)
	}
	rows, err := s.pool.Query(ctx, ordered, channel, account, holder, lease, limit)
	if err != nil {
		return nil, mapError(op, err)
	}
	found, err := pgx.CollectRows(rows, scanChatTurn)
	return found, mapError(op, err)
}

const saveTurn = `
UPDATE chat_turns SET messages = $3, after_index = greatest(after_index, $4), held_until = clock_timestamp() + $5::interval,
	holder = CASE WHEN $5::interval > interval '0' THEN holder ELSE '' END
WHERE turn_id = $1 AND holder = $2 AND settled_at IS NULL`

// SaveTurn keeps how far an answer was shown, and the hold for another lease. held is false when somebody else has it, or it is settled:
// then nothing is kept. A lease of 0 lets go.
func (s *Store) SaveTurn(ctx context.Context, t *agent.ChatTurn, holder string, lease time.Duration) (held bool, err error) {
	messages := t.Messages
	if messages == nil {
		messages = []int64{}
	}
	tag, err := s.pool.Exec(ctx, saveTurn, t.TurnID, holder, messages, t.After, lease)
	return tag.RowsAffected() == 1, mapError("keep answer", err)
}

// SettleTurn records that nothing is owed any more, unless somebody else holds the turn.
func (s *Store) SettleTurn(ctx context.Context, id agent.TurnID, holder string) error {
	_, err := s.pool.Exec(ctx, `UPDATE chat_turns SET settled_at = clock_timestamp(), holder = '' WHERE turn_id = $1 AND holder = $2 AND settled_at IS NULL`,
		id, holder)
	return mapError("settle answer", err)
}

const readOwed = `
SELECT ` + chatTurnColumns + ` FROM chat_turns
WHERE channel = $1 AND account = $2 AND chat_id = $3 AND settled_at IS NULL
ORDER BY created_at, turn_id LIMIT $4`

// OwedTurns lists the turns that a chat is owed, oldest first, at most 100.
func (s *Store) OwedTurns(ctx context.Context, account string, c agent.Chat) ([]agent.ChatTurn, error) {
	rows, err := s.pool.Query(ctx, readOwed, c.Channel, account, c.ChatID, maxOwedShown)
	if err != nil {
		return nil, mapError("list answers", err)
	}
	found, err := pgx.CollectRows(rows, scanChatTurn)
	return found, mapError("list answers", err)
}

const askChat = `
INSERT INTO chat_questions (channel, account, chat_id, message_id, turn_id, approval_id, tool, allowed)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING`

// AskChat records a message that puts an approval of an owed turn to a chat; [agent.CodeNotFound] when the turn is not on record.
func (s *Store) AskChat(ctx context.Context, q agent.ChatQuestion) error {
	allowed := make([]string, len(q.Allowed))
	for i, kind := range q.Allowed {
		allowed[i] = string(kind)
	}
	_, err := s.pool.Exec(ctx, askChat, q.Channel, q.Account, q.ChatID, q.MessageID, q.TurnID, plain(q.ApprovalID), plain(q.Tool), allowed)
	return mapError("ask chat", err)
}

const questionColumns = `q.channel, q.account, q.chat_id, q.message_id, q.turn_id, q.approval_id, q.tool, q.allowed, t.chat_id, t.tenant, t.user_id
FROM chat_questions q JOIN chat_turns t ON t.turn_id = q.turn_id`

func scanQuestion(row pgx.CollectableRow) (q agent.ChatQuestion, err error) {
	var allowed []string
	err = row.Scan(&q.Channel, &q.Account, &q.ChatID, &q.MessageID, &q.TurnID, &q.ApprovalID, &q.Tool, &allowed, &q.Owner, &q.Tenant, &q.UserID)
	for _, kind := range allowed {
		q.Allowed = append(q.Allowed, agent.DecisionKind(kind))
	}
	return q, err
}

// ChatQuestion returns what a message asked; [agent.CodeNotFound] when it asked nothing.
func (s *Store) ChatQuestion(ctx context.Context, account string, c agent.Chat, message int64) (agent.ChatQuestion, error) {
	const op = "read question"
	rows, err := s.pool.Query(ctx, `SELECT `+questionColumns+` WHERE q.channel = $1 AND q.account = $2 AND q.chat_id = $3 AND q.message_id = $4`,
		c.Channel, account, c.ChatID, message)
	if err != nil {
		return agent.ChatQuestion{}, mapError(op, err)
	}
	q, err := pgx.CollectExactlyOneRow(rows, scanQuestion)
	return q, mapError(op, err)
}

// TurnQuestions lists the messages that put approvals of a turn to chats, at most 1,000.
func (s *Store) TurnQuestions(ctx context.Context, id agent.TurnID) ([]agent.ChatQuestion, error) {
	const op = "list questions"
	rows, err := s.pool.Query(ctx, `SELECT `+questionColumns+` WHERE q.turn_id = $1 ORDER BY q.channel, q.account, q.chat_id, q.message_id LIMIT $2`,
		id, maxTurnQuestions)
	if err != nil {
		return nil, mapError(op, err)
	}
	found, err := pgx.CollectRows(rows, scanQuestion)
	return found, mapError(op, err)
}
