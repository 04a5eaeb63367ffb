package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// ChatStore stores the current conversation of each chat, the answers that chats still wait for, and the questions that chats were asked.
type ChatStore struct{ *database }

const (
	maxOwedTurns     = 100
	maxTurnQuestions = 1000
	keepSettled      = 2 * 24 * time.Hour  // longer than a channel takes to redeliver a message
	keepOwed         = 30 * 24 * time.Hour // the turn may wait for a person
)

// ChatThread returns the number of the chat's current conversation, or 0 if none is stored.
func (s *ChatStore) ChatThread(ctx context.Context, c agent.Chat) (thread int64, err error) {
	err = s.pool.QueryRow(ctx, `SELECT thread FROM chat_threads WHERE channel = $1 AND chat_id = $2`, c.Channel, c.ChatID).Scan(&thread)
	return thread, mapError("read chat", ignoreNoRows(err))
}

const putThread = `
INSERT INTO chat_threads (channel, chat_id, thread) VALUES ($1, $2, $3)
ON CONFLICT (channel, chat_id) DO UPDATE SET thread = greatest(chat_threads.thread, excluded.thread)`

// SetChatThread sets the chat's current conversation, unless it is already in a later one.
func (s *ChatStore) SetChatThread(ctx context.Context, c agent.Chat, thread int64) error {
	_, err := s.pool.Exec(ctx, putThread, c.Channel, c.ChatID, thread)
	return mapError("begin conversation", err)
}

const chatTurnColumns = `channel, account, chat_id, turn_id, tenant, user_id, messages, after_index AS after, created_at`

const oweTurn = `
INSERT INTO chat_turns (channel, account, chat_id, turn_id, tenant, user_id, messages, after_index, holder, held_until, created_at)
VALUES ($1, $2, $3, $4, $5, $6, '{}', 0, $7, clock_timestamp() + $8::interval, clock_timestamp())
ON CONFLICT DO NOTHING`

// OweTurn records that a chat waits for the answer of a turn. If holder is not empty, that process holds the turn for the duration lease.
// isNew is false if OweTurn was called for the turn before, even if it has been settled since.
func (s *ChatStore) OweTurn(ctx context.Context, t agent.ChatTurn, holder string, lease time.Duration) (isNew bool, err error) {
	if holder == "" {
		lease = 0
	}
	tag, err := s.pool.Exec(ctx, oweTurn, t.Channel, t.Account, t.ChatID, t.TurnID, t.Tenant, cleanText(t.UserID), holder, lease)
	return tag.RowsAffected() == 1, mapError("owe answer", err)
}

const sweepChatTurns = `
DELETE FROM chat_turns WHERE turn_id IN (
	SELECT turn_id FROM chat_turns
	WHERE created_at < clock_timestamp() - $1::interval
		AND (settled_at < clock_timestamp() - $1::interval OR (created_at < clock_timestamp() - $2::interval AND held_until < clock_timestamp()))
	ORDER BY created_at LIMIT $3 FOR UPDATE SKIP LOCKED)`

const claimTurns = `
WITH claimed AS (
	UPDATE chat_turns SET holder = $3, held_until = clock_timestamp() + $4::interval
	WHERE turn_id IN (
		SELECT turn_id FROM chat_turns
		WHERE channel = $1 AND account = $2 AND settled_at IS NULL AND held_until < clock_timestamp()
		ORDER BY created_at, turn_id LIMIT $5 FOR UPDATE SKIP LOCKED)
	RETURNING ` + chatTurnColumns + `
) SELECT * FROM claimed ORDER BY created_at, turn_id`

// ClaimTurns makes a process the holder of unsettled turns of an account that no process holds, oldest first, and returns them. It also
// removes turns that were settled two days ago, and those without an answer for 30 days.
func (s *ChatStore) ClaimTurns(ctx context.Context, channel, account, holder string, lease time.Duration, limit int) ([]agent.ChatTurn, error) {
	const op = "claim answers"
	if _, err := s.pool.Exec(ctx, sweepChatTurns, keepSettled, keepOwed, sweepRows); err != nil {
		return nil, mapError(op, err)
	}
	found, err := queryRows(ctx, s.pool, pgx.RowToStructByName[agent.ChatTurn], claimTurns, channel, account, holder, lease, limit)
	return found, mapError(op, err)
}

