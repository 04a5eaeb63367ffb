package postgres_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

func apiKey(id, tenant string) agent.APIKey {
	return agent.APIKey{
		ID: id, Tenant: tenant, Name: "key " + id, Subject: "u1", Role: "admin", Flags: map[string]any{"beta": true, "tier": "gold"},
		Scopes: []string{"turns.*", "catalog.read:Agent/*"}, CreatedAt: at(0), CreatedBy: "ops",
	}
}

// at returns a time for tests, without fractions that PostgreSQL cannot store.
func at(d time.Duration) time.Time {
	return time.Date(2026, time.March, 30, 12, 0, 0, 0, time.UTC).Add(d)
}

func TestKeysAreKept(t *testing.T) {
	b := newBench(t, postgres.Config{})
	full := apiKey("k1", tenant)
	full.ExpiresAt, full.LastUsedAt = new(at(time.Hour)), new(at(time.Minute))
	require.NoError(t, b.CreateKey(t.Context(), full, []byte{0, 1, 255}))
	bare := agent.APIKey{ID: "k2", Tenant: agent.AnyTenant, CreatedAt: at(time.Microsecond)}
	require.NoError(t, b.CreateKey(t.Context(), bare, []byte("hash")))

	got, hash, err := b.KeyByID(t.Context(), "k1")
	require.NoError(t, err)
	require.Equal(t, full, got)
	require.Equal(t, []byte{0, 1, 255}, hash)
	bare.Scopes = []string{}
	got, _, err = b.KeyByID(t.Context(), "k2")
	require.NoError(t, err)
	require.Equal(t, bare, got)

	requireCode(t, agent.CodeConflict, b.CreateKey(t.Context(), apiKey("k1", "evil"), []byte("other")))
	for _, unknown := range []string{"", "k", "k1 ", "k1\x00x", "\xff"} {
		_, _, err = b.KeyByID(t.Context(), unknown)
		requireCode(t, agent.CodeNotFound, err)
	}
	for field, broken := range map[string]agent.APIKey{
		"id": {Tenant: "t"}, "tenant": {ID: "k"}, "name": {ID: "k", Tenant: "t", Name: "\x00"}, "subject": {ID: "k", Tenant: "t", Subject: strings.Repeat("x", 1000)},
		"scopes[1].scope": {ID: "k", Tenant: "t", Scopes: []string{"", "\xff"}},
		"scopes":          {ID: "k", Tenant: "t", Scopes: make([]string, 1000)},
		"flags":           {ID: "k", Tenant: "t", Flags: map[string]any{"x": strings.Repeat("x", 20_000)}},
	} {
		requireFault(t, agent.CodeInvalid, field, b.CreateKey(t.Context(), broken, []byte("hash")))
	}
	requireCode(t, agent.CodeInvalid, b.CreateKey(t.Context(), apiKey("k3", tenant), nil))
	require.Equal(t, 2, b.count("api_keys"))
}

func TestKeysAreListedByTenant(t *testing.T) {
	b := newBench(t, postgres.Config{})
	for i := range 5 {
		require.NoError(t, b.CreateKey(t.Context(), apiKey(fmt.Sprintf("a%d", i), tenant), []byte("hash")))
		require.NoError(t, b.CreateKey(t.Context(), apiKey(fmt.Sprintf("b%d", i), "other"), []byte("hash")))
	}
	list := func(tenant, after string, limit int) (ids []string) {
		keys, err := b.ListKeys(t.Context(), tenant, after, limit)
		require.NoError(t, err)
		for _, k := range keys {
			ids = append(ids, k.ID)
		}
		return ids
	}
	require.Equal(t, []string{"a0", "a1", "a2", "a3", "a4"}, list(tenant, "", 0))
	require.Equal(t, []string{"a0", "a1"}, list(tenant, "", 2))
	require.Equal(t, []string{"a2", "a3"}, list(tenant, "a1", 2))
	require.Empty(t, list(tenant, "a4", 2))
	require.Empty(t, list("", "", 0))
	require.Equal(t, []string{"a3", "a4", "b0", "b1"}, list(agent.AnyTenant, "a2", 4))
}

