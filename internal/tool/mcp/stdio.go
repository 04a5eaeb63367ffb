package mcp

import (
	"context"
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"
)

// writeTimeout is how long a server may leave its standard input unread.
const writeTimeout = 30 * time.Second

// Server is a stdio server of the process's configuration. Documents of the catalog name it, but never a command.
type Server struct {
	Name    string
	Command string
	Args    []string
	Env     map[string]string // added to Config.Environ; the values are kept secret
	Dir     string            // empty: the process's own
}

// stdioTransport starts a server and speaks to it over its standard input and output.
type stdioTransport struct {
	server  *Server
	environ []string
	logger  *zap.Logger
	secrets *secretMasker
	notices *notices
	tasks   *taskTools

	process *process // nil until Connect
}

func (t *stdioTransport) Connect(ctx context.Context) (sdk.Connection, error) {
	p, err := startProcess(t)
	if err != nil {
		return nil, err
	}
	t.process = p
	return (&pipeTransport{in: p.out, out: timeoutWriter{p.in}, notices: t.notices, tasks: t.tasks}).Connect(ctx)
}

// stop ends the server, if it was started.
func (t *stdioTransport) stop() {
	if t.process != nil {
		t.process.stop()
	}
}

// pipeTransport speaks over two pipes, with one message per line.
type pipeTransport struct {
	in      io.ReadCloser
	out     io.WriteCloser
	notices *notices
	tasks   *taskTools
}

func (t *pipeTransport) Connect(ctx context.Context) (sdk.Connection, error) {
	conn, err := (&sdk.IOTransport{Reader: t.in, Writer: t.out, MaxLineLength: maxFrame}).Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &pipeConn{Connection: conn, notices: t.notices, tasks: t.tasks}, nil
}

// timeoutWriter fails to write if the server does not read for writeTimeout.
type timeoutWriter struct{ *os.File }

func (w timeoutWriter) Write(p []byte) (int, error) {
	if err := w.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return w.File.Write(p)
}

// errFlood ends the connection of a server that sends too many notifications.
var errFlood = errors.New("too many notifications")

// pipeConn records whether each call was written, and bounds the notifications that come back.
type pipeConn struct {
	sdk.Connection

	notices *notices
	tasks   *taskTools
}

// Read returns the next message. The SDK's queue of messages has no bound, so surplus notifications are dropped here.
func (c *pipeConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		msg, err := c.Connection.Read(ctx)
		if err != nil {
			return nil, err
		}
		if answer, ok := msg.(*jsonrpc.Response); ok {
			c.tasks.readList(answer.Result)
		}
		notice, ok := msg.(*jsonrpc.Request)
		if !ok || notice.IsCall() {
			return msg, nil
		}
		if !c.notices.allow(len(notice.Method) + len(notice.Params)) {
			return nil, errFlood
		}
		if !c.notices.isSurplusLog(notice) {
			return msg, nil
		}
	}
}

// Write writes a message and records whether the server may have it. After the errors below, no complete message was written.
func (c *pipeConn) Write(ctx context.Context, msg jsonrpc.Message) error {
	d := deliveryOf(ctx)
	d.sent.Store(true)
	err := c.Connection.Write(ctx, msg)
	for _, unsent := range []error{syscall.EPIPE, os.ErrClosed, io.ErrClosedPipe, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, unsent) {
			d.sent.Store(false)
		}
	}
	return err
}
