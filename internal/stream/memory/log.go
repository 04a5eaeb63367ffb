package memory

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/stream"
)

// Config bounds a [Log]; 0 means the default.
type Config struct {
	MaxStreams     int   // streams with events; default 10,000. Ten times as many expired ones are remembered.
	MaxEvents      int   // events of one stream, and as many producers; default 100,000
	MaxStreamBytes int64 // JSON of one stream; default 64 MiB
	MaxBytes       int64 // JSON of all streams; default 512 MiB
}

const (
	defaultStreams     = 10_000
	defaultEvents      = 100_000
	defaultStreamBytes = 64 << 20
	defaultBytes       = 512 << 20
	stubsPerStream     = 10
)

// Log is an event log in memory. Its methods may be called from any goroutine.
type Log struct {
	cfg Config

	mu      sync.Mutex // every operation is short: encoding and decoding happen outside
	streams map[string]*entries
	closed  *simplelru.LRU[string, *entries] // closed streams that still have events, and may be expired
	stubs   *simplelru.LRU[string, *entries] // expired streams, kept to answer gap
	bytes   int64
	watched map[string]*watch
}

// New makes an empty log.
func New(cfg Config) (*Log, error) {
	if cfg.MaxStreams < 0 || cfg.MaxEvents < 0 || cfg.MaxStreamBytes < 0 || cfg.MaxBytes < 0 {
		return nil, agent.Errorf(agent.CodeInvalid, "make memory event log", "negative bound in %+v", cfg)
	}
	cfg.MaxStreams = orDefault(cfg.MaxStreams, defaultStreams)
	cfg.MaxEvents = orDefault(cfg.MaxEvents, defaultEvents)
	cfg.MaxStreamBytes = orDefault(cfg.MaxStreamBytes, defaultStreamBytes)
	cfg.MaxBytes = orDefault(cfg.MaxBytes, defaultBytes)

	l := &Log{cfg: cfg, streams: map[string]*entries{}, watched: map[string]*watch{}}
	var err error
	if l.closed, err = simplelru.NewLRU[string, *entries](cfg.MaxStreams+1, nil); err != nil {
		return nil, agent.Errorf(agent.CodeInternal, "make memory event log", "%w", err)
	}
	forget := func(id string, _ *entries) { delete(l.streams, id) }
	if l.stubs, err = simplelru.NewLRU(cfg.MaxStreams*stubsPerStream, forget); err != nil {
		return nil, agent.Errorf(agent.CodeInternal, "make memory event log", "%w", err)
	}
	return l, nil
}

func orDefault[N int | int64](n, otherwise N) N {
	if n == 0 {
		return otherwise
	}
	return n
}

// Claim returns nothing to write: this process owns every stream.
func (l *Log) Claim() agent.StreamClaim { return agent.StreamClaim{} }

// Claimed does nothing: see [Log.Claim].
func (l *Log) Claimed(string) {}

