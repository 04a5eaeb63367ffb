package cli

import (
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
)

// usageFlags are the flags of usage.
type usageFlags struct {
	agent.UsageQuery

	group        []string
	since, until string
	sort, format string
	limit        int
}

const usageHelp = `Print what model calls used and what they cost, from the ledger: one row for each day, or for each combination of the keys of --group:
day, tenant, user, agent, model, session, turn, step, epoch, channel; at most five.

Rebilled is the part that bought nothing, because a later try of the same step paid again: after an error, a timeout, or the death of a
worker. It is in the sums; --group turn,step,epoch shows each try. Estimated are the tokens of requests that were cut off before the
provider said what they used; they are in the sums too.

--since and --until take a length of time (12h, 30d), a day (2026-11-01) or a time (2026-11-01T08:00:00Z), in UTC; --until is exclusive.
Whole days, alone or with one of tenant, user, agent and model, are added up already; by anything else every call is read.`

func (a *app) usageCommand() *cobra.Command {
	f := usageFlags{}
	cmd := &cobra.Command{
		Use: "usage", Short: "What model calls used and what they cost", Args: cobra.NoArgs, Long: usageHelp,
		Example: `  starter usage
  starter usage --group agent,model --since 7d --sort cost
  starter usage --group day,user --agent analyst -o csv > november.csv
  starter usage --group turn --since 24h --sort rebilled --limit 20   # who pays twice
  starter usage --group step,epoch,model --turn turn-42`,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			if err := f.setQuery(a.tenant, time.Now()); err != nil {
				return err
			}
			report, more, err := f.fetch(ctx, c)
			if err != nil {
				return err
			}
			if more {
				defer a.printNote(moreText)
			}
			return a.printUsage(&report, f.format)
		}),
	}
	flags := cmd.Flags()
	flags.StringSliceVarP(&f.group, "group", "g", []string{"day"}, "keys of a row, in this order; empty: one sum")
	flags.StringVar(&f.since, "since", "30d", "how far back, or from when on")
	flags.StringVar(&f.until, "until", "", "until when (default: now)")
	flags.StringVar(&f.UserID, "user", "", "only of this user")
	flags.StringVarP(&f.Agent, "agent", "a", "", "only of this agent")
	flags.StringVarP(&f.Model, "model", "m", "", "only of this model, as its provider calls it")
	flags.StringVar(&f.Channel, "channel", "", "only of this channel")
	flags.StringVarP((*string)(&f.SessionID), "session", "s", "", "only of this session")
	flags.StringVar((*string)(&f.TurnID), "turn", "", "only of this turn")
	flags.StringVar(&f.sort, "sort", "key", "key, cost, tokens, calls or rebilled; the largest first")
	flags.IntVar(&f.limit, "limit", defaultLimit, "at most so many rows, behind --sort; 0: all")
	flags.StringVarP(&f.format, "output", "o", "text", "text, json or csv") // replaces the persistent flag
	return cmd
}

// setQuery validates the flags and sets the fields of the query for them.
func (f *usageFlags) setQuery(tenant string, now time.Time) (err error) {
	if err := requireOneOf("output", f.format, "text, json, csv"); err != nil {
		return err
	}
	if err := requireOneOf("sort", f.sort, "key, cost, tokens, calls, rebilled"); err != nil {
		return err
	}
	if err := refuseNegative("limit", f.limit, 0); err != nil {
		return err
	}
	f.Group = []agent.UsageKey{}
	for _, key := range f.group {
		if key = strings.TrimSpace(key); key != "" {
			f.Group = append(f.Group, agent.UsageKey(key))
		}
	}
	if f.Since, err = readTime("--since", f.since, now); err != nil {
		return err
	}
	if f.Until, err = readTime("--until", f.until, now); err != nil {
		return err
	}
	f.Tenant = tenant
	f.Fill(now)
	if err := f.Validate(now); err != nil {
		return usageError{err}
	}
	return nil
}

// readTime parses a duration before now (12h, 30d), a day or a time. A duration in days begins at midnight UTC: 1d is the beginning of yesterday.
func readTime(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 12); err == nil {
			return now.UTC().Truncate(24*time.Hour).AddDate(0, 0, -int(n)), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, usageError{fmt.Errorf("%s is %q, want 12h, 30d, 2026-11-01 or 2026-11-01T08:00:00Z", flag, text)}
}

// maxSorted is the largest number of rows that --sort takes.
const maxSorted = 200_000

// fetch returns the report. more reports whether it has more rows than --limit.
func (f *usageFlags) fetch(ctx context.Context, c *client.Client) (report agent.UsagePage, more bool, err error) {
	limit := f.limit
	if f.sort != "key" { // the server sorts by key alone
		limit = maxSorted
	}
	rows, more, err := fetchAll(limit, func(p agent.Page) ([]agent.UsageRow, string, error) {
		q := f.UsageQuery
		q.PageSize, q.PageToken = agent.MaxUsageRows, p.Token
		if f.sort == "key" && limit > 0 {
			q.PageSize = min(p.Size, agent.MaxUsageRows)
		}
		page, err := c.Usage(ctx, q)
		if p.Token == "" {
			report = page
		}
		return page.Rows, page.Next, err
	})
	report.Rows, report.Next = rows, ""
	switch {
	case err != nil || f.sort == "key":
		return report, more, err
	case more:
		return report, false, usageError{fmt.Errorf("there are more than %d rows, too many for --sort: ask for a shorter time, or for fewer keys", maxSorted)}
	}
	slices.SortStableFunc(report.Rows, func(x, y agent.UsageRow) int { return cmp.Compare(f.sortValue(&y), f.sortValue(&x)) })
	if f.limit > 0 && len(report.Rows) > f.limit {
		report.Rows, more = report.Rows[:f.limit], true
	}
	return report, more, nil
}

