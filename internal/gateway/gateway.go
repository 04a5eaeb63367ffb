package gateway

import (
	"cmp"
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
	"google.golang.org/grpc"

	"github.com/turnstone-run/turnstone/agent"
)

// errClosing is why a stream ends when the gateway shuts down: its turn goes on, and the client resumes elsewhere or later.
var errClosing = &agent.Error{
	Code: agent.CodeUnavailable, RetryAfter: time.Second,
	Err: errors.New("the server is shutting down: resume the stream where you are; a turn goes on meanwhile"),
}

// Gateway serves its [Ports] over HTTP and gRPC. Create it with [New]; [Gateway.Start] once; [Gateway.Shutdown] once.
type Gateway struct {
	cfg  Config
	http *http.Server
	grpc *grpc.Server

	idle        idleConnections
	credentials openCredentials
	trail       *auditLimiter
	begun       *lru.Cache[agent.TurnID, newTurn] // turns that were submitted here recently

	httpListener net.Listener
	grpcListener net.Listener

	streams chan struct{} // one place per follower
	closing context.Context
	close   context.CancelFunc
	serving sync.WaitGroup
	failed  chan error
	over    sync.Once // closes failed
}

// New checks the configuration, reporting every fault, and prepares both servers without opening a port.
func New(cfg Config) (*Gateway, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("configure gateway: %w", err)
	}
	begun, err := lru.New[agent.TurnID, newTurn](rememberedTurns)
	if err != nil {
		return nil, fmt.Errorf("configure gateway: %w", err)
	}
	g := &Gateway{
		cfg: cfg, streams: make(chan struct{}, cfg.Limits.Streams), failed: make(chan error, 2), trail: newAuditLimiter(cfg.Audit), begun: begun,
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
			g.cfg.Logger.Error("authentication is off, and other machines can connect: whoever does may do everything, for every tenant",
				zap.Stringer("address", l.Addr()), zap.String("remedy", remedy+", or listen on 127.0.0.1"))
			return
		}
	}
	g.cfg.Logger.Warn("authentication is off: whoever can connect may do everything, for every tenant", zap.String("remedy", remedy))
}

func (g *Gateway) serve(name string, run func() error) {
	g.serving.Go(func() {
		// A server that was told to stop returns an error too, even one that had not begun to serve.
		if err := run(); err != nil && g.closing.Err() == nil {
			g.failed <- fmt.Errorf("serve %s: %w", name, err)
		}
	})
}

// Failed yields the error of a server that stopped by itself; Shutdown closes it.
func (g *Gateway) Failed() <-chan error { return g.failed }

// HTTPAddr is the host:port that HTTP listens on, empty when it does not.
func (g *Gateway) HTTPAddr() string { return addrOf(g.httpListener) }

// GRPCAddr is the host:port that gRPC listens on, empty when it does not.
func (g *Gateway) GRPCAddr() string { return addrOf(g.grpcListener) }

func addrOf(l net.Listener) string {
	if l == nil {
		return ""
	}
	return l.Addr().String()
}

// Shutdown stops accepting, ends every stream behind its last whole event so that clients can resume, and lets short calls
// finish. When ctx ends first, what is left is cut off and ctx's error returned.
func (g *Gateway) Shutdown(ctx context.Context) error {
	g.close()
	var err error
	var done sync.WaitGroup
	if g.grpcListener != nil {
		done.Go(func() {
			cut := context.AfterFunc(ctx, g.grpc.Stop)
			defer cut()
			g.grpc.GracefulStop()
		})
	}
	doors := make(chan error, len(g.cfg.Doors))
	for _, d := range g.cfg.Doors {
		if d, ok := d.(Drainer); ok {
			done.Go(func() {
				if err := d.Shutdown(ctx); err != nil {
					doors <- fmt.Errorf("shut down a door: %w", err)
				}
			})
		}
	}
	if g.httpListener != nil {
		g.idle.close()
		if err = g.http.Shutdown(ctx); err != nil {
			err = errors.Join(fmt.Errorf("shut down HTTP: %w", err), g.http.Close())
		}
	}
	done.Wait()
	for range len(doors) {
		err = errors.Join(err, <-doors)
	}
	g.serving.Wait()
	g.over.Do(func() { close(g.failed) })
	return err
}

// enter takes a place among the followers; too many are refused instead of queued. leave gives the place back.
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

// whileOpen derives a context for what may last. It also ends when the gateway shuts down, with the cause errClosing, and when the
// caller's credential is no longer valid; the cause is then the error for the client.
func (g *Gateway) whileOpen(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, leave := g.untilRevoked(ctx)
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(g.closing, func() { cancel(errClosing) })
	return ctx, func() {
		stop()
		cancel(nil)
		leave()
	}
}

// bounded bounds a call that does not wait for a turn. An earlier deadline of the caller stays.
func (g *Gateway) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, g.cfg.Limits.CallTimeout)
}

// submit submits a request in an envelope, and sets the request to what the port got.
func (g *Gateway) submit(ctx context.Context, caller identity, door string, r *agent.TurnRequest) (agent.Receipt, error) {
	e := agent.Envelope{Channel: door, Request: *r}
	receipt, err := g.accept(ctx, caller, &e)
	*r = e.Request
	return receipt, err
}

// accept checks what every door checks and hands the envelope to the runtime.
func (g *Gateway) accept(ctx context.Context, caller identity, e *agent.Envelope) (agent.Receipt, error) {
	r := &e.Request
	if r.StreamTo != nil {
		return agent.Receipt{}, errStreamTo()
	}
	if err := caller.setCaller(r); err != nil {
		return agent.Receipt{}, err
	}
	if r.Channel == "" {
		r.Channel = e.Channel
	}
	caller.setSender(e)
	if err := r.Validate(int(g.cfg.Limits.BodyBytes)); err != nil {
		return agent.Receipt{}, err
	}
	if err := g.compileDraft(ctx, caller, r); err != nil {
		return agent.Receipt{}, err
	}
	if err := caller.allowRun(r.Agent); err != nil {
		return agent.Receipt{}, err
	}
	receipt, err := g.cfg.Turns.Submit(ctx, *e)
	if err != nil {
		return receipt, err
	}
	return g.rememberOrCheck(ctx, caller, receipt, r)
}

// rememberOrCheck remembers a new turn, and checks that the caller may run one that was there before: it may be of another agent than the request.
func (g *Gateway) rememberOrCheck(ctx context.Context, caller identity, receipt agent.Receipt, r *agent.TurnRequest) (agent.Receipt, error) {
	if !receipt.Joined {
		g.remember(receipt.TurnID, r)
	} else if !caller.principal.MayAll(agent.ActionTurnsRun) {
		if _, err := g.turn(ctx, caller, receipt.TurnID, agent.ActionTurnsRun); err != nil {
			return agent.Receipt{}, err
		}
	}
	return receipt, nil
}

// setSender sets the sender of an envelope.
func (c identity) setSender(e *agent.Envelope) {
	e.Principal, e.RequestID, e.Remote = c.principal, c.requestID, c.remote
	e.Sender = cmp.Or(c.actor(e.Sender), e.Request.Context.UserID)
}

// allowRun refuses a request for an agent that the caller may not run. If routing chooses the agent, the runtime checks that.
func (c identity) allowRun(name string) error {
	if name == "" && c.principal.MayAny(agent.ActionTurnsRun) {
		return nil
	}
	return c.allow(agent.ActionTurnsRun, name)
}

// errStreamTo refuses stream_to: through a door it would let any caller signal any workflow.
func errStreamTo() error {
	return agent.Invalid("stream_to", "is for workflows only: follow the turn's events instead")
}
