package pgstream

import "context"

// PageLen reads one page, as a follower does.
func (l *Log) PageLen(ctx context.Context, id string, after int64) (int, error) {
	p, err := l.readOnce(ctx, id, after)
	return len(p.events), err
}
