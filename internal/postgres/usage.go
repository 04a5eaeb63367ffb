package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/turnstone-run/turnstone/agent"
)

// UsageStore keeps the ledger of what model calls cost, and its daily sums.
type UsageStore struct{ *database }

// usageTimeout bounds the time of a report in the database.
const usageTimeout = 20 * time.Second

// boundUsage bounds the report's transaction. A report of an hour and one of a year are the same statement and need different plans; to
// compile one takes longer than most of them run.
const boundUsage = `
SELECT set_config('statement_timeout', $1, true), set_config('plan_cache_mode', 'force_custom_plan', true), set_config('jit', 'off', true)`

// Usage adds up what model calls cost, by the keys of q and in their order. A report of whole days (UTC) by at most one of tenant, user,
// agent and model reads the daily sums and the rows that are not in them yet; any other report reads every row of the ledger. Names over
// 512 bytes are cut and get a digest. Totals are on the first page. A report that takes longer than 20 s is [agent.CodeUnavailable]; an
// invalid query is [agent.CodeInvalid] with the field of [agent.UsageQuery.Validate]. One round trip.
func (s *UsageStore) Usage(ctx context.Context, q agent.UsageQuery) (agent.UsagePage, error) {
	return s.usageAt(ctx, q, time.Now(), usageTimeout)
}

func (s *UsageStore) usageAt(ctx context.Context, q agent.UsageQuery, now time.Time, timeout time.Duration) (agent.UsagePage, error) {
	const op = "add up usage"
	q.Fill(now)
	if err := q.Validate(now); err != nil {
		return agent.UsagePage{}, err
	}
	r := &report{q: &q, kind: dailyKind(&q)}
	if err := r.resume(q.PageToken); err != nil {
		return agent.UsagePage{}, err
	}
	sql := r.sql()
	page := agent.UsagePage{Since: q.Since.UTC(), Until: q.Until.UTC(), Group: append([]agent.UsageKey{}, q.Group...), Rows: []agent.UsageRow{}}
	if q.Until.IsZero() {
		page.Until = now.UTC()
	}
	err := s.snapshot(ctx, func(b *pgx.Batch) {
		b.Queue(boundUsage, strconv.FormatInt(timeout.Milliseconds(), 10))
		b.Queue(sql, r.args...).Query(func(rows pgx.Rows) error { return r.read(rows, &page) })
	})
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "57014" && ctx.Err() == nil { // query_canceled
		err = agent.Errorf(agent.CodeUnavailable, op,
			"took longer than %s: ask for a shorter time, or for whole days of one tenant, user, agent or model: %w", timeout, err)
	}
	if err != nil {
		return agent.UsagePage{}, mapError(op, err)
	}
	return page, nil
}

const (
	// addUpRows bounds one statement of the roll-up, addUpRounds the number of statements.
	addUpRows   = 5000
	addUpRounds = 100
)

// AddUpUsage adds new rows of the ledger to the daily sums, and returns how many rows it added. One process at a time does so; in the
// others it returns 0. Reports and budgets are exact without it: they also read the rows that are not added yet.
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

// The ledger rows of a turn ($1) of a tenant ($2): the step and the arrays of [usageArrays] are between the parts.
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

// ChargeUsage adds ledger rows of model calls that cost something but stored no step. A row of the same turn, step and epoch is added once.
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

// usageArrays returns the columns of ledger rows.
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

// unpriced is the condition that a row of the ledger l is of a model without a price: it used tokens that cost nothing.
const unpriced = `l.cost_usd = 0 AND (l.input_tokens > 0 OR l.output_tokens > 0)`

// The turn's own model is that of its last try; a child may have asked another.
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

