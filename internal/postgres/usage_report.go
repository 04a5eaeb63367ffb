package postgres

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// report makes the statement of a query. It only ever puts together what stands in this file; what the caller says is an argument.
type report struct {
	q      *agent.UsageQuery
	kind   string   // of the daily sums that have the answer; empty: only the ledger has it
	behind []string // keys of the last row of the page before; nil: this is the first
	args   []any
}

func newReport(q *agent.UsageQuery) *report {
	return &report{q: q, kind: dailyKind(q)}
}

// The kinds of the daily sums.
const (
	dailyTenant = "tenant"
	dailyUser   = "user"
	dailyAgent  = "agent"
	dailyModel  = "model"
)

// dailyKind says which of the daily sums have the answer, empty where none have.
func dailyKind(q *agent.UsageQuery) string {
	if !midnight(q.Since) || (!q.Until.IsZero() && !midnight(q.Until)) || q.SessionID != "" || q.TurnID != "" || q.Channel != "" {
		return ""
	}
	kind := dailyTenant
	for _, one := range []struct {
		key    agent.UsageKey
		filter string
		kind   string
	}{{agent.UsageUser, q.UserID, dailyUser}, {agent.UsageAgent, q.Agent, dailyAgent}, {agent.UsageModel, q.Model, dailyModel}} {
		if one.filter == "" && !slices.Contains(q.Group, one.key) {
			continue
		}
		if kind != dailyTenant {
			return "" // they know of one at a time
		}
		kind = one.kind
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

func midnight(t time.Time) bool { return t.Equal(t.UTC().Truncate(24 * time.Hour)) }

// arg adds an argument and returns its place.
func (r *report) arg(v any) string {
	r.args = append(r.args, v)
	return fmt.Sprintf("$%d", len(r.args))
}

// keySQL is a key of a row of the ledger l. Names are those of the daily sums, so that both ways to the answer have the same rows.
func keySQL(k agent.UsageKey) string {
	switch k {
	case agent.UsageDay:
		return `(l.created_at AT TIME ZONE 'UTC')::date`
	case agent.UsageTenant:
		return `l.tenant`
	case agent.UsageUser:
		return `turnstone_short_name(l.user_id) COLLATE "C"`
	case agent.UsageAgent:
		return `turnstone_short_name(l.agent) COLLATE "C"`
	case agent.UsageModel:
		return `turnstone_short_name(l.model) COLLATE "C"`
	case agent.UsageSession:
		return `l.session_id COLLATE "C"`
	case agent.UsageTurn:
		return `l.turn_id`
	case agent.UsageStep:
		return `l.step`
	case agent.UsageEpoch:
		return `l.epoch`
	default:
		return `l.channel COLLATE "C"`
	}
}

// dailyKeySQL is a key of a row of the daily sums d, whose name stands in n.
func dailyKeySQL(k agent.UsageKey) string {
	switch k {
	case agent.UsageDay:
		return `d.day`
	case agent.UsageTenant:
		return `d.tenant`
	default:
		return `n.name`
	}
}

// castOf is the type that a key of a page token has.
func castOf(k agent.UsageKey) string {
	switch k {
	case agent.UsageDay:
		return "::date"
	case agent.UsageStep:
		return "::integer"
	case agent.UsageEpoch:
		return "::bigint"
	default:
		return "::text"
	}
}

// selected are the keys of a source as k1, k2 and so on, each with a comma behind it.
func (r *report) selected(sql func(agent.UsageKey) string) string {
	var b strings.Builder
	for i, k := range r.q.Group {
		fmt.Fprintf(&b, "%s AS k%d, ", sql(k), i+1)
	}
	return b.String()
}

// keys are the names of the keys.
func (r *report) keys() []string {
	names := make([]string, len(r.q.Group))
	for i := range names {
		names[i] = fmt.Sprintf("k%d", i+1)
	}
	return names
}

func prefixed(prefix string, names []string) []string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = prefix + name
	}
	return all
}

