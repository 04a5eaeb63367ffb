package pgstream

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/pglisten"
	"github.com/turnstone-run/turnstone/internal/stream"
	"github.com/turnstone-run/turnstone/internal/stream/relay"
)

// Config is the configuration of a [Log].
type Config struct {
	Pool      *pgxpool.Pool // of a migrated database; the caller closes it
	Logger    *zap.Logger   // default: discard
	Flush     time.Duration // how long events may be shown before they are stored; default 250 ms
	Poll      time.Duration // between two polls for missed notifications, ± 20 %; default 2 s
	Retention time.Duration // events of streams closed longer ago expire; 0: only by Expire
	Watch     Watch         // nil: none
	Relay     *Relay        // nil: processes read each other's streams from the database
}

// Watch receives figures of the log in this process, for metrics. Its methods are called from many goroutines and must not block.
type Watch interface {
	Appended(events int)         // events were written by this process
	Delivered(lag time.Duration) // a follower got a page; lag is the age of its first event, or the time that the follower waited if that is less
	Followers(change int)        // a follower came (+1) or went (-1)
	Peers(change int)            // a process whose streams are followed here was connected (+1) or disconnected (-1)
}

// unwatched is a Watch that does nothing.
type unwatched struct{}

func (unwatched) Appended(int)            {}
func (unwatched) Delivered(time.Duration) {}
func (unwatched) Followers(int)           {}
func (unwatched) Peers(int)               {}

const (
	defaultFlush = 250 * time.Millisecond
	defaultPoll  = 2 * time.Second
	// callTimeout bounds one database call, including the wait for a connection and for the stream's lock.
	callTimeout = 10 * time.Second
)

// Log is an event log in PostgreSQL. Its methods may be called from any goroutine until [Log.Stop].
type Log struct {
	cfg       Config
	hub       *hub
	announcer *announcer
	readers   *semaphore.Weighted // bounds the connections of followers, so that writers have some
	life      context.Context     // ends with Stop
	end       context.CancelFunc
	workers   sync.WaitGroup
	listening atomic.Bool

	listenedAgain atomic.Int64 // when the listening connection was last replaced, in nanoseconds since 1970; 0: it was not

	owner    string // this process's name in the table streams
	liveMu   sync.RWMutex
	streams  map[string]*live         // that this process owns
	claiming map[string]chan struct{} // streams that it is asking for; closed when it has the answer

	unstored atomic.Int64 // bytes of events that are shown and not stored

	dirtyMu sync.Mutex
	dirty   map[*live]struct{} // streams with something to store
	kick    chan struct{}      // wakes the writer

	lostMu     sync.Mutex
	lostFences *simplelru.LRU[agent.Fence, struct{}] // of streams that were taken from this process

	watchersMu sync.Mutex
	watchers   map[string]map[string]time.Time // streams that other processes follow in the database → processes → when they last said so

	server  *relay.Server // nil: without a relay
	self    relay.Peer    // what others have to know to follow the streams of this process
	relayed *hub          // wakes the relay for streams of this process
	peers   peers
	mirrors *mirrors
}

// maxLostFences bounds the producers of lost streams that are remembered. Each notices the loss within seconds.
const maxLostFences = 100_000

