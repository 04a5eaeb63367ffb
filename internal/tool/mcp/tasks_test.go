package mcp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// TestListReader checks that a list is read as JSON and as events, however it is split.
func TestListReader(t *testing.T) {
	t.Parallel()
	const list = `{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"task","execution":{"taskSupport":"required"}},` +
		`{"name":"may","execution":{"taskSupport":"optional"}},{"name":"plain"}]}}`
	ping := `event: message` + "\n" + `data: {"jsonrpc":"2.0","method":"notifications/x"}` + "\n\n"
	for name, c := range map[string]struct {
		body   string
		events bool
	}{
		"JSON":             {list, false},
		"event":            {ping + "data: " + list + "\n\n" + ping, true},
		"CRLF":             {strings.ReplaceAll(ping+"data:"+list+"\n\n", "\n", "\r\n"), true},
		"several lines":    {"data: " + strings.Replace(list, `,"id"`, ",\ndata: \"id\"", 1) + "\n\n", true},
		"without its end":  {ping + "data: " + list + "\n", true},
		"behind something": {"data: {\n\ndata: " + list + "\n\n", true},
	} {
		for _, size := range []int{1, 7, len(c.body)} {
			tasks := &taskTools{}
			l := &listReader{tools: tasks, isEventStream: c.events}
			for rest := c.body; rest != ""; {
				piece := rest[:min(size, len(rest))]
				rest = rest[len(piece):]
				l.read([]byte(piece), rest == "")
			}
			require.True(t, tasks.contains("task"), "%s in pieces of %d", name, size)
			require.False(t, tasks.contains("may") || tasks.contains("plain"), name)
			tasks.readList(json.RawMessage(`{"tools":[{"name":"task","execution":{"taskSupport":"forbidden"}}]}`))
			require.False(t, tasks.contains("task"), "it has changed")
		}
	}
}

// TestUnsupportedFeatures checks that a question to a person is answered with an error, and that a tool that runs only as a task is not listed.
func TestUnsupportedFeatures(t *testing.T) {
	t.Parallel()
	in, serverOut := io.Pipe()
	serverIn, out := io.Pipe()
	said := make(chan map[string]json.RawMessage, 100)
	go func() {
		lines := bufio.NewScanner(serverIn)
		answer := func(id json.RawMessage, body string) {
			_, _ = fmt.Fprintf(serverOut, `{"jsonrpc":"2.0","id":%s,%s}`+"\n", id, body)
		}
		for lines.Scan() {
			var msg map[string]json.RawMessage
			_ = json.Unmarshal(lines.Bytes(), &msg)
			said <- msg
			if msg["id"] == nil { // a notification
				continue
			}
			switch string(msg["method"]) {
			case `"initialize"`:
				answer(msg["id"], `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"e","version":"1"}}`)
			case `"tools/list"`:
				answer(msg["id"], `"result":{"tools":[{"name":"task","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}},{"name":"plain","inputSchema":{"type":"object"}}]}`)
				_, _ = fmt.Fprintln(serverOut, `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"mode":"form","message":"who?","requestedSchema":{"type":"object","properties":{}}}}`)
			case "":
			default:
				answer(msg["id"], `"error":{"code":-32601,"message":"no"}`)
			}
		}
	}()
	stop := func() { _ = serverIn.Close(); _ = serverOut.Close(); _ = in.Close(); _ = out.Close() }
	s, err := connect(t.Context(), "e", pipeLink(in, out, stop), nil, &Config{Logger: zap.NewNop()}, legacyProtocol)
	require.NoError(t, err)
	defer s.close()
	tools, err := s.list(t.Context())
	require.NoError(t, err)
	require.Len(t, tools, 1)
	require.Equal(t, "plain", tools[0].name)
	for {
		select {
		case msg := <-said:
			if string(msg["method"]) == `"initialize"` {
				require.NotContains(t, string(msg["params"]), "elicitation")
			}
			if string(msg["id"]) == `"q"` {
				require.Contains(t, string(msg["error"]), "-32602", "as the protocol wants it")
				return
			}
		case <-time.After(10 * time.Second):
			t.Fatal("the question was not answered")
		}
	}
}
