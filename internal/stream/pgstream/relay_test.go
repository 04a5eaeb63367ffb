package pgstream_test

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres/postgrestest"
	"github.com/turnstone-run/turnstone/internal/stream/pgstream"
	"github.com/turnstone-run/turnstone/internal/stream/streamtest"
)

// slowFlush keeps events out of the database for so long that whoever sees them in a test has them through the relay.
const slowFlush = time.Minute

// relayed opens a writer and a reader that is connected to it.
func relayed(t testing.TB, pool *pgxpool.Pool, writer, reader pgstream.Config) (w, r *pgstream.Log) {
	t.Helper()
	writer.Relay, reader.Relay = &pgstream.Relay{}, &pgstream.Relay{}
	w, r = open(t, pool, writer), open(t, pool, reader)
	connect(t, w, r)
	return w, r
}

// connect makes a reader follow a stream of a writer through the relay.
func connect(t testing.TB, writer, reader *pgstream.Log) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	id := fmt.Sprint("connect ", time.Now().UnixNano())
	f := begin(t, writer, id, "p")
	following := make(chan error, 1)
	go func() {
		for _, err := range reader.Follow(ctx, id, 0) {
			if err != nil {
				following <- err
				return
			}
		}
		following <- nil
	}()
	batch := int64(0)
	require.Eventually(t, func() bool {
		_, err := writer.Append(ctx, f, batch, token("a"))
		batch++
		return err == nil && writer.Sync(ctx, f) == nil && reader.Mirrors(id)
	}, patience, 10*time.Millisecond)
	require.NoError(t, writer.Close(ctx, id, completed))
	require.NoError(t, <-following)
}

// apart is a log of which one process writes and another follows.
type apart struct {
	*pgstream.Log

	reader *pgstream.Log
}

func (a apart) Follow(ctx context.Context, id string, after int64) iter.Seq2[agent.Event, error] {
	return a.reader.Follow(ctx, id, after)
}

func TestConformanceThroughRelay(t *testing.T) {
	pool := newPool(t)
	streamtest.Exercise(t, func(t *testing.T) streamtest.Log {
		writer, reader := relayed(t, pool, pgstream.Config{}, pgstream.Config{})
		exec(t, pool, "TRUNCATE streams, stream_producers, events")
		return apart{Log: writer, reader: reader}
	})
}

// collected follows a stream in the background and keeps what it sees.
type collected struct {
	events chan agent.Event
	err    chan error
}

func collect(ctx context.Context, log *pgstream.Log, id string, after int64) collected {
	c := collected{events: make(chan agent.Event, 10_000), err: make(chan error, 1)}
	go func() {
		defer close(c.events)
		for e, err := range log.Follow(ctx, id, after) {
			if err != nil {
				c.err <- err
				return
			}
			c.events <- e
		}
		c.err <- nil
	}()
	return c
}

// next returns what the next events say.
func (c collected) next(t *testing.T, n int) []string {
	t.Helper()
	var got []string
	for range n {
		select {
		case e, ok := <-c.events:
			if !ok {
				require.Fail(t, "the stream has ended", "after %q: %v", got, <-c.err)
			}
			got = append(got, shown(&e))
		case <-time.After(patience):
			require.Fail(t, "nothing comes", "after %q", got)
		}
	}
	return got
}

// rest returns what comes until the stream ends.
func (c collected) rest(t *testing.T) []string {
	t.Helper()
	var got []string
	for e := range c.events {
		got = append(got, shown(&e))
	}
	require.NoError(t, <-c.err)
	return got
}

// mirrored begins a stream of which a viewer has the first event, and is connected with its owner.
func mirrored(t *testing.T, writer, reader *pgstream.Log, id string) (agent.Fence, collected) {
	t.Helper()
	f := begin(t, writer, id, "p")
	appendText(t, writer, f, 1, "1")
	require.NoError(t, writer.Sync(t.Context(), f)) // the row has its owner now
	viewer := collect(t.Context(), reader, id, 0)
	require.Equal(t, []string{"1"}, viewer.next(t, 1))
	require.Eventually(t, func() bool { return reader.Mirrors(id) }, patience, time.Millisecond)
	return f, viewer
}

