package mcp

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// maxListRequest is the maximum length of a request for the list of tools, in bytes. Longer requests are others.
const maxListRequest = 4 << 10

// taskTools holds the names of a server's tools that run only as tasks (MCP 2025-11-25, execution.taskSupport). The SDK drops that field of a
// list, so lists are read before the SDK gets them. It is safe for concurrent use.
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
		return // the SDK reports the error
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

// listReader reads the answer to tools/list while the SDK reads its body, which is JSON or an event stream.
type listReader struct {
	tools         *taskTools
	isEventStream bool
	buf           []byte
}

// read reads the next part of the body. ended reports whether it is the last one.
func (l *listReader) read(p []byte, ended bool) {
	if len(l.buf)+len(p) > maxFrame { // the answer is refused anyway
		l.buf = nil
		return
	}
	start := max(0, len(l.buf)-1)
	l.buf = append(l.buf, bytes.ReplaceAll(p, []byte("\r"), nil)...)
	for l.isEventStream {
		end := bytes.Index(l.buf[start:], []byte("\n\n"))
		if end < 0 {
			break
		}
		l.readMessage(eventData(l.buf[:start+end]))
		l.buf, start = l.buf[start+end+2:], 0
	}
	if ended && l.isEventStream {
		l.readMessage(eventData(l.buf))
	} else if ended {
		l.readMessage(l.buf)
	}
}

func (l *listReader) readMessage(raw []byte) {
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
	defer body.Close() //nolint:errcheck // it is in memory
	raw, err := io.ReadAll(io.LimitReader(body, maxListRequest))
	if err != nil {
		return false
	}
	msg, err := jsonrpc.DecodeMessage(raw)
	call, ok := msg.(*jsonrpc.Request)
	return err == nil && ok && call.Method == "tools/list"
}
