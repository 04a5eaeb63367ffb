package pgstream

import (
	"cmp"
	"slices"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// tailEvent is an event in memory. It is a tenth of the size of an [agent.Event].
type tailEvent struct {
	shared *agent.Event // the event but for the following fields; neighbouring tokens have the same
	index  int64
	time   time.Time
	text   string
}

func (t *tailEvent) event() agent.Event {
	e := *t.shared
	e.Meta.EventIndex, e.Meta.Time, e.Text = t.index, t.time, t.text
	return e
}

// addLocked numbers events and shows them. Their index must have been reserved.
func (s *live) addLocked(events []agent.Event, producer string, epoch agent.Epoch) {
	now := time.Now().UTC().Truncate(time.Microsecond) // as the database keeps it
	for i := range events {
		s.tail = append(s.tail, tailEvent{shared: s.sharedPartLocked(&events[i], producer, epoch), index: s.next, time: now, text: events[i].Text})
		s.last = s.next
		s.next++
	}
}

// sharedPartLocked returns an event without index and time. Neighbouring tokens of a producer, which differ in nothing but their text, share it.
func (s *live) sharedPartLocked(e *agent.Event, producer string, epoch agent.Epoch) *agent.Event {
	meta := agent.EventMeta{
		StreamID: s.id, TurnID: cmp.Or(e.Meta.TurnID, agent.TurnID(s.id)), Attempt: int64(epoch), Producer: producer,
		AgentInstanceID: e.Meta.AgentInstanceID,
	}
	if n := len(s.tail); n > 0 && e.Type == agent.EventToken {
		if last := s.tail[n-1].shared; last.Type == agent.EventToken && last.Meta == meta {
			return last
		}
	}
	pattern := *e
	pattern.Meta = meta
	return &pattern
}

// page returns events after an index, if memory has all of them. It uses the memory of into.
func (s *live) page(after int64, into []agent.Event) (page, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == lost || s.state == released || after < s.floor {
		return page{}, false
	}
	p := page{last: s.last, closed: s.state == ended}
	if n := len(s.tail); n > 0 && after < s.last {
		from := max(0, n-int(s.last-after))
		for i := range s.tail[from:min(n, from+tailEvents)] {
			into = append(into, s.tail[from+i].event())
		}
		p.events, p.age = into, time.Since(into[0].Meta.Time)
	}
	return p, true
}

// trimLocked drops stored events that are far behind the newest.
func (s *live) trimLocked() {
	drop := len(s.tail) - max(tailEvents, int(min(s.last-s.stored, int64(len(s.tail)))))
	if drop <= tailEvents/2 { // not one by one
		return
	}
	old := time.Now().Add(-tailTime)
	drop, _ = slices.BinarySearchFunc(s.tail[:drop], old, func(e tailEvent, t time.Time) int { return e.time.Compare(t) })
	if drop <= tailEvents/2 {
		return
	}
	s.floor = s.tail[drop-1].index
	s.tail = append(make([]tailEvent, 0, len(s.tail)-drop+tailEvents), s.tail[drop:]...)
}
