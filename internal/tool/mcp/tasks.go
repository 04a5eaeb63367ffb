package mcp

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// maxListRequest bounds the request for a list of tools: a longer one is another.
const maxListRequest = 4 << 10

// taskTools holds the tools of a server that run only as tasks (MCP 2025-11-25, execution.taskSupport). The SDK does not know tasks and
// drops what a list says of them, so lists are read before it gets them. It is safe for concurrent use.
type taskTools struct {
	mu    sync.Mutex
	names map[string]bool
}

// readList reads the result of tools/list.
func (t *taskTools) readList(result json.RawMessage) {
	if !bytes.Contains(result, []byte(`"taskSupport"`)) {
		return
	}
	var list struct {
		Tools []struct {
			Name      string
			Execution struct{ TaskSupport string }
		}
	}
	if json.Unmarshal(result, &list) != nil {
		return // the SDK says what is wrong with it
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, tool := range list.Tools {
		switch {
		case tool.Execution.TaskSupport != "required":
			delete(t.names, tool.Name)
		case len(t.names) < maxTools:
			if t.names == nil {
				t.names = map[string]bool{}
			}
			t.names[tool.Name] = true
		}
	}
}

func (t *taskTools) contains(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.names[name]
}

// listReader reads the answer to tools/list while it passes through a body: JSON, or the data of events.
type listReader struct {
	tools  *taskTools
	events bool
	buf    []byte
}

// read takes a part of the body.
func (l *listReader) read(p []byte, ended bool) {
	if len(l.buf)+len(p) > maxFrame { // the answer is refused anyway
		l.buf = nil
		return
	}
	start := max(0, len(l.buf)-1)
	l.buf = append(l.buf, bytes.ReplaceAll(p, []byte("\r"), nil)...)
	for l.events {
		end := bytes.Index(l.buf[start:], []byte("\n\n"))
		if end < 0 {
			break
		}
		l.message(eventData(l.buf[:start+end]))
		l.buf, start = l.buf[start+end+2:], 0
	}
	if ended && l.events {
		l.message(eventData(l.buf))
	} else if ended {
		l.message(l.buf)
	}
}

func (l *listReader) message(raw []byte) {
	var answer struct{ Result json.RawMessage }
	if json.Unmarshal(raw, &answer) == nil {
		l.tools.readList(answer.Result)
	}
}

// eventData joins the data lines of an event.
func eventData(event []byte) []byte {
	var data []byte
	for line := range bytes.SplitSeq(event, []byte("\n")) {
		if text, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			data = append(append(data, text...), '\n')
		}
	}
	return data
}

// isListRequest reports whether a request asks for tools.
func isListRequest(req *http.Request) bool {
	if req.Method != http.MethodPost || req.GetBody == nil || req.ContentLength > maxListRequest {
		return false
	}
	body, err := req.GetBody()
	if err != nil {
		return false
	}
	defer body.Close() //nolint:errcheck // it is memory
	raw, err := io.ReadAll(io.LimitReader(body, maxListRequest))
	if err != nil {
		return false
	}
	msg, err := jsonrpc.DecodeMessage(raw)
	call, ok := msg.(*jsonrpc.Request)
	return err == nil && ok && call.Method == "tools/list"
}
