package postgres

import (
	"context"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// SpendingAt is Spending at another time than now.
func (s *Store) SpendingAt(ctx context.Context, tenant string, at time.Time) (agent.Spending, error) {
	return s.spending(ctx, tenant, at)
}