// Events come through the relay before they are stored, and the owner stores and announces nothing for it.
func TestEventsComeBeforeTheyAreStored(t *testing.T) {
	pool := newPool(t)
	w := &watch{}
	writer, reader := relayed(t, pool, pgstream.Config{Flush: slowFlush}, pgstream.Config{Watch: w})
	f, viewer := mirrored(t, writer, reader, "s")
	require.Equal(t, 1, w.seen().peers)
	for batch := int64(2); batch < 50; batch++ {
		appendText(t, writer, f, batch, fmt.Sprint(batch))
		require.Equal(t, []string{fmt.Sprint(batch)}, viewer.next(t, 1))
	}
	require.Equal(t, 1, value[int](t, pool, "SELECT last_index FROM streams WHERE stream_id = 's'"))
	require.False(t, writer.Watched("s"))
	require.NoError(t, writer.Close(t.Context(), "s", completed))
	require.Equal(t, []string{"COMPLETED"}, viewer.rest(t))
	require.Eventually(t, func() bool { return !reader.Mirrors("s") }, patience, time.Millisecond, "it goes with its last follower")
}

// A viewer who comes before anybody writes is handed over as soon as there is an owner, which then stores no more often than without viewers.
func TestViewerIsHandedOverToTheOwner(t *testing.T) {
	pool := newPool(t)
	writer, reader := relayed(t, pool, pgstream.Config{}, pgstream.Config{})
	viewer := collect(t.Context(), reader, "s", 0)
	require.Eventually(t, func() bool { return writer.Watched("s") }, patience, time.Millisecond)
	f := begin(t, writer, "s", "p")
	appendText(t, writer, f, 1, "1")
	require.Equal(t, []string{"1"}, viewer.next(t, 1))
	require.Eventually(t, func() bool { return reader.Mirrors("s") && !writer.Watched("s") }, patience, time.Millisecond)
	appendText(t, writer, f, 2, "2")
	require.NoError(t, writer.Close(t.Context(), "s", completed))
	require.Equal(t, []string{"2", "COMPLETED"}, viewer.rest(t))
}

// Whoever lacks more than the owner has in memory reads the database first.
func TestViewerFarBehindReadsTheDatabaseFirst(t *testing.T) {
	pool := newPool(t)
	writer, reader := relayed(t, pool, pgstream.Config{}, pgstream.Config{})
	f := begin(t, writer, "s", "p")
	want := []string{}
	for batch := range int64(700) {
		want = append(want, fmt.Sprint(batch))
		appendText(t, writer, f, batch, fmt.Sprint(batch))
	}
	require.NoError(t, writer.Sync(t.Context(), f))
	first, second := collect(t.Context(), reader, "s", 0), collect(t.Context(), reader, "s", 690)
	require.Equal(t, want, first.next(t, 700))
	require.Equal(t, want[690:], second.next(t, 10))
	require.Eventually(t, func() bool { return reader.Mirrors("s") }, patience, time.Millisecond)
	third := collect(t.Context(), reader, "s", 10) // beside a mirror that begins behind it
	require.Equal(t, want[10:], third.next(t, 690))
	appendText(t, writer, f, 700, "700")
	require.NoError(t, writer.Close(t.Context(), "s", completed))
	for _, viewer := range []collected{first, second, third} {
		require.Equal(t, []string{"700", "COMPLETED"}, viewer.rest(t))
	}
}

// What is handed over faster than it is stored takes a bounded amount of memory: then viewers read the database.
func TestMirrorIsBounded(t *testing.T) {
	pool := newPool(t)
	writer, reader := relayed(t, pool, pgstream.Config{}, pgstream.Config{})
	f, viewer := mirrored(t, writer, reader, "s")
	const size, bound = 100 << 10, 8 << 20
	large := strings.Repeat("x", size)
	most := int64(0)
	for batch := int64(2); batch < 3*bound/size; batch++ {
		appendText(t, writer, f, batch, large)
		require.Equal(t, []string{large}, viewer.next(t, 1))
		most = max(most, reader.MirroredBytes())
	}
	require.Less(t, most, int64(bound+size+1000))
	require.NoError(t, writer.Close(t.Context(), "s", completed))
	require.Equal(t, []string{"COMPLETED"}, viewer.rest(t))
	require.Eventually(t, func() bool { return reader.MirroredBytes() == 0 }, patience, time.Millisecond)
}

