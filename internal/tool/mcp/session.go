package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	// maxFrame bounds a message of a server in bytes.
	maxFrame = 16 << 20
	// firstTimeout is how long a server may take to answer the first request of the newest protocol, which some old servers never answer.
	firstTimeout = 10 * time.Second
	// legacyProtocol is the newest version that begins with initialize, and the last with a ping.
	legacyProtocol = "2025-11-25"
	// cancelGrace is how long a session stays open for the SDK to send the cancellations of running calls.
	cancelGrace = 200 * time.Millisecond
	// closeTimeout is how long a session may take to close.
	closeTimeout = 6 * time.Second
	// maxParallel is the maximum number of running calls in a session; more wait.
	maxParallel = 64
	// askRate and askBurst bound the requests of a server, in requests a second.
	askRate  = 20
	askBurst = 200
	maxLog   = 1000 // runes of a log message of a server
)

// link is a connection to a server before its session begins.
type link struct {
	transport      sdk.Transport
	secrets        *secrets
	stop           func()      // ends the connection; may be called twice
	mayMissNotices func() bool // whether notifications may be missed
	notices        *notices
	tasks          *taskTools
}

// session is a connection to a server.
type session struct {
	label  string
	link   *link
	logger *zap.Logger
	client *sdk.ClientSession
	slots  chan struct{} // running calls

	ctx    context.Context // ends with the session, and with it the running calls
	cancel context.CancelFunc
	ended  chan struct{} // closed when everything of it has ended

	retired atomic.Bool                 // no new call begins in it
	proven  atomic.Bool                 // it has answered something: losing it is no fault of the way it was opened
	refusal atomic.Pointer[agent.Error] // of one of its requests
	logs    *rate.Limiter               // of the server's log messages
	changes atomic.Int64                // how often the server said that its tools changed
	listing chan struct{}
	tools   *toolList // guarded by turn

	mu       sync.Mutex
	progress map[string]chan<- string
	tokens   int64
}

// open connects to a server. If the server does not answer the first request of the newest protocol, it uses the older protocol over a
// new link.
func open(ctx context.Context, label string, dial func() *link, sample sampler, cfg *Config) (*session, error) {
	first, cancel := context.WithTimeout(ctx, firstTimeout)
	defer cancel()
	s, err := connect(first, label, dial(), sample, cfg, "")
	if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
		return s, err
	}
	return connect(ctx, label, dial(), sample, cfg, legacyProtocol)
}

func connect(ctx context.Context, label string, l *link, sample sampler, cfg *Config, protocol string) (*session, error) {
	s := &session{
		label: label, link: l, logger: cfg.Logger.With(zap.String("server", label)), slots: make(chan struct{}, maxParallel),
		ended: make(chan struct{}), listing: make(chan struct{}, 1), progress: map[string]chan<- string{},
		logs: rate.NewLimiter(logRate, logBurst),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	client := sdk.NewClient(&sdk.Implementation{Name: "turnstone", Version: cfg.Version}, s.options(sample))
	client.AddReceivingMiddleware(s.limitRequests())
	d := &delivery{}
	opened, err := client.Connect(withDelivery(ctx, d), l.transport, &sdk.ClientSessionOptions{ProtocolVersion: protocol})
	if err != nil {
		fault := s.faultOf(ctx, d, err)
		s.cancel()
		l.stop()
		return nil, fault
	}
	s.client = opened
	go s.cleanUp()
	go s.endOnFlood()
	return s, nil
}

// options returns what a server may send: notifications, and requests for sampling if there is a sampler.
func (s *session) options(sample sampler) *sdk.ClientOptions {
	o := &sdk.ClientOptions{
		Capabilities:                &sdk.ClientCapabilities{},
		ToolListChangedHandler:      func(context.Context, *sdk.ToolListChangedRequest) { s.changes.Add(1) },
		ProgressNotificationHandler: s.handleProgress,
		LoggingMessageHandler:       s.handleLog, //nolint:staticcheck // the servers of today still log so
		MultiRoundTrip:              &sdk.MultiRoundTripOptions{Disabled: sample == nil},
	}
	if sample != nil {
		//nolint:staticcheck // the servers of today still ask so
		o.CreateMessageHandler = func(ctx context.Context, r *sampleRequest) (*sampleResult, error) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(s.ctx, cancel)()
			return sample(ctx, r)
		}
	}
	return o
}

