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

// Server is a stdio server of the process's configuration. A document of the catalog names it, and never its command.
type Server struct {
	Name    string
	Command string
	Args    []string
	Env     map[string]string // all that it gets besides Config.Environ; the values are kept secret
	Dir     string            // empty: the process's own
}

// stdioTransport starts a server and speaks to it over its standard input and output.
type stdioTransport struct {
	server  *Server
	environ []string
	logger  *zap.Logger
	hidden  *secrets
	notices *notices
	tasks   *taskTools

	process *process // once connected
}

func (t *stdioTransport) Connect(ctx context.Context) (sdk.Connection, error) {
	p, err := startProcess(t)
	if err != nil {
		return nil, err
	}
	t.process = p
	return (&pipeTransport{in: p.out, out: patientWriter{p.in}, notices: t.notices, tasks: t.tasks}).Connect(ctx)
}

// stop ends the server, if it was started.
func (t *stdioTransport) stop() {
	if t.process != nil {
		t.process.stop()
	}
}

// pipeTransport speaks over two pipes, a message a line.
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

// patientWriter gives up on a server that does not read.
type patientWriter struct{ *os.File }

func (w patientWriter) Write(p []byte) (int, error) {
	if err := w.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return w.File.Write(p)
}

// errFlood ends a connection over which a server tells us more than we take.
var errFlood = errors.New("too many notifications")

// pipeConn notes of each call whether it was written, and bounds the notifications that come back.
type pipeConn struct {
	sdk.Connection

	notices *notices
	tasks   *taskTools
}

// Read returns the next message. The SDK keeps what it has read in a queue without bound, so what is not wanted ends here.
func (c *pipeConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		msg, err := c.Connection.Read(ctx)
		if err != nil {
			return nil, err
		}
		if answer, ok := msg.(*jsonrpc.Response); ok {
			c.tasks.note(answer.Result)
		}
		notice, ok := msg.(*jsonrpc.Request)
		if !ok || notice.IsCall() {
			return msg, nil
		}
		if !c.notices.take(len(notice.Method) + len(notice.Params)) {
			return nil, errFlood
		}
		if !c.notices.drops(notice) {
			return msg, nil
		}
	}
}

// Write notes whether the message was written. A broken pipe takes no complete frame; after any other fault the server may have it.
func (c *pipeConn) Write(ctx context.Context, msg jsonrpc.Message) error {
	d := deliveryOf(ctx)
	d.sent.Store(true)
	err := c.Connection.Write(ctx, msg)
	for _, nothing := range []error{syscall.EPIPE, os.ErrClosed, io.ErrClosedPipe, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, nothing) {
			d.sent.Store(false)
		}
	}
	return err
}
