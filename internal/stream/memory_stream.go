package stream

import (
	"context"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// memoryStream is one stream. The log's mutex guards it; an event, once written, never changes.
type memoryStream struct {
	id        string
	events    []memoryEvent
	last      int64 // index of the newest event, also after it expired
	bytes     int64
	cancelled bool
	closedAt  time.Time // zero while open
	producers map[string]*memoryProducer
}

type memoryEvent struct {
	meta agent.EventMeta
	body []byte // JSON of the whole event; its meta is void
}

type memoryProducer struct {
	epoch     agent.Epoch
	wroteFrom int64           // first index that this epoch wrote; 0 for none
	batches   map[int64]int64 // batch → last index; each has events, so their number is bounded
}

func (s *memoryStream) isClosed() bool { return !s.closedAt.IsZero() }

// first is the oldest index kept, last+1 when there is none.
func (s *memoryStream) first() int64 { return s.last - int64(len(s.events)) + 1 }

func (s *memoryStream) appended() agent.Appended {
	if s == nil {
		return agent.Appended{}
	}
	return agent.Appended{LastIndex: s.last, Cancelled: s.cancelled}
}

// open returns the stream, a new one if need be.
func (l *MemoryLog) open(id string) (*memoryStream, error) {
	if s, ok := l.streams[id]; ok {
		return s, nil
	}
	if len(l.streams)-l.stubs.Len() >= l.bounds.streams && !l.expireOldest() {
		return nil, agent.Errorf(agent.CodeOverflow, "open stream", "%d streams are open", l.bounds.streams)
	}
	s := &memoryStream{id: id, producers: map[string]*memoryProducer{}}
	l.streams[id] = s
	return s, nil
}

// holder returns the stream and producer of a fence that is still valid.
func (l *MemoryLog) holder(f agent.Fence) (*memoryStream, *memoryProducer, error) {
	s, ok := l.streams[f.StreamID]
	if !ok {
		return nil, nil, agent.ErrFenced
	}
	p, ok := s.producers[f.Producer]
	switch {
	case ok && p.epoch != f.Epoch, !ok && s.producers != nil: // an expired stream has forgotten its producers
		return s, nil, agent.ErrFenced
	case s.isClosed():
		return s, nil, agent.ErrStreamClosed
	}
	return s, p, nil
}

// room makes room for a batch by expiring closed streams.
func (l *MemoryLog) room(s *memoryStream, b Batch) error {
	const op = "append events"
	switch {
	case len(s.events)+len(b.Bodies) > l.bounds.events:
		return agent.Errorf(agent.CodeOverflow, op, "the stream has %d events, at most %d", len(s.events), l.bounds.events)
	case s.bytes+int64(b.Bytes) > l.bounds.streamBytes:
		return agent.Errorf(agent.CodeOverflow, op, "the stream has %d bytes, at most %d", s.bytes, l.bounds.streamBytes)
	}
	for l.bytes+int64(b.Bytes) > l.bounds.bytes {
		if !l.expireOldest() {
			return agent.Errorf(agent.CodeOverflow, op, "all streams have %d bytes, at most %d", l.bytes, l.bounds.bytes)
		}
	}
	return nil
}

// write appends a checked batch and wakes the followers.
func (l *MemoryLog) write(s *memoryStream, b Batch, producerName string, epoch agent.Epoch) {
	now := time.Now().UTC().Truncate(time.Microsecond) // as the database keeps it
	for i, body := range b.Bodies {
		s.last++
		meta := b.Metas[i]
		meta.EventIndex, meta.Attempt, meta.Producer, meta.Time = s.last, int64(epoch), producerName, now
		s.events = append(s.events, memoryEvent{meta: meta, body: body})
	}
	s.bytes += int64(b.Bytes)
	l.bytes += int64(b.Bytes)
	l.wake(s.id)
}

// expireOldest drops the events of the closed stream used longest ago; false when there is none.
func (l *MemoryLog) expireOldest() bool {
	id, s, ok := l.closed.RemoveOldest()
	if ok {
		l.expire(id, s)
	}
	return ok
}

func (l *MemoryLog) expire(id string, s *memoryStream) {
	l.bytes -= s.bytes
	s.events, s.bytes, s.producers = nil, 0, nil
	l.stubs.Add(id, s)
}

// Expire drops the events of streams closed before a time and returns how many there were.
func (l *MemoryLog) Expire(ctx context.Context, before time.Time) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var n int64
	for _, id := range l.closed.Keys() {
		if s, ok := l.closed.Peek(id); ok && s.closedAt.Before(before) {
			n += int64(len(s.events))
			l.closed.Remove(id)
			l.expire(id, s)
		}
	}
	return n, nil
}
