package pgstream

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/stream"
)

// Config is what a [Log] needs.
type Config struct {
	Pool      *pgxpool.Pool // of a database with migration 002; stays the caller's
	Logger    *zap.Logger   // default: discard
	Poll      time.Duration // how late a missed notification is noticed, ± 20 %; default 2 s
	Retention time.Duration // events of a stream closed longer ago expire; 0: never, by itself
	Watch     Watch         // nil: nobody watches
}

// Watch is told how the log does in this process, for metrics. Its methods are called from many goroutines and do not block.
type Watch interface {
	Appended(events int)         // they were written from here
	Delivered(lag time.Duration) // a follower got a page, of which the first event was there for so long, or it waited for that long
	Followers(change int)        // one came (+1) or went (-1)
}

// unwatched is the watch of a log that nobody watches.
type unwatched struct{}

func (unwatched) Appended(int)            {}
func (unwatched) Delivered(time.Duration) {}
func (unwatched) Followers(int)           {}

const (
	defaultPoll = 2 * time.Second
	// callTimeout bounds one call of the database, the wait for a connection and for the stream's lock included.
	callTimeout = 10 * time.Second
)

// Log is an event log in PostgreSQL. Its methods may be called from any goroutine until [Log.Stop].
type Log struct {
	cfg       Config
	hub       *hub
	announcer *announcer
	readers   *semaphore.Weighted // followers leave connections of the pool to writers
	life      context.Context     // ends with Stop
	end       context.CancelFunc
	workers   sync.WaitGroup
	listening atomic.Bool
}

// New checks that the database has the log's tables, opens the listening connection and starts the log's background work.
// ctx bounds the start only. [agent.CodeUnavailable] when the database cannot be reached.
func New(ctx context.Context, cfg Config) (*Log, error) {
	const op = "open event log"
	switch {
	case cfg.Pool == nil:
		return nil, agent.Errorf(agent.CodeInvalid, op, "no pool")
	case cfg.Poll < 0 || cfg.Retention < 0:
		return nil, agent.Errorf(agent.CodeInvalid, op, "negative poll %v or retention %v", cfg.Poll, cfg.Retention)
	}
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	if cfg.Poll == 0 {
		cfg.Poll = defaultPoll
	}
	if cfg.Watch == nil {
		cfg.Watch = unwatched{}
	}
	var ready bool
	if err := cfg.Pool.QueryRow(ctx, sqlReady).Scan(&ready); err != nil {
		return nil, fail(ctx, op, err)
	}
	if !ready {
		return nil, agent.Errorf(agent.CodeInternal, op, "the database lacks the tables of migration 002")
	}
	conn, err := listen(ctx, cfg.Pool)
	if err != nil {
		return nil, fail(ctx, op, err)
	}
	readers := max(1, int64(cfg.Pool.Config().MaxConns)/2)
	l := &Log{cfg: cfg, hub: newHub(), announcer: newAnnouncer(), readers: semaphore.NewWeighted(readers)}
	l.life, l.end = context.WithCancel(context.WithoutCancel(ctx))
	l.workers.Go(func() { l.receive(l.life, conn) })
	l.workers.Go(func() { l.poll(l.life) })
	l.workers.Go(func() { l.announce(l.life) })
	if cfg.Retention > 0 {
		l.workers.Go(func() { l.sweep(l.life) })
	}
	return l, nil
}

// Stop ends the background work and every follower, with [agent.CodeUnavailable], and waits for the former.
func (l *Log) Stop() {
	l.end()
	l.workers.Wait()
}

// Begin makes its caller the only valid instance of a producer; see activities.EventLog.
func (l *Log) Begin(ctx context.Context, streamID, producer string) (agent.Fence, agent.Appended, error) {
	if err := check(streamID, producer); err != nil {
		return agent.Fence{}, agent.Appended{}, err
	}
	f := agent.Fence{StreamID: streamID, Producer: producer}
	var (
		outcome string
		epoch   *int64
		a       agent.Appended
	)
	err := l.call(ctx, "begin producer", sqlBegin, []any{streamID, producer}, &outcome, &epoch, &a.LastIndex, &a.Cancelled)
	if err == nil {
		err = refusal(outcome)
	}
	if err != nil {
		return agent.Fence{}, a, err
	}
	f.Epoch = agent.Epoch(*epoch)
	l.hub.advance(streamID, a.LastIndex)
	return f, a, nil
}

