package pgstream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres/postgrestest"
	"github.com/turnstone-run/turnstone/internal/stream/pgstream"
)

// TestCloseWithinATransaction is how the store ends a turn: with events that it marshals itself.
func TestCloseWithinATransaction(t *testing.T) {
	pool := newPool(t)
	log := open(t, pool, pgstream.Config{})
	ctx := t.Context()
	f := begin(t, log, "s", "p")
	got := follow(log, "s")
	closeIn := func(tx pgx.Tx, reason string) (closed bool) {
		events, err := json.Marshal([]agent.Event{
			{Type: agent.EventToken, Text: reason + "<>\u0000", Meta: agent.EventMeta{TurnID: "turn"}},
			{Type: agent.EventStatus, Status: agent.StatusFailed, Reason: reason},
		})
		require.NoError(t, err)
		require.NoError(t, tx.QueryRow(ctx, "SELECT closed FROM turnstone_close($1, $2)", "s", events).Scan(&closed))
		return closed
	}

	tx, err := pool.Begin(ctx)
	require.NoError(t, err)
	require.True(t, closeIn(tx, "rolled back"))
	require.False(t, closeIn(tx, "again"))
	require.NoError(t, tx.Rollback(ctx))
	appendText(t, log, f, 1, "still open")

	require.NoError(t, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		require.True(t, closeIn(tx, "first"))
		return nil
	}))
	require.NoError(t, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		require.False(t, closeIn(tx, "second"))
		return nil
	}))
	require.Equal(t, []string{"still open", "first<>\u0000", ""}, <-got)
}

func TestFunctionsRefuseATerminalEventOutOfPlace(t *testing.T) {
	pool := newPool(t)
	log := open(t, pool, pgstream.Config{})
	ctx := t.Context()
	f := begin(t, log, "s", "p")
	require.NoError(t, log.Sync(ctx, f))
	ordinary, terminal := agent.Event{Type: agent.EventToken, Text: "a"}, completed[0]
	for _, events := range [][]agent.Event{{}, {ordinary}, {terminal, ordinary}, {terminal, terminal}} {
		given, err := json.Marshal(events)
		require.NoError(t, err)
		_, err = pool.Exec(ctx, "SELECT turnstone_close('s', $1)", given)
		require.ErrorContains(t, err, "SQLSTATE 2", "%s", given) // an invalid value, or two terminal ones in the index
	}
	given, err := json.Marshal(completed)
	require.NoError(t, err)
	_, err = pool.Exec(ctx, "SELECT turnstone_append('s', 'p', 1, 1, $1, true)", given)
	require.ErrorContains(t, err, "SQLSTATE 22023")

	// What no function allows, the table does not either.
	require.NoError(t, log.Close(ctx, "s", completed))
	_, err = pool.Exec(ctx, `INSERT INTO events (stream_id, event_index, size, terminal, event) VALUES ('s', 2, 2, true, '{}')`)
	require.ErrorContains(t, err, "events_one_terminal")
}

func TestExpireWorksInPieces(t *testing.T) {
	pool := newPool(t)
	log := open(t, pool, pgstream.Config{})
	ctx := t.Context()
	many := make([]agent.Event, 1000)
	for i := range many {
		many[i] = agent.Event{Type: agent.EventToken, Text: "x"}
	}
	var want int64
	for s := range 3 { // one of them larger than a piece
		id := fmt.Sprint("s", s)
		f := begin(t, log, id, "p")
		for b := range int64(1 + 6*(s%2)) {
			_, err := log.Append(ctx, f, b, many)
			require.NoError(t, err)
			want += 1000
		}
		require.NoError(t, log.Close(ctx, id, completed))
		want++
	}
	n, err := log.Expire(ctx, time.Now().Add(time.Minute))
	require.NoError(t, err)
	require.Equal(t, want, n)
	var events, producers, swept int
	require.NoError(t, pool.QueryRow(ctx, `SELECT (SELECT count(*) FROM events), (SELECT count(*) FROM stream_producers),
		(SELECT count(*) FROM streams WHERE swept)`).Scan(&events, &producers, &swept))
	require.Equal(t, []int{0, 0, 3}, []int{events, producers, swept})
}

func TestRetentionExpires(t *testing.T) {
	pool := newPool(t)
	log := open(t, pool, pgstream.Config{Retention: 50 * time.Millisecond})
	require.NoError(t, log.Close(t.Context(), "s", completed))
	require.Eventually(t, func() bool {
		tail, err := log.Tail(t.Context(), "s")
		return err == nil && tail == agent.StreamTail{LastIndex: 1, Closed: true}
	}, patience, 5*time.Millisecond)
}

func TestPagesAreBounded(t *testing.T) {
	log := open(t, newPool(t), pgstream.Config{})
	ctx := t.Context()
	f := begin(t, log, "s", "p")
	for b := range int64(3) {
		appendText(t, log, f, b, strings.Repeat("x", 3<<20))
	}
	_, err := log.Append(ctx, f, 3, make([]agent.Event, 600))
	require.NoError(t, err)
	require.NoError(t, log.Sync(ctx, f))
	for after, want := range map[int64]int{0: 2, 1: 2, 2: 500, 3: 500, 103: 500, 104: 499, 603: 0} {
		n, err := log.PageLen(ctx, "s", after)
		require.NoError(t, err)
		require.Equal(t, want, n, "after %d", after)
	}
}

// counter counts the statements that a pool sends, by their first words.
type counter struct {
	mu   sync.Mutex
	sent map[string]int
}

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if name := regexp.MustCompile(`turnstone_(own|append|close|end|cancel)|pg_notify`).FindString(q.SQL); name != "" {
		c.sent[name]++
	} else {
		c.sent["other"]++
	}
	return ctx
}

func (*counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func TestStatementsPerOperation(t *testing.T) {
	dsn := postgrestest.NewEmpty(t)
	migrated(t, dsn)
	cfg, err := pgxpool.ParseConfig(dsn)
	require.NoError(t, err)
	count := &counter{sent: map[string]int{}}
	cfg.ConnConfig.Tracer = count
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	log := open(t, pool, pgstream.Config{})
	clear(count.sent)

	ctx := t.Context()
	f := begin(t, log, "s", "p")
	for batch := range int64(50) {
		appendText(t, log, f, batch, "a")
	}
	require.NoError(t, log.Cancel(ctx, "s"))
	require.NoError(t, log.Close(ctx, "s", completed))
	log.Stop()
	t.Logf("%v", count.sent)
	require.LessOrEqual(t, count.sent["pg_notify"], 2, "the writer's statements")
	delete(count.sent, "pg_notify")
	require.Equal(t, map[string]int{"turnstone_own": 1, "turnstone_cancel": 1, "turnstone_end": 1}, count.sent)
}
