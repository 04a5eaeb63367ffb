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

// testKey is the credential of every case; no error may show it.
const testKey = "sk-test-5f1c0d9e-secret"

// C is a case at work: the failures it records, the servers it started.
type C struct {
	*recorder
	h       Harness
	servers []*server
}

func (c *C) close() {
	for _, s := range c.servers {
		s.http.CloseClientConnections()
		s.http.Close()
	}
}

// server is a scripted provider.
type server struct {
	http *httptest.Server
	gone chan struct{} // closed when a client has left while the server was still writing

	mu       sync.Mutex
	body     []byte
	header   http.Header
	requests int
}

// exchange is one request at the server.
type exchange struct {
	w       http.ResponseWriter
	r       *http.Request
	dialect Dialect
}

// serve starts a scripted provider.
func (c *C) serve(handle func(x *exchange)) *server {
	s := &server{gone: make(chan struct{})}
	var once sync.Once
	s.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.body, s.header = body, r.Header.Clone()
		s.requests++
		s.mu.Unlock()
		if fits, err := path.Match(c.h.Dialect.Path(), r.URL.Path); err != nil || !fits {
			http.Error(w, "no such endpoint: "+r.URL.Path, http.StatusNotFound)
			return
		}
		handle(&exchange{w: w, r: r, dialect: c.h.Dialect})
		if r.Context().Err() != nil {
			once.Do(func() { close(s.gone) })
		}
	}))
	c.servers = append(c.servers, s)
	return s
}

// replies starts a provider that answers every request in full.
func (c *C) replies(r Reply) *server {
	frames := c.h.Dialect.Frames(r)
	return c.serve(func(x *exchange) { x.send(frames...) })
}

// send streams frames, each flushed to the wire on its own.
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

// wait holds the exchange until its client leaves, or the test has long given up.
func (x *exchange) wait() {
	select {
	case <-x.r.Context().Done():
	case <-time.After(patience):
	}
}

// cut breaks the connection.
func (x *exchange) cut() { panic(http.ErrAbortHandler) }

func (s *server) request() (body []byte, header http.Header, count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.body, s.header, s.requests
}

// model opens the implementation on a server; tweak may change the configuration.
func (c *C) model(s *server, tweak ...func(*wire.Config)) agent.Model {
	cfg := wire.Config{APIKey: testKey, BaseURL: c.h.Dialect.BaseURL(s.http.URL), Timeout: patience}
	for _, f := range tweak {
		f(&cfg)
	}
	m, err := c.h.Open(cfg)
	require.NoError(c, err)
	return m
}

// ask makes the simplest request there is.
func ask() agent.ModelRequest {
	return agent.ModelRequest{Model: ModelName, Messages: []agent.Message{agent.UserText("Hello")}}
}

// outcome is what a call came to.
type outcome struct {
	reply     agent.ModelReply
	text      string // the deltas joined
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

// fails checks the error every failure has to be: the house's type, the code, the operation, no key in it.
func (c *C) fails(o outcome, code agent.Code) *agent.Error {
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
