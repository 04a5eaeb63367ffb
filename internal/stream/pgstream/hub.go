package pgstream

import (
	"maps"
	"slices"
	"sync"

	"github.com/turnstone-run/turnstone/agent"
)

// hub wakes followers when there is something to read. It knows only followed streams.
type hub struct {
	mu     sync.Mutex
	topics map[string]*topic
}

type topic struct {
	newest int64 // highest known index
	subs   []*subscription
}

// subscription is one follower's place in the hub.
type subscription struct {
	hub    *hub
	stream string
	topic  *topic
	stale  bool          // read again whatever the index says; guarded by the hub's mutex
	wake   chan struct{} // holds one signal
	moved  func()        // instead of wake, if it is not nil; called with the hub's mutex held
	page   []agent.Event // the follower's own: memory for its next page
}

func newHub() *hub { return &hub{topics: map[string]*topic{}} }

func (h *hub) subscribe(stream string, moved func()) *subscription {
	h.mu.Lock()
	defer h.mu.Unlock()
	t, ok := h.topics[stream]
	if !ok {
		t = &topic{}
		h.topics[stream] = t
	}
	s := &subscription{hub: h, stream: stream, topic: t, wake: make(chan struct{}, 1), moved: moved}
	t.subs = append(t.subs, s)
	return s
}

func (s *subscription) cancel() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.topic.subs = slices.DeleteFunc(s.topic.subs, func(other *subscription) bool { return other == s })
	if len(s.topic.subs) == 0 {
		delete(s.hub.topics, s.stream)
	}
}

// due reports whether there may be events after an index. It clears the flag that resync sets.
func (s *subscription) due(after int64) bool {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	due := s.stale || s.topic.newest > after
	s.stale = false
	return due
}

// newest returns the highest known index.
func (s *subscription) newest() int64 {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	return s.topic.newest
}

// advance records that a stream has reached an index, and wakes its followers.
func (h *hub) advance(stream string, index int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t, ok := h.topics[stream]
	if !ok || index <= t.newest {
		return
	}
	t.newest = index
	for _, s := range t.subs {
		s.signal()
	}
}

// resync makes every follower read again: notifications may have been missed.
func (h *hub) resync() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.topics {
		t.reread()
	}
}

// refresh makes the followers of a stream read again, because the database may lack what memory had shown. It reports whether there are any.
func (h *hub) refresh(stream string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	t, ok := h.topics[stream]
	if !ok {
		return false
	}
	t.newest = 0
	t.reread()
	return true
}

func (t *topic) reread() {
	for _, s := range t.subs {
		s.stale = true
		s.signal()
	}
}

// isFollowed reports whether a stream has a follower.
func (h *hub) isFollowed(stream string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.topics[stream] != nil
}

func (s *subscription) signal() {
	if s.moved != nil {
		s.moved()
		return
	}
	select {
	case s.wake <- struct{}{}:
	default: // a signal is pending
	}
}

// streams lists what is followed.
func (h *hub) streams() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.topics))
}
