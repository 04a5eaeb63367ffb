package postgres_test

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

func (b *bench) alter(sql string, args ...any) {
	b.t.Helper()
	_, err := b.pool.Exec(b.t.Context(), sql, args...)
	require.NoError(b.t, err)
}

func (b *bench) offer(user string) string {
	b.t.Helper()
	code := rand.Text()
	require.NoError(b.t, b.CreateLinkCode(b.t.Context(), agent.LinkCode{
		Hash: agent.HashLinkCode(code), ExpiresAt: time.Now().Add(time.Minute),
		Link: agent.Link{Chat: agent.Chat{Channel: "telegram"}, Tenant: tenant, UserID: user},
	}))
	return code
}

func TestAWrongCodeIsForgottenAfterAnHour(t *testing.T) {
	b := newBench(t, postgres.Config{})
	c := agent.Chat{Channel: "telegram", ChatID: "1"}
	for range agent.MaxLinkFailures {
		_, err := b.RedeemLink(t.Context(), c, rand.Text())
		requireCode(t, agent.CodeNotFound, err)
	}
	code := b.offer("ann")
	_, err := b.RedeemLink(t.Context(), c, code)
	requireCode(t, agent.CodeRateLimited, err)

	b.alter(`UPDATE chat_link_failures SET since = since - interval '61 minutes'`)
	_, err = b.RedeemLink(t.Context(), c, code)
	require.NoError(t, err)

	b.alter(`UPDATE chat_link_failures SET since = since - interval '61 minutes'`)
	_, err = b.RedeemLink(t.Context(), agent.Chat{Channel: "telegram", ChatID: "2"}, rand.Text())
	requireCode(t, agent.CodeNotFound, err)
	require.Equal(t, 1, b.count("chat_link_failures"), "old failures go")
}

func TestOpenCodesAreBounded(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.alter(`INSERT INTO chat_link_codes (hash, channel, tenant, user_id, role, scopes, linked_by, expires_at)
		SELECT decode(lpad(to_hex(n), 8, '0'), 'hex'), 'telegram', $1, 'u', '', '{}', '', now() + interval '1 hour'
		FROM generate_series(1, $2::int) AS n`, tenant, agent.MaxLinkCodes)
	c := agent.LinkCode{
		Hash: agent.HashLinkCode("x"), ExpiresAt: time.Now().Add(time.Minute),
		Link: agent.Link{Chat: agent.Chat{Channel: "telegram"}, Tenant: tenant, UserID: "ann"},
	}
	requireCode(t, agent.CodeRateLimited, b.CreateLinkCode(t.Context(), c))
	c.Link.Tenant = "another"
	require.NoError(t, b.CreateLinkCode(t.Context(), c))

	b.alter(`UPDATE chat_link_codes SET expires_at = now() - interval '25 hours' WHERE tenant = $1`, tenant)
	b.offer("ann")
	require.Equal(t, 2, b.count("chat_link_codes"), "old codes go")

	c.Link.UserID = ""
	requireCode(t, agent.CodeInvalid, b.CreateLinkCode(t.Context(), c))
	c.Link.UserID, c.Link.Scopes = "ann", make([]string, agent.MaxLinkScopes+1)
	requireCode(t, agent.CodeOverflow, b.CreateLinkCode(t.Context(), c))
}

func TestWhatWasOwedGoesInTime(t *testing.T) {
	b := newBench(t, postgres.Config{})
	for id, holder := range map[string]string{"settled": "me", "fresh": "me", "abandoned": "me", "watched": "me"} {
		_, err := b.OweTurn(t.Context(), agent.ChatTurn{
			Chat: agent.Chat{Channel: "telegram", ChatID: "1"}, Account: "42", TurnID: agent.TurnID(id), Tenant: tenant,
		}, holder, time.Hour)
		require.NoError(t, err)
	}
	require.NoError(t, b.AskChat(t.Context(), agent.ChatQuestion{
		Chat: agent.Chat{Channel: "telegram", ChatID: "1"}, Account: "42", MessageID: 1, TurnID: "settled", ApprovalID: "a",
	}))
	require.NoError(t, b.SettleTurn(t.Context(), "settled", "me"))
	require.NoError(t, b.SettleTurn(t.Context(), "fresh", "me"))
	b.alter(`UPDATE chat_turns SET settled_at = now() - interval '3 days', created_at = now() - interval '3 days' WHERE turn_id = 'settled'`)
	b.alter(`UPDATE chat_turns SET created_at = now() - interval '31 days', held_until = now() - interval '1 day' WHERE turn_id = 'abandoned'`)
	b.alter(`UPDATE chat_turns SET created_at = now() - interval '31 days' WHERE turn_id = 'watched'`)
	found, err := b.ClaimTurns(t.Context(), "telegram", "42", "you", time.Hour, 10)
	require.NoError(t, err)
	require.Empty(t, found)
	require.Equal(t, 2, b.count("chat_turns"), "fresh and watched stay")
	require.Zero(t, b.count("chat_questions"))
}
