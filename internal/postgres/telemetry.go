package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// maxSpendingTenants bounds of how many tenants [Store.TenantsSpending] tells.
const maxSpendingTenants = 10_000

// Backlog is what waits in the database, of all tenants.
type Backlog struct {
	Approvals      map[string]int64 // that wait for a person, by tenant; of the tenants beyond those asked for under ""
	OldestApproval time.Duration    // 0: none waits
	Queued         int64            // turns that wait for their session
	Running        int64            // turns that work
	Waiting        int64            // turns that hold their session and wait for a person
	OldestQueued   time.Duration    // 0: none waits
	LongestQueue   int64            // turns that wait for one session
}

const age = `coalesce(extract(epoch FROM clock_timestamp() - min(created_at)), 0)::float8`

// Turns that have not ended. As one condition on the state it would use neither of the partial indexes.
const living = `
		SELECT turn_id, state FROM turns WHERE state = 'running' UNION ALL SELECT turn_id, state FROM turns WHERE state = 'queued'`

// The tenants with the most approvals have lines of their own.
const standingApprovals = `
SELECT CASE WHEN n <= $1 THEN tenant ELSE '' END, sum(pending)::bigint, max(oldest), sum(waiting)::bigint
FROM (
	SELECT tenant, count(*) AS pending, ` + age + ` AS oldest, count(DISTINCT turn_id) FILTER (WHERE state = 'running') AS waiting,
		row_number() OVER (ORDER BY count(*) DESC, tenant) AS n
	FROM (
		SELECT a.tenant, a.turn_id, a.created_at, t.state
		FROM (` + living + `
		) AS t JOIN approvals a ON a.turn_id = t.turn_id WHERE a.kind = '' AND ` + pending + `
	) AS o
	GROUP BY tenant
) AS t GROUP BY 1`

// Each number has its own partial index.
const standingTurns = `
SELECT (SELECT count(*) FROM turns WHERE state = 'running'), coalesce(sum(n), 0)::bigint, coalesce(max(n), 0)::bigint, coalesce(max(oldest), 0)
FROM (SELECT count(*) AS n, ` + age + ` AS oldest FROM turns WHERE state = 'queued' GROUP BY tenant, session_id) AS q`

// Backlog counts what waits, as metrics show it: of at most tenants tenants by name. One round trip; what it costs grows with what waits and
// runs, not with what has ended.
func (s *Store) Backlog(ctx context.Context, tenants int) (Backlog, error) {
	out := Backlog{Approvals: map[string]int64{}}
	b := &pgx.Batch{}
	b.Queue(standingApprovals, tenants).Query(func(rows pgx.Rows) error {
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
	b.Queue(standingTurns).QueryRow(func(row pgx.Row) error {
		var oldest float64
		err := row.Scan(&out.Running, &out.Queued, &out.LongestQueue, &oldest)
		out.OldestQueued = seconds(oldest)
		return err
	})
	if err := s.pool.SendBatch(ctx, b).Close(); err != nil {
		return Backlog{}, mapError("count what waits", err)
	}
	out.Running = max(out.Running-out.Waiting, 0) // another moment, another number
	return out, nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// TenantSpending is what a tenant has used today and this month (UTC), tokens in and out.
type TenantSpending struct {
	Tenant                string
	DayUSD, DayTokens     float64
	MonthUSD, MonthTokens float64
}

// What is pending is not in it: a metric may be a few seconds late.
//
// The tenants are found by jumping from one to the next in the primary key, and of each the few rows of its own sums are read.
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

// TenantsSpending returns what tenants have used, as budgets count it: of those that have used something this month, 10,000 at most.
func (s *Store) TenantsSpending(ctx context.Context) ([]TenantSpending, error) {
	return s.tenantsSpending(ctx, time.Now())
}

func (s *Store) tenantsSpending(ctx context.Context, at time.Time) ([]TenantSpending, error) {
	const op = "read spending of tenants"
	rows, err := s.pool.Query(ctx, readTenantsSpending, at.UTC(), maxSpendingTenants)
	if err != nil {
		return nil, mapError(op, err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[TenantSpending])
	return all, mapError(op, err)
}
