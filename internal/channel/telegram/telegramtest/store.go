package telegramtest

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
	"github.com/turnstone-run/turnstone/internal/postgres/postgrestest"
)

// Store is the channel's store on a database for one test.
type Store struct {
	*postgres.Store

	t    testing.TB
	pool *pgxpool.Pool
}

// NewStore returns an empty store.
func NewStore(t testing.TB) *Store {
	t.Helper()
	config := postgres.Config{URL: postgrestest.New(t)}
	pool, err := postgres.Open(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return &Store{Store: postgres.NewStore(pool, config), t: t, pool: pool}
}

// Code creates a code that links a chat to a user, and returns it.
func (s *Store) Code(tenant, user, role string, lifetime time.Duration, scopes ...string) string {
	s.t.Helper()
	code := rand.Text()
	require.NoError(s.t, s.CreateLinkCode(s.t.Context(), agent.LinkCode{
		Hash: agent.HashLinkCode(code), ExpiresAt: time.Now().Add(lifetime),
		Link: agent.Link{Chat: agent.Chat{Channel: "telegram"}, Tenant: tenant, UserID: user, Role: role, Scopes: scopes},
	}))
	return code
}

// Link links a chat to a user.
func (s *Store) Link(chat, tenant, user string, scopes ...string) {
	s.t.Helper()
	_, err := s.RedeemLink(s.t.Context(), agent.Chat{Channel: "telegram", ChatID: chat}, s.Code(tenant, user, "", time.Minute, scopes...))
	require.NoError(s.t, err)
}

// Owed returns how many answers are owed to all chats.
func (s *Store) Owed() (n int) {
	s.t.Helper()
	require.NoError(s.t, s.pool.QueryRow(s.t.Context(), `SELECT count(*) FROM chat_turns WHERE settled_at IS NULL`).Scan(&n))
	return n
}

// StealLeases changes the holder of every turn to another process.
func (s *Store) StealLeases() {
	s.t.Helper()
	_, err := s.pool.Exec(s.t.Context(), `UPDATE chat_turns SET holder = 'another process'`)
	require.NoError(s.t, err)
}
