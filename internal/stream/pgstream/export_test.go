package pgstream

import "context"

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