// limitRequests ends the session of a server that sends too many requests. Each costs a goroutine until its answer is written.
func (s *session) limitRequests() sdk.Middleware {
	budget := rate.NewLimiter(askRate, askBurst)
	return func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if !isNotification(method) && !budget.Allow() {
				s.logger.Warn("MCP server asks too much: its session is ended")
				go s.link.stop()
				return nil, agent.Errorf(agent.CodeRateLimited, "answer MCP server", "too many requests")
			}
			return next(ctx, method, req)
		}
	}
}

func isNotification(method string) bool {
	const prefix = "notifications/"
	return len(method) > len(prefix) && method[:len(prefix)] == prefix
}

// cleanUp cleans up when the connection has ended.
func (s *session) cleanUp() {
	_ = s.client.Wait() // the running calls report what happened
	s.cancel()
	_ = s.client.Close() // nothing is left to wait for; it frees what listens for changes
	s.link.stop()
	close(s.ended)
}

// endOnFlood ends the session of a server that sends too many notifications.
func (s *session) endOnFlood() {
	select {
	case <-s.link.notices.over:
		s.logger.Warn("MCP server sends too many notifications: its session is ended")
		s.close()
	case <-s.ended:
	}
}

// close ends the session, by force if the server does not react. It returns when everything has ended, and may be called twice.
func (s *session) close() {
	busy := len(s.slots) > 0 && !s.retired.Load()
	s.cancel() // running calls end
	if busy {
		<-time.After(cancelGrace) // the SDK sends the cancellations in the background
	}
	go func() { _ = s.client.Close() }()
	select {
	case <-s.ended:
		return
	case <-time.After(closeTimeout):
	}
	s.link.stop()
	select {
	case <-s.ended:
	case <-time.After(closeTimeout):
		s.logger.Warn("MCP session does not end")
	}
}

// isAlive reports whether the session can be used. After too many notifications it cannot, even before it is closed.
func (s *session) isAlive() bool {
	return s.ctx.Err() == nil && !s.retired.Load() && !s.link.notices.isOver()
}

// retireAfter retires a session after a fault that ends it, or may have. Running calls go on; new ones get another session. The SDK gives
// up a session after a refusal by HTTP, but reports that only later.
func (s *session) retireAfter(d *delivery, err error) {
	status := int(d.status.Load())
	refused := status >= http.StatusMultipleChoices && status < http.StatusInternalServerError && status != http.StatusTooManyRequests
	unsent := status == 0 && !d.sent.Load()
	if refused {
		s.proven.Store(true) // whoever refuses is there
	}
	if isSessionOver(err) || refused || unsent {
		s.retire()
	}
}

// retire keeps new calls out of a session, and closes it when no call is running.
func (s *session) retire() {
	if !s.retired.CompareAndSwap(false, true) {
		return
	}
	go func() {
		for range cap(s.slots) { // once all slots are taken here, no call is running
			select {
			case s.slots <- struct{}{}:
			case <-s.ended:
				return
			}
		}
		s.close()
	}()
}

// ping asks the server to answer. The newest protocol has no ping, since its requests do not depend on each other.
func (s *session) ping(ctx context.Context) error {
	if s.client.InitializeResult().ProtocolVersion > legacyProtocol {
		return nil
	}
	return s.client.Ping(ctx, nil)
}

// withTimeout returns a context that ends with the caller's, after a time, or with the session.
func (s *session) withTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, d)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// registerProgress registers where the progress of a call goes, and returns the token for the call to carry.
func (s *session) registerProgress(updates chan<- string) (token string, forget func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens++
	token = fmt.Sprintf("call-%d", s.tokens)
	s.progress[token] = updates
	return token, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.progress, token)
	}
}

// handleProgress passes progress on to its call. It drops it if the call has not taken the last one, so that a server cannot block the
// session.
func (s *session) handleProgress(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
	if r.Params == nil {
		return
	}
	token, _ := r.Params.ProgressToken.(string)
	s.mu.Lock()
	updates := s.progress[token]
	s.mu.Unlock()
	if updates == nil {
		return
	}
	text := s.link.secrets.displayText(r.Params.Message, maxProgress)
	if text == "" {
		text = fmt.Sprintf("%g", r.Params.Progress)
		if r.Params.Total > 0 {
			text += fmt.Sprintf(" of %g", r.Params.Total)
		}
	}
	select {
	case updates <- text:
	default:
	}
}

func (s *session) handleLog(_ context.Context, r *sdk.LoggingMessageRequest) {
	if r.Params == nil || !s.logs.Allow() {
		return
	}
	s.logger.Debug("MCP server logs", zap.String("level", s.link.secrets.displayText(string(r.Params.Level), 20)),
		zap.String("message", s.link.secrets.displayText(fmt.Sprint(r.Params.Data), maxLog)))
}