// New checks that the database has the log's tables, opens the listening connection and starts the log's background work.
// ctx bounds the start only. [agent.CodeUnavailable] when the database cannot be reached.
func New(ctx context.Context, cfg Config) (*Log, error) {
	const op = "open event log"
	switch {
	case cfg.Pool == nil:
		return nil, agent.Errorf(agent.CodeInvalid, op, "no pool")
	case cfg.Poll < 0 || cfg.Retention < 0 || cfg.Flush < 0:
		return nil, agent.Errorf(agent.CodeInvalid, op, "negative poll %v, retention %v or flush %v", cfg.Poll, cfg.Retention, cfg.Flush)
	}
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	if cfg.Poll == 0 {
		cfg.Poll = defaultPoll
	}
	if cfg.Flush == 0 {
		cfg.Flush = defaultFlush
	}
	if cfg.Watch == nil {
		cfg.Watch = unwatched{}
	}
	var ready bool
	if err := cfg.Pool.QueryRow(ctx, sqlReady).Scan(&ready); err != nil {
		return nil, fail(ctx, op, err)
	}
	if !ready {
		return nil, agent.Errorf(agent.CodeInternal, op, "the database lacks the tables of the event log: migrate it")
	}
	readers := max(1, int64(cfg.Pool.Config().MaxConns)/2)
	l := &Log{
		cfg: cfg, hub: newHub(), announcer: newAnnouncer(), readers: semaphore.NewWeighted(readers), owner: uuid.NewString(),
		streams: map[string]*live{}, claiming: map[string]chan struct{}{}, dirty: map[*live]struct{}{}, kick: make(chan struct{}, 1),
		watchers: map[string]map[string]time.Time{}, relayed: newHub(), peers: peers{byName: map[string]*peer{}}, mirrors: newMirrors(),
	}
	var err error
	if l.lostFences, err = simplelru.NewLRU[agent.Fence, struct{}](maxLostFences, nil); err != nil {
		return nil, agent.Errorf(agent.CodeInternal, op, "%w", err)
	}
	listener := l.newListener()
	conn, err := listener.Connect(ctx)
	if err != nil {
		return nil, fail(ctx, op, err)
	}
	l.life, l.end = context.WithCancel(context.WithoutCancel(ctx))
	if cfg.Relay != nil {
		if err := l.serveRelay(ctx, *cfg.Relay); err != nil {
			l.Stop()
			return nil, errors.Join(agent.Errorf(agent.CodeUnavailable, op, "relay at %q: %w", cfg.Relay.Address, err), pglisten.Close(conn))
		}
	}
	l.workers.Go(func() { listener.Run(l.life, conn) })
	l.workers.Go(func() { l.poll(l.life) })
	l.workers.Go(func() { l.announce(l.life) })
	l.workers.Go(func() { l.write(l.life) })
	l.workers.Go(func() { l.keepOwned(l.life) })
	if cfg.Retention > 0 {
		l.workers.Go(func() { l.sweep(l.life) })
	}
	return l, nil
}

// Stop ends the background work and waits for it. It ends every follower with [agent.CodeUnavailable].
func (l *Log) Stop() {
	l.end()
	l.peers.stop()
	l.workers.Wait()
	if l.server != nil {
		l.server.Stop() // its followers have what was shown at the end
	}
}

// Cancel marks the stream, unless it is closed.
func (l *Log) Cancel(ctx context.Context, streamID string) error {
	if err := stream.CheckStream(streamID); err != nil {
		return err
	}
	if err := l.call(ctx, "cancel stream", sqlCancel, []any{streamID}, nil); err != nil {
		return err
	}
	if s := l.lookup(streamID); s != nil {
		s.cancel()
	}
	return nil
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
	kept, err := l.Hold(ctx, streamID)
	if err != nil {
		return err
	}
	if kept != nil {
		last := slices.Clone(events)
		if err = l.endHeld(ctx, kept, last); err != nil {
			last = nil
		}
		l.LetGo(kept, last)
	}
	if kept == nil || err != nil && agent.CodeOf(err) != agent.CodeUnavailable { // it is, or was just, taken
		var last int64
		err = l.call(ctx, "close stream", sqlClose, []any{streamID, b.JSON()}, &last)
		l.hub.advance(streamID, last)
	}
	if err == nil {
		l.cfg.Watch.Appended(len(events))
	}
	return err
}

func (l *Log) endHeld(ctx context.Context, kept *agent.HeldStream, events []agent.Event) error {
	bodies, err := stream.Number(kept, events)
	if err != nil {
		return err
	}
	return l.call(ctx, "end stream", sqlEnd, []any{kept.StreamID, kept.Owner, kept.Generation, kept.LastIndex, bodies}, nil)
}

// Tail returns where a stream stands, without its events.
func (l *Log) Tail(ctx context.Context, streamID string) (agent.StreamTail, error) {
	if err := stream.CheckStream(streamID); err != nil {
		return agent.StreamTail{}, err
	}
	if s := l.lookup(streamID); s != nil {
		if err := agent.Interrupted(ctx, "ask for the tail"); err != nil {
			return agent.StreamTail{}, err
		}
		if t, ok := s.position(); ok {
			return t, nil
		}
	}
	var t agent.StreamTail
	err := l.call(ctx, "ask for the tail", sqlTail, []any{streamID}, &t.FirstIndex, &t.LastIndex, &t.Closed, &t.Cancelled)
	return t, err
}

// call runs a statement that returns one row. It takes one round trip, unless the connection does not know the statement yet or was idle for
// more than a second, when the pool checks it first.
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

// refusal returns the port's error for the outcome of an SQL function.
func refusal(outcome string) error {
	switch outcome {
	case outcomeOK:
		return nil
	case "fenced":
		return agent.ErrFenced
	case "closed":
		return agent.ErrStreamClosed
	default:
		return agent.Errorf(agent.CodeInternal, "", "unknown outcome %q", outcome)
	}
}

var errStopped = errors.New("the event log was stopped")

func stopped(op string) error { return agent.Errorf(agent.CodeUnavailable, op, "%w", errStopped) }