func TestKeysExpire(t *testing.T) {
	b := newBench(t, postgres.Config{})
	require.NoError(t, b.CreateKey(t.Context(), apiKey("k1", tenant), []byte("hash")))
	for _, foreign := range []string{"evil", "", "acm"} {
		_, err := b.RevokeKey(t.Context(), foreign, "k1", at(0))
		requireCode(t, agent.CodeNotFound, err)
		_, err = b.ExpireKey(t.Context(), foreign, "k1", at(0), "k2")
		requireCode(t, agent.CodeNotFound, err)
	}
	_, err := b.RevokeKey(t.Context(), agent.AnyTenant, "k9", at(0))
	requireCode(t, agent.CodeNotFound, err)
	k, _, err := b.KeyByID(t.Context(), "k1")
	require.NoError(t, err)
	require.Equal(t, apiKey("k1", tenant), k, "the key has not changed")

	k, err = b.ExpireKey(t.Context(), tenant, "k1", at(time.Hour), "k2")
	require.NoError(t, err)
	require.Equal(t, at(time.Hour), *k.ExpiresAt)
	require.Equal(t, "k2", k.ReplacedBy)
	k, err = b.ExpireKey(t.Context(), agent.AnyTenant, "k1", at(2*time.Hour), "")
	require.NoError(t, err)
	require.Equal(t, at(time.Hour), *k.ExpiresAt, "an earlier expiry is kept")
	require.Equal(t, "k2", k.ReplacedBy)
	_, err = b.ExpireKey(t.Context(), tenant, "k1", at(time.Minute), "k3")
	requireCode(t, agent.CodeConflict, err)
	require.ErrorContains(t, err, `rotated before, into "k2"`)
	_, err = b.ExpireKey(t.Context(), "evil", "k1", at(time.Minute), "k3")
	requireCode(t, agent.CodeNotFound, err)
	k, err = b.ExpireKey(t.Context(), tenant, "k1", at(time.Minute), "k2")
	require.NoError(t, err, "the same replacement is accepted again")
	require.Equal(t, at(time.Minute), *k.ExpiresAt)
	require.Equal(t, "k2", k.ReplacedBy)

	k, err = b.RevokeKey(t.Context(), tenant, "k1", at(time.Second))
	require.NoError(t, err)
	require.Equal(t, at(time.Second), *k.RevokedAt)
	k, err = b.RevokeKey(t.Context(), agent.AnyTenant, "k1", at(time.Minute))
	require.NoError(t, err)
	require.Equal(t, at(time.Second), *k.RevokedAt, "the time of the first revocation is kept")
	stored, _, err := b.KeyByID(t.Context(), "k1")
	require.NoError(t, err)
	require.Equal(t, k, stored)

	require.NoError(t, b.CreateKey(t.Context(), apiKey("k4", tenant), []byte("hash")))
	_, err = b.RevokeKey(t.Context(), tenant, "k4", at(time.Second))
	require.NoError(t, err)
	_, err = b.ExpireKey(t.Context(), tenant, "k4", at(time.Hour), "k5")
	requireCode(t, agent.CodeConflict, err)
	require.ErrorContains(t, err, "was revoked")
}

// TestKeysAreReplacedOnce: of concurrent rotations of a key one succeeds, and the others get an error.
func TestKeysAreReplacedOnce(t *testing.T) {
	b := newBench(t, postgres.Config{})
	for round := range 10 {
		old := fmt.Sprint("old", round)
		require.NoError(t, b.CreateKey(t.Context(), apiKey(old, tenant), []byte("hash")))
		won := []string{}
		for i, err := range atOnce(8, func(i int) error {
			_, err := b.ExpireKey(t.Context(), tenant, old, at(time.Hour), fmt.Sprint("new", i))
			return err
		}) {
			if err == nil {
				won = append(won, fmt.Sprint("new", i))
				continue
			}
			requireCode(t, agent.CodeConflict, err)
		}
		require.Len(t, won, 1)
		k, _, err := b.KeyByID(t.Context(), old)
		require.NoError(t, err)
		require.Equal(t, won[0], k.ReplacedBy)
	}
}