// A connection that breaks costs its viewers nothing: they go on in the database, with what is stored from then on, and come back.
func TestRelayIsCut(t *testing.T) {
	pool := newPool(t)
	writer, reader := relayed(t, pool, pgstream.Config{}, pgstream.Config{})
	f, viewer := mirrored(t, writer, reader, "s")
	appendText(t, writer, f, 2, "2") // shown, perhaps, and not stored
	reader.CutRelay()
	for batch := int64(3); batch < 40; batch++ {
		appendText(t, writer, f, batch, fmt.Sprint(batch))
		time.Sleep(time.Millisecond)
	}
	for n := 2; n < 40; n++ {
		require.Equal(t, []string{fmt.Sprint(n)}, viewer.next(t, 1))
	}
	batch := int64(40)
	require.Eventually(t, func() bool {
		appendText(t, writer, f, batch, fmt.Sprint(batch))
		batch++
		return reader.Mirrors("s")
	}, patience, 50*time.Millisecond)
	require.NoError(t, writer.Close(t.Context(), "s", completed))
	want := []string{}
	for n := int64(40); n < batch; n++ {
		want = append(want, fmt.Sprint(n))
	}
	require.Equal(t, append(want, "COMPLETED"), viewer.rest(t))
}

// A process that stops hands everything over, and its viewers follow the next owner.
func TestOwnerStopsCleanly(t *testing.T) {
	pool := newPool(t)
	writer, reader := relayed(t, pool, pgstream.Config{Flush: slowFlush}, pgstream.Config{Poll: 50 * time.Millisecond})
	f, viewer := mirrored(t, writer, reader, "s")
	appendText(t, writer, f, 2, "2")
	writer.Stop()
	require.Equal(t, 1, value[int](t, pool, "SELECT count(*) FROM stream_peers"))
	next := open(t, pool, pgstream.Config{Flush: slowFlush, Relay: &pgstream.Relay{}})
	f = begin(t, next, "s", "q")
	appendText(t, next, f, 1, "3")
	require.NoError(t, next.Sync(t.Context(), f))
	require.Equal(t, []string{"2", "3"}, viewer.next(t, 2))
	n := int64(4)
	require.Eventually(t, func() bool { // it follows the new owner
		appendText(t, next, f, n, fmt.Sprint(n))
		shown := viewer.next(t, 1)
		n++
		return shown[0] == fmt.Sprint(n-1) && reader.Mirrors("s")
	}, patience, 10*time.Millisecond)
	require.NoError(t, next.Close(t.Context(), "s", completed))
	require.Equal(t, []string{"COMPLETED"}, viewer.rest(t))
}

// What an owner showed through the relay and never stored is void for the viewers of another process too, also if it does not know yet that it
// was robbed.
func TestStreamIsTakenFromItsOwner(t *testing.T) {
	for name, killed := range map[string]bool{"killed": true, "frozen": false} {
		t.Run(name, func(t *testing.T) {
			dsn := postgrestest.NewEmpty(t)
			pool := migrated(t, dsn)
			slow, freeze := freezable(t, dsn)
			writer := open(t, slow, pgstream.Config{Flush: slowFlush, Relay: &pgstream.Relay{}})
			reader := open(t, pool, pgstream.Config{Relay: &pgstream.Relay{}})
			connect(t, writer, reader)
			f, viewer := mirrored(t, writer, reader, "s")
			thaw := freeze()
			appendText(t, writer, f, 2, "2")
			appendText(t, writer, f, 3, "3")
			require.Equal(t, []string{"2", "3"}, viewer.next(t, 2))
			if killed {
				reader.CutRelay()
			}
			next := open(t, pool, pgstream.Config{Relay: &pgstream.Relay{}})
			fresh := begin(t, next, "s", "p")
			_, err := next.Reset(t.Context(), fresh)
			require.NoError(t, err)
			appendText(t, next, fresh, 1, "new")
			require.NoError(t, next.Sync(t.Context(), fresh))
			thaw()
			require.NoError(t, next.Close(t.Context(), "s", completed))
			require.Equal(t, []string{"reset p from 1", "new", "COMPLETED"}, viewer.rest(t))
		})
	}
}

