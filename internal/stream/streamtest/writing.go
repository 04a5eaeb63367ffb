package streamtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/turnstone-run/turnstone/agent"
)

var writing = []testCase{
	{"meta is the log's", func(t *testing.T, log Log) {
		ctx := t.Context()
		before := time.Now().Add(-time.Minute)
		f, a, err := log.Begin(ctx, "s", "model/1")
		require.NoError(t, err)
		require.Equal(t, agent.Fence{StreamID: "s", Producer: "model/1", Epoch: 1}, f)
		require.Equal(t, agent.Appended{}, a)
		given := token("a")
		given.Meta = agent.EventMeta{
			StreamID: "other", EventIndex: 99, TurnID: "turn", Attempt: 9, Producer: "other", AgentInstanceID: `i"}{\`, Time: time.Unix(0, 0),
		}
		a, err = log.Append(ctx, f, 1, []agent.Event{given, token("b")})
		require.NoError(t, err)
		require.Equal(t, agent.Appended{LastIndex: 2}, a)
		f = begin(t, ctx, log, "s", "model/1")
		finish(t, ctx, log, "s")

		got := readAll(t, log, "s", 0)
		require.Len(t, got, 4)
		for i := range got {
			require.WithinRange(t, got[i].Meta.Time, before, before.Add(2*time.Minute))
			require.Equal(t, time.UTC, got[i].Meta.Time.Location())
			got[i].Meta.Time = time.Time{}
		}
		m := agent.EventMeta{StreamID: "s", EventIndex: 1, TurnID: "turn", Attempt: 1, Producer: "model/1", AgentInstanceID: `i"}{\`}
		require.Equal(t, m, got[0].Meta)
		m = agent.EventMeta{StreamID: "s", EventIndex: 2, TurnID: "s", Attempt: 1, Producer: "model/1"}
		require.Equal(t, m, got[1].Meta)
		m.EventIndex, m.Attempt = 3, int64(f.Epoch)
		require.Equal(t, agent.Event{Meta: m, Type: agent.EventReset, Producer: "model/1", FromIndex: 1}, got[2])
		require.Equal(t, agent.EventMeta{StreamID: "s", EventIndex: 4, TurnID: "s"}, got[3].Meta)
	}},

	{"events keep every byte", func(t *testing.T, log Log) {
		ctx := t.Context()
		index := 3
		given := []agent.Event{
			{Type: agent.EventToken, Text: "a\u0000b <&> \u2028 \U0001F680 \\u0000 \""},
			{Type: agent.EventToken, Text: "not \xff UTF-8"},
			{Type: agent.EventToolStart, ToolCallID: "call_1", ToolName: "t", Input: json.RawMessage(
				`{"b":1.0,"a":12345678901234567890.123,"e":1e400,"b":-0,"s":"<\u0000\ud800>"}`)},
			{Type: agent.EventToolEnd, ToolCallID: "call_1", Output: json.RawMessage("[\"\xfe\"]"), Failed: true, Ref: "cas://x"},
			{Type: agent.EventToolEnd, ToolCallID: "call_2", Output: json.RawMessage(`null`)},
			{Type: agent.EventContent, ContentBlocks: []agent.Block{{Type: agent.BlockText, Text: "x", Annotations: []agent.Annotation{{Type: "citation", StartIndex: &index}}}}},
			{Type: agent.EventUsage, Usage: &agent.Usage{InputTokens: 1 << 60, CostUSD: 0.1}, Model: "m"},
			{Type: agent.EventStatus, Status: agent.StatusWaiting, Reason: "approval"},
			{Type: agent.EventError, Error: &agent.Failure{Type: "internal", Message: "m"}},
		}
		_, err := log.Append(ctx, begin(t, ctx, log, "s", "p"), 1, given)
		require.NoError(t, err)
		end := agent.Event{Type: agent.EventStatus, Status: agent.StatusFailed, Result: &agent.AgentStepOutput{
			TurnID: "s", Output: "\u0000", Structured: json.RawMessage(`{"n":0.10}`), ResultPreview: json.RawMessage(`null`),
		}}
		require.NoError(t, log.Close(ctx, "s", []agent.Event{{Type: agent.EventUsage, Model: "last"}, end}))

		got := readAll(t, log, "s", 0)
		given[1].Text = "not \uFFFD UTF-8"
		given[3].Output = json.RawMessage("[\"\uFFFD\"]")
		given = append(given, agent.Event{Type: agent.EventUsage, Model: "last"}, end)
		require.Len(t, got, len(given))
		for i := range got {
			got[i].Meta = agent.EventMeta{}
			require.Equal(t, given[i], got[i])
		}
	}},

	{"concurrent producers", func(t *testing.T, log Log) {
		ctx := t.Context()
		const producers, batches, size = 8, 10, 3
		var g errgroup.Group
		for p := range producers {
			g.Go(func() error {
				f, _, err := log.Begin(ctx, "s", fmt.Sprint("tool/", p))
				for b := range batches {
					if err == nil {
						_, err = log.Append(ctx, f, int64(b), tokens(fmt.Sprint(b, ".0"), fmt.Sprint(b, ".1"), fmt.Sprint(b, ".2")))
					}
				}
				return err
			})
		}
		require.NoError(t, g.Wait())
		finish(t, ctx, log, "s")

		got := readAll(t, log, "s", 0) // asserts that indices are contiguous
		require.Len(t, got, producers*batches*size+1)
		next := map[string]int{}
		for _, e := range got[:len(got)-1] {
			p := e.Meta.Producer
			require.Equal(t, fmt.Sprint(next[p]/size, ".", next[p]%size), e.Text, "%s is in order", p)
			next[p]++
		}
	}},

	{"batches count once", func(t *testing.T, log Log) {
		ctx := t.Context()
		f := begin(t, ctx, log, "s", "p")
		first := write(t, ctx, log, f, 1, "a", "b")
		other := begin(t, ctx, log, "s", "q")
		write(t, ctx, log, other, 1, "q") // the same batch of another producer
		write(t, ctx, log, f, 3, "c")
		require.Equal(t, first, write(t, ctx, log, f, 1, "a", "b"), "answers as the first time")
		require.Equal(t, int64(4), write(t, ctx, log, f, 3, "c").LastIndex)
		require.Equal(t, int64(5), write(t, ctx, log, f, 2, "late").LastIndex, "order of arrival counts, not the number")
		f = begin(t, ctx, log, "s", "p")
		write(t, ctx, log, f, 1, "again") // the same batch of another epoch
		finish(t, ctx, log, "s")
		require.Equal(t, []string{"a", "b", "q", "c", "late", "reset", "again", "COMPLETED"}, texts(readAll(t, log, "s", 0)))
	}},

	{"one batch from many at once", func(t *testing.T, log Log) {
		ctx := t.Context()
		f := begin(t, ctx, log, "s", "p")
		var g errgroup.Group
		for range 8 {
			g.Go(func() error {
				a, err := log.Append(ctx, f, 7, tokens("a", "b"))
				if err == nil && a.LastIndex != 2 {
					err = fmt.Errorf("last index %d", a.LastIndex)
				}
				return err
			})
		}
		require.NoError(t, g.Wait())
		finish(t, ctx, log, "s")
		require.Equal(t, []string{"a", "b", "COMPLETED"}, texts(readAll(t, log, "s", 0)))
	}},

	{"large events", func(t *testing.T, log Log) {
		ctx := t.Context()
		f := begin(t, ctx, log, "s", "p")
		var want []string
		for i := range 6 { // more than one page holds
			text := strings.Repeat(string(rune('a'+i)), 1<<20)
			want = append(want, text)
			write(t, ctx, log, f, int64(i), text)
		}
		finish(t, ctx, log, "s")
		require.True(t, slices.Equal(append(want, "COMPLETED"), texts(readAll(t, log, "s", 0)))) // a failure prints no megabytes
	}},

	{"bounds", func(t *testing.T, log Log) {
		ctx := t.Context()
		f := begin(t, ctx, log, "s", "p")
		many := make([]agent.Event, 1001)
		for i := range many {
			many[i] = token("x")
		}
		_, err := log.Append(ctx, f, 1, many)
		require.Equal(t, agent.CodeOverflow, agent.CodeOf(err), "%v", err)
		_, err = log.Append(ctx, f, 1, tokens(strings.Repeat("x", 2<<20), strings.Repeat("x", 2<<20)))
		require.Equal(t, agent.CodeOverflow, agent.CodeOf(err), "%v", err)
		err = log.Close(ctx, "s", slices.Concat(many, terminal(agent.StatusCompleted)))
		require.Equal(t, agent.CodeOverflow, agent.CodeOf(err), "%v", err)

		a, err := log.Append(ctx, f, 1, many[:1000])
		require.NoError(t, err, "a refused batch leaves its number free")
		require.Equal(t, int64(1000), a.LastIndex)
		require.Equal(t, int64(1001), write(t, ctx, log, f, 2, strings.Repeat("x", 3<<20)).LastIndex)
	}},

	{"bad input", func(t *testing.T, log Log) {
		ctx := t.Context()
		f := begin(t, ctx, log, "s", "p")
		invalid := func(err error, field string) {
			t.Helper()
			var e *agent.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, agent.CodeInvalid, e.Code)
			require.Equal(t, field, e.Field)
		}
		for _, name := range []string{"", strings.Repeat("x", 1000), "a\x00b", "\xff"} {
			_, _, err := log.Begin(ctx, name, "p")
			invalid(err, "stream_id")
			_, _, err = log.Begin(ctx, "s", name)
			invalid(err, "producer")
			invalid(log.Cancel(ctx, name), "stream_id")
			invalid(log.Close(ctx, name, terminal(agent.StatusFailed)), "stream_id")
			invalid(followError(ctx, log, name, 0), "stream_id")
			_, err = log.Tail(ctx, name)
			invalid(err, "stream_id")
			_, err = log.Touch(ctx, agent.Fence{StreamID: name, Producer: "p"})
			invalid(err, "stream_id")
			_, err = log.Append(ctx, agent.Fence{StreamID: "s", Producer: name}, 1, tokens("a"))
			invalid(err, "producer")
		}
		invalid(followError(ctx, log, "s", -1), "after")
		_, err := log.Append(ctx, f, 1, terminal(agent.StatusCompleted))
		invalid(err, "")
		_, err = log.Append(ctx, f, 1, []agent.Event{{Type: agent.EventReset, FromIndex: 1}})
		invalid(err, "")
		_, err = log.Append(ctx, f, 1, []agent.Event{{Type: agent.EventToolStart, Input: json.RawMessage(`{"a":`)}})
		invalid(err, "")
		invalid(log.Close(ctx, "s", nil), "")
		invalid(log.Close(ctx, "s", tokens("a")), "")
		invalid(log.Close(ctx, "s", append(terminal(agent.StatusCompleted), terminal(agent.StatusFailed)...)), "")
		tail, err := log.Tail(ctx, "s")
		require.NoError(t, err)
		require.Equal(t, agent.StreamTail{}, tail, "nothing was written")
	}},
}
