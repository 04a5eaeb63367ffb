package postgres

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// report builds the statement for a query. All values of the caller are arguments of the statement.
type report struct {
	q      *agent.UsageQuery
	kind   string   // the kind of the daily sums to read; empty if only the ledger has the answer
	behind []string // the keys of the last row of the previous page; nil for the first page
	args   []any
}

// The kinds of the daily sums.
const (
	dailyTenant = "tenant"
	dailyUser   = "user"
	dailyAgent  = "agent"
	dailyModel  = "model"
)

// dailyKind returns the kind of the daily sums that have the answer to a query, or "" if only the ledger has it.
func dailyKind(q *agent.UsageQuery) string {
	if !isMidnight(q.Since) || (!q.Until.IsZero() && !isMidnight(q.Until)) || q.SessionID != "" || q.TurnID != "" || q.Channel != "" {
		return ""
	}
	kind := dailyTenant
	for _, d := range []struct {
		key    agent.UsageKey
		filter string
		kind   string
	}{{agent.UsageUser, q.UserID, dailyUser}, {agent.UsageAgent, q.Agent, dailyAgent}, {agent.UsageModel, q.Model, dailyModel}} {
		if d.filter == "" && !slices.Contains(q.Group, d.key) {
			continue
		}
		if kind != dailyTenant {
			return "" // a daily sum is of one user, agent or model
		}
		kind = d.kind
	}
	for _, k := range q.Group {
		switch k {
		case agent.UsageDay, agent.UsageTenant, agent.UsageUser, agent.UsageAgent, agent.UsageModel:
		default:
			return ""
		}
	}
	return kind
}

func isMidnight(t time.Time) bool { return t.Equal(t.UTC().Truncate(24 * time.Hour)) }

// arg adds an argument and returns its placeholder.
func (r *report) arg(v any) string {
	r.args = append(r.args, v)
	return fmt.Sprintf("$%d", len(r.args))
}

// keySQL returns the expressions for a key in a ledger row l and in a daily sum d with its name in n, and the cast from the text in a page token. It cuts
// the names in the ledger like those of the daily sums, so that both result in the same rows.
func keySQL(k agent.UsageKey) (ledger, daily, cast string) {
	switch k {
	case agent.UsageDay:
		return `(l.created_at AT TIME ZONE 'UTC')::date`, `d.day`, `::date`
	case agent.UsageTenant:
		return `l.tenant`, `d.tenant`, `::text`
	case agent.UsageUser:
		return `turnstone_short_name(l.user_id) COLLATE "C"`, `n.name`, `::text`
	case agent.UsageAgent:
		return `turnstone_short_name(l.agent) COLLATE "C"`, `n.name`, `::text`
	case agent.UsageModel:
		return `turnstone_short_name(l.model) COLLATE "C"`, `n.name`, `::text`
	case agent.UsageSession:
		return `l.session_id COLLATE "C"`, ``, `::text`
	case agent.UsageTurn:
		return `l.turn_id`, ``, `::text`
	case agent.UsageStep:
		return `l.step`, ``, `::integer`
	case agent.UsageEpoch:
		return `l.epoch`, ``, `::bigint`
	default:
		return `l.channel COLLATE "C"`, ``, `::text`
	}
}

// keyColumns returns the keys of ledger rows and of daily sums as columns k1, k2 and so on, each followed by a comma.
func (r *report) keyColumns() (ledger, daily string) {
	for i, k := range r.q.Group {
		l, d, _ := keySQL(k)
		ledger += fmt.Sprintf("%s AS k%d, ", l, i+1)
		daily += fmt.Sprintf("%s AS k%d, ", d, i+1)
	}
	return ledger, daily
}

// keyNames returns k1, k2 and so on, each with a prefix.
func (r *report) keyNames(prefix string) []string {
	names := make([]string, len(r.q.Group))
	for i := range names {
		names[i] = fmt.Sprintf("%sk%d", prefix, i+1)
	}
	return names
}

// sumColumns returns the sums of all amounts of a report, with column names if withNames is set.
func sumColumns(withNames bool) string {
	var columns []string
	for _, name := range []string{
		"calls", "input", "output", "cached", "reasoning", "cost", "again_calls", "again_tokens", "again_cost", "estimated", "unpriced",
	} {
		column := "coalesce(sum(" + name + "), 0)"
		if withNames {
			column += " AS " + name
		}
		columns = append(columns, column)
	}
	return strings.Join(columns, ", ")
}

