package pgstream

import (
	"github.com/turnstone-run/turnstone/internal/stream/relay"
)

// relaySource is the log's side of the relay.
type relaySource Log

// Open returns a stream for another process, which then needs no notifications. It returns nil if this process does not own the stream.
func (r *relaySource) Open(process, id string, moved func()) relay.Stream {
	l := (*Log)(r)
	s := l.lookup(id)
	if s == nil {
		return nil
	}
	sub := l.relayed.subscribe(id, moved)
	l.forgetWatcher(process, id)
	return relayedStream{live: s, sub: sub}
}

// relayedStream is a live stream that another process follows.
type relayedStream struct {
	live *live
	sub  *subscription
}

func (r relayedStream) Read(after int64) (relay.Page, bool) {
	p, ok := r.live.page(after, nil)
	return relay.Page{Events: p.events, Last: p.last, Closed: p.closed}, ok
}

func (r relayedStream) Close() { r.sub.cancel() }

// advance wakes the followers of a stream that this process owns, here and elsewhere.
func (l *Log) advance(id string, index int64) {
	l.hub.advance(id, index)
	l.relayed.advance(id, index)
}
