package gateway

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"go.uber.org/zap"
	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/turnstone-run/turnstone/agent"
)

// errClosing is the cause of a stream's end when the gateway shuts down. Its turn goes on, and the client can resume the stream.
var errClosing = &agent.Error{
	Code: agent.CodeUnavailable, RetryAfter: time.Second,
	Err: errors.New("the server is shutting down: resume the stream where you are; a turn goes on meanwhile"),
}

// Gateway serves its [Ports] over HTTP and gRPC. [Gateway.Start] and [Gateway.Shutdown] are called once each.
type Gateway struct {
	cfg  Config
	http *http.Server
	grpc *grpc.Server

	idle        idleConnections
	credentials openCredentials
	trail       *auditLimiter
	newTurns    *lru.Cache[agent.TurnID, newTurn] // the turns that were last submitted here

	httpListener net.Listener
	grpcListener net.Listener

	streams     chan struct{}   // has one entry for each follower and waiting request
	closing     context.Context // ended by close
	close       context.CancelFunc
	serving     sync.WaitGroup
	failed      chan error
	closeFailed sync.Once
}

// New returns a gateway that does not listen yet. Its error lists every fault of the configuration.
func New(cfg Config) (*Gateway, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("configure gateway: %w", err)
	}
	newTurns, err := lru.New[agent.TurnID, newTurn](maxNewTurns)
	if err != nil {
		return nil, fmt.Errorf("configure gateway: %w", err)
	}
	g := &Gateway{
		cfg: cfg, streams: make(chan struct{}, cfg.Limits.Streams), failed: make(chan error, 2), trail: newAuditLimiter(cfg.Audit), newTurns: newTurns,
	}
	g.idle.open = map[net.Conn]struct{}{}
	g.credentials.byID = map[[sha256.Size]byte]*openCredential{}
	g.closing, g.close = context.WithCancel(context.Background())
	if cfg.HTTPAddr != "" {
		g.http = newHTTPServer(g)
	}
	if cfg.GRPCAddr != "" {
		g.grpc = newGRPCServer(g)
	}
	return g, nil
}

// Start opens the ports and serves until Shutdown. It returns once both ports accept connections.
func (g *Gateway) Start(ctx context.Context) error {
	var lc net.ListenConfig
	if g.http != nil {
		l, err := lc.Listen(ctx, "tcp", g.cfg.HTTPAddr)
		if err != nil {
			return fmt.Errorf("listen for HTTP on %s: %w", g.cfg.HTTPAddr, err)
		}
		g.httpListener = netutil.LimitListener(l, g.cfg.Limits.Connections)
	}
	if g.grpc != nil {
		l, err := lc.Listen(ctx, "tcp", g.cfg.GRPCAddr)
		if err != nil {
			if g.httpListener != nil {
				err = errors.Join(err, g.httpListener.Close())
			}
			return fmt.Errorf("listen for gRPC on %s: %w", g.cfg.GRPCAddr, err)
		}
		g.grpcListener = netutil.LimitListener(l, g.cfg.Limits.Connections)
	}
	if g.http != nil {
		g.serve("HTTP", func() error {
			if g.cfg.HTTPTLS != nil {
				return g.http.ServeTLS(g.httpListener, "", "")
			}
			return g.http.Serve(g.httpListener)
		})
	}
	if g.grpc != nil {
		g.serve("gRPC", func() error { return g.grpc.Serve(g.grpcListener) })
	}
	g.cfg.Logger.Info("gateway is listening", zap.String("http", g.HTTPAddr()), zap.String("grpc", g.GRPCAddr()))
	g.warnWithoutAuth()
	return nil
}

// warnWithoutAuth logs that there is no authentication, as an error if other machines can connect.
func (g *Gateway) warnWithoutAuth() {
	if g.cfg.Auth != nil {
		return
	}
	const remedy = "set auth.keys, auth.operator_key, auth.issuers or auth.certificates"
	for _, l := range []net.Listener{g.httpListener, g.grpcListener} {
		if l == nil {
			continue
		}
		if tcp, ok := l.Addr().(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
			g.cfg.Logger.Error("authentication is off, and other machines can connect: everybody who connects may do everything, for every tenant",
				zap.Stringer("address", l.Addr()), zap.String("remedy", remedy+", or listen on 127.0.0.1"))
			return
		}
	}
	g.cfg.Logger.Warn("authentication is off: everybody who can connect may do everything, for every tenant", zap.String("remedy", remedy))
}

// serve runs a server in a goroutine until it stops. An error is passed to Failed unless the gateway shuts down.
func (g *Gateway) serve(name string, run func() error) {
	g.serving.Go(func() {
		if err := run(); err != nil && g.closing.Err() == nil {
			g.failed <- fmt.Errorf("serve %s: %w", name, err)
		}
	})
}

// Failed returns a channel with the errors of servers that stopped by themselves. Shutdown closes it.
func (g *Gateway) Failed() <-chan error { return g.failed }

// HTTPAddr returns the host:port that HTTP listens on, empty if it does not.
func (g *Gateway) HTTPAddr() string { return addrOf(g.httpListener) }

// GRPCAddr returns the host:port that gRPC listens on, empty if it does not.
func (g *Gateway) GRPCAddr() string { return addrOf(g.grpcListener) }

func addrOf(l net.Listener) string {
	if l == nil {
		return ""
	}
	return l.Addr().String()
}

// Shutdown stops listening, ends every stream after a complete event so that clients can resume, and waits for short calls. When ctx ends, it cuts
// off the remaining calls and returns ctx's error.
func (g *Gateway) Shutdown(ctx context.Context) error {
	g.close()
	var servers errgroup.Group
	if g.grpcListener != nil {
		servers.Go(func() error {
			stopWatching := context.AfterFunc(ctx, g.grpc.Stop)
			defer stopWatching()
			g.grpc.GracefulStop()
			return nil
		})
	}
	for _, d := range g.cfg.Doors {
		if d, ok := d.(Drainer); ok {
			servers.Go(func() error {
				if err := d.Shutdown(ctx); err != nil {
					return fmt.Errorf("shut down a door: %w", err)
				}
				return nil
			})
		}
	}
	var err error
	if g.httpListener != nil {
		g.idle.close()
		if err = g.http.Shutdown(ctx); err != nil {
			err = errors.Join(fmt.Errorf("shut down HTTP: %w", err), g.http.Close())
		}
	}
	err = errors.Join(err, servers.Wait())
	g.serving.Wait()
	g.closeFailed.Do(func() { close(g.failed) })
	return err
}

// enter takes one of the places for followers and waiting requests, or returns an error if all are taken. leave gives it back.
func (g *Gateway) enter() (leave func(), err error) {
	select {
	case g.streams <- struct{}{}:
		return func() { <-g.streams }, nil
	default:
		return nil, &agent.Error{
			Code: agent.CodeRateLimited, RetryAfter: 5 * time.Second,
			Err: fmt.Errorf("%d clients follow events already", g.cfg.Limits.Streams),
		}
	}
}

// streamContext returns a context for a stream or a long wait. It ends also when the gateway shuts down, with the cause errClosing, and when the
// caller's credential is no longer valid, with the error for the client as its cause.
func (g *Gateway) streamContext(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancelCredential := g.untilRevoked(ctx)
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(g.closing, func() { cancel(errClosing) })
	return ctx, func() {
		stop()
		cancel(nil)
		cancelCredential()
	}
}

// callContext returns a context for a call that does not wait for a turn. It ends after the call timeout.
func (g *Gateway) callContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, g.cfg.Limits.CallTimeout)
}
