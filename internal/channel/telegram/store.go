package telegram

import (
	"context"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// Store stores the state of the channel. Its errors have an [agent.Code]: [agent.CodeUnavailable] if a retry may help.
type Store interface {
	// ChatLink returns the link of a chat to a user. The error is [agent.CodeNotFound] if the chat is not linked.
	ChatLink(ctx context.Context, c agent.Chat) (agent.Link, error)
	// RedeemLink links a chat to the user of a code and replaces an earlier link. The chat that used a code may use it again. The error for an
	// unknown code is [agent.CodeNotFound] with [agent.ErrLinkCode]. After [agent.MaxLinkFailures] such codes within [agent.LinkWindow], it is
	// [agent.CodeRateLimited] for every code.
	RedeemLink(ctx context.Context, c agent.Chat, code string) (agent.Link, error)
	// Unlink deletes the link of a chat and begins a new conversation. The error is [agent.CodeNotFound] if the tenant has no such link.
	Unlink(ctx context.Context, tenant string, c agent.Chat) error
	// Links lists links: 50 a page by default, at most 500.
	Links(ctx context.Context, q agent.LinkQuery) (agent.LinkPage, error)

	// ChatThread returns the number of a chat's current conversation, or 0 if none was set.
	ChatThread(ctx context.Context, c agent.Chat) (int64, error)
	// SetChatThread sets a chat's current conversation, unless the chat is in a later one.
	SetChatThread(ctx context.Context, c agent.Chat, thread int64) error

	// OweTurn records that a chat is owed the answer of a turn. The holder shows it under a lease; "" means that no process holds it yet. isNew is
	// false if the turn was recorded before.
	OweTurn(ctx context.Context, t agent.ChatTurn, holder string, lease time.Duration) (isNew bool, err error)
	// ClaimTurns gives the holder a lease of up to limit owed turns of an account whose lease is free or has expired, oldest first.
	ClaimTurns(ctx context.Context, channel, account, holder string, lease time.Duration, limit int) ([]agent.ChatTurn, error)
	// SaveTurn stores how much of an answer the chat shows, and renews the lease; a lease of 0 releases it. isHeld is false if another holder has
	// the turn or the turn is settled. Then nothing is stored.
	SaveTurn(ctx context.Context, t *agent.ChatTurn, holder string, lease time.Duration) (isHeld bool, err error)
	// SettleTurn records that the answer is no longer owed, unless another holder has the turn.
	SettleTurn(ctx context.Context, id agent.TurnID, holder string) error
	// OwedTurns lists the turns that a chat is owed, oldest first, at most 100.
	OwedTurns(ctx context.Context, account string, c agent.Chat) ([]agent.ChatTurn, error)

	// AskChat records a message that asks a chat for an approval of an owed turn.
	AskChat(ctx context.Context, q agent.ChatQuestion) error
	// ChatQuestion returns the question that a message asks. The error is [agent.CodeNotFound] if it asks none.
	ChatQuestion(ctx context.Context, account string, c agent.Chat, message int64) (agent.ChatQuestion, error)
	// TurnQuestions lists the messages that ask for approvals of a turn, at most 1,000.
	TurnQuestions(ctx context.Context, id agent.TurnID) ([]agent.ChatQuestion, error)
}
