package pgstream

import (
	"context"
	"time"
)

// PageLen reads one page, as a follower does.
func (l *Log) PageLen(ctx context.Context, id string, after int64) (int, error) {
	p, err := l.readOnce(ctx, id, after)
	return len(p.events), err
}

// Owned is the number of streams that the log owns.
func (l *Log) Owned() int { return len(l.owned()) }

// IsStoring reports whether the writer waits for the database.
func (l *Log) IsStoring() bool {
	for _, s := range l.owned() {
		s.mu.Lock()
		sending := s.sending != nil
		s.mu.Unlock()
		if sending {
			return true
		}
	}
	return false
}

// Mirrors reports whether the log follows a stream through the relay.
func (l *Log) Mirrors(id string) bool {
	m := l.mirrors.lookup(id)
	return m != nil && !m.isOver()
}

// Watched reports whether other processes follow a stream of this one in the database.
func (l *Log) Watched(id string) bool { return l.isWatched(id, time.Now()) }

// CutRelay breaks the connections to processes whose streams are followed here.
func (l *Log) CutRelay() {
	l.peers.mu.Lock()
	defer l.peers.mu.Unlock()
	for _, p := range l.peers.byName {
		if p.client != nil {
			p.client.Close()
		}
	}
}

// RetryRelay lets processes be dialled again at once.
func (l *Log) RetryRelay() {
	l.peers.mu.Lock()
	defer l.peers.mu.Unlock()
	for _, p := range l.peers.byName {
		p.retryAt = time.Time{}
	}
}

// MirroredBytes is what the events of other processes take here.
func (l *Log) MirroredBytes() int64 { return l.mirrors.bytes.Load() }

// ForgetDeadPeers removes the rows of processes that are gone.
func (l *Log) ForgetDeadPeers(ctx context.Context) error {
	_, err := l.exec(ctx, "keep the list of processes", sqlDeadPeers)
	return err
}
