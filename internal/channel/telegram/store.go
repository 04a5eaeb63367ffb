package telegram

import (
	"context"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// Store stores the state of the channel. Its errors have an [agent.Code]: [agent.CodeUnavailable] if a retry may help.
type Store interface {
	LinkStore
	ThreadStore
	OwedTurnStore
	QuestionStore
}

// LinkStore stores which user a chat is linked to.
type LinkStore interface {
	// ChatLink returns the link of a chat; [agent.CodeNotFound] when it has none.
	ChatLink(ctx context.Context, c agent.Chat) (agent.Link, error)
	// RedeemLink links a chat by a code, in place of an earlier link. The chat that used a code may use it again. A wrong code is
	// [agent.CodeNotFound] with [agent.ErrLinkCode]. After [agent.MaxLinkFailures] of them within [agent.LinkWindow], every code is
	// [agent.CodeRateLimited].
	RedeemLink(ctx context.Context, c agent.Chat, code string) (agent.Link, error)
	// Unlink deletes a link of a tenant and moves the chat to another conversation; [agent.CodeNotFound] when there is none.
	Unlink(ctx context.Context, tenant string, c agent.Chat) error
	// Links lists links; a page holds 50 unless it is told otherwise, and never more than 500.
	Links(ctx context.Context, q agent.LinkQuery) (agent.LinkPage, error)
}

// ThreadStore stores which conversation a chat is in.
type ThreadStore interface {
	// ChatThread returns the conversation of a chat; 0 until it is set.
	ChatThread(ctx context.Context, c agent.Chat) (int64, error)
	// SetChatThread sets the conversation of a chat, unless it is in a later one.
	SetChatThread(ctx context.Context, c agent.Chat, thread int64) error
}

// OwedTurnStore stores which turns' answers a chat is owed, and how much of them it has seen.
type OwedTurnStore interface {
	// OweTurn records that a chat is owed the answer of a turn, which holder shows under a lease; "" for nobody. fresh is false if that was recorded
	// before.
	OweTurn(ctx context.Context, t agent.ChatTurn, holder string, lease time.Duration) (fresh bool, err error)
	// ClaimTurns takes the leases of an account's owed turns that nobody holds, oldest first.
	ClaimTurns(ctx context.Context, channel, account, holder string, lease time.Duration, limit int) ([]agent.ChatTurn, error)
	// SaveTurn stores how far the answer was shown, and renews the lease; a lease of 0 ends it. held is false if another holder has it, or the turn
	// is settled: then nothing is stored.
	SaveTurn(ctx context.Context, t *agent.ChatTurn, holder string, lease time.Duration) (held bool, err error)
	// SettleTurn records that nothing is owed any more, unless somebody else holds the turn.
	SettleTurn(ctx context.Context, id agent.TurnID, holder string) error
	// OwedTurns lists the turns that a chat is owed, oldest first, at most 100.
	OwedTurns(ctx context.Context, account string, c agent.Chat) ([]agent.ChatTurn, error)
}

// QuestionStore stores which message asks for which approval.
type QuestionStore interface {
	// AskChat records a message that asks a chat for an approval of an owed turn.
	AskChat(ctx context.Context, q agent.ChatQuestion) error
	// ChatQuestion returns the question of a message; [agent.CodeNotFound] when it asked nothing.
	ChatQuestion(ctx context.Context, account string, c agent.Chat, message int64) (agent.ChatQuestion, error)
	// TurnQuestions lists the messages that ask chats for approvals of a turn, at most 1,000.
	TurnQuestions(ctx context.Context, id agent.TurnID) ([]agent.ChatQuestion, error)
}