// sortValue returns the value of a row by which --sort sorts.
func (f *usageFlags) sortValue(r *agent.UsageRow) float64 {
	switch f.sort {
	case "cost":
		return r.CostUSD
	case "tokens":
		return float64(r.InputTokens + r.OutputTokens)
	case "calls":
		return float64(r.Calls)
	default:
		return cmp.Or(r.RebilledCostUSD, float64(r.RebilledTokens)*1e-12) // models without a price come last, by tokens
	}
}

func (a *app) printUsage(p *agent.UsagePage, format string) error {
	switch format {
	case "json":
		return a.printJSON(p)
	case "csv":
		return a.printUsageCSV(p)
	}
	header := strings.ToUpper(strings.Join(append(groupNames(p.Group), ""), " ")) +
		"CALLS INPUT OUTPUT CACHED REASONING ESTIMATED COST UNPRICED REBILLED PAID-AGAIN"
	rows := make([][]string, 0, len(p.Rows)+1)
	for i := range p.Rows {
		rows = append(rows, append(groupCells(&p.Rows[i], p.Group, "-"), sumCells(&p.Rows[i].UsageSums)...))
	}
	if p.Totals != nil && len(p.Group) > 0 {
		total := append([]string{"total"}, make([]string, len(p.Group)-1)...)
		rows = append(rows, append(total, sumCells(p.Totals)...))
	}
	return a.printRows(header, rows)
}

func groupNames(group []agent.UsageKey) []string {
	names := make([]string, len(group))
	for i, k := range group {
		names[i] = string(k)
	}
	return names
}

// groupCells returns the key values of a row in the order of the report, with empty in place of an empty value.
func groupCells(r *agent.UsageRow, group []agent.UsageKey, empty string) []string {
	texts := map[agent.UsageKey]*string{
		agent.UsageDay: r.Day, agent.UsageTenant: r.Tenant, agent.UsageUser: r.User, agent.UsageAgent: r.Agent, agent.UsageModel: r.Model,
		agent.UsageSession: r.Session, agent.UsageTurn: r.Turn, agent.UsageChannel: r.Channel,
	}
	numbers := map[agent.UsageKey]*int64{agent.UsageStep: r.Step, agent.UsageEpoch: r.Epoch}
	cells := make([]string, len(group))
	for i, k := range group {
		if n := numbers[k]; n != nil {
			cells[i] = formatInt(*n)
		} else if text := texts[k]; text != nil {
			cells[i] = cmp.Or(*text, empty)
		}
	}
	return cells
}

func sumCells(s *agent.UsageSums) []string {
	cost, rebilledCost := dollars(s.CostUSD), "-"
	if s.RebilledCalls > 0 {
		rebilledCost = dollars(s.RebilledCostUSD)
	}
	if s.UnpricedCalls > 0 && s.CostUSD == 0 {
		cost = notPriced
	}
	return []string{
		formatInt(s.Calls), formatInt(s.InputTokens), formatInt(s.OutputTokens), formatInt(s.CachedTokens), formatInt(s.ReasoningTokens),
		intOrDash(s.EstimatedTokens), cost, intOrDash(s.UnpricedCalls), intOrDash(s.RebilledCalls), rebilledCost,
	}
}

// intOrDash returns n in decimal, or "-" if it is not positive.
func intOrDash(n int64) string {
	if n <= 0 {
		return "-"
	}
	return formatInt(n)
}

// usageCells returns the tokens and the cost of a usage as cells of a table: "-" for nil.
func usageCells(u *agent.Usage) (tokens, cost string) {
	if u == nil {
		return "-", "-"
	}
	return formatInt(u.InputTokens + u.OutputTokens), orDash(costText(u))
}

// notPriced is printed in place of the cost of models without a price.
const notPriced = "not priced"

// costText returns the cost of a usage, or "" if it cost nothing.
func costText(u *agent.Usage) string {
	switch {
	case u.Unpriced && u.CostUSD > 0:
		return dollars(u.CostUSD) + ", some " + notPriced
	case u.Unpriced:
		return notPriced
	case u.CostUSD > 0:
		return dollars(u.CostUSD)
	default:
		return ""
	}
}

func dollars(v float64) string {
	if v > 0 && v < 0.00005 {
		return "<$0.0001"
	}
	return fmt.Sprintf("$%.4f", v)
}

// printUsageCSV prints rows as CSV with unformatted numbers and without totals.
func (a *app) printUsageCSV(p *agent.UsagePage) error {
	w := csv.NewWriter(a.out)
	lines := [][]string{append(groupNames(p.Group), "calls", "input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "cost_usd", "rebilled_calls",
		"rebilled_tokens", "rebilled_cost_usd", "estimated_tokens", "unpriced_calls")}
	for i := range p.Rows {
		r := &p.Rows[i]
		lines = append(lines, append(groupCells(r, p.Group, ""),
			formatInt(r.Calls), formatInt(r.InputTokens), formatInt(r.OutputTokens), formatInt(r.CachedTokens), formatInt(r.ReasoningTokens),
			formatFloat(r.CostUSD), formatInt(r.RebilledCalls), formatInt(r.RebilledTokens), formatFloat(r.RebilledCostUSD), formatInt(r.EstimatedTokens),
			formatInt(r.UnpricedCalls)))
	}
	if err := w.WriteAll(lines); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

func formatFloat(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
