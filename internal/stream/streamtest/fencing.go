package streamtest

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/turnstone-run/turnstone/agent"
)

var fencing = []testCase{
	{"older epochs are fenced for ever", func(t *testing.T, log Log) {
		ctx := t.Context()
		old := begin(t, ctx, log, "s", "p")
		write(t, ctx, log, old, 1, "old")
		other := begin(t, ctx, log, "s", "q")
		fresh := begin(t, ctx, log, "s", "p")
		require.Equal(t, old.Epoch+1, fresh.Epoch)
		fenced := func() {
			t.Helper()
			_, err := log.Append(ctx, old, 1, tokens("old"))
			require.ErrorIs(t, err, agent.ErrFenced, "also a batch that is in the log")
			_, err = log.Append(ctx, old, 2, tokens("zombie"))
			require.ErrorIs(t, err, agent.ErrFenced)
			_, err = log.Append(ctx, old, 3, nil)
			require.ErrorIs(t, err, agent.ErrFenced)
			_, err = log.Touch(ctx, old)
			require.ErrorIs(t, err, agent.ErrFenced)
		}
		fenced()
		write(t, ctx, log, other, 1, "other")
		write(t, ctx, log, fresh, 1, "new")
		fenced()
		finish(t, ctx, log, "s")
		fenced()
		require.Equal(t, []string{"old", "reset", "other", "new", "COMPLETED"}, texts(readAll(t, log, "s", 0)))
	}},

	{"a fence nobody gave", func(t *testing.T, log Log) {
		ctx := t.Context()
		f := begin(t, ctx, log, "s", "p")
		for _, forged := range []agent.Fence{
			{StreamID: "none", Producer: "p", Epoch: 1},
			{StreamID: "s", Producer: "q", Epoch: 1},
			{StreamID: "s", Producer: "p", Epoch: f.Epoch + 1},
			{StreamID: "s", Producer: "p"},
		} {
			_, err := log.Append(ctx, forged, 1, tokens("x"))
			require.ErrorIs(t, err, agent.ErrFenced)
			_, err = log.Touch(ctx, forged)
			require.ErrorIs(t, err, agent.ErrFenced)
		}
	}},

	{"reset names what is void", func(t *testing.T, log Log) {
		ctx := t.Context()
		resetFrom := func(producer string) int64 {
			t.Helper()
			before, err := log.Tail(ctx, "s")
			require.NoError(t, err)
			f, a, err := log.Begin(ctx, "s", producer)
			require.NoError(t, err)
			require.Equal(t, before.LastIndex, a.LastIndex, "beginning voids nothing")
			a, err = log.Reset(ctx, f)
			require.NoError(t, err)
			if a.LastIndex == before.LastIndex {
				return 0
			}
			require.Equal(t, before.LastIndex+1, a.LastIndex)
			e := readN(t, log, "s", before.LastIndex, 1)[0]
			require.Equal(t, agent.EventReset, e.Type)
			require.Equal(t, producer, e.Producer)
			return e.FromIndex
		}
		write(t, ctx, log, begin(t, ctx, log, "s", "other"), 1, "1")
		require.Zero(t, resetFrom("p"), "first epoch")
		require.Zero(t, resetFrom("p"), "the epoch before wrote nothing")
		f := begin(t, ctx, log, "s", "p")
		write(t, ctx, log, f, 1, "2", "3")
		write(t, ctx, log, begin(t, ctx, log, "s", "third"), 1, "4")
		write(t, ctx, log, f, 2, "5")
		require.Equal(t, int64(2), resetFrom("p"), "its first event") // 6
		require.Zero(t, resetFrom("p"), "reset already")
		f = begin(t, ctx, log, "s", "p")
		write(t, ctx, log, f, 1, "7")
		write(t, ctx, log, f, 2, "8")
		require.Equal(t, int64(7), resetFrom("p"), "only what was not reset before") // 9
		require.Equal(t, int64(1), resetFrom("other"))
	}},

	{"what stands is not reset", func(t *testing.T, log Log) {
		ctx := t.Context()
		old := begin(t, ctx, log, "s", "p")
		write(t, ctx, log, old, 1, "stands")
		require.NoError(t, log.Sync(ctx, old))
		other := begin(t, ctx, log, "s", "q")
		looks, _, err := log.Begin(ctx, "s", "p")
		require.NoError(t, err)
		require.Equal(t, old.Epoch+1, looks.Epoch)
		_, err = log.Append(ctx, old, 2, tokens("zombie"))
		require.ErrorIs(t, err, agent.ErrFenced)
		write(t, ctx, log, other, 1, "other")
		require.Equal(t, []string{"stands", "other"}, texts(readN(t, log, "s", 0, 2)))

		newest, _, err := log.Begin(ctx, "s", "p")
		require.NoError(t, err)
		_, err = log.Reset(ctx, looks)
		require.ErrorIs(t, err, agent.ErrFenced)
		_, err = log.Reset(ctx, newest)
		require.NoError(t, err)
		reset := readN(t, log, "s", 2, 1)[0]
		require.Equal(t, int64(1), reset.FromIndex, "what no epoch between has voided")
		finish(t, ctx, log, "s")
		_, err = log.Reset(ctx, newest)
		require.ErrorIs(t, err, agent.ErrStreamClosed)
		require.Equal(t, []string{"stands", "other", "reset", "COMPLETED"}, texts(readAll(t, log, "s", 0)))
	}},

	{"cancel is a mark", func(t *testing.T, log Log) {
		ctx := t.Context()
		require.NoError(t, log.Cancel(ctx, "early"), "before the stream exists")
		f, a, err := log.Begin(ctx, "early", "p")
		require.NoError(t, err)
		require.True(t, a.Cancelled)
		require.True(t, write(t, ctx, log, f, 1, "a").Cancelled)

		f = begin(t, ctx, log, "s", "p")
		require.False(t, write(t, ctx, log, f, 1, "a").Cancelled)
		a, err = log.Touch(ctx, f)
		require.NoError(t, err)
		require.Equal(t, agent.Appended{LastIndex: 1}, a)
		require.NoError(t, log.Cancel(ctx, "s"))
		require.NoError(t, log.Cancel(ctx, "s"))
		a, err = log.Touch(ctx, f)
		require.NoError(t, err)
		require.Equal(t, agent.Appended{LastIndex: 1, Cancelled: true}, a)
		require.True(t, write(t, ctx, log, f, 1, "a").Cancelled, "a repeated batch tells as well")
		a, err = log.Append(ctx, f, 2, nil)
		require.NoError(t, err)
		require.Equal(t, agent.Appended{LastIndex: 1, Cancelled: true}, a, "no events is a touch")
		require.Equal(t, agent.Appended{LastIndex: 2, Cancelled: true}, write(t, ctx, log, f, 2, "b"), "and leaves the number free")
		tail, err := log.Tail(ctx, "s")
		require.NoError(t, err)
		require.Equal(t, agent.StreamTail{FirstIndex: 1, LastIndex: 2, Cancelled: true}, tail)
		finish(t, ctx, log, "s")
		require.Equal(t, []string{"a", "b", "COMPLETED"}, texts(readAll(t, log, "s", 0)))
	}},

	{"a closed stream is not cancelled", func(t *testing.T, log Log) {
		ctx := t.Context()
		finish(t, ctx, log, "s")
		require.NoError(t, log.Cancel(ctx, "s"))
		tail, err := log.Tail(ctx, "s")
		require.NoError(t, err)
		require.Equal(t, agent.StreamTail{FirstIndex: 1, LastIndex: 1, Closed: true}, tail)
	}},

	{"rivals for one producer", func(t *testing.T, log Log) {
		ctx := t.Context()
		var g errgroup.Group
		var survivors atomic.Int64
		const rivals = 8
		for r := range rivals {
			g.Go(func() error {
				f, _, err := log.Begin(ctx, "s", "p")
				if err != nil {
					return err
				}
				if _, err := log.Reset(ctx, f); err != nil {
					require.ErrorIs(t, err, agent.ErrFenced)
					return nil
				}
				for b := range 5 {
					if _, err = log.Append(ctx, f, int64(b), tokens(fmt.Sprint(r))); err != nil {
						require.ErrorIs(t, err, agent.ErrFenced)
						return nil
					}
				}
				if _, err := log.Touch(ctx, f); err == nil {
					survivors.Add(1)
				}
				return nil
			})
		}
		require.NoError(t, g.Wait())
		finish(t, ctx, log, "s")
		require.Positive(t, survivors.Load(), "the last one to begin is never fenced")
		require.Equal(t, []string{"s0", "s0", "s0", "s0", "s0"}, onlyOne(visible(readAll(t, log, "s", 0))["p"]))
	}},
}

// onlyOne renames the texts of one rival.
func onlyOne(got []string) []string {
	names := map[string]string{}
	var out []string
	for _, s := range got {
		if _, ok := names[s]; !ok {
			names[s] = fmt.Sprint("s", len(names))
		}
		out = append(out, names[s])
	}
	return out
}

// visible is a reader that obeys resets: the texts of each producer that still stand.
func visible(events []agent.Event) map[string][]string {
	got := map[string][]string{}
	for i := range events {
		if events[i].Type == agent.EventToken && !void(events, i) {
			got[events[i].Meta.Producer] = append(got[events[i].Meta.Producer], events[i].Text)
		}
	}
	return got
}
