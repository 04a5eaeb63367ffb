package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

// script is a server that sends the next line of a script after each write to it, or after a pause, and ends after the last line.
type script struct {
	mu    sync.Mutex
	lines [][]byte
	out   *io.PipeWriter
	turns chan struct{}
}

func newScript(lines [][]byte) (*script, io.ReadCloser) {
	r, w := io.Pipe()
	s := &script{lines: lines, out: w, turns: make(chan struct{}, 1000)}
	turns := s.turns
	go func() {
		defer w.Close()
		for {
			select {
			case _, open := <-turns:
				if !open {
					return
				}
			case <-time.After(5 * time.Millisecond): // the last line was no answer, so nobody writes
			}
			s.mu.Lock()
			if len(s.lines) == 0 {
				s.mu.Unlock()
				return
			}
			line := s.lines[0]
			s.lines = s.lines[1:]
			s.mu.Unlock()
			if _, err := w.Write(append(line, '\n')); err != nil {
				return
			}
		}
	}()
	return s, r
}

func (s *script) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turns != nil {
		select {
		case s.turns <- struct{}{}:
		default:
		}
	}
	return len(p), nil
}

func (s *script) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turns != nil {
		close(s.turns)
		s.turns = nil
	}
	return s.out.Close()
}

// pipeLink returns a link over pipes to a fake server.
func pipeLink(in io.ReadCloser, out io.WriteCloser, stop func(), values ...string) *link {
	n, tasks := newNotices(), &taskTools{}
	return &link{
		transport: &pipeTransport{in: in, out: out, notices: n, tasks: tasks}, secrets: newSecretMasker(values...), mayMissNotices: func() bool { return false }, notices: n, stop: stop,
		tasks: tasks,
	}
}

// scripted returns a link to a server that sends lines, over pipes or HTTP.
func scripted(data []byte, web bool) func() *link {
	lines := bytes.Split(data, []byte("\n"))
	return func() *link {
		if web {
			c := newCarrier(&scriptedHTTP{lines: lines}, nil, nil)
			return &link{transport: c.transport("http://evil.example/mcp"), secrets: c.secrets, stop: c.cancel, mayMissNotices: c.hasNoStream.Load, notices: c.notices, tasks: c.tasks}
		}
		s, out := newScript(lines)
		return pipeLink(out, s, func() { _ = s.Close(); _ = out.Close() }, "secret-value")
	}
}

// runSession runs a session with a scripted server as the toolkit would: it opens it, lists the tools, calls one, and closes it.
func runSession(t *testing.T, kit *Toolkit, patience time.Duration, l func() *link) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	began := time.Now()
	defer func() { require.Less(t, time.Since(began), 10*time.Second, "it hangs") }()
	s, err := open(ctx, "evil", l, nil, &kit.cfg)
	if err != nil {
		require.NotEmpty(t, agent.CodeOf(err))
		return
	}
	defer s.close()
	tools, err := s.list(ctx)
	if err != nil {
		return
	}
	b, err := parseBinding(json.RawMessage(`{"server":"evil","timeout_sec":2}`))
	require.NoError(t, err)
	list, err := listTools(b, tools)
	require.NoError(t, err)
	for i := range list {
		require.Regexp(t, `^[a-zA-Z0-9_-]{1,64}$`, list[i].Spec.Name)
		require.True(t, json.Valid(list[i].Spec.Parameters))
		require.LessOrEqual(t, len(list[i].Handle), 1<<10)
	}
	tool := &remoteTool{kit: kit, binding: b, handle: handle{Name: "t"}, spec: agent.ToolSpec{Name: "t"}}
	result, err := tool.send(ctx, s, agent.Invocation{}, agent.ToolCall{Args: json.RawMessage(`{}`)})
	if result, err = tool.finalResult(agent.Invocation{}, result, err); err == nil {
		require.True(t, json.Valid(result.Output), "%s", result.Output)
	}
}

