package telegram

import (
	"context"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// Store is what the channel has to remember. Errors carry an [agent.Code], [agent.CodeUnavailable] for what is worth trying again.
type Store interface {
	// ChatLink returns the link of a chat; [agent.CodeNotFound] when it has none.
	ChatLink(ctx context.Context, c agent.Chat) (agent.Link, error)
	// RedeemLink links a chat with what a code offers, in place of an earlier link. The chat that used a code may say it again. A wrong code is
	// [agent.CodeNotFound] with [agent.ErrLinkCode]; more than [agent.MaxLinkFailures] of them within [agent.LinkWindow] are
	// [agent.CodeRateLimited], as is then every code.
	RedeemLink(ctx context.Context, c agent.Chat, code string) (agent.Link, error)
	// Unlink takes a link of a tenant away and puts the chat into another conversation; [agent.CodeNotFound] when there is none.
	Unlink(ctx context.Context, tenant string, c agent.Chat) error
	// Links lists links; a page holds 50 unless it is told otherwise, and never more than 500.
	Links(ctx context.Context, q agent.LinkQuery) (agent.LinkPage, error)

	// ChatThread says in which conversation a chat is; 0 until it was told.
	ChatThread(ctx context.Context, c agent.Chat) (int64, error)
	// SetChatThread begins a conversation, unless the chat is in a later one.
	SetChatThread(ctx context.Context, c agent.Chat, thread int64) error

	// OweTurn records that a chat is owed the answer of a turn, held by a process for as long as lease, or by nobody (holder ""). fresh is false when
	// that is on record already, settled or not.
	OweTurn(ctx context.Context, t agent.ChatTurn, holder string, lease time.Duration) (fresh bool, err error)
	// ClaimTurns takes hold of turns of an account that are owed and that nobody holds, oldest first.
	ClaimTurns(ctx context.Context, channel, account, holder string, lease time.Duration, limit int) ([]agent.ChatTurn, error)
	// SaveTurn keeps how far the answer was shown, and the hold for another lease. held is false when somebody else has it, or it is settled: then
	// nothing is kept. A lease of 0 lets go.
	SaveTurn(ctx context.Context, t *agent.ChatTurn, holder string, lease time.Duration) (held bool, err error)
	// SettleTurn records that nothing is owed any more, unless somebody else holds the turn.
	SettleTurn(ctx context.Context, id agent.TurnID, holder string) error
	// OwedTurns lists the turns that a chat is owed, oldest first, at most 100.
	OwedTurns(ctx context.Context, account string, c agent.Chat) ([]agent.ChatTurn, error)

	// AskChat records a message that puts an approval of an owed turn to a chat.
	AskChat(ctx context.Context, q agent.ChatQuestion) error
	// ChatQuestion returns what a message asked; [agent.CodeNotFound] when it asked nothing.
	ChatQuestion(ctx context.Context, account string, c agent.Chat, message int64) (agent.ChatQuestion, error)
	// TurnQuestions lists the messages that put approvals of a turn to chats, at most 1,000.
	TurnQuestions(ctx context.Context, id agent.TurnID) ([]agent.ChatQuestion, error)
}
