package pgstream

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/stream"
)

const (
	// reserveIndices is how many indices an owner reserves beyond the newest event: what it may show before it is stored.
	reserveIndices = 2048
	// maxUnstored bounds the bytes of one stream that wait for the database; then writers of the stream wait too.
	maxUnstored = 2 * stream.MaxBatchBytes
	// maxUnstoredInAll bounds those of all streams of the process.
	maxUnstoredInAll = 256 << 20
	// tailEvents is how many stored events of a live stream stay in memory for its followers.
	tailEvents = 32
	// tailTime is how long stored events stay in memory: a database that crashes loses what it has not written to disk, which is less old.
	tailTime = 3 * time.Second
)

// live is a stream that this process owns: it numbers the events and shows them before they are stored.
type live struct {
	id         string
	generation int64

	mu        sync.Mutex
	changed   chan struct{} // closed, and replaced, when events were stored or the state changed
	state     liveState
	producers map[string]*liveProducer
	cancelled bool
	first     int64     // oldest event kept in the database
	lostFrom  int64     // from here on an earlier owner may have shown events that were never stored; 0: none
	usedAt    time.Time // when a producer last wrote, or said that it is there

	tail     []tailEvent // the newest events; their indices are contiguous
	floor    int64       // followers behind this index find what they need in tail
	last     int64       // index of the newest event; 0 when there is none
	reserved int64       // highest index that may be given
	next     int64       // index of the next event
	stored   int64       // index of the newest event in the database
	unstored int         // bytes of the events behind it

	dirtySince time.Time // when the oldest change was made that is not stored; zero: there is none
	urgent     bool      // somebody waits for what is not stored
	sending    *chunk    // what the writer, or whoever took it, has sent, until the database has answered
	taken      bool      // sending is in somebody's transaction, which is not over
}

type liveState int

const (
	owned     liveState = iota
	held                // no event is added until the stream has ended, or is let go; the writer stores the rest
	ended               // it is closed, and stays in memory for a moment for those who follow it
	releasing           // no event is added any more; the writer stores the rest and gives the stream up
	released            // the database numbers the events, or another process
	lost                // somebody took the stream; what was not stored never will be
)

// liveProducer is one producer of a live stream.
type liveProducer struct {
	epoch     agent.Epoch
	wroteFrom int64    // first index that this epoch wrote; 0 for none
	batches   batchSet // stored when the stream is released: until then nobody else asks for it
	added     []addedBatch
	newest    int64       // the last index written here
	dirty     bool        // its epoch, or the first index that it wrote, is not stored
	stored    agent.Epoch // the newest epoch that is stored
}

// addedBatch is a batch that was added here, and the index of its last event.
type addedBatch struct{ number, last int64 }

func newLive(id string, c *claim) *live {
	s := &live{
		id: id, generation: c.generation, changed: make(chan struct{}), producers: map[string]*liveProducer{}, cancelled: c.cancelled,
		first: c.first, lostFrom: c.lostFrom, usedAt: time.Now(),
		floor: c.last, last: c.last, stored: c.last, next: c.base + 1, reserved: c.base + reserveIndices,
	}
	for _, p := range c.producers {
		s.producers[p.Producer] = &liveProducer{
			epoch: agent.Epoch(p.Epoch), wroteFrom: p.WroteFrom, batches: parseBatches(p.Batches), stored: agent.Epoch(p.Epoch),
		}
	}
	return s
}

// wakeLocked wakes everybody who waits for a change of the stream.
func (s *live) wakeLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *live) appendedLocked() agent.Appended {
	return agent.Appended{LastIndex: s.last, Cancelled: s.cancelled}
}

// begin begins a new epoch of a producer and records the first event of earlier epochs that viewers may have seen. After the loss of an owner they
// may have seen events of any producer, even of one that the database does not know, because producers may begin between two flushes.
func (s *live) begin(producer string, isLost func(agent.Fence) bool) (agent.Fence, agent.Appended, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != owned || s.next > s.reserved {
		s.urgent = true
		return agent.Fence{}, agent.Appended{}, false
	}
	p, ok := s.producers[producer]
	if !ok {
		p = &liveProducer{}
		s.producers[producer] = p
	}
	*p = liveProducer{epoch: p.epoch + 1, wroteFrom: cmp.Or(p.wroteFrom, s.lostFrom), stored: p.stored, dirty: true}
	for isLost(agent.Fence{StreamID: s.id, Producer: producer, Epoch: p.epoch}) { // it was given to somebody here who may still use it
		p.epoch++
	}
	s.touchLocked()
	return agent.Fence{StreamID: s.id, Producer: producer, Epoch: p.epoch}, s.appendedLocked(), true
}