// paidAgain are the tries of a step that a later try paid again. The first try of all is epoch 1, so a step has a later one where there is an epoch
// above it; step 0 is the preparation, whose epochs are different questions; below zero are the calls of middleware, likewise. An overtaken try
// may be written down behind the one that overtook it, within a day for sure.
const paidAgain = `
wasted AS MATERIALIZED (
	SELECT DISTINCT l.turn_id, l.step, l.epoch FROM usage_ledger later
	JOIN usage_ledger l ON l.turn_id = later.turn_id AND l.step = later.step AND l.epoch > 0 AND l.epoch < later.epoch
	WHERE later.step > 0 AND later.epoch > 1 AND later.created_at >= %s::timestamptz - interval '1 day'%s
)`

// amounts are what a row of the ledger l adds to the sums, but for what was paid again.
const amounts = `1::bigint AS calls, turnstone_sound(l.input_tokens) AS input, turnstone_sound(l.output_tokens) AS output,
	turnstone_sound(l.cached_tokens) AS cached, turnstone_sound(l.reasoning_tokens) AS reasoning, turnstone_sound(l.cost_usd) AS cost`

// tokens are the input and output of a row of the ledger l.
const tokens = `turnstone_sound(l.input_tokens) + turnstone_sound(l.output_tokens)`

// sql is the statement; its arguments are in r.args then.
func (r *report) sql() string {
	q := r.q
	var tenant, turn string
	if q.Tenant != agent.AnyTenant {
		tenant = r.arg(plain(q.Tenant))
	}
	if q.TurnID != "" {
		turn = r.arg(plain(string(q.TurnID)))
	}
	since := r.arg(q.Since)
	of := func(table string) string { // whose rows of the ledger
		s := ""
		if tenant != "" {
			s += " AND " + table + ".tenant = " + tenant
		}
		if turn != "" {
			s += " AND " + table + ".turn_id = " + turn
		}
		return s
	}
	with := fmt.Sprintf(paidAgain, since, of("later"))
	where := "l.created_at >= " + since + of("l")
	if !q.Until.IsZero() {
		where += " AND l.created_at < " + r.arg(q.Until)
	}
	var filters strings.Builder
	for _, f := range []struct{ column, value string }{
		{"user_id", q.UserID}, {"agent", q.Agent}, {"model", q.Model}, {"channel", q.Channel}, {"session_id", string(q.SessionID)},
	} {
		if f.value != "" {
			filters.WriteString(" AND l." + f.column + " = " + r.arg(plain(f.value)))
		}
	}
	where += filters.String()
	source := r.ledger(where)
	if r.kind != "" {
		source = r.daily(where, tenant, since)
	}
	return "WITH" + with + ", source AS (" + source + "\n)," + r.grouped() + r.page()
}

// ledger reads every row.
func (r *report) ledger(where string) string {
	return `
	SELECT ` + r.selected(keySQL) + amounts + `,
		CASE WHEN w.turn_id IS NULL THEN 0 ELSE 1 END AS again_calls,
		CASE WHEN w.turn_id IS NULL THEN 0 ELSE ` + tokens + ` END AS again_tokens,
		CASE WHEN w.turn_id IS NULL THEN 0 ELSE turnstone_sound(l.cost_usd) END AS again_cost,
		CASE WHEN l.estimated THEN ` + tokens + ` ELSE 0 END AS estimated
	FROM usage_ledger l LEFT JOIN wasted w ON w.turn_id = l.turn_id AND w.step = l.step AND w.epoch = l.epoch
	WHERE ` + where
}