// paidAgain finds the ledger rows of tries that a later try of the same step has repeated at a cost. The first try of a step has epoch 1. It leaves out
// step 0, the preparation, whose epochs are different calls. A row may have been stored after that of the later try, but within a day of it.
const paidAgain = `
wasted AS MATERIALIZED (
	SELECT DISTINCT l.turn_id, l.step, l.epoch FROM usage_ledger later
	JOIN usage_ledger l ON l.turn_id = later.turn_id AND l.step = later.step AND l.epoch > 0 AND l.epoch < later.epoch
	WHERE later.step > 0 AND later.epoch > 1 AND later.created_at >= %s::timestamptz - interval '1 day'%s
)`

// amounts are the columns that ledger row l adds to the sums, except for those about repeated tries.
const amounts = `1::bigint AS calls, turnstone_sound(l.input_tokens) AS input, turnstone_sound(l.output_tokens) AS output,
	turnstone_sound(l.cached_tokens) AS cached, turnstone_sound(l.reasoning_tokens) AS reasoning, turnstone_sound(l.cost_usd) AS cost`

// tokens is the sum of the input and output tokens of ledger row l.
const tokens = `turnstone_sound(l.input_tokens) + turnstone_sound(l.output_tokens)`

// sql returns the statement, and sets r.args to its arguments.
func (r *report) sql() string {
	q := r.q
	var tenant, turn string // placeholders
	if q.Tenant != agent.AnyTenant {
		tenant = r.arg(cleanText(q.Tenant))
	}
	if q.TurnID != "" {
		turn = r.arg(cleanText(string(q.TurnID)))
	}
	since := r.arg(q.Since)
	scope := func(table string) string {
		s := ""
		if tenant != "" {
			s += " AND " + table + ".tenant = " + tenant
		}
		if turn != "" {
			s += " AND " + table + ".turn_id = " + turn
		}
		return s
	}
	with := fmt.Sprintf(paidAgain, since, scope("later"))
	where := "l.created_at >= " + since + scope("l")
	if !q.Until.IsZero() {
		where += " AND l.created_at < " + r.arg(q.Until)
	}
	var filters strings.Builder
	for _, f := range []struct{ column, value string }{
		{"user_id", q.UserID}, {"agent", q.Agent}, {"model", q.Model}, {"channel", q.Channel}, {"session_id", string(q.SessionID)},
	} {
		if f.value != "" {
			filters.WriteString(" AND l." + f.column + " = " + r.arg(cleanText(f.value)))
		}
	}
	where += filters.String()
	source := r.ledger(where)
	if r.kind != "" {
		source = r.daily(where, tenant, since)
	}
	return "WITH" + with + ", source AS (" + source + "\n)," + r.sums() + r.page()
}

// ledger returns a query for every row of the ledger.
func (r *report) ledger(where string) string {
	keys, _ := r.keyColumns()
	return `
	SELECT ` + keys + amounts + `,
		CASE WHEN w.turn_id IS NULL THEN 0 ELSE 1 END AS again_calls,
		CASE WHEN w.turn_id IS NULL THEN 0 ELSE ` + tokens + ` END AS again_tokens,
		CASE WHEN w.turn_id IS NULL THEN 0 ELSE turnstone_sound(l.cost_usd) END AS again_cost,
		CASE WHEN l.estimated THEN ` + tokens + ` ELSE 0 END AS estimated,
		CASE WHEN ` + unpriced + ` THEN 1 ELSE 0 END AS unpriced
	FROM usage_ledger l LEFT JOIN wasted w ON w.turn_id = l.turn_id AND w.step = l.step AND w.epoch = l.epoch
	WHERE ` + where
}

