package pgstream

import (
	"context"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"
)

// sqlAnnounce is quick: there is nothing to wait for the disk for, the events are there already.
const sqlAnnounce = `
	SELECT set_config('synchronous_commit', 'off', true), count(pg_notify('turnstone_events', payload))
	FROM unnest($1::text[]) AS payload`

// announcer tells the followers of other processes what was appended here, one notification per stream and round trip however
// many appends there were meanwhile. An announcement that is lost, with the process or the connection, is repaired by their polls.
//
// Notifying in the append's own transaction would be simpler, but such transactions commit one at a time: at 100 streams with 20
// batches a second each, one event in a hundred came 1.8 s late that way, 50 ms late this way (two cores, quick disk).
type announcer struct {
	mu      sync.Mutex
	pending map[string]int64 // stream → newest index; no larger than the number of streams written here
	signal  chan struct{}
}

func newAnnouncer() *announcer {
	return &announcer{pending: map[string]int64{}, signal: make(chan struct{}, 1)}
}

func (a *announcer) add(stream string, index int64) {
	a.mu.Lock()
	a.pending[stream] = max(a.pending[stream], index)
	a.mu.Unlock()
	select {
	case a.signal <- struct{}{}:
	default:
	}
}

// take returns what is to be announced as payloads.
func (a *announcer) take() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	payloads := make([]string, 0, len(a.pending))
	for stream, index := range a.pending {
		payloads = append(payloads, stream+":"+strconv.FormatInt(index, 10))
	}
	clear(a.pending)
	return payloads
}

// announce runs until ctx ends, and then says what is left to say.
func (l *Log) announce(ctx context.Context) {
	for ended := false; !ended; {
		select {
		case <-l.announcer.signal:
		case <-ctx.Done():
			ended = true
		}
		if err := l.announceOnce(context.WithoutCancel(ctx)); err != nil {
			l.cfg.Logger.Debug("announce events; followers elsewhere will poll", zap.Error(err))
			ended = ended || !pause(ctx, time.Second) // what is appended meanwhile waits
		}
	}
}

func (l *Log) announceOnce(ctx context.Context) error {
	payloads := l.announcer.take()
	if len(payloads) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	_, err := l.cfg.Pool.Exec(ctx, sqlAnnounce, payloads)
	return err
}

// announceTimeout is short because Stop waits for it.
const announceTimeout = 2 * time.Second
