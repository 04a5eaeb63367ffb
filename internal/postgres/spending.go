package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// Every kind of spender with the dearest of it, ordered by what they cost, then by their tokens.
const readSpending = `
SELECT kind, name, calls_today, input_today, output_today, cost_today::float8, calls, input, output, cost::float8
FROM (
	SELECT s.*, row_number() OVER (PARTITION BY kind ORDER BY cost DESC, input + output DESC, name) AS n
	FROM (
		SELECT d.kind, d.name,
			coalesce(sum(d.calls) FILTER (WHERE d.day = $2::date), 0)::bigint AS calls_today,
			coalesce(sum(d.input_tokens) FILTER (WHERE d.day = $2::date), 0)::bigint AS input_today,
			coalesce(sum(d.output_tokens) FILTER (WHERE d.day = $2::date), 0)::bigint AS output_today,
			coalesce(sum(d.cost_usd) FILTER (WHERE d.day = $2::date), 0) AS cost_today,
			sum(d.calls)::bigint AS calls, sum(d.input_tokens)::bigint AS input, sum(d.output_tokens)::bigint AS output, sum(d.cost_usd) AS cost
		FROM usage_by_day d
		WHERE d.tenant = $1 AND d.day >= date_trunc('month', $2::timestamp) AND d.day < date_trunc('month', $2::timestamp) + interval '1 month'
			AND d.kind IN ('tenant', 'user', 'agent', 'model')
		GROUP BY d.kind, d.name
	) s
) r WHERE n <= $3 ORDER BY kind, n`

// Spending returns what a tenant has used today and this month, and who and what used it. What belongs to no user is in the sums alone. A
// tenant that used nothing, or is not known, has zeros.
func (s *Store) Spending(ctx context.Context, tenant string) (agent.Spending, error) {
	return s.spending(ctx, tenant, time.Now())
}

func (s *Store) spending(ctx context.Context, tenant string, at time.Time) (agent.Spending, error) {
	const op = "read spending"
	at = at.UTC()
	all := agent.Spending{Tenant: tenant, At: at, Users: []agent.Spender{}, Agents: []agent.Spender{}, Models: []agent.Spender{}}
	rows, err := s.pool.Query(ctx, readSpending, plain(tenant), at, agent.MaxSpenders)
	if err != nil {
		return agent.Spending{}, mapError(op, err)
	}
	var (
		kind string
		one  agent.Spender
	)
	_, err = pgx.ForEachRow(rows, []any{
		&kind, &one.Name, &one.Today.Calls, &one.Today.InputTokens, &one.Today.OutputTokens, &one.Today.CostUSD,
		&one.Month.Calls, &one.Month.InputTokens, &one.Month.OutputTokens, &one.Month.CostUSD,
	}, func() error {
		switch kind {
		case agent.BoundTenant:
			all.Today, all.Month = one.Today, one.Month
		case agent.BoundUser:
			all.Users = append(all.Users, one)
		case agent.BoundAgent:
			all.Agents = append(all.Agents, one)
		default:
			all.Models = append(all.Models, one)
		}
		return nil
	})
	if err != nil {
		return agent.Spending{}, mapError(op, err)
	}
	return all, nil
}
