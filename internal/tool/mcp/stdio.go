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

	process *process // once connected
}

func (t *stdioTransport) Connect(ctx context.Context) (sdk.Connection, error) {
	p, err := startProcess(t)
	if err != nil {
		return nil, err
	}
	t.process = p
	inner := &sdk.IOTransport{Reader: p.out, Writer: patientWriter{p.in}, MaxLineLength: maxFrame}
	conn, err := inner.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &pipeConn{Connection: conn}, nil
}

// stop ends the server, if it was started.
func (t *stdioTransport) stop() {
	if t.process != nil {
		t.process.stop()
	}
}

// patientWriter gives up on a server that does not read.
type patientWriter struct{ *os.File }

func (w patientWriter) Write(p []byte) (int, error) {
	if err := w.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return w.File.Write(p)
}

// pipeConn notes of each call whether it was written. A broken pipe takes no complete frame; after any other fault the server may have it.
type pipeConn struct{ sdk.Connection }

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
