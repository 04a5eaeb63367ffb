package streamtest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/turnstone-run/turnstone/agent"
)

var ending = []testCase{
	{"nothing after the terminal event", func(t *testing.T, log Log) {
		ctx := t.Context()
		f := begin(t, ctx, log, "s", "p")
		write(t, ctx, log, f, 1, "a")
		require.NoError(t, log.Close(ctx, "s", append(tokens("bye"), terminal(agent.StatusFailed)...)))

		_, err := log.Append(ctx, f, 2, tokens("late"))
		require.ErrorIs(t, err, agent.ErrStreamClosed)
		_, err = log.Append(ctx, f, 1, tokens("a"))
		require.ErrorIs(t, err, agent.ErrStreamClosed)
		_, err = log.Touch(ctx, f)
		require.ErrorIs(t, err, agent.ErrStreamClosed)
		for _, producer := range []string{"p", "new"} {
			_, _, err = log.Begin(ctx, "s", producer)
			require.ErrorIs(t, err, agent.ErrStreamClosed)
		}
		_, err = log.Touch(ctx, f)
		require.ErrorIs(t, err, agent.ErrStreamClosed, "Begin on a closed stream fences nobody")
		finish(t, ctx, log, "s") // again: nothing

		require.Equal(t, []string{"a", "bye", "FAILED"}, texts(readAll(t, log, "s", 0)))
		tail, err := log.Tail(ctx, "s")
		require.NoError(t, err)
		require.Equal(t, agent.StreamTail{FirstIndex: 1, LastIndex: 3, Closed: true}, tail)
	}},

	{"closing what never began", func(t *testing.T, log Log) {
		ctx := t.Context()
		finish(t, ctx, log, "s")
		require.Equal(t, []string{"COMPLETED"}, texts(readAll(t, log, "s", 0)))
	}},

	{"the first of many closers wins", func(t *testing.T, log Log) {
		ctx := t.Context()
		f := begin(t, ctx, log, "s", "p")
		var g errgroup.Group
		for i := range 8 {
			g.Go(func() error {
				e := terminal(agent.StatusCancelled)
				e[0].Reason = fmt.Sprint(i)
				return log.Close(ctx, "s", append(tokens(fmt.Sprint(i)), e...))
			})
			g.Go(func() error {
				_, err := log.Append(ctx, f, int64(i), tokens("p"))
				if errors.Is(err, agent.ErrStreamClosed) {
					return nil
				}
				return err
			})
		}
		require.NoError(t, g.Wait())
		got := readAll(t, log, "s", 0)
		for _, e := range got[:len(got)-2] {
			require.Equal(t, "p", e.Text)
		}
		last := got[len(got)-1]
		require.True(t, last.Terminal())
		require.Equal(t, last.Reason, got[len(got)-2].Text, "both events are of the same closer")
		tail, err := log.Tail(ctx, "s")
		require.NoError(t, err)
		require.Equal(t, int64(len(got)), tail.LastIndex)
	}},

	{"tail", func(t *testing.T, log Log) {
		ctx := t.Context()
		tail := func() agent.StreamTail {
			t.Helper()
			a, err := log.Tail(ctx, "s")
			require.NoError(t, err)
			return a
		}
		require.Equal(t, agent.StreamTail{}, tail(), "no such stream")
		f := begin(t, ctx, log, "s", "p")
		require.Equal(t, agent.StreamTail{}, tail())
		write(t, ctx, log, f, 1, "a", "b")
		require.Equal(t, agent.StreamTail{FirstIndex: 1, LastIndex: 2}, tail())
	}},

	{"expired events are a gap", func(t *testing.T, log Log) {
		ctx := t.Context()
		expirer, ok := log.(Expirer)
		require.True(t, ok, "%T has no Expire", log)
		f := begin(t, ctx, log, "old", "p")
		write(t, ctx, log, f, 1, "a", "b")
		finish(t, ctx, log, "old")
		write(t, ctx, log, begin(t, ctx, log, "open", "p"), 1, "kept")

		n, err := expirer.Expire(ctx, time.Now().Add(-time.Hour))
		require.NoError(t, err)
		require.Zero(t, n)
		require.Len(t, readAll(t, log, "old", 0), 3, "not old enough")

		n, err = expirer.Expire(ctx, time.Now().Add(time.Hour))
		require.NoError(t, err)
		require.Equal(t, int64(3), n)
		for after := range int64(3) {
			require.ErrorIs(t, followError(ctx, log, "old", after), agent.ErrGap, "after %d", after)
		}
		require.Empty(t, readAll(t, log, "old", 3), "at the end there is nothing to miss")
		tail, err := log.Tail(ctx, "old")
		require.NoError(t, err)
		require.Equal(t, agent.StreamTail{LastIndex: 3, Closed: true}, tail)
		_, _, err = log.Begin(ctx, "old", "p")
		require.ErrorIs(t, err, agent.ErrStreamClosed, "the id is used up")
		_, err = log.Touch(ctx, f)
		require.ErrorIs(t, err, agent.ErrStreamClosed)
		finish(t, ctx, log, "old")
		require.Equal(t, []string{"kept"}, texts(readN(t, log, "open", 0, 1)), "an open stream does not expire")
		n, err = expirer.Expire(ctx, time.Now().Add(time.Hour))
		require.NoError(t, err)
		require.Zero(t, n)
	}},
}
