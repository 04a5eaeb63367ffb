package postgres

import (
	"context"
	"time"
)

// The statements of metrics, for plans.
const (
	StandingApprovals   = standingApprovals
	StandingTurns       = standingTurns
	ReadTenantsSpending = readTenantsSpending
)

// TenantsSpendingAt is TenantsSpending at another time than now.
func (s *Store) TenantsSpendingAt(ctx context.Context, at time.Time) ([]TenantSpending, error) {
	return s.tenantsSpending(ctx, at)
}