// BilledUsage adds up the ledger of a turn and of its child turns, and returns the model of the turn's last call. A turn without rows has
// zeros.
func (s *UsageStore) BilledUsage(ctx context.Context, id agent.TurnID) (u agent.Usage, model string, err error) {
	err = s.pool.QueryRow(ctx, readBilled, id).Scan(&u.InputTokens, &u.OutputTokens, &u.CachedTokens, &u.ReasoningTokens, &u.CostUSD,
		&u.Estimated, &u.Unpriced, &model)
	return u, model, mapError("add up what a turn was billed", err)
}

// Of each kind of spender those with the highest cost, ordered by cost, then by tokens.
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

// Spending returns what a tenant has used today and this month, in all and by user, agent and model. Usage without a user is only in the
// sums. A tenant without usage, or an unknown one, has zeros.
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

// read reads the rows of a page, the totals last.
func (r *report) read(rows pgx.Rows, page *agent.UsagePage) error {
	var (
		isTotal bool
		keys    = make([]*string, len(r.q.Group))
		sums    agent.UsageSums
		last    []string
	)
	into := []any{&isTotal}
	for i := range keys {
		into = append(into, &keys[i])
	}
	into = append(into, &sums.Calls, &sums.InputTokens, &sums.OutputTokens, &sums.CachedTokens, &sums.ReasoningTokens, &sums.CostUSD,
		&sums.RebilledCalls, &sums.RebilledTokens, &sums.RebilledCostUSD, &sums.EstimatedTokens, &sums.UnpricedCalls)
	_, err := pgx.ForEachRow(rows, into, func() (err error) {
		switch {
		case isTotal:
			page.Totals = new(sums)
		case len(page.Rows) == r.q.PageSize: // one more than the page has
			page.Next, err = encodePageToken(usagePlace{Keys: last})
		default:
			row := agent.UsageRow{UsageSums: sums}
			last = last[:0]
			for i, k := range r.q.Group {
				if err := setKey(&row, k, keys[i]); err != nil {
					return err
				}
				last = append(last, *keys[i])
			}
			page.Rows = append(page.Rows, row)
		}
		return err
	})
	return err
}

// setKey sets a key of a row.
func setKey(row *agent.UsageRow, k agent.UsageKey, value *string) error {
	if value == nil {
		return fmt.Errorf("the key %s is null", k)
	}
	text := *value
	switch k {
	case agent.UsageStep, agent.UsageEpoch:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("read %s: %w", k, err)
		}
		if k == agent.UsageStep {
			row.Step = &n
		} else {
			row.Epoch = &n
		}
	case agent.UsageDay:
		row.Day = &text
	case agent.UsageTenant:
		row.Tenant = &text
	case agent.UsageUser:
		row.User = &text
	case agent.UsageAgent:
		row.Agent = &text
	case agent.UsageModel:
		row.Model = &text
	case agent.UsageSession:
		row.Session = &text
	case agent.UsageTurn:
		row.Turn = &text
	case agent.UsageChannel:
		row.Channel = &text
	}
	return nil
}

// usagePlace is the place of a row in a report: its keys, as texts.
type usagePlace struct {
	Keys []string `json:"k"`
}

// resume makes the report continue after the last row of a page.
func (r *report) resume(token string) error {
	var place usagePlace
	err := decodePageToken(token, &place, func(p *usagePlace) bool {
		if len(p.Keys) == 0 || len(p.Keys) != len(r.q.Group) {
			return false
		}
		for i, k := range r.q.Group {
			if !isKeyValue(k, p.Keys[i]) {
				return false
			}
		}
		return true
	})
	r.behind = place.Keys
	return err
}

// isKeyValue reports whether a text can be the value of a key.
func isKeyValue(k agent.UsageKey, text string) bool {
	var err error
	switch k {
	case agent.UsageDay:
		_, err = time.Parse(time.DateOnly, text)
	case agent.UsageStep:
		_, err = strconv.ParseInt(text, 10, 32)
	case agent.UsageEpoch:
		_, err = strconv.ParseInt(text, 10, 64)
	default:
		return cleanText(text) == text
	}
	return err == nil
}
