package postgres_test

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// byHand computes a report in Go, by the rules in the documentation.
func byHand(entries []entry, q *agent.UsageQuery) (rows []string, totals string) {
	type keyed struct {
		keys []any
		sums agent.UsageSums
	}
	name := func(s string) string {
		if len(s) > 512 {
			return shortened(s)
		}
		return s
	}
	var all []keyed
	var total agent.UsageSums
	for i := range entries {
		e := &entries[i]
		if (q.Tenant != agent.AnyTenant && q.Tenant != e.tenant) || (q.UserID != "" && q.UserID != e.user) || (q.Agent != "" && q.Agent != e.agent) ||
			(q.Model != "" && q.Model != e.model) || (q.Channel != "" && q.Channel != e.channel) || (q.SessionID != "" && string(q.SessionID) != e.session) ||
			(q.TurnID != "" && string(q.TurnID) != e.turn) || e.at.Before(q.Since) || (!q.Until.IsZero() && !e.at.Before(q.Until)) {
			continue
		}
		sums := agent.UsageSums{
			Calls: 1, InputTokens: max(e.input, 0), OutputTokens: e.output, CachedTokens: e.cached, ReasoningTokens: e.reasoning, CostUSD: float64(max(e.millionths, 0)),
		}
		if slices.ContainsFunc(entries, func(o entry) bool {
			return o.turn == e.turn && o.step == e.step && e.step > 0 && e.epoch > 0 && o.epoch > e.epoch
		}) {
			sums.RebilledCalls, sums.RebilledTokens, sums.RebilledCostUSD = 1, sums.InputTokens+sums.OutputTokens, sums.CostUSD
		}
		if e.estimated {
			sums.EstimatedTokens = sums.InputTokens + sums.OutputTokens
		}
		if e.millionths == 0 && (e.input > 0 || e.output > 0) {
			sums.UnpricedCalls = 1
		}
		one := keyed{sums: sums}
		for _, k := range q.Group {
			one.keys = append(one.keys, map[agent.UsageKey]any{
				agent.UsageDay: e.at.UTC().Format(time.DateOnly), agent.UsageTenant: e.tenant, agent.UsageUser: name(e.user), agent.UsageAgent: e.agent,
				agent.UsageModel: e.model, agent.UsageSession: e.session, agent.UsageTurn: e.turn, agent.UsageChannel: e.channel,
				agent.UsageStep: int64(e.step), agent.UsageEpoch: e.epoch,
			}[k])
		}
		total = plus(total, sums)
		at := slices.IndexFunc(all, func(o keyed) bool { return slices.Equal(o.keys, one.keys) })
		if at < 0 {
			all = append(all, one)
		} else {
			all[at].sums = plus(all[at].sums, sums)
		}
	}
	slices.SortFunc(all, func(x, y keyed) int {
		for i := range x.keys {
			var c int
			if n, ok := x.keys[i].(int64); ok {
				c = cmp.Compare(n, y.keys[i].(int64))
			} else {
				c = strings.Compare(x.keys[i].(string), y.keys[i].(string))
			}
			if c != 0 {
				return c
			}
		}
		return 0
	})
	if len(q.Group) == 0 {
		all = []keyed{{sums: total}}
	}
	page := agent.UsagePage{}
	for _, one := range all {
		row := agent.UsageRow{UsageSums: dollarsOf(one.sums)}
		for i, k := range q.Group {
			text, _ := one.keys[i].(string)
			number, _ := one.keys[i].(int64)
			switch k {
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
			case agent.UsageStep:
				row.Step = &number
			case agent.UsageEpoch:
				row.Epoch = &number
			}
		}
		page.Rows = append(page.Rows, row)
	}
	total = dollarsOf(total)
	return orNone(usageLines(page)), sumsOf(&total)
}

func plus(x, y agent.UsageSums) agent.UsageSums {
	return agent.UsageSums{
		Calls: x.Calls + y.Calls, InputTokens: x.InputTokens + y.InputTokens, OutputTokens: x.OutputTokens + y.OutputTokens, CachedTokens: x.CachedTokens + y.CachedTokens,
		ReasoningTokens: x.ReasoningTokens + y.ReasoningTokens, CostUSD: x.CostUSD + y.CostUSD, RebilledCalls: x.RebilledCalls + y.RebilledCalls,
		RebilledTokens: x.RebilledTokens + y.RebilledTokens, RebilledCostUSD: x.RebilledCostUSD + y.RebilledCostUSD,
		EstimatedTokens: x.EstimatedTokens + y.EstimatedTokens, UnpricedCalls: x.UnpricedCalls + y.UnpricedCalls,
	}
}

// dollarsOf converts millionths of a dollar, which add up without rounding.
func dollarsOf(s agent.UsageSums) agent.UsageSums {
	s.CostUSD, s.RebilledCostUSD = math.Round(s.CostUSD)/1e6, math.Round(s.RebilledCostUSD)/1e6
	return s
}

// orNone returns the list, or an empty one instead of nil.
func orNone(list []string) []string { return append([]string{}, list...) }