func TestKeysAreTouched(t *testing.T) {
	b := newBench(t, postgres.Config{})
	const keys = 300
	dsn := b.pool.Config().ConnString()
	for _, plan := range []string{"enable_hashjoin=off", "enable_mergejoin=off", "enable_seqscan=off"} { // the plans of a very large table
		dsn = addParameter(dsn, plan)
	}
	pool, err := postgres.Open(t.Context(), postgres.Config{URL: dsn})
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	store := postgres.NewStore(pool, postgres.Config{})
	used := map[string]time.Time{"unknown": at(0), "\x00\xff": at(0)}
	for i := range keys {
		id := fmt.Sprintf("k%03d", i)
		require.NoError(t, b.CreateKey(t.Context(), apiKey(id, tenant), []byte("hash")))
		used[id] = at(time.Duration(i) * time.Second)
	}
	require.NoError(t, errors.Join(atOnce(8, func(i int) error { // in any order of the maps
		for round := range 10 {
			later := map[string]time.Time{}
			for id, when := range used {
				later[id] = when.Add(time.Duration(8*round+i) * time.Millisecond)
			}
			if err := store.TouchKeys(t.Context(), later); err != nil {
				return err
			}
		}
		return nil
	})...))
	require.NoError(t, b.TouchKeys(t.Context(), map[string]time.Time{"k007": at(0), "k008": at(time.Hour)}))
	require.NoError(t, b.TouchKeys(t.Context(), nil))
	all, err := b.ListKeys(t.Context(), tenant, "", keys+1)
	require.NoError(t, err)
	require.Len(t, all, keys)
	for i, k := range all {
		want := at(time.Duration(i)*time.Second + 79*time.Millisecond)
		if k.ID == "k008" {
			want = at(time.Hour)
		}
		require.Equal(t, want, *k.LastUsedAt, "times only increase")
	}
}

func TestAWrongCodeIsForgottenAfterAnHour(t *testing.T) {
	b := newBench(t, postgres.Config{})
	c := agent.Chat{Channel: "telegram", ChatID: "1"}
	for range agent.MaxLinkFailures {
		_, err := b.RedeemLink(t.Context(), c, rand.Text())
		requireCode(t, agent.CodeNotFound, err)
	}
	code := offerCode(t, b, tenant, "ann", time.Minute)
	_, err := b.RedeemLink(t.Context(), c, code)
	requireCode(t, agent.CodeRateLimited, err)

	b.exec(`UPDATE chat_link_failures SET since = since - interval '61 minutes'`)
	_, err = b.RedeemLink(t.Context(), c, code)
	require.NoError(t, err)

	b.exec(`UPDATE chat_link_failures SET since = since - interval '61 minutes'`)
	_, err = b.RedeemLink(t.Context(), agent.Chat{Channel: "telegram", ChatID: "2"}, rand.Text())
	requireCode(t, agent.CodeNotFound, err)
	require.Equal(t, 1, b.count("chat_link_failures"), "old failures are removed")
}

func TestOpenCodesAreBounded(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.exec(`INSERT INTO chat_link_codes (hash, channel, tenant, user_id, role, scopes, linked_by, expires_at)
		SELECT decode(lpad(to_hex(n), 8, '0'), 'hex'), 'telegram', $1, 'u', '', '{}', '', now() + interval '1 hour'
		FROM generate_series(1, $2::int) AS n`, tenant, agent.MaxLinkCodes)
	c := agent.LinkCode{
		Hash: agent.HashLinkCode("x"), ExpiresAt: time.Now().Add(time.Minute),
		Link: agent.Link{Chat: agent.Chat{Channel: "telegram"}, Tenant: tenant, UserID: "ann"},
	}
	requireCode(t, agent.CodeRateLimited, b.CreateLinkCode(t.Context(), c))
	c.Link.Tenant = "another"
	require.NoError(t, b.CreateLinkCode(t.Context(), c))

	b.exec(`UPDATE chat_link_codes SET expires_at = now() - interval '25 hours' WHERE tenant = $1`, tenant)
	offerCode(t, b, tenant, "ann", time.Minute)
	require.Equal(t, 2, b.count("chat_link_codes"), "old codes are removed")

	c.Link.UserID = ""
	requireCode(t, agent.CodeInvalid, b.CreateLinkCode(t.Context(), c))
	c.Link.UserID, c.Link.Scopes = "ann", make([]string, agent.MaxLinkScopes+1)
	requireCode(t, agent.CodeOverflow, b.CreateLinkCode(t.Context(), c))
}

func TestOldChatTurnsAreRemoved(t *testing.T) {
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
	b.exec(`UPDATE chat_turns SET settled_at = now() - interval '3 days', created_at = now() - interval '3 days' WHERE turn_id = 'settled'`)
	b.exec(`UPDATE chat_turns SET created_at = now() - interval '31 days', held_until = now() - interval '1 day' WHERE turn_id = 'abandoned'`)
	b.exec(`UPDATE chat_turns SET created_at = now() - interval '31 days' WHERE turn_id = 'watched'`)
	found, err := b.ClaimTurns(t.Context(), "telegram", "42", "you", time.Hour, 10)
	require.NoError(t, err)
	require.Empty(t, found)
	require.Equal(t, 2, b.count("chat_turns"), "fresh and watched stay")
	require.Zero(t, b.count("chat_questions"))
}