// reset voids the events of a producer's earlier epochs.
func (s *live) reset(f agent.Fence) (agent.Appended, addOutcome, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.producers[f.Producer]
	switch {
	case s.state == ended:
		return s.appendedLocked(), done, agent.ErrStreamClosed
	case s.state != owned:
		return agent.Appended{}, notHere, nil
	case p == nil || p.epoch != f.Epoch:
		return s.appendedLocked(), done, agent.ErrFenced
	case p.wroteFrom == 0:
		return s.appendedLocked(), done, nil
	case s.next > s.reserved:
		s.urgent = true
		return agent.Appended{}, full, nil
	}
	s.addLocked([]agent.Event{{Type: agent.EventReset, Producer: f.Producer, FromIndex: p.wroteFrom}}, f.Producer, f.Epoch)
	p.wroteFrom, p.newest, p.dirty = 0, s.last, true
	s.touchLocked()
	return s.appendedLocked(), done, nil
}

// touchLocked notes that there is something to store.
func (s *live) touchLocked() {
	s.usedAt = time.Now()
	if s.dirtySince.IsZero() {
		s.dirtySince = s.usedAt
	}
}

// add adds a checked batch, once.
func (s *live) add(f agent.Fence, batch int64, events []agent.Event, size int, inAll *atomic.Int64) (agent.Appended, addOutcome, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != owned && s.state != ended {
		return agent.Appended{}, notHere, nil
	}
	p := s.producers[f.Producer]
	if p == nil || p.epoch != f.Epoch {
		return s.appendedLocked(), done, agent.ErrFenced
	}
	if s.state == ended {
		return s.appendedLocked(), done, agent.ErrStreamClosed
	}
	if len(events) == 0 {
		s.usedAt = time.Now()
		return s.appendedLocked(), done, nil
	}
	if p.batches.has(batch) {
		at := s.appendedLocked()
		if i := slices.IndexFunc(p.added, func(b addedBatch) bool { return b.number == batch }); i >= 0 {
			at.LastIndex = p.added[i].last
		}
		return at, done, nil
	}
	if s.unstored > maxUnstored || inAll.Load() > maxUnstoredInAll || s.next+int64(len(events))-1 > s.reserved {
		s.urgent = true
		return agent.Appended{}, full, nil
	}
	if p.wroteFrom == 0 {
		p.wroteFrom, p.dirty = s.next, true
	}
	s.addLocked(events, f.Producer, f.Epoch)
	s.unstored += size
	inAll.Add(int64(size))
	p.batches.add(batch)
	p.added, p.newest = append(p.added, addedBatch{batch, s.last}), s.last
	s.touchLocked()
	return s.appendedLocked(), done, nil
}

// addOutcome is the outcome of adding a batch.
type addOutcome int

const (
	done    addOutcome = iota
	full               // a part of what is shown has to be stored first
	notHere            // the stream is not owned any more
)

// isStored reports whether everything that a producer has written is stored. If not, changed is closed when the stream changes.
func (s *live) isStored(f agent.Fence) (yes bool, changed <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.producers[f.Producer]
	switch {
	case s.state == lost, s.state == owned && (p == nil || p.epoch != f.Epoch):
		return false, nil, agent.ErrFenced
	case s.state == released, s.state == ended, p == nil, p.stored == p.epoch && s.stored >= p.newest:
		return true, nil, nil
	}
	if p.dirty || s.sending == nil || s.sending.last < p.newest { // it is not on its way
		s.urgent = true
	}
	return false, s.changed, nil
}

// release asks the writer to release the stream, and reports whether it is released already.
func (s *live) release() (over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.state {
	case owned:
		s.state = releasing
		s.urgent = true
		s.touchLocked()
	case releasing:
		s.urgent = true
	case held: // its holder will let go of it or end it
	case released, lost, ended:
		return true
	}
	return false
}

// position returns where the stream stands; ok is false if the database has to be asked.
func (s *live) position() (agent.StreamTail, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == lost || s.state == released {
		return agent.StreamTail{}, false
	}
	t := agent.StreamTail{LastIndex: s.last, Cancelled: s.cancelled, Closed: s.state == ended}
	if s.last > 0 {
		t.FirstIndex = s.first
	}
	return t, true
}

// lookup returns the stream if this process owns it.
func (l *Log) lookup(id string) *live {
	l.liveMu.RLock()
	defer l.liveMu.RUnlock()
	return l.streams[id]
}

// wait waits for a change of a stream.
func (l *Log) wait(ctx context.Context, op string, changed <-chan struct{}) error {
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return agent.Interrupted(ctx, op)
	case <-l.life.Done():
		return stopped(op)
	}
}
