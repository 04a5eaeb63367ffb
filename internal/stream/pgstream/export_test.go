package pgstream

import "context"

// PageLen reads one page, as a follower does.
func (l *Log) PageLen(ctx context.Context, id string, after int64) (int, error) {
	p, err := l.readOnce(ctx, id, after)
	return len(p.events), err
}

// Owned is the number of streams that the log owns.
func (l *Log) Owned() int { return len(l.owned()) }
