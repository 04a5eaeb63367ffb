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
	// firstPatience is how long a server may take to answer a question of the newest protocol, which some old ones leave unanswered.
	firstPatience = 10 * time.Second
	// legacyProtocol is the newest version that begins with initialize; newestPing is the last in which a client may ask for a sign of life.
	legacyProtocol = "2025-11-25"
	// farewell is how long the cancellations of calls under way may take to leave before their session is closed.
	farewell = 200 * time.Millisecond
	// closePatience is how long a session may take to say goodbye.
	closePatience = 6 * time.Second
	// maxParallel bounds the calls under way in a session; more wait.
	maxParallel = 64
	// askRate and askBurst bound what a server may ask of us, in requests a second.
	askRate  = 20
	askBurst = 200
	maxLog   = 1000 // runes of a log message of a server
)

// link is a way to a server that is not yet spoken to.
type link struct {
	transport sdk.Transport
	hidden    *secrets
	stop      func()      // cuts everything off; may be called twice
	deaf      func() bool // whether notifications may be missed
	notices   *notices
	tasks     *taskTools
}

// session is a connection to a server.
type session struct {
	label  string
	link   *link
	logger *zap.Logger
	client *sdk.ClientSession
	slots  chan struct{} // calls under way

	life  context.Context // ends when the session does, and with it what is under way
	end   context.CancelFunc
	ended chan struct{} // closed when nothing of it is left

	retired atomic.Bool                 // nothing new is begun in it
	proven  atomic.Bool                 // it has answered something: losing it is no fault of the way it was opened
	refusal atomic.Pointer[agent.Error] // of a request of it
	logs    *rate.Limiter               // of the log messages that come to our log
	changes atomic.Int64                // how often the server said that its tools changed
	turn    chan struct{}
	tools   *toolList // guarded by turn

	mu       sync.Mutex
	progress map[string]chan<- string
	tokens   int64
}

// open connects to a server. An old one that does not answer the first question of the newest protocol is asked as it expects, over a
// new link.
func open(ctx context.Context, label string, dial func() *link, sample sampler, cfg *Config) (*session, error) {
	first, cancel := context.WithTimeout(ctx, firstPatience)
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
		ended: make(chan struct{}), turn: make(chan struct{}, 1), progress: map[string]chan<- string{},
		logs: rate.NewLimiter(logRate, logBurst),
	}
	s.life, s.end = context.WithCancel(context.Background())
	client := sdk.NewClient(&sdk.Implementation{Name: "turnstone", Version: cfg.Version}, s.options(sample))
	client.AddReceivingMiddleware(s.bounded())
	d := &delivery{}
	opened, err := client.Connect(withDelivery(ctx, d), l.transport, &sdk.ClientSessionOptions{ProtocolVersion: protocol})
	if err != nil {
		fault := s.fault(ctx, d, err)
		s.end()
		l.stop()
		return nil, fault
	}
	s.client = opened
	go s.watch()
	go s.guard()
	return s, nil
}

// options say what a server may tell us and ask us: sampling when there is one to do it, nothing else.
func (s *session) options(sample sampler) *sdk.ClientOptions {
	o := &sdk.ClientOptions{
		Capabilities:                &sdk.ClientCapabilities{},
		ToolListChangedHandler:      func(context.Context, *sdk.ToolListChangedRequest) { s.changes.Add(1) },
		ProgressNotificationHandler: s.progressed,
		LoggingMessageHandler:       s.logged, //nolint:staticcheck // the servers of today still log so
		MultiRoundTrip:              &sdk.MultiRoundTripOptions{Disabled: sample == nil},
	}
	if sample != nil {
		//nolint:staticcheck // the servers of today still ask so
		o.CreateMessageHandler = func(ctx context.Context, r *sampleRequest) (*sampleResult, error) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(s.life, cancel)()
			return sample(ctx, r)
		}
	}
	return o
}