// daily reads sums, and of the ledger what was paid again and what is estimated. What belongs to nobody is in the sums of the tenant alone: it is
// what these have more than the others together.
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
		day += " AND d.kind = " + kind + " AND d.name = turnstone_short_name(" + r.arg(plain(filter)) + ")"
	case r.kind == dailyTenant:
		day += " AND d.kind = " + kind
	default:
		day += " AND d.kind IN ('tenant', " + kind + ")"
		names = `(VALUES (d.name, 1), (CASE d.kind WHEN 'tenant' THEN NULL ELSE '' END, -1)) AS n (name, sign)`
	}
	return `
	SELECT ` + r.selected(dailyKeySQL) + `n.sign * d.calls AS calls, n.sign * d.input_tokens AS input, n.sign * d.output_tokens AS output,
		n.sign * d.cached_tokens AS cached, n.sign * d.reasoning_tokens AS reasoning, n.sign * d.cost_usd AS cost,
		0 AS again_calls, 0::bigint AS again_tokens, 0::numeric AS again_cost, 0::bigint AS estimated
	FROM usage_by_day d, LATERAL ` + names + `
	WHERE n.name IS NOT NULL AND ` + day + `
	UNION ALL
	SELECT ` + r.selected(keySQL) + `0, 0, 0, 0, 0, 0, 1, ` + tokens + `, turnstone_sound(l.cost_usd), 0
	FROM wasted w JOIN usage_ledger l ON l.turn_id = w.turn_id AND l.step = w.step AND l.epoch = w.epoch
	WHERE ` + where + `
	UNION ALL
	SELECT ` + r.selected(keySQL) + `0, 0, 0, 0, 0, 0, 0, 0, 0, ` + tokens + `
	FROM usage_ledger l WHERE l.estimated AND ` + where
}

// grouped adds up the source.
func (r *report) grouped() string {
	keys, by := "", ""
	if len(r.q.Group) > 0 {
		list := strings.Join(r.keys(), ", ")
		keys, by = list+", ", "\n	GROUP BY "+list+" HAVING sum(calls) > 0"
	}
	return `
summed AS (
	SELECT ` + keys + `coalesce(sum(calls), 0) AS calls, coalesce(sum(input), 0) AS input, coalesce(sum(output), 0) AS output,
		coalesce(sum(cached), 0) AS cached, coalesce(sum(reasoning), 0) AS reasoning, coalesce(sum(cost), 0) AS cost,
		coalesce(sum(again_calls), 0) AS again_calls, coalesce(sum(again_tokens), 0) AS again_tokens, coalesce(sum(again_cost), 0) AS again_cost,
		coalesce(sum(estimated), 0) AS estimated
	FROM source` + by + `
)`
}

// page takes the rows of a page, one more to know whether there is one, and on the first page the totals.
func (r *report) page() string {
	keys, behind, order := r.keys(), "", ""
	if len(keys) > 0 {
		order = " ORDER BY " + strings.Join(keys, ", ")
	}
	if r.behind != nil {
		places := make([]string, len(keys))
		for i, k := range r.q.Group {
			places[i] = r.arg(r.behind[i]) + "::text" + castOf(k)
		}
		behind = " WHERE (" + strings.Join(keys, ", ") + ") > (" + strings.Join(places, ", ") + ")"
	}
	rows := "SELECT false AS total, * FROM (SELECT * FROM summed" + behind + order + " LIMIT " + r.arg(r.q.PageSize) + "::integer + 1) p"
	if r.behind == nil {
		nulls := strings.Repeat("NULL, ", len(keys))
		rows += "\n	UNION ALL SELECT true, " + nulls + `coalesce(sum(calls), 0), coalesce(sum(input), 0), coalesce(sum(output), 0), coalesce(sum(cached), 0),
		coalesce(sum(reasoning), 0), coalesce(sum(cost), 0), coalesce(sum(again_calls), 0), coalesce(sum(again_tokens), 0), coalesce(sum(again_cost), 0),
		coalesce(sum(estimated), 0)
	FROM summed`
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
	again_tokens::bigint, again_cost::float8, estimated::bigint
FROM (
	` + rows + `
) AS r ORDER BY ` + strings.Join(append([]string{"r.total"}, prefixed("r.", keys)...), ", ") // the keys themselves, not their texts
}
