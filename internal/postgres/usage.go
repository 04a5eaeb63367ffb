package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/turnstone-run/turnstone/agent"
)

// UsageStore stores the ledger of the costs of model calls, and its daily sums.
type UsageStore struct{ *database }

// usageTimeout bounds the query of a report.
const usageTimeout = 20 * time.Second

// boundUsage bounds the query of a report. It also forces a new plan for each report, because one of an hour and one of a year need different plans, and
// disables JIT compilation, which takes longer than most reports.
const boundUsage = `
SELECT set_config('statement_timeout', $1, true), set_config('plan_cache_mode', 'force_custom_plan', true), set_config('jit', 'off', true)`

// Usage adds up the costs of model calls by the keys in q.Group, and returns a page of rows in the order of these keys. A report for whole days (UTC) by at
// most one of user, agent and model reads the daily sums and the ledger rows that are not in them yet; any other report reads all ledger rows. Names over
// 512 bytes are cut and get a digest. The first page has the totals. The error is [agent.CodeUnavailable] if the report takes longer than 20 s, and that of
// [agent.UsageQuery.Validate] if the query is invalid.
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

// read reads the rows of a page into page. The row with the totals comes last.
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
		case len(page.Rows) == r.q.PageSize: // the extra row, which is the first of the next page
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

// setKey sets the value of a key in a row.
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

// usagePlace is the place of a row in a report: the texts of its keys.
type usagePlace struct {
	Keys []string `json:"k"`
}

// resume makes the report continue after the place in a page token.
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

// isKeyValue reports whether a text is a valid value of a key.
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
