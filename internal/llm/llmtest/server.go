package llmtest

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// testKey is the API key of every case. No error may contain it.
const testKey = "sk-test-5f1c0d9e-secret"

// caseRun is one run of a case, with the servers that it started.
type caseRun struct {
	failureRecorder

	h       Harness
	servers []*server
}

func (c *caseRun) close() {
	for _, s := range c.servers {
		s.http.CloseClientConnections()
		s.http.Close()
	}
}

// server is a scripted provider.
type server struct {
	http         *httptest.Server
	disconnected chan struct{} // closed when a client has left before its reply was complete

	mu       sync.Mutex
	body     []byte // of the last request
	header   http.Header
	requests int
}

// exchange is one request at a server.
type exchange struct {
	w       http.ResponseWriter
	r       *http.Request
	dialect Dialect
}

// serve starts a server that answers each request with handle.
func (c *caseRun) serve(handle func(x *exchange)) *server {
	s := &server{disconnected: make(chan struct{})}
	var once sync.Once
	s.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.body, s.header = body, r.Header.Clone()
		s.requests++
		s.mu.Unlock()
		if matches, err := path.Match(c.h.Dialect.Path(), r.URL.Path); err != nil || !matches {
			http.Error(w, "no such endpoint: "+r.URL.Path, http.StatusNotFound)
			return
		}
		handle(&exchange{w: w, r: r, dialect: c.h.Dialect})
		if r.Context().Err() != nil {
			once.Do(func() { close(s.disconnected) })
		}
	}))
	c.servers = append(c.servers, s)
	return s
}

// serveReply starts a server that answers each request with the whole reply.
func (c *caseRun) serveReply(r Reply) *server {
	frames := c.h.Dialect.Frames(r)
	return c.serve(func(x *exchange) { x.send(frames...) })
}

// send streams frames and flushes each one.
func (x *exchange) send(frames ...string) {
	if x.w.Header().Get("Content-Type") == "" {
		x.w.Header().Set("Content-Type", x.dialect.ContentType())
	}
	for _, f := range frames {
		if _, err := io.WriteString(x.w, f); err != nil {
			return
		}
		x.w.(http.Flusher).Flush()
	}
}

// sendHalf streams the first half of the frames of a reply.
func (x *exchange) sendHalf(r Reply) {
	frames := x.dialect.Frames(r)
	x.send(frames[:len(frames)/2]...)
}

// refuse answers with a failure. headers are pairs of name and value.
func (x *exchange) refuse(status int, kind, message string, headers ...string) {
	for i := 0; i+1 < len(headers); i += 2 {
		x.w.Header().Set(headers[i], headers[i+1])
	}
	x.w.Header().Set("Content-Type", "application/json")
	x.w.WriteHeader(status)
	x.send(x.dialect.Refusal(status, kind, message))
}

// waitForDisconnect holds the exchange until its client leaves, at most for caseTimeout.
func (x *exchange) waitForDisconnect() {
	select {
	case <-x.r.Context().Done():
	case <-time.After(caseTimeout):
	}
}

// breakConnection ends the exchange without the end of its response.
func (x *exchange) breakConnection() { panic(http.ErrAbortHandler) }

// lastRequest returns the last request and how many there were.
func (s *server) lastRequest() (body []byte, header http.Header, count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.body, s.header, s.requests
}

// openModel opens the implementation on a server, with the configuration changed by options.
func (c *caseRun) openModel(s *server, options ...func(*wire.Config)) agent.Model {
	cfg := wire.Config{APIKey: testKey, BaseURL: c.h.Dialect.BaseURL(s.http.URL), Timeout: caseTimeout}
	for _, option := range options {
		option(&cfg)
	}
	m, err := c.h.Open(cfg)
	require.NoError(c, err)
	return m
}

// outcome is the result of one call.
type outcome struct {
	reply     agent.ModelReply
	text      string // all deltas joined
	reasoning string
	blocks    []agent.Block // the whole blocks among the deltas
	deltas    int
	err       error
}

func generate(m agent.Model, req agent.ModelRequest) outcome {
	var o outcome
	o.reply, o.err = m.Generate(context.Background(), req, func(d agent.Delta) error {
		o.text += d.Text
		o.reasoning += d.Reasoning
		if d.Block != nil {
			o.blocks = append(o.blocks, *d.Block)
		}
		o.deltas++
		return nil
	})
	return o
}

// generateReply asks for a reply that has to succeed.
func (c *caseRun) generateReply(r Reply, req agent.ModelRequest) outcome {
	o := generate(c.openModel(c.serveReply(r)), req)
	require.NoError(c, o.err)
	return o
}

// requireError checks what every failure has in common: an [agent.Error] with the code and operation, without the key, and an unfinished reply.
func (c *caseRun) requireError(o outcome, code agent.Code) *agent.Error {
	require.Error(c, o.err)
	var e *agent.Error
	require.ErrorAs(c, o.err, &e)
	require.Equal(c, code, e.Code, "error: %v", o.err)
	require.Equal(c, "call model", e.Op)
	for err := o.err; err != nil; {
		require.NotContains(c, err.Error(), testKey)
		u, ok := err.(interface{ Unwrap() error })
		if !ok {
			break
		}
		err = u.Unwrap()
	}
	require.Empty(c, o.reply.FinishReason, "a failed call has not finished")
	return e
}
