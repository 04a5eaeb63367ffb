package mcp

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/turnstone-run/turnstone/agent"
)

// TestFloodOfNotifications checks that a tool that sends too many notifications loses its session, and that the next call gets a new one.
func TestFloodOfNotifications(t *testing.T) {
	overBoth(t, 30, func(t *testing.T, kit *fixture, scope agent.ToolScope) {
		flood := kit.find(t, scope, "flood")
		s := kit.only(t)
		result, err := flood.Call(t.Context(), invocationOf(scope), agent.ToolCall{ID: "c", Name: "flood", Args: []byte(`{"text":""}`)})
		require.NoError(t, err)
		require.NotNil(t, result.Failure)
		require.Equal(t, agent.OutcomeUnknown, result.Failure.Type)
		require.Contains(t, result.Failure.Message, "more notifications than are taken")
		require.Less(t, s.link.notices.seen.Load(), int64(20_000), "the rest is not read")
		require.JSONEq(t, `{"sum":3}`, string(kit.call(t, scope, "sum", `{"a":1,"b":2}`).Output), "in a new session")
		require.False(t, s.isAlive())
		require.Equal(t, 1, kit.logs.FilterMessageSnippet("too many notifications").Len())
	})
}

// TestExhaustedSession checks that a session is not used after too many notifications, even before it is closed.
func TestExhaustedSession(t *testing.T) {
	s := &session{link: &link{notices: newNotices()}}
	s.ctx, s.cancel = context.WithCancel(t.Context())
	defer s.cancel()
	require.True(t, s.isAlive())
	for s.link.notices.allow(1 << 20) {
		continue
	}
	require.False(t, s.isAlive())
}

// openScripted opens a session with a server over pipes. When a tool is called, the server calls onCall with a function that writes a line.
func openScripted(t *testing.T, cfg *Config, onCall func(write func(format string, args ...any) bool)) (*Toolkit, *session) {
	t.Helper()
	kit, err := New(*cfg)
	require.NoError(t, err)
	serverIn, toServer := io.Pipe()
	fromServer, serverOut := io.Pipe()
	write := func(format string, args ...any) bool {
		_, err := fmt.Fprintf(serverOut, format+"\n", args...)
		return err == nil
	}
	go func() {
		lines := bufio.NewScanner(serverIn)
		answers := strings.Split(seeds()[0], "\n")[:2]
		for lines.Scan() {
			switch {
			case len(answers) > 0:
				write("%s", answers[0])
				answers = answers[1:]
			case strings.Contains(lines.Text(), `"tools/call"`):
				go onCall(write)
			}
		}
	}()
	s, err := open(t.Context(), "talking", func() *link {
		return pipeLink(fromServer, toServer, func() { _ = fromServer.Close(); _ = serverIn.Close() })
	}, nil, &kit.cfg)
	require.NoError(t, err)
	t.Cleanup(s.close)
	return kit, s
}

// callOnce calls a tool in a session, with a timeout in seconds.
func callOnce(t *testing.T, kit *Toolkit, s *session, seconds int) (agent.ToolResult, error) {
	t.Helper()
	b, err := parseBinding(fmt.Appendf(nil, `{"server":"talking","timeout_sec":%d}`, seconds))
	require.NoError(t, err)
	tool := &remoteTool{kit: kit, binding: b, handle: handle{Name: "t"}, spec: agent.ToolSpec{Name: "t"}}
	return tool.send(t.Context(), s, agent.Invocation{}, agent.ToolCall{Args: []byte(`{}`)})
}

const answerText = `{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"hi"}]}}`

// TestDroppedLogs checks that log messages beyond the rate of the log are dropped, and do not end the session.
func TestDroppedLogs(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	kit, s := openScripted(t, &Config{Logger: zap.New(core)}, func(write func(string, ...any) bool) {
		for range 1500 {
			write(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`)
		}
		write(answerText)
	})
	result, err := callOnce(t, kit, s, 30)
	require.NoError(t, err)
	require.JSONEq(t, `"hi"`, string(result.Output))
	require.EqualValues(t, 1500, s.link.notices.seen.Load())
	require.True(t, s.isAlive())
	require.Less(t, logs.FilterMessage("MCP server logs").Len(), 500)
}

// TestDropsBeforeTheQueue checks that surplus log messages are dropped before the SDK's queue, which has no bound.
func TestDropsBeforeTheQueue(t *testing.T) {
	r, w := io.Pipe()
	defer r.Close()
	go func() {
		for range 1000 {
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`+"\n")
		}
		_, _ = io.WriteString(w, answerText+"\n")
		_ = w.Close()
	}()
	conn, err := (&pipeTransport{in: r, out: w, notices: newNotices()}).Connect(t.Context())
	require.NoError(t, err)
	passed := 0
	for {
		if _, err := conn.Read(t.Context()); err != nil {
			require.ErrorIs(t, err, io.EOF)
			break
		}
		passed++
	}
	require.Less(t, passed, 500)
	require.Greater(t, passed, logBurst)
}

func TestTimedOutBehindNotifications(t *testing.T) {
	for count, retired := range map[int]bool{0: false, floodThreshold / 2: false, 2 * floodThreshold: true} {
		kit, s := openScripted(t, &Config{}, func(write func(string, ...any) bool) {
			for range count {
				write(`{"jsonrpc":"2.0","method":"notifications/other"}`)
			}
		})
		_, err := callOnce(t, kit, s, 1)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, retired, !s.isAlive(), "after %d", count)
	}
}

func TestNoticeBounds(t *testing.T) {
	n := newNotices()
	for i := range 16 {
		require.True(t, n.allow(1<<20), i)
	}
	require.False(t, n.allow(2<<20), "bytes")
	require.False(t, n.allow(1), "it stays so")
	require.True(t, n.isOver())

	n = newNotices()
	taken := 0
	for began := time.Now(); time.Since(began) < 10*time.Second && n.allow(1); {
		taken++
	}
	require.GreaterOrEqual(t, taken, noticeBurst)
	require.True(t, n.isOver())
}

// TestEventMeter checks that all events of a stream but the last are counted, however the stream is split.
func TestEventMeter(t *testing.T) {
	stream := ": hello\n\nevent: message\ndata: {}\n\ndata: a\r\ndata: b\r\n\r\n\n\nid: 1\ndata:\n\ndata: the answer\n\n"
	for _, piece := range []int{1, 7, len(stream)} {
		m := &eventMeter{notices: newNotices()}
		for rest := stream; rest != ""; rest = rest[min(piece, len(rest)):] {
			require.True(t, m.read([]byte(rest[:min(piece, len(rest))])))
		}
		require.EqualValues(t, 4, m.notices.seen.Load(), "pieces of %d", piece)
		require.Equal(t, len("data: the answer"), m.previous)
	}
	large := &eventMeter{notices: newNotices()}
	answer := append([]byte("data: "), make([]byte, maxFrame+1)...)
	require.True(t, large.read(append(answer, "\n\n"...)), "an answer may be large")
	require.False(t, large.read([]byte("data: more\n\n")), "a notification may not")
}
