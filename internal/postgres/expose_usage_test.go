package postgres

import (
	"context"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// UsageAt is Usage at another time than now, and with another bound on the time it takes.
func (s *Store) UsageAt(ctx context.Context, q agent.UsageQuery, at time.Time, within time.Duration) (agent.UsagePage, error) {
	return s.usage(ctx, q, at, within)
}

// FromDailySums reports whether a query is answered from the daily sums.
func FromDailySums(q agent.UsageQuery) bool { return dailyKind(&q) != "" }
