package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	addUpRows   = 5000 // how many rows one statement adds
	addUpRounds = 100  // how many statements one call runs
)

// AddUpUsage adds the new rows of the ledger to the daily sums, and returns their number. If another process is doing so, it returns 0. Reports and budgets
// do not depend on it, because they also read the rows that have not been added.
func (s *UsageStore) AddUpUsage(ctx context.Context) (added int64, err error) {
	const op = "add up usage by day"
	_, err = s.withLock(ctx, op, "turnstone usage by day", func(ctx context.Context, conn *pgxpool.Conn) error {
		for range addUpRounds {
			var moved int64
			if err := conn.QueryRow(ctx, `SELECT turnstone_add_up_usage($1)`, addUpRows).Scan(&moved); err != nil {
				return mapError(op, err)
			}
			if added += moved; moved < addUpRows {
				break
			}
		}
		return nil
	})
	return added, err
}

// The parts of a statement that inserts ledger rows of a turn ($1) of a tenant ($2). The step comes after chargeStep, the arrays of [usageArrays] after
// chargeAmounts.
const (
	chargeStep = `
INSERT INTO usage_ledger
	(turn_id, step, epoch, tenant, model, input_tokens, output_tokens, cached_tokens, reasoning_tokens, cost_usd, user_id, agent, session_id,
	channel, estimated)
SELECT $1, `
	chargeAmounts = `::integer, u.epoch, $2, u.model, u.input, u.output, u.cached, u.reasoning, u.cost::numeric, t.user_id, t.agent, t.session_id,
	t.channel, u.estimated
FROM turns t, unnest(`
	chargeTurn = `) AS u (epoch, model, input, output, cached, reasoning, cost, estimated)
WHERE t.turn_id = $1` + ofTenant + `
ON CONFLICT DO NOTHING`
	chargeUsage = chargeStep + `$3` + chargeAmounts +
		`$4::bigint[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::float8[], $11::boolean[]` + chargeTurn
)

const turnExists = `
SELECT FROM turns t WHERE turn_id = $1` + ofTenant

// ChargeUsage adds ledger rows of model calls whose step was not stored. It adds a row only once for each turn, step and epoch.
func (s *UsageStore) ChargeUsage(ctx context.Context, key agent.StepKey, tenant string, rows []agent.UsageEntry) error {
	if len(rows) == 0 {
		return nil
	}
	var b pgx.Batch
	queueCharge(&b, key, tenant, rows)
	queueExists(&b, unknownTurn("", key.TurnID), turnExists, key.TurnID, tenant)
	return mapError("charge usage", s.send(ctx, &b))
}

func queueCharge(b *pgx.Batch, key agent.StepKey, tenant string, rows []agent.UsageEntry) {
	if len(rows) > 0 {
		b.Queue(chargeUsage, append([]any{key.TurnID, tenant, key.Step}, usageArrays(rows)...)...)
	}
}

// usageArrays returns the columns of ledger rows, each as an array.
func usageArrays(rows []agent.UsageEntry) []any {
	var (
		n                                = len(rows)
		epochs                           = make([]int64, n)
		models                           = make([]string, n)
		input, output, cached, reasoning = make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
		costs                            = make([]float64, n)
		estimated                        = make([]bool, n)
	)
	for i, r := range rows {
		epochs[i], models[i] = int64(r.Epoch), cleanText(r.Model)
		input[i], output[i] = r.Usage.InputTokens, r.Usage.OutputTokens
		cached[i], reasoning[i] = r.Usage.CachedTokens, r.Usage.ReasoningTokens
		costs[i], estimated[i] = r.Usage.CostUSD, r.Usage.Estimated
	}
	return []any{epochs, models, input, output, cached, reasoning, costs, estimated}
}

// unpriced is the condition that ledger row l is of a model without a price: it has tokens but no cost.
const unpriced = `l.cost_usd = 0 AND (l.input_tokens > 0 OR l.output_tokens > 0)`

// readBilled returns the sums of a turn and its child turns, and the model of the turn's own last row.
const readBilled = `
WITH RECURSIVE family (turn_id) AS (
	SELECT $1::text COLLATE "C"
	UNION
	SELECT c.turn_id FROM turns c JOIN family f ON c.parent = f.turn_id WHERE c.parent <> ''
)
SELECT coalesce(sum(turnstone_sound(l.input_tokens)), 0)::bigint, coalesce(sum(turnstone_sound(l.output_tokens)), 0)::bigint,
	coalesce(sum(turnstone_sound(l.cached_tokens)), 0)::bigint, coalesce(sum(turnstone_sound(l.reasoning_tokens)), 0)::bigint,
	coalesce(sum(turnstone_sound(l.cost_usd)), 0)::float8, coalesce(bool_or(l.estimated), false), coalesce(bool_or(` + unpriced + `), false),
	coalesce((SELECT model FROM usage_ledger WHERE turn_id = $1 ORDER BY step DESC, epoch DESC LIMIT 1), '')
FROM usage_ledger l JOIN family f ON f.turn_id = l.turn_id`

// BilledUsage returns the total usage of a turn and its child turns in the ledger, and the model of the turn's last call. Without rows it returns zeros.
func (s *UsageStore) BilledUsage(ctx context.Context, id agent.TurnID) (u agent.Usage, model string, err error) {
	err = s.pool.QueryRow(ctx, readBilled, id).Scan(&u.InputTokens, &u.OutputTokens, &u.CachedTokens, &u.ReasoningTokens, &u.CostUSD,
		&u.Estimated, &u.Unpriced, &model)
	return u, model, mapError("add up what a turn was billed", err)
}

// readSpending returns the spenders of each kind with the highest cost, ordered by cost and then by tokens.
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

// Spending returns what a tenant has used today and this month: the totals, and the highest amounts by user, agent and model. Usage without a user is only
// in the totals. Without usage it returns zeros.
func (s *UsageStore) Spending(ctx context.Context, tenant string) (agent.Spending, error) {
	return s.spendingAt(ctx, tenant, time.Now())
}

func (s *UsageStore) spendingAt(ctx context.Context, tenant string, at time.Time) (agent.Spending, error) {
	const op = "read spending"
	at = at.UTC()
	all := agent.Spending{Tenant: tenant, At: at, Users: []agent.Spender{}, Agents: []agent.Spender{}, Models: []agent.Spender{}}
	rows, err := s.pool.Query(ctx, readSpending, cleanText(tenant), at, agent.MaxSpenders)
	if err != nil {
		return agent.Spending{}, mapError(op, err)
	}
	var (
		kind    string
		spender agent.Spender
	)
	_, err = pgx.ForEachRow(rows, []any{
		&kind, &spender.Name, &spender.Today.Calls, &spender.Today.InputTokens, &spender.Today.OutputTokens, &spender.Today.CostUSD,
		&spender.Month.Calls, &spender.Month.InputTokens, &spender.Month.OutputTokens, &spender.Month.CostUSD,
	}, func() error {
		switch kind {
		case agent.BoundTenant:
			all.Today, all.Month = spender.Today, spender.Month
		case agent.BoundUser:
			all.Users = append(all.Users, spender)
		case agent.BoundAgent:
			all.Agents = append(all.Agents, spender)
		default:
			all.Models = append(all.Models, spender)
		}
		return nil
	})
	if err != nil {
		return agent.Spending{}, mapError(op, err)
	}
	return all, nil
}