// daily returns a query for the daily sums, with what was paid again, is estimated or has no price from the ledger. Usage without a name is only in
// the sums of the tenant: it is their difference to the sums of all names.
func (r *report) daily(where, tenant, since string) string {
	day := "d.day >= (" + since + "::timestamptz AT TIME ZONE 'UTC')::date"
	if !r.q.Until.IsZero() {
		day += " AND d.day < (" + r.arg(r.q.Until) + "::timestamptz AT TIME ZONE 'UTC')::date"
	}
	if tenant != "" {
		day += " AND d.tenant = " + tenant
	}
	kind := r.arg(r.kind)
	names := `(VALUES (d.name, 1)) AS n (name, sign)`
	filter := r.q.UserID + r.q.Agent + r.q.Model // one of them at most
	switch {
	case filter != "":
		day += " AND d.kind = " + kind + " AND d.name = turnstone_short_name(" + r.arg(cleanText(filter)) + ")"
	case r.kind == dailyTenant:
		day += " AND d.kind = " + kind
	default:
		day += " AND d.kind IN ('tenant', " + kind + ")"
		names = `(VALUES (d.name, 1), (CASE d.kind WHEN 'tenant' THEN NULL ELSE '' END, -1)) AS n (name, sign)`
	}
	ledgerKeys, dailyKeys := r.keyColumns()
	return `
	SELECT ` + dailyKeys + `n.sign * d.calls AS calls, n.sign * d.input_tokens AS input, n.sign * d.output_tokens AS output,
		n.sign * d.cached_tokens AS cached, n.sign * d.reasoning_tokens AS reasoning, n.sign * d.cost_usd AS cost,
		0 AS again_calls, 0::bigint AS again_tokens, 0::numeric AS again_cost, 0::bigint AS estimated, 0 AS unpriced
	FROM usage_by_day d, LATERAL ` + names + `
	WHERE n.name IS NOT NULL AND ` + day + `
	UNION ALL
	SELECT ` + ledgerKeys + `0, 0, 0, 0, 0, 0, 1, ` + tokens + `, turnstone_sound(l.cost_usd), 0, 0
	FROM wasted w JOIN usage_ledger l ON l.turn_id = w.turn_id AND l.step = w.step AND l.epoch = w.epoch
	WHERE ` + where + `
	UNION ALL
	SELECT ` + ledgerKeys + `0, 0, 0, 0, 0, 0, 0, 0, 0, ` + tokens + `, 0
	FROM usage_ledger l WHERE l.estimated AND ` + where + `
	UNION ALL
	SELECT ` + ledgerKeys + `0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1
	FROM usage_ledger l WHERE ` + unpriced + ` AND ` + where
}

// sums returns the common table expression that adds up the source by the keys.
func (r *report) sums() string {
	keys, by := "", ""
	if len(r.q.Group) > 0 {
		list := strings.Join(r.keyNames(""), ", ")
		keys, by = list+", ", "\n	GROUP BY "+list+" HAVING sum(calls) > 0"
	}
	return `
summed AS (
	SELECT ` + keys + sumColumns(true) + `
	FROM source` + by + `
)`
}

// page returns the query for the rows of a page, for one more row to know whether there is a next page, and for the totals on the first page.
func (r *report) page() string {
	keys, behind, order := r.keyNames(""), "", ""
	if len(keys) > 0 {
		order = " ORDER BY " + strings.Join(keys, ", ")
	}
	if r.behind != nil {
		places := make([]string, len(keys))
		for i, k := range r.q.Group {
			_, _, cast := keySQL(k)
			places[i] = r.arg(r.behind[i]) + "::text" + cast
		}
		behind = " WHERE (" + strings.Join(keys, ", ") + ") > (" + strings.Join(places, ", ") + ")"
	}
	rows := "SELECT false AS total, * FROM (SELECT * FROM summed" + behind + order + " LIMIT " + r.arg(r.q.PageSize) + "::integer + 1) p"
	if r.behind == nil {
		rows += "\n	UNION ALL SELECT true, " + strings.Repeat("NULL, ", len(keys)) + sumColumns(false) + " FROM summed"
	}
	var texts strings.Builder
	for i, k := range r.q.Group {
		if k == agent.UsageDay {
			fmt.Fprintf(&texts, "to_char(k%d, 'YYYY-MM-DD'), ", i+1)
		} else {
			fmt.Fprintf(&texts, "k%d::text, ", i+1)
		}
	}
	return `
SELECT total, ` + texts.String() + `calls::bigint, input::bigint, output::bigint, cached::bigint, reasoning::bigint, cost::float8, again_calls::bigint,
	again_tokens::bigint, again_cost::float8, estimated::bigint, unpriced::bigint
FROM (
	` + rows + `
) AS r ORDER BY ` + strings.Join(append([]string{"r.total"}, r.keyNames("r.")...), ", ") // the keys themselves, not their texts
}
