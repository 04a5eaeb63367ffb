package stream

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/turnstone-run/turnstone/agent"
)

// memoryBounds bounds a [MemoryLog].
type memoryBounds struct {
	streams     int   // with events; ten times as many expired ones are remembered
	events      int   // of one stream, and as many producers
	streamBytes int64 // JSON of one stream
	bytes       int64 // JSON of all streams
}

func defaultMemoryBounds() memoryBounds {
	return memoryBounds{streams: 10_000, events: 100_000, streamBytes: 64 << 20, bytes: 512 << 20}
}

const stubsPerStream = 10

// MemoryLog is the event log of one process: for direct turns, tests and machines without a database. Nothing survives the process and no
// other process can follow, so a durable deployment refuses it. Its methods may be called from any goroutine.
//
// Everything is bounded. When room is needed, the events of the closed stream that was used longest ago expire: following it answers
// [agent.ErrGap]. When only open streams are left, a writer gets [agent.CodeOverflow]; Close always finds room.
type MemoryLog struct {
	bounds memoryBounds

	mu      sync.Mutex // every operation is short: encoding and decoding happen outside
	streams map[string]*memoryStream
	closed  *simplelru.LRU[string, *memoryStream] // closed streams that still have events, and may be expired
	stubs   *simplelru.LRU[string, *memoryStream] // expired streams, kept to answer gap
	bytes   int64
	watched map[string]*memoryWatch
}

// NewMemoryLog returns an empty log.
func NewMemoryLog() *MemoryLog { return newMemoryLog(defaultMemoryBounds()) }

func newMemoryLog(bounds memoryBounds) *MemoryLog {
	l := &MemoryLog{bounds: bounds, streams: map[string]*memoryStream{}, watched: map[string]*memoryWatch{}}
	l.closed, _ = simplelru.NewLRU[string, *memoryStream](bounds.streams+1, nil) // fails for a size below 1 alone
	l.stubs, _ = simplelru.NewLRU(bounds.streams*stubsPerStream, func(id string, _ *memoryStream) { delete(l.streams, id) })
	return l
}

// Claim returns nothing to write: this process owns every stream.
func (l *MemoryLog) Claim() agent.StreamClaim { return agent.StreamClaim{} }

// Claimed does nothing: see [MemoryLog.Claim].
func (l *MemoryLog) Claimed(string) {}

// Begin makes its caller the only valid instance of a producer; see turns.EventLog.
func (l *MemoryLog) Begin(ctx context.Context, streamID, producerName string) (agent.Fence, agent.Appended, error) {
	if err := checkNamesOf(ctx, streamID, producerName); err != nil {
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
		if len(s.producers) >= l.bounds.events {
			err := agent.Errorf(agent.CodeOverflow, "begin producer", "stream %q has %d producers", streamID, len(s.producers))
			return agent.Fence{}, s.appended(), err
		}
		p = &memoryProducer{}
		s.producers[producerName] = p
	}
	*p = memoryProducer{epoch: p.epoch + 1, wroteFrom: p.wroteFrom, batches: map[int64]int64{}}
	return agent.Fence{StreamID: streamID, Producer: producerName, Epoch: p.epoch}, s.appended(), nil
}

// Reset voids what earlier epochs of a producer have written; see turns.EventLog.
func (l *MemoryLog) Reset(ctx context.Context, f agent.Fence) (agent.Appended, error) {
	const op = "reset producer"
	if err := checkNamesOf(ctx, f.StreamID, f.Producer); err != nil {
		return agent.Appended{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s, p, err := l.holder(f)
	if err != nil || p.wroteFrom == 0 {
		return s.appended(), err
	}
	body, err := Encode(&agent.Event{Type: agent.EventReset, Producer: f.Producer, FromIndex: p.wroteFrom})
	if err != nil {
		return s.appended(), agent.Errorf(agent.CodeInternal, op, "%w", err)
	}
	b := Batch{Metas: make([]agent.EventMeta, 1), Bodies: [][]byte{body}, Bytes: len(body)}
	if err := l.room(s, b); err != nil {
		return s.appended(), err
	}
	l.write(s, b, f.Producer, f.Epoch)
	p.wroteFrom = 0
	return s.appended(), nil
}

// Append adds a batch, once; see turns.EventLog. A batch without events is a [MemoryLog.Touch].
func (l *MemoryLog) Append(ctx context.Context, f agent.Fence, batch int64, events []agent.Event) (agent.Appended, error) {
	if err := checkNamesOf(ctx, f.StreamID, f.Producer); err != nil {
		return agent.Appended{}, err
	}
	b, err := NewBatch(events)
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
func (l *MemoryLog) Touch(ctx context.Context, f agent.Fence) (agent.Appended, error) {
	return l.Append(ctx, f, 0, nil)
}

// Sync has nothing to do: what was appended is in the log already. [agent.ErrFenced] when a newer epoch has begun.
func (l *MemoryLog) Sync(ctx context.Context, f agent.Fence) error {
	_, err := l.Touch(ctx, f)
	if errors.Is(err, agent.ErrStreamClosed) {
		return nil
	}
	return err
}

// Take returns nil: nothing waits to be stored.
func (*MemoryLog) Take(agent.Fence) agent.UnstoredEvents { return nil }

// Hold holds nothing: no transaction ends a stream of this log.
func (*MemoryLog) Hold(ctx context.Context, streamID string) (*agent.HeldStream, error) {
	return nil, checkStream(ctx, streamID)
}

// LetGo does nothing.
func (*MemoryLog) LetGo(*agent.HeldStream, []agent.Event) {}

// Cancel marks the stream; a closed one stays as it is.
func (l *MemoryLog) Cancel(ctx context.Context, streamID string) error {
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
func (l *MemoryLog) Close(ctx context.Context, streamID string, events []agent.Event) error {
	if err := checkStream(ctx, streamID); err != nil {
		return err
	}
	b, err := NewFinalBatch(events)
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
	for l.bytes > l.bounds.bytes { // the end of a turn always finds room, at the cost of older ones
		if !l.expireOldest() {
			break
		}
	}
	return nil
}

// Tail returns where a stream stands, without its events.
func (l *MemoryLog) Tail(ctx context.Context, streamID string) (agent.StreamTail, error) {
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

func checkNamesOf(ctx context.Context, streamID, producerName string) error {
	if err := checkStream(ctx, streamID); err != nil {
		return err
	}
	return CheckProducer(producerName)
}

func checkStream(ctx context.Context, streamID string) error {
	if err := agent.Interrupted(ctx, "use event log"); err != nil {
		return err
	}
	return CheckStream(streamID)
}
