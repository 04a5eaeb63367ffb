package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/turnstone-run/turnstone/agent"
)

// usageTimeout is how long adding up may take in the database.
const usageTimeout = 20 * time.Second

// boundUsage bounds the report's transaction. Reports of an hour and of a year are the same statement, and want another plan each; to compile
// one takes longer than most of them.
const boundUsage = `
SELECT set_config('statement_timeout', $1, true), set_config('plan_cache_mode', 'force_custom_plan', true), set_config('jit', 'off', true)`

// Usage adds up what model calls were billed, by the keys that q names and in their order. A report of whole days (UTC) by one of tenant, user,
// agent and model at most is read from the daily sums and what is not added to them yet, any other one from the ledger, row by row. Names over
// 512 bytes are cut, and told apart by a digest. Totals are on the first page. What takes longer than 20 s is [agent.CodeUnavailable]; a bad
// query is [agent.CodeInvalid] with the field of [agent.UsageQuery.Validate]. One round trip.
func (s *Store) Usage(ctx context.Context, q agent.UsageQuery) (agent.UsagePage, error) {
	return s.usage(ctx, q, time.Now(), usageTimeout)
}

func (s *Store) usage(ctx context.Context, q agent.UsageQuery, now time.Time, within time.Duration) (agent.UsagePage, error) {
	const op = "add up usage"
	q.Fill(now)
	if err := q.Validate(now); err != nil {
		return agent.UsagePage{}, err
	}
	r := newReport(&q)
	if err := r.resume(q.PageToken); err != nil {
		return agent.UsagePage{}, err
	}
	sql := r.sql()
	page := agent.UsagePage{Since: q.Since.UTC(), Until: q.Until.UTC(), Group: append([]agent.UsageKey{}, q.Group...), Rows: []agent.UsageRow{}}
	if q.Until.IsZero() {
		page.Until = now.UTC()
	}
	err := snapshot(ctx, s.pool, func(b *pgx.Batch) {
		b.Queue(boundUsage, strconv.FormatInt(within.Milliseconds(), 10))
		b.Queue(sql, r.args...).Query(func(rows pgx.Rows) error { return r.read(rows, &page) })
	})
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "57014" && ctx.Err() == nil { // query_canceled
		err = agent.Errorf(agent.CodeUnavailable, op,
			"took longer than %s: ask for a shorter time, or for whole days of one tenant, user, agent or model: %w", within, err)
	}
	if err != nil {
		return agent.UsagePage{}, mapError(op, err)
	}
	return page, nil
}

const (
	// addUpRows bounds one statement of the roll-up, addUpRounds their number.
	addUpRows   = 5000
	addUpRounds = 100
)

const addUpUsage = `
SELECT turnstone_add_up_usage($1)`

// AddUpUsage moves what the ledger has gained since the last time into the daily sums, and returns how many rows that was. Of all processes
// one does so at a time; the others return 0. Reports and budgets are exact whether or not it runs: they read what is pending, too.
func (s *Store) AddUpUsage(ctx context.Context) (added int64, err error) {
	const op = "add up usage by day"
	_, err = s.alone(ctx, op, "turnstone usage by day", func(ctx context.Context, conn *pgxpool.Conn) error {
		for range addUpRounds {
			var moved int64
			if err := conn.QueryRow(ctx, addUpUsage, addUpRows).Scan(&moved); err != nil {
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

// read takes the rows of a page, the totals behind them.
func (r *report) read(rows pgx.Rows, page *agent.UsagePage) error {
	var (
		total bool
		keys  = make([]*string, len(r.q.Group))
		sums  agent.UsageSums
	)
	into := []any{&total}
	for i := range keys {
		into = append(into, &keys[i])
	}
	into = append(into, &sums.Calls, &sums.InputTokens, &sums.OutputTokens, &sums.CachedTokens, &sums.ReasoningTokens, &sums.CostUSD,
		&sums.RebilledCalls, &sums.RebilledTokens, &sums.RebilledCostUSD, &sums.EstimatedTokens)
	var last []string
	_, err := pgx.ForEachRow(rows, into, func() error {
		switch {
		case total:
			page.Totals = new(sums)
		case len(page.Rows) == r.q.PageSize: // one more than the page has
			token, err := pageToken(usageToken{Keys: last})
			page.Next = token
			return err
		default:
			row, err := rowOf(r.q.Group, keys)
			if err != nil {
				return err
			}
			row.UsageSums = sums
			page.Rows = append(page.Rows, row)
			last = last[:0]
			for _, k := range keys {
				last = append(last, *k)
			}
		}
		return nil
	})
	return err
}

// rowOf puts the keys of a row where they belong.
func rowOf(group []agent.UsageKey, keys []*string) (row agent.UsageRow, err error) {
	for i, k := range group {
		if keys[i] == nil {
			return row, fmt.Errorf("the key %s is null", k)
		}
		text := *keys[i]
		switch k {
		case agent.UsageStep, agent.UsageEpoch:
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return row, fmt.Errorf("read %s: %w", k, err)
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
	}
	return row, nil
}

// usageToken is the place of a row in a report: its keys, as texts.
type usageToken struct {
	Keys []string `json:"k"`
}

// resume goes on behind the last row of a page.
func (r *report) resume(token string) error {
	if token == "" {
		return nil
	}
	var place usageToken
	err := readPageToken(token, &place, func(p *usageToken) bool {
		if len(p.Keys) == 0 || len(p.Keys) != len(r.q.Group) {
			return false
		}
		return !slices.ContainsFunc(r.q.Group, func(k agent.UsageKey) bool {
			text := p.Keys[slices.Index(r.q.Group, k)]
			switch k {
			case agent.UsageDay:
				_, err := time.Parse(time.DateOnly, text)
				return err != nil
			case agent.UsageStep:
				_, err := strconv.ParseInt(text, 10, 32)
				return err != nil
			case agent.UsageEpoch:
				_, err := strconv.ParseInt(text, 10, 64)
				return err != nil
			default:
				return plain(text) != text
			}
		})
	})
	r.behind = place.Keys
	return err
}