func seeds() []string {
	initialize := `{"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"e","version":"1"}}}`
	refuse := `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}`
	tools := `{"jsonrpc":"2.0","id":3,"result":{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}}`
	// The notification "initialized" is answered with a notification.
	greet := strings.Join([]string{refuse, initialize, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`, tools}, "\n") + "\n"
	return []string{
		greet + `{"jsonrpc":"2.0","id":4,"result":{"content":[{"type":"text","text":"hi"}],"structuredContent":{"a":1}}}`,
		greet + `{"jsonrpc":"2.0","id":4,"result":{"content":[{"type":"image","data":"!!","mimeType":"x"}]}}`,
		greet + `{"jsonrpc":"2.0","id":4,"result":{"content":[null,{"type":"other"}]}}`,
		greet + `{"jsonrpc":"2.0","id":4,"result":null}`,
		greet + `{"jsonrpc":"2.0","id":4,"error":{"code":-32602,"message":"bad\u001b"}}`,
		greet + `{"jsonrpc":"2.0","id":4,"result":{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create"}}}}`,
		refuse + "\n" + initialize + "\n{}\n" + `{"jsonrpc":"2.0","id":3,"result":{"tools":[null,{"name":"","inputSchema":[]}],"nextCursor":"x"}}`,
		refuse + "\n" + initialize + "\n" + `{"jsonrpc":"2.0","id":"x","method":"sampling/createMessage","params":null}` + "\n" + tools,
		refuse + "\n" + initialize + "\n" + `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":{}}}` + "\n" + tools,
		refuse + "\n" + `{"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"1"}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}}` + "\n" + tools,
		`[]`, `[{"jsonrpc":"2.0","id":1,"result":{}}]`, `null`, `{"jsonrpc":"2.0","id":1}`, strings.Repeat("[", 20_000), "\xff\xfe", "",
	}
}

// TestFrames runs the seeds of FuzzFrames with longer timeouts.
func TestFrames(t *testing.T) {
	kit, err := New(Config{Logger: zap.NewNop()})
	require.NoError(t, err)
	for _, s := range seeds() {
		for _, web := range []bool{false, true} {
			runSession(t, kit, 300*time.Millisecond, scripted([]byte(s), web))
		}
	}
	require.NoError(t, kit.Close())
}

// FuzzFrames runs a session in memory for each input. Its coverage depends on timing, so minimising inputs takes most of the time: fuzz with
// -fuzzminimizetime 1x.
func FuzzFrames(f *testing.F) {
	for _, s := range seeds() {
		f.Add([]byte(s), false)
		f.Add([]byte(s), true)
	}
	f.Fuzz(func(t *testing.T, data []byte, web bool) {
		if len(data) > 1<<16 {
			return
		}
		runSession(t, &Toolkit{cfg: Config{Logger: zap.NewNop()}}, 50*time.Millisecond, scripted(data, web))
	})
}

// scriptedHTTP is an HTTP server that answers each POST with the next line, as JSON or as an event.
type scriptedHTTP struct {
	mu    sync.Mutex
	lines [][]byte
}

func (s *scriptedHTTP) Do(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resp := &http.Response{StatusCode: http.StatusAccepted, Header: http.Header{}, Body: http.NoBody, Request: r}
	if r.Method != http.MethodPost || len(s.lines) == 0 {
		resp.StatusCode = http.StatusMethodNotAllowed
		return resp, nil
	}
	line := s.lines[0]
	s.lines = s.lines[1:]
	resp.StatusCode = http.StatusOK
	resp.Header.Set("Content-Type", "application/json")
	resp.Header.Set("Mcp-Session-Id", "s")
	if len(line)%2 == 1 {
		resp.Header.Set("Content-Type", "text/event-stream")
		line = fmt.Appendf(nil, "data: %s\n\n", line)
	}
	resp.Body = io.NopCloser(bytes.NewReader(line))
	return resp, nil
}

// TestFloodOfRequests checks that a server that sends requests without end, and does not read the answers, loses its session.
func TestFloodOfRequests(t *testing.T) {
	kit, err := New(Config{Logger: zap.NewNop()})
	require.NoError(t, err)
	serverIn, toServer := io.Pipe()
	fromServer, serverOut := io.Pipe()
	l := pipeLink(fromServer, toServer, func() { _ = fromServer.Close(); _ = serverIn.Close() })
	go func() {
		lines := bufio.NewScanner(serverIn)
		for _, answer := range strings.Split(seeds()[0], "\n")[:2] {
			lines.Scan()
			_, _ = io.WriteString(serverOut, answer+"\n")
		}
		lines.Scan() // initialized; nothing is read after it
		for i := 0; ; i++ {
			if _, err := fmt.Fprintf(serverOut, `{"jsonrpc":"2.0","id":"p%d","method":"ping"}`+"\n", i); err != nil {
				return
			}
		}
	}()
	s, err := open(t.Context(), "flood", func() *link { return l }, nil, &kit.cfg)
	require.NoError(t, err)
	select {
	case <-s.ended:
	case <-time.After(20 * time.Second):
		require.Fail(t, "the session goes on")
	}
	require.NoError(t, kit.Close())
}

// TestEndlessFrame checks that a frame without an end is not read into memory.
func TestEndlessFrame(t *testing.T) {
	kit, err := New(Config{Logger: zap.NewNop()})
	require.NoError(t, err)
	out, in := io.Pipe()
	s, silent := newScript(nil)
	written := make(chan int, 1)
	go func() {
		n, part := 0, bytes.Repeat([]byte("x"), 1<<20)
		_, _ = in.Write([]byte(`{"a":"`))
		for {
			m, err := in.Write(part)
			n += m
			if err != nil {
				written <- n
				return
			}
		}
	}()
	_, err = open(t.Context(), "endless", func() *link {
		return pipeLink(out, s, func() { _ = s.Close(); _ = out.Close(); _ = silent.Close() })
	}, nil, &kit.cfg)
	require.Error(t, err)
	require.LessOrEqual(t, <-written, maxFrame+(2<<20))
}