// bounded ends the session of a server that asks more than we can answer: each request of it costs us a goroutine until the answer is
// written.
func (s *session) bounded() sdk.Middleware {
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

// watch cleans up when the connection has ended, whoever ended it.
func (s *session) watch() {
	_ = s.client.Wait() // the calls under way say what happened
	s.end()
	_ = s.client.Close() // nothing is left to wait for; it frees what listens for changes
	s.link.stop()
	close(s.ended)
}

// guard ends the session of a server that tells us more than we take.
func (s *session) guard() {
	select {
	case <-s.link.notices.over:
		s.logger.Warn("MCP server sends too many notifications: its session is ended")
		s.close()
	case <-s.ended:
	}
}

// close says goodbye and cuts off what does not listen. It returns when nothing is left, and may be called twice.
func (s *session) close() {
	busy := len(s.slots) > 0 && !s.retired.Load()
	s.end() // calls under way end
	if busy {
		<-time.After(farewell) // the SDK tells the server so behind our back
	}
	go func() { _ = s.client.Close() }()
	select {
	case <-s.ended:
		return
	case <-time.After(closePatience):
	}
	s.link.stop()
	select {
	case <-s.ended:
	case <-time.After(closePatience):
		s.logger.Warn("MCP session does not end")
	}
}

// alive reports whether the session can be used. One whose server has told us too much is over, also before it is closed.
func (s *session) alive() bool {
	return s.life.Err() == nil && !s.retired.Load() && !s.link.notices.isOver()
}

// suspect retires a session after an exchange that failed in a way that ends it, or may have: what is under way in it goes on, what is new
// gets another one. The SDK gives up a session after a refusal by HTTP; it says so only later.
func (s *session) suspect(d *delivery, err error) {
	status := int(d.status.Load())
	refused := status >= http.StatusMultipleChoices && status < http.StatusInternalServerError && status != http.StatusTooManyRequests
	unsent := status == 0 && !d.sent.Load()
	if refused {
		s.proven.Store(true) // whoever refuses is there
	}
	if gone(err) || refused || unsent {
		s.retire()
	}
}

// retire keeps a session from anything new, and closes it when nothing is under way any more.
func (s *session) retire() {
	if !s.retired.CompareAndSwap(false, true) {
		return
	}
	go func() {
		for range cap(s.slots) { // once all are ours, no call is under way
			select {
			case s.slots <- struct{}{}:
			case <-s.ended:
				return
			}
		}
		s.close()
	}()
}

// ping asks for a sign of life. The newest protocol has none: there each request stands for itself.
func (s *session) ping(ctx context.Context) error {
	if s.client.InitializeResult().ProtocolVersion > legacyProtocol {
		return nil
	}
	return s.client.Ping(ctx, nil)
}

// within makes a context that ends with the caller's, after a time, or with the session.
func (s *session) within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, d)
	stop := context.AfterFunc(s.life, cancel)
	return ctx, func() { stop(); cancel() }
}

// listen registers who hears the progress of a call, by the token that the call carries.
func (s *session) listen(hear chan<- string) (token string, forget func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens++
	token = fmt.Sprintf("call-%d", s.tokens)
	s.progress[token] = hear
	return token, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.progress, token)
	}
}

// progressed passes progress on to its call, or drops it when the call has not yet heard the last: a server must not make us wait.
func (s *session) progressed(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
	if r.Params == nil {
		return
	}
	token, _ := r.Params.ProgressToken.(string)
	s.mu.Lock()
	hear := s.progress[token]
	s.mu.Unlock()
	if hear == nil {
		return
	}
	text := s.link.hidden.plain(r.Params.Message, maxProgress)
	if text == "" {
		text = fmt.Sprintf("%g", r.Params.Progress)
		if r.Params.Total > 0 {
			text += fmt.Sprintf(" of %g", r.Params.Total)
		}
	}
	select {
	case hear <- text:
	default:
	}
}

func (s *session) logged(_ context.Context, r *sdk.LoggingMessageRequest) {
	if r.Params == nil || !s.logs.Allow() {
		return
	}
	s.logger.Debug("MCP server logs", zap.String("level", s.link.hidden.plain(string(r.Params.Level), 20)),
		zap.String("message", s.link.hidden.plain(fmt.Sprint(r.Params.Data), maxLog)))
}