// Begin makes its caller the only valid instance of a producer; see turns.EventLog.
func (l *Log) Begin(ctx context.Context, streamID, producerName string) (agent.Fence, agent.Appended, error) {
	if err := checkNames(ctx, streamID, producerName); err != nil {
		return agent.Fence{}, agent.Appended{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s, err := l.open(streamID)
	if err != nil {
		return agent.Fence{}, agent.Appended{}, err
	}
	if s.isClosed() {
		return agent.Fence{}, s.appended(), agent.ErrStreamClosed
	}
	p, ok := s.producers[producerName]
	if !ok {
		if len(s.producers) >= l.cfg.MaxEvents {
			err := agent.Errorf(agent.CodeOverflow, "begin producer", "stream %q has %d producers", streamID, len(s.producers))
			return agent.Fence{}, s.appended(), err
		}
		p = &producer{}
		s.producers[producerName] = p
	}
	*p = producer{epoch: p.epoch + 1, wroteFrom: p.wroteFrom, batches: map[int64]int64{}}
	return agent.Fence{StreamID: streamID, Producer: producerName, Epoch: p.epoch}, s.appended(), nil
}

// Reset voids what earlier epochs of a producer have written; see turns.EventLog.
func (l *Log) Reset(ctx context.Context, f agent.Fence) (agent.Appended, error) {
	const op = "reset producer"
	if err := checkNames(ctx, f.StreamID, f.Producer); err != nil {
		return agent.Appended{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s, p, err := l.holder(f)
	if err != nil || p.wroteFrom == 0 {
		return s.appended(), err
	}
	body, err := stream.Encode(&agent.Event{Type: agent.EventReset, Producer: f.Producer, FromIndex: p.wroteFrom})
	if err != nil {
		return s.appended(), agent.Errorf(agent.CodeInternal, op, "%w", err)
	}
	b := stream.Batch{Metas: make([]agent.EventMeta, 1), Bodies: [][]byte{body}, Bytes: len(body)}
	if err := l.room(s, b); err != nil {
		return s.appended(), err
	}
	l.write(s, b, f.Producer, f.Epoch)
	p.wroteFrom = 0
	return s.appended(), nil
}

// Append adds a batch, once; see turns.EventLog. A batch without events is a [Log.Touch].
func (l *Log) Append(ctx context.Context, f agent.Fence, batch int64, events []agent.Event) (agent.Appended, error) {
	if err := checkNames(ctx, f.StreamID, f.Producer); err != nil {
		return agent.Appended{}, err
	}
	b, err := stream.NewBatch(events)
	if err != nil {
		return agent.Appended{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s, p, err := l.holder(f)
	if err != nil || len(events) == 0 {
		return s.appended(), err
	}
	if last, ok := p.batches[batch]; ok {
		return agent.Appended{LastIndex: last, Cancelled: s.cancelled}, nil
	}
	if err := l.room(s, b); err != nil {
		return s.appended(), err
	}
	if p.wroteFrom == 0 {
		p.wroteFrom = s.last + 1
	}
	l.write(s, b, f.Producer, f.Epoch)
	p.batches[batch] = s.last
	return s.appended(), nil
}

// Touch asks, without writing, whether the producer may go on.
func (l *Log) Touch(ctx context.Context, f agent.Fence) (agent.Appended, error) {
	if err := checkNames(ctx, f.StreamID, f.Producer); err != nil {
		return agent.Appended{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s, _, err := l.holder(f)
	return s.appended(), err
}

// Sync has nothing to do: what was appended is in the log already. [agent.ErrFenced] when a newer epoch has begun.
func (l *Log) Sync(ctx context.Context, f agent.Fence) error {
	if err := checkNames(ctx, f.StreamID, f.Producer); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _, err := l.holder(f)
	if errors.Is(err, agent.ErrStreamClosed) {
		return nil
	}
	return err
}

// Take returns nil: nothing waits to be stored.
func (*Log) Take(agent.Fence) agent.UnstoredEvents { return nil }

// Hold holds nothing: no transaction ends a stream of this log.
func (*Log) Hold(ctx context.Context, streamID string) (*agent.HeldStream, error) {
	return nil, checkStream(ctx, streamID)
}

// LetGo does nothing.
func (*Log) LetGo(*agent.HeldStream, []agent.Event) {}

// Cancel marks the stream; a closed one stays as it is.
func (l *Log) Cancel(ctx context.Context, streamID string) error {
	if err := checkStream(ctx, streamID); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s, err := l.open(streamID)
	if err != nil {
		return err
	}
	s.cancelled = s.cancelled || !s.isClosed()
	return nil
}

// Close appends events of which the last is terminal; the first to close wins.
func (l *Log) Close(ctx context.Context, streamID string, events []agent.Event) error {
	if err := checkStream(ctx, streamID); err != nil {
		return err
	}
	b, err := stream.NewFinalBatch(events)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s, err := l.open(streamID)
	if err != nil {
		return err
	}
	if s.isClosed() {
		return nil
	}
	l.write(s, b, "", 0)
	s.closedAt = time.Now()
	l.closed.Add(streamID, s)
	for l.bytes > l.cfg.MaxBytes { // the end of a turn always finds room, at the cost of older ones
		if !l.expireOldest() {
			break
		}
	}
	return nil
}

// Tail says where a stream stands without reading it.
func (l *Log) Tail(ctx context.Context, streamID string) (agent.StreamTail, error) {
	if err := checkStream(ctx, streamID); err != nil {
		return agent.StreamTail{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s, ok := l.streams[streamID]
	if !ok {
		return agent.StreamTail{}, nil
	}
	t := agent.StreamTail{LastIndex: s.last, Closed: s.isClosed(), Cancelled: s.cancelled}
	if len(s.events) > 0 {
		t.FirstIndex = s.first()
	}
	return t, nil
}

func checkNames(ctx context.Context, streamID, producerName string) error {
	if err := checkStream(ctx, streamID); err != nil {
		return err
	}
	return stream.CheckProducer(producerName)
}

func checkStream(ctx context.Context, streamID string) error {
	if err := agent.Interrupted(ctx, "use event log"); err != nil {
		return err
	}
	return stream.CheckStream(streamID)
}
