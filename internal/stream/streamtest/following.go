package streamtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/turnstone-run/turnstone/agent"
)

var following = []testCase{
	{"from any index", func(t *testing.T, log Log) {
		ctx := t.Context()
		f := begin(t, ctx, log, "s", "p")
		const n = 1200 // several pages
		for b := range 2 {
			events := make([]agent.Event, n/2)
			for i := range events {
				events[i] = token(fmt.Sprint(b*n/2 + i + 1))
			}
			_, err := log.Append(ctx, f, int64(b), events)
			require.NoError(t, err)
		}
		finish(t, ctx, log, "s")
		for _, after := range []int64{0, 1, 499, 500, 1000, n - 1, n} {
			got := readAll(t, log, "s", after)
			require.Len(t, got, n+1-int(after))
			if after < n {
				require.Equal(t, fmt.Sprint(after+1), got[0].Text)
			}
		}
		for _, after := range []int64{n + 1, n + 2, 1 << 40} {
			require.Empty(t, readAll(t, log, "s", after), "at or beyond the terminal event")
		}
	}},

	{"while it is written", func(t *testing.T, log Log) {
		ctx := t.Context()
		const followers, batches = 8, 30
		var g errgroup.Group
		for i := range followers {
			after := int64(i)
			g.Go(func() error { // begins before the stream exists
				next := after
				for e, err := range log.Follow(ctx, "s", after) {
					if err != nil {
						return err
					}
					if next++; e.Meta.EventIndex != next {
						return fmt.Errorf("index %d instead of %d", e.Meta.EventIndex, next)
					}
				}
				if next != 2*batches+1 {
					return fmt.Errorf("ended at %d", next)
				}
				return nil
			})
		}
		f := begin(t, ctx, log, "s", "p")
		for b := range batches {
			write(t, ctx, log, f, int64(b), "a", "b")
		}
		finish(t, ctx, log, "s")
		require.NoError(t, g.Wait())
	}},

	{"each event as it comes", func(t *testing.T, log Log) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		f := begin(t, ctx, log, "s", "p")
		write(t, ctx, log, f, 0, "0")
		i := int64(0)
		for e, err := range log.Follow(ctx, "s", 0) {
			require.NoError(t, err)
			if e.Terminal() {
				break
			}
			require.Equal(t, fmt.Sprint(i), e.Text)
			if i++; i == 20 {
				finish(t, ctx, log, "s")
			} else {
				write(t, ctx, log, f, i, fmt.Sprint(i))
			}
		}
		require.Equal(t, int64(20), i)
	}},

	{"ahead of an open stream", func(t *testing.T, log Log) {
		ctx := t.Context()
		f := begin(t, ctx, log, "s", "p")
		write(t, ctx, log, f, 1, "1")
		var got []agent.Event
		var g errgroup.Group
		g.Go(func() (err error) {
			got, err = tryReadN(log, "s", 2, -1)
			return err
		})
		write(t, ctx, log, f, 2, "2")
		write(t, ctx, log, f, 3, "3")
		finish(t, ctx, log, "s")
		require.NoError(t, g.Wait())
		require.Equal(t, []string{"3", "COMPLETED"}, texts(got))
	}},

	{"a slow follower stalls only itself", func(t *testing.T, log Log) {
		ctx := t.Context()
		f := begin(t, ctx, log, "s", "p")
		write(t, ctx, log, f, 0, "0")
		stalled, resume := make(chan struct{}), make(chan struct{})
		slow := make(chan int, 1)
		go func() {
			n := 0
			for _, err := range log.Follow(ctx, "s", 0) {
				if err != nil {
					break
				}
				if n++; n == 1 {
					close(stalled)
					<-resume
				}
			}
			slow <- n
		}()
		<-stalled
		const batches = 150
		for b := range int64(batches) {
			write(t, ctx, log, f, b+1, "a", "b", "c", "d")
		}
		finish(t, ctx, log, "s")
		require.Len(t, readAll(t, log, "s", 0), 4*batches+2, "another follower has read it all")
		close(resume)
		require.Equal(t, 4*batches+2, <-slow, "the slow one misses nothing")
	}},

	{"a cancelled context", func(t *testing.T, log Log) {
		write(t, t.Context(), log, begin(t, t.Context(), log, "open", "p"), 1, "a", "b")
		for _, id := range []string{"none", "open"} {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(20*time.Millisecond, cancel)
			start := time.Now()
			require.ErrorIs(t, followError(ctx, log, id, 0), context.Canceled)
			require.Less(t, time.Since(start), 2*time.Second)
			require.ErrorIs(t, followError(ctx, log, id, 0), context.Canceled, "cancelled before it begins")
		}
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		for _, err := range log.Follow(ctx, "open", 0) {
			if err != nil {
				require.ErrorIs(t, err, context.Canceled)
				break
			}
			n++
			cancel()
		}
		require.Equal(t, 1, n, "what was read ahead is not yielded")

		_, err := log.Append(ctx, agent.Fence{StreamID: "open", Producer: "p", Epoch: 1}, 2, tokens("c"))
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, agent.CodeCancelled, agent.CodeOf(err))
		ctx, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, followError(ctx, log, "open", 2), context.DeadlineExceeded)
		_, err = log.Append(ctx, agent.Fence{StreamID: "open", Producer: "p", Epoch: 1}, 2, tokens("c"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
	}},

	{"it says when it waits", func(t *testing.T, log Log) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		f := begin(t, ctx, log, "s", "p")
		write(t, ctx, log, f, 1, "a", "b")
		seen, sent := 0, 0 // what a consumer holds back until the log waits
		waiting := agent.OnWait(ctx, func() {
			if sent = seen; sent == 2 {
				write(t, ctx, log, f, 2, "c")
			}
			if sent == 3 {
				cancel()
			}
		})
		for _, err := range log.Follow(waiting, "s", 0) {
			if err != nil {
				require.ErrorIs(t, err, context.Canceled)
				break
			}
			seen++
		}
		require.Equal(t, 3, sent)
	}},

	{"a follower can be used again", func(t *testing.T, log Log) {
		finish(t, t.Context(), log, "s")
		events := log.Follow(t.Context(), "s", 0)
		for range 2 {
			n := 0
			for _, err := range events {
				require.NoError(t, err)
				n++
			}
			require.Equal(t, 1, n)
		}
	}},

	{"no goroutine is left", func(t *testing.T, log Log) {
		f := begin(t, t.Context(), log, "s", "p")
		write(t, t.Context(), log, f, 1, "a", "b")
		readN(t, log, "s", 0, 1)
		before := goleak.IgnoreCurrent()
		ctx, cancel := context.WithCancel(t.Context())
		var g errgroup.Group
		for i := range 20 {
			g.Go(func() error {
				for range log.Follow(ctx, "s", 0) {
					if i%2 == 0 {
						break // has had enough
					}
				}
				return nil
			})
		}
		write(t, t.Context(), log, f, 2, "c")
		cancel()
		require.NoError(t, g.Wait())
		require.NoError(t, goleak.Find(before))
	}},
}

var outliving = []testCase{
	{"a producer's cut-off request", func(t *testing.T, log Log) {
		// The producer's own deadline passes in the middle of requests; whatever happened to each of them, sending it again
		// puts it into the log exactly once.
		f := begin(t, t.Context(), log, "s", "p")
		var want []string
		for b := range int64(40) {
			text := fmt.Sprint(b)
			want = append(want, text)
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(b)*50*time.Microsecond)
			_, err := log.Append(ctx, f, b, tokens(text))
			cancel()
			if err != nil {
				require.ErrorIs(t, err, context.DeadlineExceeded, "%v", err)
			}
			write(t, t.Context(), log, f, b, text)
		}
		finish(t, t.Context(), log, "s")
		require.Equal(t, append(want, "COMPLETED"), texts(readAll(t, log, "s", 0)))
	}},
}