const saveTurn = `
UPDATE chat_turns SET messages = $3, after_index = greatest(after_index, $4), held_until = clock_timestamp() + $5::interval,
	holder = CASE WHEN $5::interval > interval '0' THEN holder ELSE '' END
WHERE turn_id = $1 AND holder = $2 AND settled_at IS NULL`

// SaveTurn stores how much of an answer was shown, and extends the holder's lease; a lease of 0 releases the turn. If the turn is settled or
// another process holds it, SaveTurn stores nothing and held is false.
func (s *ChatStore) SaveTurn(ctx context.Context, t *agent.ChatTurn, holder string, lease time.Duration) (held bool, err error) {
	tag, err := s.pool.Exec(ctx, saveTurn, t.TurnID, holder, append([]int64{}, t.Messages...), t.After, lease)
	return tag.RowsAffected() == 1, mapError("keep answer", err)
}

const settleTurn = `
UPDATE chat_turns SET settled_at = clock_timestamp(), holder = '' WHERE turn_id = $1 AND holder = $2 AND settled_at IS NULL`

// SettleTurn records that the chat has its answer, unless another process holds the turn.
func (s *ChatStore) SettleTurn(ctx context.Context, id agent.TurnID, holder string) error {
	_, err := s.pool.Exec(ctx, settleTurn, id, holder)
	return mapError("settle answer", err)
}

const readOwed = `
SELECT ` + chatTurnColumns + ` FROM chat_turns
WHERE channel = $1 AND account = $2 AND chat_id = $3 AND settled_at IS NULL
ORDER BY created_at, turn_id LIMIT $4`

// OwedTurns lists the turns whose answers a chat waits for, oldest first, at most 100.
func (s *ChatStore) OwedTurns(ctx context.Context, account string, c agent.Chat) ([]agent.ChatTurn, error) {
	found, err := queryRows(ctx, s.pool, pgx.RowToStructByName[agent.ChatTurn], readOwed, c.Channel, account, c.ChatID, maxOwedTurns)
	return found, mapError("list answers", err)
}

const askChat = `
INSERT INTO chat_questions (channel, account, chat_id, message_id, turn_id, approval_id, tool, allowed)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING`

// AskChat records a message that asks a chat for an approval of one of its turns. The error is [agent.CodeNotFound] if the turn was not
// recorded by [ChatStore.OweTurn].
func (s *ChatStore) AskChat(ctx context.Context, q agent.ChatQuestion) error {
	_, err := s.pool.Exec(ctx, askChat, q.Channel, q.Account, q.ChatID, q.MessageID, q.TurnID, cleanText(q.ApprovalID), cleanText(q.Tool),
		append([]agent.DecisionKind{}, q.Allowed...))
	return mapError("ask chat", err)
}

const readQuestions = `
SELECT q.channel, q.account, q.chat_id, q.message_id, q.turn_id, q.approval_id, q.tool, nullif(q.allowed, '{}') AS allowed, t.chat_id AS owner,
	t.tenant, t.user_id
FROM chat_questions q JOIN chat_turns t ON t.turn_id = q.turn_id `

// ChatQuestion returns the question in a message. The error is [agent.CodeNotFound] if the message has none.
func (s *ChatStore) ChatQuestion(ctx context.Context, account string, c agent.Chat, message int64) (agent.ChatQuestion, error) {
	q, err := queryRow(ctx, s.pool, nil, pgx.RowToStructByName[agent.ChatQuestion],
		readQuestions+`WHERE q.channel = $1 AND q.account = $2 AND q.chat_id = $3 AND q.message_id = $4`, c.Channel, account, c.ChatID, message)
	return q, mapError("read question", err)
}

// TurnQuestions lists the messages that ask chats for approvals of a turn, at most 1,000.
func (s *ChatStore) TurnQuestions(ctx context.Context, id agent.TurnID) ([]agent.ChatQuestion, error) {
	found, err := queryRows(ctx, s.pool, pgx.RowToStructByName[agent.ChatQuestion],
		readQuestions+`WHERE q.turn_id = $1 ORDER BY q.channel, q.account, q.chat_id, q.message_id LIMIT $2`, id, maxTurnQuestions)
	return found, mapError("list questions", err)
}
