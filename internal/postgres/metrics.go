package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// MetricStore reads the numbers that metrics show.
type MetricStore struct{ *database }

// maxSpendingTenants bounds the answer of [MetricStore.TenantsSpending].
const maxSpendingTenants = 10_000

// Backlog is what waits in the database, of all tenants.
type Backlog struct {
	Approvals      map[string]int64 // pending approvals by tenant; "" has those of all tenants that have no entry
	OldestApproval time.Duration    // the age of the oldest of them, or 0
	Queued         int64            // turns that wait for their session
	Running        int64            // turns that run and do not wait for a person
	Waiting        int64            // turns that hold their session and wait for a person
	OldestQueued   time.Duration    // the age of the oldest queued turn, or 0
	LongestQueue   int64            // the number of turns that wait for the same session
}

const oldestAge = `coalesce(extract(epoch FROM clock_timestamp() - min(created_at)), 0)::float8`

// liveTurns selects the turns that have not ended. It is a union because PostgreSQL would use neither of the partial indexes for one condition on both
// states.
const liveTurns = `
		SELECT turn_id, state FROM turns WHERE state = 'running' UNION ALL SELECT turn_id, state FROM turns WHERE state = 'queued'`

// countApprovals returns a row for each of the tenants with the most approvals, and one for all others.
const countApprovals = `
SELECT CASE WHEN n <= $1 THEN tenant ELSE '' END, sum(pending)::bigint, max(oldest), sum(waiting)::bigint
FROM (
	SELECT tenant, count(*) AS pending, ` + oldestAge + ` AS oldest, count(DISTINCT turn_id) FILTER (WHERE state = 'running') AS waiting,
		row_number() OVER (ORDER BY count(*) DESC, tenant) AS n
	FROM (
		SELECT a.tenant, a.turn_id, a.created_at, t.state
		FROM (` + liveTurns + `
		) AS t JOIN approvals a ON a.turn_id = t.turn_id WHERE a.kind = '' AND ` + isPending + `
	) AS o
	GROUP BY tenant
) AS t GROUP BY 1`

// countLiveTurns reads each number from its own partial index.
const countLiveTurns = `
SELECT (SELECT count(*) FROM turns WHERE state = 'running'), coalesce(sum(n), 0)::bigint, coalesce(max(n), 0)::bigint, coalesce(max(oldest), 0)
FROM (SELECT count(*) AS n, ` + oldestAge + ` AS oldest FROM turns WHERE state = 'queued' GROUP BY tenant, session_id) AS q`

// Backlog counts what waits. At most maxTenants tenants have an entry in Approvals. The cost grows with the number of unfinished turns, but not with that
// of finished ones.
func (s *MetricStore) Backlog(ctx context.Context, maxTenants int) (Backlog, error) {
	out := Backlog{Approvals: map[string]int64{}}
	b := &pgx.Batch{}
	b.Queue(countApprovals, maxTenants).Query(func(rows pgx.Rows) error {
		var (
			tenant           string
			pending, waiting int64
			oldest           float64
		)
		_, err := pgx.ForEachRow(rows, []any{&tenant, &pending, &oldest, &waiting}, func() error {
			out.Approvals[tenant] += pending
			out.Waiting += waiting
			out.OldestApproval = max(out.OldestApproval, seconds(oldest))
			return nil
		})
		return err
	})
	b.Queue(countLiveTurns).QueryRow(func(row pgx.Row) error {
		var oldest float64
		err := row.Scan(&out.Running, &out.Queued, &out.LongestQueue, &oldest)
		out.OldestQueued = seconds(oldest)
		return err
	})
	if err := s.send(ctx, b); err != nil {
		return Backlog{}, mapError("count what waits", err)
	}
	out.Running = max(out.Running-out.Waiting, 0) // the two numbers were not read at the same time
	return out, nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// TenantSpending is what a tenant has used today and this month, in UTC. Tokens are the sum of input and output.
type TenantSpending struct {
	Tenant                string
	DayUSD, DayTokens     float64
	MonthUSD, MonthTokens float64
}

// readTenantsSpending goes from one tenant to the next in the primary key, and reads the few rows of each tenant's daily sums. It misses ledger rows that
// are not in these sums yet, because a metric may be a few seconds late.
const readTenantsSpending = `
WITH RECURSIVE tenants (tenant) AS (
	(SELECT tenant FROM usage_daily ORDER BY tenant LIMIT 1)
	UNION ALL
	SELECT (SELECT u.tenant FROM usage_daily u WHERE u.tenant > t.tenant ORDER BY u.tenant LIMIT 1) FROM tenants t WHERE t.tenant IS NOT NULL
)
SELECT t.tenant, s.* FROM (SELECT tenant FROM tenants WHERE tenant IS NOT NULL LIMIT $2) AS t, LATERAL (
	SELECT coalesce(sum(d.cost_usd) FILTER (WHERE d.day = $1::date), 0)::float8,
		coalesce(sum(d.input_tokens + d.output_tokens) FILTER (WHERE d.day = $1::date), 0)::float8, sum(d.cost_usd)::float8,
		sum(d.input_tokens + d.output_tokens)::float8
	FROM usage_daily d
	WHERE d.tenant = t.tenant AND d.kind = 'tenant' AND d.name = '' AND d.day >= date_trunc('month', $1::timestamp)
		AND d.day < date_trunc('month', $1::timestamp) + interval '1 month'
	HAVING count(*) > 0
) AS s (day_usd, day_tokens, month_usd, month_tokens)`

// TenantsSpending returns what tenants have used, counted as for budgets. It returns only tenants that have used something this month, at most 10,000.
func (s *MetricStore) TenantsSpending(ctx context.Context) ([]TenantSpending, error) {
	return s.tenantsSpendingAt(ctx, time.Now())
}

func (s *MetricStore) tenantsSpendingAt(ctx context.Context, at time.Time) ([]TenantSpending, error) {
	const op = "read spending of tenants"
	all, err := queryRows(ctx, s.pool, pgx.RowToStructByPos[TenantSpending], readTenantsSpending, at.UTC(), maxSpendingTenants)
	return all, mapError(op, err)
}
