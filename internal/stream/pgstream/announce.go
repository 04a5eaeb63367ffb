package pgstream

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"
)

// sqlAnnounce does not wait for the disk: the events are stored already.
const sqlAnnounce = `
	SELECT set_config('synchronous_commit', 'off', true), count(pg_notify(channel, payload))
	FROM unnest($1::text[], $2::text[]) AS said (channel, payload)`

// Notifications: on eventsChannel <stream>:<index of the newest event>, on streamsChannel "release <stream>", to its owner, and
// "watch <process> <stream>": that process has followers of a stream that it does not own.
const (
	eventsChannel  = "turnstone_events"
	streamsChannel = "turnstone_streams"
	askRelease     = "release"
	sayWatch       = "watch"
)

// announcer notifies the followers of other processes of what was appended here, with at most one notification per stream and round trip. A
// notification that fails is sent again; one that is missed is made up for by the followers' polls.
//
// Notifying in the append's own transaction would be simpler, but such transactions commit one at a time: at 100 streams with 20
// batches a second each, one event in a hundred came 1.8 s late that way, 50 ms late this way (two cores, quick disk).
type announcer struct {
	mu      sync.Mutex
	pending map[string]int64    // stream → newest index; no larger than the number of streams written here
	watched map[string]struct{} // streams of other owners that are followed here
	signal  chan struct{}
}

func newAnnouncer() *announcer {
	return &announcer{pending: map[string]int64{}, watched: map[string]struct{}{}, signal: make(chan struct{}, 1)}
}

func (a *announcer) add(stream string, index int64) {
	a.mu.Lock()
	a.pending[stream] = max(a.pending[stream], index)
	a.mu.Unlock()
	a.wake()
}

// watch announces that streams are followed here, so that their owners notify this process.
func (a *announcer) watch(streams ...string) {
	a.mu.Lock()
	for _, stream := range streams {
		a.watched[stream] = struct{}{}
	}
	a.mu.Unlock()
	a.wake()
}

func (a *announcer) wake() {
	select {
	case a.signal <- struct{}{}:
	default:
	}
}

// take returns what is to be announced.
func (a *announcer) take() (pending map[string]int64, watched []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	pending, watched = a.pending, slices.Collect(maps.Keys(a.watched))
	a.pending = map[string]int64{}
	clear(a.watched)
	return pending, watched
}

// putBack keeps what could not be announced for the next round.
func (a *announcer) putBack(pending map[string]int64, watched []string) {
	for stream, index := range pending {
		a.add(stream, index)
	}
	a.watch(watched...)
}

// announce runs until ctx ends, and then announces what is left.
func (l *Log) announce(ctx context.Context) {
	for ended := false; !ended; {
		select {
		case <-l.announcer.signal:
		case <-ctx.Done():
			ended = true
		}
		if err := l.announceOnce(context.WithoutCancel(ctx)); err != nil {
			l.cfg.Logger.Debug("announce events", zap.Error(err))
			ended = ended || !pause(ctx, time.Second) // what is appended meanwhile waits
		}
	}
}

func (l *Log) announceOnce(ctx context.Context) error {
	pending, watched := l.announcer.take()
	channels, payloads := notifications(l.owner, pending, watched)
	if len(payloads) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	_, err := l.cfg.Pool.Exec(ctx, sqlAnnounce, channels, payloads)
	if err != nil {
		l.announcer.putBack(pending, watched)
	}
	return err
}

// notifications returns the channels and payloads of what is to be announced.
func notifications(process string, pending map[string]int64, watched []string) (channels, payloads []string) {
	for stream, index := range pending {
		channels, payloads = append(channels, eventsChannel), append(payloads, stream+":"+strconv.FormatInt(index, 10))
	}
	for _, stream := range watched {
		channels, payloads = append(channels, streamsChannel), append(payloads, sayWatch+" "+process+" "+stream)
	}
	return channels, payloads
}

// announceTimeout is short because Stop waits for it.
const announceTimeout = 2 * time.Second
