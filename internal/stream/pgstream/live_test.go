package pgstream_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres/postgrestest"
	"github.com/turnstone-run/turnstone/internal/stream"
	"github.com/turnstone-run/turnstone/internal/stream/pgstream"
)

// frozen is a process whose statements do not reach the database until it thaws: one that is stopped, starved or cut off.
type frozen struct{ gate chan struct{} }

// freezable returns a pool for one process and what freezes it.
func freezable(t *testing.T, dsn string) (*pgxpool.Pool, func() (thaw func())) {
	t.Helper()
	state := make(chan *frozen, 1)
	state <- nil
	cfg, err := pgxpool.ParseConfig(dsn)
	require.NoError(t, err)
	cfg.PrepareConn = func(ctx context.Context, _ *pgx.Conn) (bool, error) {
		f := <-state
		state <- f
		if f == nil {
			return true, nil
		}
		select {
		case <-f.gate:
			return true, nil
		case <-ctx.Done():
			return true, ctx.Err()
		}
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool, func() func() {
		f := &frozen{gate: make(chan struct{})}
		<-state
		state <- f
		return func() {
			<-state
			state <- nil
			close(f.gate)
		}
	}
}

// shown describes an event: its index and what it says.
func shown(e *agent.Event) string {
	switch e.Type {
	case agent.EventReset:
		return fmt.Sprintf("reset %s from %d", e.Producer, e.FromIndex)
	case agent.EventToken:
		return e.Text
	default:
		return string(e.Status)
	}
}

func readShown(ctx context.Context, log *pgstream.Log, id string, after int64) (got []string, err error) {
	for e, err := range log.Follow(ctx, id, after) {
		if err != nil {
			return got, err
		}
		if e.Meta.EventIndex <= after {
			return got, fmt.Errorf("index %d behind %d", e.Meta.EventIndex, after)
		}
		after = e.Meta.EventIndex
		got = append(got, shown(&e))
	}
	return got, nil
}

// Two processes write one stream: each gives it up when the other asks, and nothing is lost, shown twice or renumbered.
func TestStreamMovesBetweenProcesses(t *testing.T) {
	dsn := postgrestest.NewEmpty(t)
	pool := migrated(t, dsn)
	a, b, other := open(t, pool, pgstream.Config{}), open(t, pool, pgstream.Config{}), open(t, pool, pgstream.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var followers errgroup.Group
	got := make([][]agent.Event, 3)
	for i, log := range []*pgstream.Log{a, b, other} {
		followers.Go(func() error {
			for e, err := range log.Follow(ctx, "s", 0) {
				if err != nil {
					return err
				}
				got[i] = append(got[i], e)
			}
			return nil
		})
	}

	model := begin(t, a, "s", "model/1")
	appendText(t, a, model, 1, "m1")
	tool := begin(t, b, "s", "tool/1")
	for batch := range int64(20) { // side by side, as parallel tools do
		appendText(t, a, model, batch+2, fmt.Sprint("m", batch+2))
		appendText(t, b, tool, batch+1, fmt.Sprint("t", batch+1))
	}
	again, err := a.Append(ctx, model, 2, token("m2"))
	require.NoError(t, err)
	require.Equal(t, int64(2), again.LastIndex, "a batch that is in the log changes nothing")
	require.NoError(t, a.Sync(ctx, model))
	require.NoError(t, b.Sync(ctx, tool))
	third := begin(t, other, "s", "model/2")
	appendText(t, other, third, 1, "end")
	require.NoError(t, a.Close(ctx, "s", completed))

	require.NoError(t, followers.Wait())
	require.Len(t, got[0], 43)
	for i, e := range got[0] {
		require.Equal(t, int64(i+1), e.Meta.EventIndex)
	}
	for _, events := range got[1:] {
		require.Len(t, events, len(got[0]))
		for i := range events {
			require.Equal(t, shown(&got[0][i]), shown(&events[i]))
			require.Equal(t, got[0][i].Meta.EventIndex, events[i].Meta.EventIndex)
		}
	}
}

// A stream that was claimed in the transaction that began its turn needs no statement before its first event, and moves like any other.
func TestClaimedStream(t *testing.T) {
	dsn := postgrestest.NewEmpty(t)
	pool := migrated(t, dsn)
	slow, freeze := freezable(t, dsn)
	here, other := open(t, slow, pgstream.Config{}), open(t, pool, pgstream.Config{})
	for _, id := range []string{"kept", "moved"} {
		c := here.Claim()
		exec(t, pool, `INSERT INTO streams (stream_id, owner, generation, reserved) VALUES ($1, $2, 1, $3)`, id, c.Owner, c.Reserve)
		here.Claimed(id)
	}
	thaw := freeze()
	f := begin(t, here, "kept", "model/1")
	appendText(t, here, f, 1, "one")
	thaw()
	require.NoError(t, here.Sync(t.Context(), f))
	require.NoError(t, here.Close(t.Context(), "kept", completed))

	f = begin(t, other, "moved", "model/1")
	appendText(t, other, f, 1, "two")
	require.NoError(t, other.Close(t.Context(), "moved", completed))
	for id, want := range map[string][]string{"kept": {"one", "COMPLETED"}, "moved": {"two", "COMPLETED"}} {
		for _, log := range []*pgstream.Log{here, other} {
			got, err := readShown(t.Context(), log, id, 0)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	}
}

// A process that does not answer loses its streams. What it had shown and not stored is void for everybody who saw it, no index is given
// twice, and nothing that it does when it comes back is stored.
func TestStreamIsTakenFromAFrozenProcess(t *testing.T) {
	for _, c := range []struct {
		name   string
		stored bool // the first events are stored before the process freezes
		want   []string
	}{
		{"nothing stored", false, []string{"reset p from 1", "reset tool from 1", "new", "COMPLETED"}},
		{"a part stored", true, []string{"1", "2", "reset p from 1", "reset tool from 3", "new", "COMPLETED"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dsn := postgrestest.NewEmpty(t)
			pool := migrated(t, dsn)
			slow, freeze := freezable(t, dsn)
			zombie, owner := open(t, slow, pgstream.Config{Flush: 10 * time.Second}), open(t, pool, pgstream.Config{})
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()

			old := begin(t, zombie, "s", "p")
			silent := begin(t, zombie, "s", "q")
			watched, sawOld := make(chan []string, 1), make(chan struct{})
			go func() { // a viewer at the process that freezes
				var got []string
				for e, err := range zombie.Follow(ctx, "s", 0) {
					if err != nil {
						got = append(got, err.Error())
						break
					}
					if got = append(got, shown(&e)); len(got) == 4 {
						close(sawOld)
					}
				}
				watched <- got
			}()
			appendText(t, zombie, old, 1, "1")
			appendText(t, zombie, old, 2, "2")
			if c.stored {
				require.NoError(t, zombie.Sync(ctx, old))
			}
			thaw := freeze()
			appendText(t, zombie, old, 3, "3")
			lostTool := begin(t, zombie, "s", "tool")
			appendText(t, zombie, lostTool, 1, "4")
			<-sawOld

			fresh := begin(t, owner, "s", "p")
			at, err := owner.Reset(ctx, fresh)
			require.NoError(t, err)
			require.Greater(t, at.LastIndex, int64(4), "behind all that may have been shown")
			tool := begin(t, owner, "s", "tool")
			_, err = owner.Reset(ctx, tool)
			require.NoError(t, err)
			appendText(t, owner, fresh, 1, "new")
			require.NoError(t, owner.Sync(ctx, fresh))
			thaw()
			require.Eventually(t, func() bool {
				_, err := zombie.Append(ctx, old, 5, token("late"))
				return err != nil
			}, patience, 5*time.Millisecond)
			_, err = zombie.Append(ctx, old, 6, token("late"))
			require.ErrorIs(t, err, agent.ErrFenced)
			require.ErrorIs(t, zombie.Sync(ctx, old), agent.ErrFenced)
			if !c.stored {
				again := begin(t, zombie, "s", "q")
				require.Greater(t, again.Epoch, silent.Epoch, "the first may still be in somebody's hands")
			}
			require.NoError(t, zombie.Close(ctx, "s", completed), "whoever ends the turn may be anybody")

			got, err := readShown(ctx, owner, "s", 0)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
			got, err = readShown(ctx, owner, "s", 4) // a viewer that saw what was lost, and resumes elsewhere
			require.NoError(t, err)
			require.Equal(t, c.want[len(c.want)-4:], got)
			got = <-watched
			require.Equal(t, []string{"1", "2", "3", "4"}, got[:4])
			require.Equal(t, c.want[len(c.want)-4:], got[len(got)-4:])
		})
	}
}

// What is stored is what was shown, however it is merged, from every index on.
func TestStoredTokensKeepTheirIndices(t *testing.T) {
	pool := newPool(t)
	writer, reader := open(t, pool, pgstream.Config{Flush: 10 * time.Second}), open(t, pool, pgstream.Config{})
	ctx := t.Context()
	f := begin(t, writer, "s", "p")
	require.NoError(t, writer.Sync(ctx, f))
	want := []string{}
	for batch := range int64(50) {
		text := fmt.Sprint("é", batch)
		if batch%7 == 0 {
			text = ""
		}
		want = append(want, text)
		appendText(t, writer, f, batch, text)
	}
	require.NoError(t, writer.Close(ctx, "s", completed))
	require.Equal(t, 2, value[int](t, pool, "SELECT count(*) FROM events"), "the tokens share a row")
	want = append(want, "COMPLETED")
	for after := range int64(len(want) + 1) {
		got, err := readShown(ctx, reader, "s", after)
		require.NoError(t, err)
		require.Equal(t, want[after:], append([]string{}, got...), "after %d", after)
	}
}

// A stream that nobody writes goes back to the database, and what memory held of it is let go.
func TestIdleStreamsAreReleased(t *testing.T) {
	pool := newPool(t)
	log := open(t, pool, pgstream.Config{})
	for i := range 10 {
		f := begin(t, log, fmt.Sprint(i), "p")
		appendText(t, log, f, 1, "a")
	}
	require.Equal(t, 10, log.Owned())
	require.Eventually(t, func() bool { return log.Owned() == 0 }, patience, 10*time.Millisecond)
	require.Zero(t, value[int](t, pool, "SELECT count(*) FROM streams WHERE owner IS NOT NULL"))
}

// A process that stops gives its streams up, also what it is just about to store, and the next one goes on behind them at once.
func TestStoppedProcessReleasesItsStreams(t *testing.T) {
	dsn := postgrestest.NewEmpty(t)
	slow, freeze := freezable(t, dsn)
	second := open(t, migrated(t, dsn), pgstream.Config{})
	first := open(t, slow, pgstream.Config{Flush: time.Millisecond})
	f := begin(t, first, "s", "p")
	appendText(t, first, f, 1, "a")
	require.NoError(t, first.Sync(t.Context(), f))
	thaw := freeze()
	appendText(t, first, f, 2, "b")
	require.Eventually(t, first.IsStoring, patience, time.Millisecond)
	time.AfterFunc(50*time.Millisecond, thaw)
	first.Stop()
	appendText(t, second, f, 2, "b") // the second process knows which batches it has
	f, at, err := second.Begin(t.Context(), "s", "q")
	require.NoError(t, err)
	require.Equal(t, int64(2), at.LastIndex)
	appendText(t, second, f, 1, "c")
	require.NoError(t, second.Close(t.Context(), "s", completed))
	require.Equal(t, []string{"a", "b", "c", ""}, <-follow(second, "s"))
}

// A database that crashes loses what was not on disk. The owner stores it again, if it still has it.
func TestLostCommitsAreStoredAgain(t *testing.T) {
	pool := newPool(t)
	log := open(t, pool, pgstream.Config{})
	f := begin(t, log, "s", "p")
	appendText(t, log, f, 1, "a")
	appendText(t, log, f, 2, "b")
	require.NoError(t, log.Sync(t.Context(), f))
	exec(t, pool, "DELETE FROM events; DELETE FROM stream_producers; UPDATE streams SET last_index = 0") // as a crash leaves it
	appendText(t, log, f, 3, "c")
	require.NoError(t, log.Sync(t.Context(), f))
	require.NoError(t, log.Close(t.Context(), "s", completed))
	require.Equal(t, []string{"a", "b", "c", ""}, <-follow(log, "s"))
	require.Equal(t, f.Epoch, value[agent.Epoch](t, pool, "SELECT epoch FROM stream_producers"))
}

// Nobody adds to a held stream. It ends with what its transaction stored, without a read of the database, or goes on as if nothing had been.
func TestHeldStreams(t *testing.T) {
	pool := newPool(t)
	log, other := open(t, pool, pgstream.Config{Flush: time.Minute}), open(t, pool, pgstream.Config{})
	ctx := t.Context()
	f := begin(t, log, "s", "p")
	appendText(t, log, f, 1, "a")
	hold := func() *agent.HeldStream {
		kept, err := log.Hold(ctx, "s")
		require.NoError(t, err)
		require.NotNil(t, kept)
		return kept
	}

	kept := hold()
	waiting := make(chan error, 1)
	go func() {
		_, err := log.Append(ctx, f, 2, token("b"))
		waiting <- err
	}()
	require.Never(t, func() bool { return len(waiting) > 0 }, 50*time.Millisecond, 10*time.Millisecond)
	log.LetGo(kept, nil)
	require.NoError(t, <-waiting)

	again := begin(t, log, "s", "q")
	appendText(t, log, again, 1, "c")
	kept = hold()
	last := []agent.Event{{Type: agent.EventStatus, Status: agent.StatusCompleted}}
	bodies, err := stream.Number(kept, last)
	require.NoError(t, err)
	end := "SELECT turnstone_end($1, $2, $3, $4, $5)"
	for _, wrong := range [][]any{
		{"s", "somebody", kept.Generation, kept.LastIndex, bodies},
		{"s", kept.Owner, kept.Generation - 1, kept.LastIndex, bodies},
		{"s", kept.Owner, kept.Generation, kept.LastIndex - 1, bodies},
	} {
		_, err = pool.Exec(ctx, end, wrong...)
		require.ErrorContains(t, err, "taken from its owner")
	}
	exec(t, pool, end, "s", kept.Owner, kept.Generation, kept.LastIndex, bodies)
	log.LetGo(kept, last)
	_, err = log.Append(ctx, again, 2, token("late"))
	require.ErrorIs(t, err, agent.ErrStreamClosed)
	_, _, err = log.Begin(ctx, "s", "q")
	require.ErrorIs(t, err, agent.ErrStreamClosed)
	require.Equal(t, 1, log.Owned(), "its followers read memory")
	for _, reader := range []*pgstream.Log{log, other} {
		got, err := readShown(ctx, reader, "s", 0)
		require.NoError(t, err)
		require.Equal(t, []string{"a", "b", "c", "COMPLETED"}, got)
	}
	require.Eventually(t, func() bool { return log.Owned() == 0 }, patience, 10*time.Millisecond)
}