// Append adds a batch, once; see activities.EventLog. A batch without events is a [Log.Touch].
//
// [agent.CodeUnavailable] means that the batch may or may not be in the log: send it again.
func (l *Log) Append(ctx context.Context, f agent.Fence, batch int64, events []agent.Event) (agent.Appended, error) {
	if len(events) == 0 {
		return l.Touch(ctx, f)
	}
	if err := check(f.StreamID, f.Producer); err != nil {
		return agent.Appended{}, err
	}
	b, err := stream.NewBatch(events)
	if err != nil {
		return agent.Appended{}, err
	}
	args := []any{f.StreamID, f.Producer, int64(f.Epoch), batch, b.JSON()}
	a, err := l.answer(ctx, "append events", f, sqlAppend, args)
	if err == nil {
		l.announcer.add(f.StreamID, a.LastIndex)
		l.cfg.Watch.Appended(len(events))
	}
	return a, err
}

// Touch asks, without writing, whether the producer may go on.
func (l *Log) Touch(ctx context.Context, f agent.Fence) (agent.Appended, error) {
	if err := check(f.StreamID, f.Producer); err != nil {
		return agent.Appended{}, err
	}
	return l.answer(ctx, "touch stream", f, sqlTouch, []any{f.StreamID, f.Producer, int64(f.Epoch)})
}

func (l *Log) answer(ctx context.Context, op string, f agent.Fence, sql string, args []any) (agent.Appended, error) {
	var (
		outcome string
		a       agent.Appended
	)
	if err := l.call(ctx, op, sql, args, &outcome, &a.LastIndex, &a.Cancelled); err != nil {
		return agent.Appended{}, err
	}
	l.hub.advance(f.StreamID, a.LastIndex)
	return a, refusal(outcome)
}

// Cancel marks the stream; a closed one stays as it is.
func (l *Log) Cancel(ctx context.Context, streamID string) error {
	if err := stream.CheckStream(streamID); err != nil {
		return err
	}
	return l.call(ctx, "cancel stream", sqlCancel, []any{streamID}, nil)
}

// Close appends events of which the last is terminal; the first to close wins. The store does the same within its own
// transaction by the SQL function turnstone_close.
func (l *Log) Close(ctx context.Context, streamID string, events []agent.Event) error {
	if err := stream.CheckStream(streamID); err != nil {
		return err
	}
	b, err := stream.NewFinalBatch(events)
	if err != nil {
		return err
	}
	var last int64
	if err := l.call(ctx, "close stream", sqlClose, []any{streamID, b.JSON()}, &last); err != nil {
		return err
	}
	l.hub.advance(streamID, last)
	l.cfg.Watch.Appended(len(events))
	return nil
}

// Tail says where a stream stands without reading it.
func (l *Log) Tail(ctx context.Context, streamID string) (agent.StreamTail, error) {
	if err := stream.CheckStream(streamID); err != nil {
		return agent.StreamTail{}, err
	}
	var t agent.StreamTail
	err := l.call(ctx, "ask for the tail", sqlTail, []any{streamID}, &t.FirstIndex, &t.LastIndex, &t.Closed, &t.Cancelled)
	return t, err
}

// call runs a statement that answers one row: one round trip, unless the connection is new to the statement or has been idle
// for more than a second, which the pool checks first.
func (l *Log) call(ctx context.Context, op, sql string, args []any, dest ...any) error {
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := l.cfg.Pool.QueryRow(bounded, sql, args...).Scan(dest...); err != nil {
		return fail(ctx, op, err)
	}
	return nil
}

func check(streamID, producer string) error {
	if err := stream.CheckStream(streamID); err != nil {
		return err
	}
	return stream.CheckProducer(producer)
}

// refusal turns the outcome of a function into the port's sentinel.
func refusal(outcome string) error {
	switch outcome {
	case "ok":
		return nil
	case "fenced":
		return agent.ErrFenced
	case "closed":
		return agent.ErrStreamClosed
	default:
		return agent.Errorf(agent.CodeInternal, "", "unknown outcome %q", outcome)
	}
}

// errStopped ends the followers of a log that was stopped.
var errStopped = errors.New("the event log was stopped")
