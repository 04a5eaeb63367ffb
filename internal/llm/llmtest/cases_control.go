package llmtest

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// moments is how long an abort may take: a turn that is cancelled ends within a second.
const moments = time.Second

func (c *C) context() context.Context { return context.Background() }

// leaves checks that the provider sees its client go within moments.
func (c *C) leaves(s *server, since time.Time) {
	select {
	case <-s.gone:
		require.Less(c, time.Since(since), moments, "the request outlived its caller")
	case <-time.After(5 * time.Second):
		require.Fail(c, "the server still has its client")
	}
}

// endless starts a provider that begins a reply and then says nothing more.
func (c *C) endless() *server {
	return c.serve(func(x *exchange) { x.send(c.half()...); x.wait() })
}

func controlCases() []testCase {
	return []testCase{
		{"control/emit's error aborts", func(c *C) {
			s := c.endless()
			refusal := errors.New("enough")
			var at time.Time
			calls := 0
			_, err := c.model(s).Generate(c.context(), ask(), func(agent.Delta) error {
				calls++
				at = time.Now()
				return refusal
			})
			require.True(c, err == refusal, "the very error comes back, got %v", err) //nolint:testifylint,errorlint // identity is the contract
			require.Equal(c, 1, calls, "emit is not called again")
			c.leaves(s, at)
		}},
		{"control/cancel in mid-stream", func(c *C) {
			s := c.endless()
			ctx, cancel := context.WithCancel(c.context())
			defer cancel()
			var at time.Time
			text := ""
			_, err := c.model(s).Generate(ctx, ask(), func(d agent.Delta) error {
				if text += d.Text; len(text) > 4 && at.IsZero() {
					at = time.Now()
					cancel()
				}
				return nil
			})
			c.fails(outcome{err: err}, agent.CodeCancelled)
			require.ErrorIs(c, err, context.Canceled)
			c.leaves(s, at)
		}},
		{"control/cancel before the first byte", func(c *C) {
			arrived := make(chan struct{})
			s := c.serve(func(x *exchange) { close(arrived); x.wait() })
			ctx, cancel := context.WithCancelCause(c.context())
			defer cancel(nil)
			cause := errors.New("the user left")
			var at time.Time
			go func() {
				<-arrived
				at = time.Now()
				cancel(cause)
			}()
			_, err := c.model(s).Generate(ctx, ask(), func(agent.Delta) error { return nil })
			c.fails(outcome{err: err}, agent.CodeCancelled)
			require.ErrorIs(c, err, context.Canceled)
			require.ErrorIs(c, err, cause)
			c.leaves(s, at)
		}},
		{"control/deadline of the caller", func(c *C) {
			ctx, cancel := context.WithTimeout(c.context(), 100*time.Millisecond)
			defer cancel()
			_, err := c.model(c.endless()).Generate(ctx, ask(), func(agent.Delta) error { return nil })
			c.fails(outcome{err: err}, agent.CodeUnavailable)
			require.ErrorIs(c, err, context.DeadlineExceeded)
		}},
		{"control/silence before the first byte", func(c *C) {
			s := c.serve(func(x *exchange) { x.wait() })
			o := generate(c.model(s, silence(150*time.Millisecond)), ask())
			e := c.fails(o, agent.CodeUnavailable)
			require.Contains(c, e.Error(), "not a byte for 150ms")
			c.leaves(s, time.Now())
		}},
		{"control/silence in mid-stream", func(c *C) {
			s := c.endless()
			e := c.fails(generate(c.model(s, silence(150*time.Millisecond)), ask()), agent.CodeUnavailable)
			require.Contains(c, e.Error(), "not a byte for 150ms")
			c.leaves(s, time.Now())
		}},
		{"control/slow is not silent", func(c *C) {
			frames := c.h.Dialect.Frames(TextReply("slowly", 1))
			s := c.serve(func(x *exchange) {
				for _, f := range frames {
					x.send(f)
					select { // the pace of a slow provider: in all longer than the silence allowed
					case <-time.After(350 * time.Millisecond):
					case <-x.r.Context().Done():
					}
				}
			})
			o := generate(c.model(s, silence(2500*time.Millisecond)), ask())
			require.NoError(c, o.err)
			require.Equal(c, "slowly", o.text)
		}},
		{"control/a slow reader is not silence", func(c *C) {
			s := c.replies(TextReply("abcdef", 1))
			_, err := c.model(s, silence(time.Second)).Generate(c.context(), ask(), func(agent.Delta) error {
				<-time.After(220 * time.Millisecond) // the pace of a slow log
				return nil
			})
			require.NoError(c, err)
		}},
		{"control/endless reply", func(c *C) {
			frames := c.h.Dialect.Frames(TextReply(strings.Repeat("x", 4096), 1024))
			s := c.serve(func(x *exchange) {
				x.send(frames[:len(frames)/2]...)
				for x.r.Context().Err() == nil {
					x.send(frames[len(frames)/2-1])
				}
			})
			o := generate(c.model(s, bound(64<<10)), ask())
			c.fails(o, agent.CodeOverflow)
			require.LessOrEqual(c, len(o.text), 64<<10)
			c.leaves(s, time.Now())
		}},
		{"control/endless without a reply", func(c *C) {
			s := c.serve(func(x *exchange) {
				for x.r.Context().Err() == nil {
					x.send(strings.Repeat(x.dialect.traits().Idle, 200))
				}
			})
			c.fails(generate(c.model(s, bound(64<<10)), ask()), agent.CodeOverflow)
			c.leaves(s, time.Now())
		}},
	}
}

func silence(d time.Duration) func(*wire.Config) {
	return func(cfg *wire.Config) { cfg.Timeout = d }
}

func bound(n int64) func(*wire.Config) {
	return func(cfg *wire.Config) { cfg.MaxReplyBytes = n }
}
