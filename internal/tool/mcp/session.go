package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
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
	askRate     = 20 // requests of a server a second
	askBurst    = 200
	maxLog      = 1000 // runes of a log message of a server
)

// link is a connection to a server before its session begins.
type link struct {
	transport      sdk.Transport
	secrets        *secretMasker
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

	ctx    context.Context // ends with the session, and then the running calls end
	cancel context.CancelFunc
	ended  chan struct{} // closed when the connection and all that belongs to it has ended

	retired atomic.Bool                 // no new call begins in it
	proven  atomic.Bool                 // the server has answered something, so its end is not a failure to open it
	refusal atomic.Pointer[agent.Error] // the last request that the egress rules or auth profiles refused
	logs    *rate.Limiter               // of the server's log messages
	changes atomic.Int64                // how often the server has reported that its tools changed
	listing chan struct{}               // holds an element while tools is in use
	tools   *toolList

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

func connect(ctx context.Context, label string, l *link, sample sampler, cfg *Config, protocol string) (s *session, err error) {
	s = &session{
		label: label, link: l, logger: cfg.Logger.With(zap.String("server", label)), slots: make(chan struct{}, maxParallel),
		ended: make(chan struct{}), listing: make(chan struct{}, 1), progress: map[string]chan<- string{},
		logs: rate.NewLimiter(logRate, logBurst),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	client := sdk.NewClient(&sdk.Implementation{Name: "turnstone", Version: cfg.Version}, s.options(sample))
	client.AddReceivingMiddleware(s.limitRequests())
	d := &delivery{}
	s.client, err = client.Connect(withDelivery(ctx, d), l.transport, &sdk.ClientSessionOptions{ProtocolVersion: protocol})
	if err != nil {
		fault := s.faultOf(ctx, d, err)
		s.cancel()
		l.stop()
		return nil, fault
	}
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

func isNotification(method string) bool { return strings.HasPrefix(method, "notifications/") }

// cleanUp waits for the end of the connection and then frees the session's resources.
func (s *session) cleanUp() {
	_ = s.client.Wait() // the running calls report what happened
	s.cancel()
	_ = s.client.Close() // the connection has ended; this frees the listeners for changes
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

// close ends the session, by force if the server does not react. It returns when everything has ended. It may be called twice.
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

// retireAfter retires the session if a failed exchange has ended it or may have ended it. The SDK ends a session after an HTTP status that
// refuses a request, but reports its end only later.
func (s *session) retireAfter(d *delivery, err error) {
	status := int(d.status.Load())
	refused := status >= http.StatusMultipleChoices && status < http.StatusInternalServerError && status != http.StatusTooManyRequests
	unsent := status == 0 && !d.sent.Load()
	if refused {
		s.proven.Store(true) // a refusal is an answer
	}
	if isSessionOver(err) || refused || unsent {
		s.retire()
	}
}

// retire closes the session once no call is running. New calls get another session.
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

// ping asks the server whether it still answers. It does nothing with the newest protocol, which has no ping because its requests do not depend
// on each other.
func (s *session) ping(ctx context.Context) error {
	if s.client.InitializeResult().ProtocolVersion > legacyProtocol {
		return nil
	}
	return s.client.Ping(ctx, nil)
}

// withTimeout returns a context that ends with ctx, after the time d, or with the session.
func (s *session) withTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, d)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// registerProgress registers a call's channel for progress, and returns the progress token of the call.
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

// handleProgress sends progress to its call. It drops the progress if the call has not received the previous one, so that a server cannot
// block the session.
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
