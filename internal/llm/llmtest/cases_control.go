package llmtest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// maxAbortTime is how long a cancelled request may go on.
const maxAbortTime = time.Second

// requireDisconnect checks that the client left within maxAbortTime since a moment.
func (c *caseRun) requireDisconnect(s *server, since time.Time) {
	select {
	case <-s.disconnected:
		require.Less(c, time.Since(since), maxAbortTime, "the request outlived its caller")
	case <-time.After(5 * time.Second):
		require.Fail(c, "the server still has its client")
	}
}

// serveStalled starts a server that begins a reply and then sends nothing more.
func (c *caseRun) serveStalled() *server {
	return c.serve(func(x *exchange) { x.sendHalf(TextReply(sentence, 2)); x.waitForDisconnect() })
}

func withTimeout(d time.Duration) func(*wire.Config) {
	return func(cfg *wire.Config) { cfg.Timeout = d }
}

func withMaxReplyBytes(n int64) func(*wire.Config) {
	return func(cfg *wire.Config) { cfg.MaxReplyBytes = n }
}

func discard(agent.Delta) error { return nil }

func controlCases() []testCase {
	return slices.Concat(cancelCases(), timeoutCases(), sizeCases())
}

func cancelCases() []testCase {
	return []testCase{
		{"control/emit's error aborts", func(c *caseRun) {
			s := c.serveStalled()
			refusal := errors.New("enough")
			var refusedAt time.Time
			calls := 0
			_, err := c.openModel(s).Generate(context.Background(), simpleRequest(), func(agent.Delta) error {
				calls++
				refusedAt = time.Now()
				return refusal
			})
			require.True(c, err == refusal, "emit's error is returned unchanged, got %v", err) //nolint:testifylint,errorlint // identity is the contract
			require.Equal(c, 1, calls, "emit is not called again")
			c.requireDisconnect(s, refusedAt)
		}},
		{"control/cancel in mid-stream", func(c *caseRun) {
			s := c.serveStalled()
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			var cancelledAt time.Time
			text := ""
			_, err := c.openModel(s).Generate(ctx, simpleRequest(), func(d agent.Delta) error {
				if text += d.Text; len(text) > 4 && cancelledAt.IsZero() {
					cancelledAt = time.Now()
					cancel()
				}
				return nil
			})
			c.requireError(outcome{err: err}, agent.CodeCancelled)
			require.ErrorIs(c, err, context.Canceled)
			c.requireDisconnect(s, cancelledAt)
		}},
		{"control/cancel before the first byte", func(c *caseRun) {
			arrived := make(chan struct{})
			s := c.serve(func(x *exchange) { close(arrived); x.waitForDisconnect() })
			ctx, cancel := context.WithCancelCause(context.Background())
			defer cancel(nil)
			cause := errors.New("the user left")
			var cancelledAt time.Time
			go func() {
				<-arrived
				cancelledAt = time.Now()
				cancel(cause)
			}()
			_, err := c.openModel(s).Generate(ctx, simpleRequest(), discard)
			c.requireError(outcome{err: err}, agent.CodeCancelled)
			require.ErrorIs(c, err, context.Canceled)
			require.ErrorIs(c, err, cause)
			c.requireDisconnect(s, cancelledAt)
		}},
		{"control/deadline of the caller", func(c *caseRun) {
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			defer cancel()
			_, err := c.openModel(c.serveStalled()).Generate(ctx, simpleRequest(), discard)
			c.requireError(outcome{err: err}, agent.CodeUnavailable)
			require.ErrorIs(c, err, context.DeadlineExceeded)
		}},
	}
}

func timeoutCases() []testCase {
	requireTimeout := func(c *caseRun, s *server) {
		e := c.requireError(generate(c.openModel(s, withTimeout(150*time.Millisecond)), simpleRequest()), agent.CodeUnavailable)
		require.Contains(c, e.Error(), "not a byte for 150ms")
		c.requireDisconnect(s, time.Now())
	}
	return []testCase{
		{"control/silence before the first byte", func(c *caseRun) {
			requireTimeout(c, c.serve(func(x *exchange) { x.waitForDisconnect() }))
		}},
		{"control/silence in mid-stream", func(c *caseRun) { requireTimeout(c, c.serveStalled()) }},
		{"control/slow is not silent", func(c *caseRun) {
			frames := c.h.Dialect.Frames(TextReply("slowly", 1))
			s := c.serve(func(x *exchange) {
				for _, f := range frames {
					x.send(f)
					select { // the whole reply takes longer than the timeout
					case <-time.After(350 * time.Millisecond):
					case <-x.r.Context().Done():
					}
				}
			})
			o := generate(c.openModel(s, withTimeout(2500*time.Millisecond)), simpleRequest())
			require.NoError(c, o.err)
			require.Equal(c, "slowly", o.text)
		}},
		{"control/a slow reader is not silence", func(c *caseRun) {
			s := c.serveReply(TextReply("abcdef", 1))
			_, err := c.openModel(s, withTimeout(time.Second)).Generate(context.Background(), simpleRequest(), func(agent.Delta) error {
				<-time.After(220 * time.Millisecond)
				return nil
			})
			require.NoError(c, err)
		}},
	}
}

func sizeCases() []testCase {
	return []testCase{
		{"control/endless reply", func(c *caseRun) {
			frames := c.h.Dialect.Frames(TextReply(strings.Repeat("x", 4096), 1024))
			s := c.serve(func(x *exchange) {
				x.send(frames[:len(frames)/2]...)
				for x.r.Context().Err() == nil {
					x.send(frames[len(frames)/2-1])
				}
			})
			o := generate(c.openModel(s, withMaxReplyBytes(64<<10)), simpleRequest())
			c.requireError(o, agent.CodeOverflow)
			require.LessOrEqual(c, len(o.text), 64<<10)
			c.requireDisconnect(s, time.Now())
		}},
		{"control/endless without a reply", func(c *caseRun) {
			s := c.serve(func(x *exchange) {
				for x.r.Context().Err() == nil {
					x.send(strings.Repeat(x.dialect.traits().KeepAlive, 200))
				}
			})
			c.requireError(generate(c.openModel(s, withMaxReplyBytes(64<<10)), simpleRequest()), agent.CodeOverflow)
			c.requireDisconnect(s, time.Now())
		}},
	}
}