// Whenever connections break and wherever viewers begin, each sees every event once and in order.
func TestViewersSeeEveryEventOnce(t *testing.T) {
	pool := newPool(t)
	writer, reader := relayed(t, pool, pgstream.Config{Flush: 50 * time.Millisecond}, pgstream.Config{Poll: 200 * time.Millisecond})
	const streams, batches = 8, 300
	var viewers []collected
	var from []int64
	fences := make([]agent.Fence, streams)
	for s := range fences {
		fences[s] = begin(t, writer, fmt.Sprint("s", s), "p")
	}
	cuts, mirrored := 0, 0
	for batch := range int64(batches) {
		for s := range fences {
			appendText(t, writer, fences[s], batch, fmt.Sprint(batch+1))
			if rand.IntN(40) == 0 {
				after := rand.Int64N(batch + 2)
				viewers, from = append(viewers, collect(t.Context(), reader, fences[s].StreamID, after)), append(from, after)
			}
			if reader.Mirrors(fences[s].StreamID) {
				mirrored++
			}
		}
		if rand.IntN(20) == 0 {
			reader.CutRelay()
			cuts++
		}
		reader.RetryRelay()
		time.Sleep(rand.N(10 * time.Millisecond))
	}
	for s := range fences {
		require.NoError(t, writer.Close(t.Context(), fences[s].StreamID, completed))
	}
	require.NotZero(t, cuts)
	require.Greater(t, mirrored, batches, "the relay has its part")
	for i, v := range viewers {
		want := []string{}
		for n := from[i] + 1; n <= batches; n++ {
			want = append(want, fmt.Sprint(n))
		}
		require.Equal(t, append(want, "COMPLETED"), v.rest(t), "after %d", from[i])
	}
	require.Eventually(t, func() bool { return reader.MirroredBytes() == 0 }, patience, time.Millisecond)
}

// A process that cannot be reached, or has no relay, is read from the database.
func TestProcessThatCannotBeReached(t *testing.T) {
	for name, far := range map[string]*pgstream.Relay{"cut off": {Advertise: "127.0.0.1:1"}, "without relay": nil} {
		t.Run(name, func(t *testing.T) {
			pool := newPool(t)
			writer, reader := open(t, pool, pgstream.Config{Relay: far}), open(t, pool, pgstream.Config{Relay: &pgstream.Relay{}})
			f := begin(t, writer, "s", "p")
			appendText(t, writer, f, 1, "1")
			require.NoError(t, writer.Sync(t.Context(), f))
			viewer := collect(t.Context(), reader, "s", 0)
			require.Equal(t, []string{"1"}, viewer.next(t, 1))
			for batch := int64(2); batch < 10; batch++ {
				appendText(t, writer, f, batch, fmt.Sprint(batch))
				require.Equal(t, []string{fmt.Sprint(batch)}, viewer.next(t, 1))
			}
			require.False(t, reader.Mirrors("s"))
			require.NoError(t, writer.Close(t.Context(), "s", completed))
			require.Equal(t, []string{"COMPLETED"}, viewer.rest(t))
		})
	}
}

// The rows of processes that were killed go; those of the living stay.
func TestDeadProcessesAreForgotten(t *testing.T) {
	pool := newPool(t)
	log := open(t, pool, pgstream.Config{Relay: &pgstream.Relay{}})
	exec(t, pool, "INSERT INTO stream_peers VALUES ('killed', 'host:1', 'token', '')")
	exec(t, pool, "UPDATE stream_peers SET seen_at = seen_at - interval '1 hour'")
	require.NoError(t, log.ForgetDeadPeers(t.Context()))
	var owners []string
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT array_agg(owner) FROM stream_peers").Scan(&owners))
	require.Len(t, owners, 1)
	require.NotEqual(t, "killed", owners[0])
	_, err := pgstream.New(t.Context(), pgstream.Config{Pool: pool, Relay: &pgstream.Relay{Address: "192.0.2.1:1"}})
	require.ErrorContains(t, err, "192.0.2.1:1", "an address that was asked for")
}
