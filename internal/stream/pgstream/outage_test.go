package pgstream_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres/postgrestest"
	"github.com/turnstone-run/turnstone/internal/stream/pgstream"
)

const patience = 30 * time.Second

func token(text string) []agent.Event {
	return []agent.Event{{Type: agent.EventToken, Text: text}}
}

var completed = []agent.Event{{Type: agent.EventStatus, Status: agent.StatusCompleted}}

// read collects texts until the stream ends; an error is the last of them. first is called at the first event.
func read(log *pgstream.Log, id string, first func()) []string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var got []string
	for e, err := range log.Follow(ctx, id, 0) {
		if err != nil {
			return append(got, err.Error())
		}
		got = append(got, e.Text)
		if len(got) == 1 {
			first()
		}
	}
	return got
}

// follow reads in the background.
func follow(log *pgstream.Log, id string) <-chan []string {
	done := make(chan []string, 1)
	go func() { done <- read(log, id, func() {}) }()
	return done
}

func TestFollowersSurviveARestart(t *testing.T) {
	server := postgrestest.Server(t)
	pool := migrated(t, server.DSN())
	writer, reader := open(t, pool, pgstream.Config{}), open(t, pool, pgstream.Config{})
	ctx := t.Context()
	f := begin(t, writer, "s", "p")
	followers := []<-chan []string{follow(writer, "s"), follow(reader, "s"), follow(reader, "s")}

	want := []string{}
	for batch := range int64(40) {
		if batch == 15 {
			require.NoError(t, server.Suspend(ctx))
			bounded, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
			_, _, err := writer.Begin(bounded, "other", "p")
			require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err), "%v", err)
			require.Equal(t, agent.CodeUnavailable, agent.CodeOf(writer.Cancel(bounded, "s")))
			_, err = writer.Append(ctx, f, batch, token(fmt.Sprint(batch)))
			require.NoError(t, err, "live viewers go on")
			require.Equal(t, agent.CodeUnavailable, agent.CodeOf(writer.Sync(bounded, f)), "it is not stored")
			cancel()
			require.NoError(t, server.Resume(ctx))
		}
		if batch == 30 {
			require.NoError(t, server.Restart(ctx))
		}
		want = append(want, fmt.Sprint(batch))
		require.Eventually(t, func() bool {
			_, err := writer.Append(ctx, f, batch, token(fmt.Sprint(batch)))
			return err == nil
		}, patience, 10*time.Millisecond)
	}
	require.NoError(t, writer.Close(ctx, "s", completed))
	for _, got := range followers {
		require.Equal(t, append(want, ""), <-got)
	}
}

func TestOtherProcessesAreTold(t *testing.T) {
	pool := newPool(t)
	reader, writer := open(t, pool, pgstream.Config{}), open(t, pool, pgstream.Config{}) // both poll after a minute only
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	f := begin(t, writer, "s", "p")
	appendText(t, writer, f, 0, "a")
	n := int64(0)
	for e, err := range reader.Follow(ctx, "s", 0) { // has read all there is before each write
		require.NoError(t, err)
		n++
		switch {
		case n < 10:
			_, err = writer.Append(ctx, f, n, token("a"))
		case n == 10:
			f = begin(t, writer, "s", "p")
			_, err = writer.Reset(ctx, f)
		case n == 11:
			require.Equal(t, agent.EventReset, e.Type)
			err = writer.Close(ctx, "s", completed)
		}
		require.NoError(t, err)
	}
	require.Equal(t, int64(12), n)
}

func TestLostListenerIsReplaced(t *testing.T) {
	pool := newPool(t)
	reader := open(t, pool, pgstream.Config{}) // polls after a minute only
	writer := open(t, pool, pgstream.Config{})
	ctx := t.Context()
	for i := range 3 {
		id := fmt.Sprint(i)
		f := begin(t, writer, id, "p")
		appendText(t, writer, f, 1, "a")
		got, began := make(chan []string, 1), make(chan struct{})
		go func() { got <- read(reader, id, func() { close(began) }) }()
		<-began
		// Cut it, and write while nobody listens.
		exec(t, pool, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE query LIKE 'LISTEN %' AND datname = current_database()`)
		require.NoError(t, writer.Close(ctx, id, completed))
		require.Equal(t, []string{"a", ""}, <-got)
		require.Eventually(t, func() bool { return listeners(t, pool) == 2 }, patience, 5*time.Millisecond)
	}
}

func listeners(t *testing.T, pool *pgxpool.Pool) int {
	return value[int](t, pool, `SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN %' AND datname = current_database()`)
}

func TestPollRepairsMissedNotifications(t *testing.T) {
	pool := newPool(t)
	exec(t, pool, `CREATE SCHEMA mute; CREATE FUNCTION mute.pg_notify(text, text) RETURNS void LANGUAGE sql AS ''`)
	cfg := pool.Config()
	cfg.ConnConfig.RuntimeParams["search_path"] = "mute, pg_catalog, public"
	muted, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(muted.Close)

	reader, writer := open(t, pool, pgstream.Config{Poll: 20 * time.Millisecond}), open(t, muted, pgstream.Config{})
	f := begin(t, writer, "s", "p")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	appendText(t, writer, f, 0, "0")
	n := int64(0)
	for e, err := range reader.Follow(ctx, "s", 0) { // waits after each event
		require.NoError(t, err)
		n++
		require.Equal(t, n, e.Meta.EventIndex)
		if n == 5 {
			require.NoError(t, writer.Close(ctx, "s", completed))
		} else if n < 5 {
			appendText(t, writer, f, n, "x")
		}
	}
	require.Equal(t, int64(6), n)
}

func TestStopEndsEverything(t *testing.T) {
	pool := newPool(t)
	before := goleak.IgnoreCurrent()
	log, err := pgstream.New(t.Context(), pgstream.Config{Pool: pool, Retention: time.Hour})
	require.NoError(t, err)
	f := begin(t, log, "s", "p")
	appendText(t, log, f, 1, "a")
	got, began := make(chan []string, 1), make(chan struct{})
	go func() { got <- read(log, "s", func() { close(began) }) }()
	<-began
	absent := follow(log, "none")
	log.Stop()
	const stopped = "follow stream: the event log was stopped"
	require.Equal(t, []string{"a", stopped}, <-got)
	require.Equal(t, []string{stopped}, <-absent)
	require.Equal(t, []string{stopped}, <-follow(log, "s"), "also one that begins later")
	require.NoError(t, goleak.Find(before))
}

func TestNewRefuses(t *testing.T) {
	_, err := pgstream.New(t.Context(), pgstream.Config{})
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	pool, err := pgxpool.New(t.Context(), postgrestest.NewEmpty(t))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	_, err = pgstream.New(t.Context(), pgstream.Config{Pool: pool, Poll: -1})
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	_, err = pgstream.New(t.Context(), pgstream.Config{Pool: pool})
	require.ErrorContains(t, err, "lacks the tables of the event log")
	nowhere, err := pgxpool.New(t.Context(), "postgres:///nowhere?host=/nonexistent")
	require.NoError(t, err)
	t.Cleanup(nowhere.Close)
	_, err = pgstream.New(t.Context(), pgstream.Config{Pool: nowhere})
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err), "%v", err)
}
