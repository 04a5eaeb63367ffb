package pgstream

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/stream/relay"
)

const (
	// mirrorPause is how long a stream is read from the database after its owner did not deliver it.
	mirrorPause = 100 * time.Millisecond
	// maxMirrored and maxMirroredInAll bound the bytes of the texts in one mirror, and in all.
	maxMirrored      = maxUnstored
	maxMirroredInAll = maxUnstoredInAll
)

// mirror holds the newest events of another process's stream, as the relay delivers them.
type mirror struct {
	id     string
	number uint64
	client *relay.Client

	mu     sync.Mutex
	tail   []agent.Event // all behind floor
	sizes  []int         // of those, as JSON
	floor  int64
	last   int64 // index of the newest event
	bytes  int64 // of all
	closed bool
	overAt time.Time // when it was given up for the database; zero: it was not
}

// mirrors are the streams that are followed here through the relay. A mirror is removed with its last follower.
type mirrors struct {
	mu       sync.Mutex
	byStream map[string]*mirror
	byNumber map[uint64]*mirror // those that are not over
	number   uint64             // the last that was given
	bytes    atomic.Int64
}

func newMirrors() *mirrors {
	return &mirrors{byStream: map[string]*mirror{}, byNumber: map[uint64]*mirror{}}
}

// lookup returns the mirror of a stream, nil if there is none.
func (m *mirrors) lookup(id string) *mirror {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byStream[id]
}

// followOwner follows a stream through the relay from an index on, and reports whether its owner can be reached.
func (l *Log) followOwner(id, owner string, after int64) bool {
	if l.server == nil || owner == "" || owner == l.owner {
		return false
	}
	client := l.connected(owner)
	if client == nil {
		return false
	}
	l.mirrors.mu.Lock()
	defer l.mirrors.mu.Unlock()
	if old := l.mirrors.byStream[id]; old != nil {
		switch covers, paused := old.covers(after, client); {
		case covers:
			return true
		case paused:
			return false
		}
		l.mirrors.endLocked(old)
	}
	l.mirrors.number++
	m := &mirror{id: id, number: l.mirrors.number, client: client, floor: after, last: after}
	if !client.Follow(m.number, id, after) {
		return false
	}
	l.mirrors.byStream[id], l.mirrors.byNumber[m.number] = m, m
	return true
}

// covers reports whether the mirror has, or will have, the events after an index; else, whether it is too early to try again.
func (m *mirror) covers(after int64, client *relay.Client) (covers, paused bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.overAt.IsZero() {
		return false, time.Since(m.overAt) < mirrorPause
	}
	return m.client == client && after >= m.floor, false
}

// endLocked ends a mirror. Its followers then read the database.
func (m *mirrors) endLocked(ended *mirror) {
	if m.byNumber[ended.number] == ended {
		delete(m.byNumber, ended.number)
		ended.client.Unfollow(ended.number)
	}
	ended.mu.Lock()
	defer ended.mu.Unlock()
	m.bytes.Add(-ended.bytes)
	ended.tail, ended.sizes, ended.bytes, ended.overAt = nil, nil, 0, time.Now()
}

// unmirror removes the mirror of a stream without followers here.
func (l *Log) unmirror(id string) {
	l.mirrors.mu.Lock()
	defer l.mirrors.mu.Unlock()
	if m := l.mirrors.byStream[id]; m != nil && !l.hub.isFollowed(id) {
		l.mirrors.endLocked(m)
		delete(l.mirrors.byStream, id)
	}
}

// mirrorPiece adds a piece that the owner of a stream has sent.
func (l *Log) mirrorPiece(p relay.Piece) {
	l.mirrors.mu.Lock()
	m := l.mirrors.byNumber[p.Number]
	if m != nil && (p.Closed || p.Gone) { // the owner has ended it
		delete(l.mirrors.byNumber, p.Number)
	}
	l.mirrors.mu.Unlock()
	if m == nil {
		return
	}
	if !p.Gone && m.add(p, l) {
		return
	}
	l.dropMirror(m)
}

// add adds events and wakes their followers. It reports false if there is no room for them.
func (m *mirror) add(p relay.Piece, l *Log) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.overAt.IsZero() {
		return true
	}
	for i := range p.Events {
		if p.Events[i].Meta.EventIndex > m.last {
			m.tail = append(m.tail, p.Events[i])
			m.sizes = append(m.sizes, p.Sizes[i])
			m.last = p.Events[i].Meta.EventIndex
			m.growLocked(l, p.Sizes[i])
		}
	}
	m.closed = p.Closed
	m.trimLocked(l)
	if m.bytes > maxMirrored || l.mirrors.bytes.Load() > maxMirroredInAll {
		return false
	}
	l.hub.advance(m.id, m.last) // under the lock, so that an ended mirror announces nothing
	return true
}

func (m *mirror) growLocked(l *Log, by int) {
	m.bytes += int64(by)
	l.mirrors.bytes.Add(int64(by))
}

// trimLocked drops events that are far behind the newest and stored by now.
func (m *mirror) trimLocked(l *Log) {
	if len(m.tail) < 2*tailEvents {
		return
	}
	old := time.Now().Add(-tailTime)
	drop, _ := slices.BinarySearchFunc(m.tail[:len(m.tail)-tailEvents], old, func(e agent.Event, t time.Time) int { return e.Meta.Time.Compare(t) })
	if drop <= tailEvents/2 { // not one by one
		return
	}
	m.floor = m.tail[drop-1].Meta.EventIndex
	for _, size := range m.sizes[:drop] {
		m.growLocked(l, -size)
	}
	m.tail, m.sizes = slices.Clone(m.tail[drop:]), slices.Clone(m.sizes[drop:])
}

// page returns the events after an index. ok is false if the database has to be read: the mirror lacks them, or the stream is known to have
// reached an index that the owner has not sent.
func (m *mirror) page(after, newest int64) (p page, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.overAt.IsZero() || after < m.floor || after >= m.last && newest > after {
		return page{}, false
	}
	p = page{last: m.last, closed: m.closed}
	if n := len(m.tail); n > 0 && after < m.last {
		from, _ := slices.BinarySearchFunc(m.tail, after+1, func(e agent.Event, index int64) int { return int(e.Meta.EventIndex - index) })
		to := min(n, from+pageEvents)
		p.events = m.tail[from:to:to]
		p.age = time.Since(p.events[0].Meta.Time)
	}
	return p, true
}

// isOver reports whether followers read the database.
func (m *mirror) isOver() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.overAt.IsZero()
}

// dropMirror makes the followers of a stream read the database at once.
func (l *Log) dropMirror(m *mirror) {
	l.mirrors.mu.Lock()
	l.mirrors.endLocked(m)
	l.mirrors.mu.Unlock()
	if l.hub.refresh(m.id) && l.lookup(m.id) == nil {
		l.announcer.watch(m.id)
	}
}

// dropMirrorsOf does the same for all streams of a connection.
func (l *Log) dropMirrorsOf(client *relay.Client) {
	l.mirrors.mu.Lock()
	var dropped []*mirror
	for _, m := range l.mirrors.byNumber {
		if m.client == client {
			dropped = append(dropped, m)
		}
	}
	l.mirrors.mu.Unlock()
	for _, m := range dropped {
		l.dropMirror(m)
	}
}

// isUsed reports whether a stream is followed through a connection.
func (m *mirrors) isUsed(client *relay.Client) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, mirror := range m.byNumber {
		if mirror.client == client {
			return true
		}
	}
	return false
}
