package postgres_test

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

// entry is a row of the ledger.
type entry struct {
	turn                                         string
	step                                         int
	epoch                                        int64
	tenant, user, agent, model, session, channel string
	input, output, cached, reasoning, millionths int64
	estimated                                    bool
	at                                           time.Time
}

func (b *bench) ledger(entries []entry) {
	b.t.Helper()
	_, err := b.pool.CopyFrom(b.t.Context(), pgx.Identifier{"usage_ledger"}, []string{
		"turn_id", "step", "epoch", "tenant", "model", "input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "cost_usd", "created_at",
		"user_id", "agent", "session_id", "channel", "estimated",
	}, pgx.CopyFromSlice(len(entries), func(i int) ([]any, error) {
		e := &entries[i]
		return []any{
			e.turn, e.step, e.epoch, e.tenant, e.model, e.input, e.output, e.cached, e.reasoning, float64(e.millionths) / 1e6, e.at,
			e.user, e.agent, e.session, e.channel, e.estimated,
		}, nil
	}))
	require.NoError(b.t, err)
}

var usageNow = time.Date(2026, time.March, 10, 15, 30, 0, 0, time.UTC)

func midnightOf(day int) time.Time { return time.Date(2026, time.March, day, 0, 0, 0, 0, time.UTC) }

// usage returns all pages of a report.
func (b *bench) usage(q agent.UsageQuery, size int) agent.UsagePage {
	b.t.Helper()
	q.PageSize = size
	whole, err := b.UsageAt(b.t.Context(), q, usageNow, time.Minute)
	require.NoError(b.t, err, "%+v", q)
	for q.PageToken = whole.Next; q.PageToken != ""; {
		require.LessOrEqual(b.t, len(whole.Rows), 10_000)
		page, err := b.UsageAt(b.t.Context(), q, usageNow, time.Minute)
		require.NoError(b.t, err)
		require.Nil(b.t, page.Totals, "only on the first page")
		require.NotEmpty(b.t, page.Rows)
		require.LessOrEqual(b.t, len(page.Rows), size)
		whole.Rows = append(whole.Rows, page.Rows...)
		q.PageToken = page.Next
	}
	return whole
}

// usageLines returns rows as strings: the keys, then the sums.
func usageLines(p agent.UsagePage) []string {
	all := []string{}
	for _, r := range p.Rows {
		line := ""
		for _, k := range []*string{r.Day, r.Tenant, r.User, r.Agent, r.Model, r.Session, r.Turn, r.Channel} {
			if k != nil {
				line += *k + " "
			}
		}
		for _, k := range []*int64{r.Step, r.Epoch} {
			if k != nil {
				line += strconv.FormatInt(*k, 10) + " "
			}
		}
		all = append(all, line+sumsOf(&r.UsageSums))
	}
	return all
}

func sumsOf(s *agent.UsageSums) string {
	estimated := ""
	if s.EstimatedTokens != 0 {
		estimated = fmt.Sprint(" estimated ", s.EstimatedTokens)
	}
	if s.UnpricedCalls != 0 {
		estimated += fmt.Sprint(" unpriced ", s.UnpricedCalls)
	}
	return fmt.Sprint(s.Calls, " ", s.InputTokens, "/", s.OutputTokens, "/", s.CachedTokens, "/", s.ReasoningTokens, " $", s.CostUSD,
		" again ", s.RebilledCalls, " ", s.RebilledTokens, " $", s.RebilledCostUSD, estimated)
}

func TestUsage(t *testing.T) {
	b := newBench(t, postgres.Config{})
	base := entry{
		turn: "t1", step: 1, epoch: 1, tenant: tenant, user: "ann", agent: "analyst", model: "small", session: "s1", channel: "http",
		input: 100, output: 10, cached: 40, reasoning: 5, millionths: 500_000, at: midnightOf(9).Add(time.Hour),
	}
	with := func(change func(*entry)) entry {
		e := base
		change(&e)
		return e
	}
	b.ledger([]entry{
		base, // repeated by the two that follow
		with(func(e *entry) { e.epoch, e.input = 2, 200 }), // repeated by the last
		with(func(e *entry) { e.epoch, e.input, e.model, e.at = 4, 1000, "large", midnightOf(10) }),
		with(func(e *entry) { e.step = 2 }),
		with(func(e *entry) { e.step, e.epoch = 2, -1 }), // of a middleware
		with(func(e *entry) { e.step, e.epoch = 2, -2 }),
		with(func(e *entry) { e.step = 0 }), // of a preparation
		with(func(e *entry) { e.step, e.epoch = 0, 2 }),
		with(func(e *entry) { e.turn, e.user, e.channel, e.millionths = "t2", "", "schedule", 1 }),
		with(func(e *entry) { e.turn, e.tenant = "t3", "zoo" }),
		with(func(e *entry) { e.turn, e.at = "t4", midnightOf(1).Add(-time.Second) }),
	})
	march := agent.UsageQuery{Tenant: tenant, Since: midnightOf(1)}
	asked := func(change func(*agent.UsageQuery), group ...agent.UsageKey) []string {
		q := march
		q.Group = group
		if change != nil {
			change(&q)
		}
		return usageLines(b.usage(q, 3))
	}
	require.Equal(t, []string{"9 1900/90/360/45 $4.000001 again 2 320 $1"}, asked(nil))
	require.Equal(t, []string{
		"2026-03-09 8 900/80/320/40 $3.500001 again 2 320 $1", "2026-03-10 1 1000/10/40/5 $0.5 again 0 0 $0",
	}, asked(nil, agent.UsageDay))
	require.Equal(t, []string{
		" 1 100/10/40/5 $1e-06 again 0 0 $0", "ann 8 1800/80/320/40 $4 again 2 320 $1",
	}, asked(nil, agent.UsageUser))
	require.Equal(t, []string{"large 1 1000/10/40/5 $0.5 again 0 0 $0", "small 8 900/80/320/40 $3.500001 again 2 320 $1"}, asked(nil, agent.UsageModel),
		"the cost of a repeated call counts for the model that was called first")
	require.Equal(t, []string{
		"large t1 1 4 1 1000/10/40/5 $0.5 again 0 0 $0",
		"small t1 0 1 1 100/10/40/5 $0.5 again 0 0 $0",
		"small t1 0 2 1 100/10/40/5 $0.5 again 0 0 $0",
		"small t1 1 1 1 100/10/40/5 $0.5 again 1 110 $0.5",
		"small t1 1 2 1 200/10/40/5 $0.5 again 1 210 $0.5",
		"small t1 2 -2 1 100/10/40/5 $0.5 again 0 0 $0",
		"small t1 2 -1 1 100/10/40/5 $0.5 again 0 0 $0",
		"small t1 2 1 1 100/10/40/5 $0.5 again 0 0 $0",
	}, asked(func(q *agent.UsageQuery) { q.TurnID = "t1" }, agent.UsageModel, agent.UsageTurn, agent.UsageStep, agent.UsageEpoch))
	require.Equal(t, []string{"8 900/80/320/40 $3.500001 again 2 320 $1"}, asked(func(q *agent.UsageQuery) { q.Model = "small" }),
		"a call counts as repeated even if another model repeated it")
	require.Equal(t, []string{"7 800/70/280/35 $3.5 again 2 320 $1"}, asked(func(q *agent.UsageQuery) { q.UserID, q.Until = "ann", midnightOf(10) }))
	require.Equal(t, []string{"schedule 1 100/10/40/5 $1e-06 again 0 0 $0"}, asked(func(q *agent.UsageQuery) { q.Channel = "schedule" }, agent.UsageChannel))
	require.Equal(t, []string{"acme 9 1900/90/360/45 $4.000001 again 2 320 $1", "zoo 1 100/10/40/5 $0.5 again 0 0 $0"},
		asked(func(q *agent.UsageQuery) { q.Tenant = agent.AnyTenant }, agent.UsageTenant))
	require.Empty(t, asked(func(q *agent.UsageQuery) { q.Tenant = "nobody" }, agent.UsageDay))
	require.Equal(t, []string{"0 0/0/0/0 $0 again 0 0 $0"}, asked(func(q *agent.UsageQuery) { q.Tenant = "nobody" }), "the total of no rows")
	require.Empty(t, asked(func(q *agent.UsageQuery) { q.UserID = "' OR true --" }, agent.UsageUser))

	first, err := b.UsageAt(t.Context(), agent.UsageQuery{Tenant: tenant, Since: midnightOf(1), Group: []agent.UsageKey{agent.UsageTurn}, PageSize: 1}, usageNow, time.Minute)
	require.NoError(t, err)
	require.EqualValues(t, 9, first.Totals.Calls, "the totals of all pages")
	require.Equal(t, usageNow, first.Until)
	require.NotEmpty(t, first.Next)
}

// A report by step and epoch has all calls of a turn, including repeated ones.
func TestUsageOfATurn(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s1")
	step := modelStep("t1", 1, 2, agent.Text("said"))
	step.Calls = append(step.Calls, agent.UsageEntry{Epoch: 1, Model: "small", Usage: agent.Usage{InputTokens: 7, CostUSD: 0.5, Estimated: true}})
	require.NoError(t, b.SaveModelStep(t.Context(), step))
	p, err := b.Usage(t.Context(), agent.UsageQuery{Tenant: tenant, Group: []agent.UsageKey{agent.UsageUser, agent.UsageAgent, agent.UsageSession, agent.UsageEpoch}})
	require.NoError(t, err)
	require.Equal(t, []string{"u1 analyst s1 1 1 7/0/0/0 $0.5 again 1 7 $0.5 estimated 7", "u1 analyst s1 2 1 10/5/3/2 $0.0125 again 0 0 $0"}, usageLines(p))
	p, err = b.Usage(t.Context(), agent.UsageQuery{Tenant: tenant, Group: []agent.UsageKey{agent.UsageUser}})
	require.NoError(t, err)
	require.Equal(t, []string{"u1 2 17/5/3/2 $0.5125 again 1 7 $0.5 estimated 7"}, usageLines(p))
}

// Random reports equal the sums of the ledger, whether they are read from the daily sums or from the rows.
func TestUsageIsTheLedger(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Config{})
	random := rand.New(rand.NewPCG(7, 11))
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	long := strings.Repeat("long", 200)
	var entries []entry
	for turn := range 60 {
		e := entry{
			turn: fmt.Sprintf("t%02d", turn), tenant: pick(tenant, tenant, "zoo"), user: pick("", "ann", "bob", "Änne", long), agent: pick("analyst", "clerk"),
			session: pick("s1", "s2"), channel: pick("http", "telegram"),
		}
		at := midnightOf(1).Add(time.Duration(random.IntN(9*24*60)) * time.Minute)
		for step := range 3 {
			e.step = step
			for _, epoch := range []int64{-11, -2, -1, 1, 2, 3, 11} {
				if random.IntN(3) > 0 {
					continue
				}
				at = at.Add(time.Duration(random.IntN(300)) * time.Minute)
				e.epoch, e.model, e.at = epoch, pick("small", "large"), at
				e.input, e.output, e.cached, e.reasoning, e.millionths = random.Int64N(1000), random.Int64N(100), random.Int64N(50), random.Int64N(50), random.Int64N(5_000_000)
				e.estimated = random.IntN(4) == 0
				if random.IntN(5) == 0 {
					e.millionths = 0 // a model without a price
				}
				if random.IntN(20) == 0 {
					e.input, e.millionths = -5, -5 // a provider may report nonsense
				}
				entries = append(entries, e)
			}
		}
	}
	b.ledger(entries[:len(entries)/2])
	added, err := b.AddUpUsage(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, len(entries)/2, added)
	b.ledger(entries[len(entries)/2:]) // these are still pending
	daily, rowwise := 0, 0
	for range 150 {
		q := agent.UsageQuery{Tenant: pick(tenant, tenant, "zoo", agent.AnyTenant), Since: midnightOf(1 + random.IntN(4)), UserID: pick("", "", "", "ann", "Änne", long), Agent: pick("", "", "", "clerk"), Model: pick("", "", "", "small")}
		keys := agent.UsageKeys()
		if random.IntN(2) == 0 {
			keys = []agent.UsageKey{agent.UsageDay, agent.UsageTenant, agent.UsageKey(pick("user", "agent", "model"))}
		} else {
			q.Channel, q.SessionID, q.TurnID = pick("", "", "http"), agent.SessionID(pick("", "", "s1")), agent.TurnID(pick("", "", "", "t07"))
			q.Since = q.Since.Add(time.Duration(random.IntN(2)*90) * time.Minute)
		}
		random.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		q.Group = keys[:random.IntN(min(len(keys), agent.MaxUsageGroups)+1)]
		if random.IntN(2) == 0 {
			q.Until = midnightOf(6 + random.IntN(4)).Add(time.Duration(random.IntN(4)/3*7) * time.Hour)
		}
		if postgres.FromDailySums(q) {
			daily++
		} else {
			rowwise++
		}
		got := b.usage(q, 1+random.IntN(40))
		rows, totals := byHand(entries, &q)
		require.Equal(t, rows, orNone(usageLines(got)), "%+v", q)
		require.Equal(t, orNone([]string{totals}), orNone([]string{sumsOf(got.Totals)}), "%+v", q)
	}
	require.Greater(t, daily, 30)
	require.Greater(t, rowwise, 30)
}

// TestUsageIsAddedUpOnce: while turns are charged, processes add up and one of them dies before its commit, reports always equal the
// ledger. In the end each row was added once.
func TestUsageIsAddedUpOnce(t *testing.T) {
	const writers, charges = 4, 40
	b := newBench(t, postgres.Config{MaxConns: 12})
	b.ready("t1", "s1")
	inBoth := func() (ledger, sums int64) {
		require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM usage_ledger),
			(SELECT coalesce(sum(calls), 0)::bigint FROM usage_by_day WHERE kind = 'tenant')`).Scan(&ledger, &sums))
		return ledger, sums
	}
	var writing, adding sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range charges {
				key := agent.StepKey{TurnID: "t1", Step: w*charges + i + 1}
				if err := b.ChargeUsage(t.Context(), key, tenant, []agent.UsageEntry{{Epoch: 1, Model: "m", Usage: agent.Usage{InputTokens: 10}}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	written := make(chan struct{})
	for i := range 3 {
		adding.Go(func() {
			for {
				err := b.addUp(i > 0)
				select {
				case <-written:
					return
				default:
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	go func() { writing.Wait(); close(written) }()
	for running := true; running; {
		ledger, sums := inBoth()
		require.Equal(t, ledger, sums)
		select {
		case <-written:
			running = false
		default:
		}
	}
	adding.Wait()
	_, err := b.AddUpUsage(t.Context())
	require.NoError(t, err)
	require.Zero(t, b.count("usage_pending"))
	require.Equal(t, writers*charges, b.count("usage_ledger"))
	var calls, input int64
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT sum(calls), sum(input_tokens) FROM usage_daily WHERE kind = 'agent'`).Scan(&calls, &input))
	require.Equal(t, []int64{writers * charges, writers * charges * 10}, []int64{calls, input})
}

// addUp adds up the ledger like a process. If rollback is true, it ends like a process that dies before its commit.
func (b *bench) addUp(rollback bool) error {
	if !rollback {
		_, err := b.AddUpUsage(b.t.Context())
		return err
	}
	tx, err := b.pool.Begin(b.t.Context())
	if err != nil {
		return err
	}
	_, err = tx.Exec(b.t.Context(), `SELECT turnstone_add_up_usage(10)`)
	return errors.Join(err, tx.Rollback(b.t.Context()))
}

func TestUsageRefusals(t *testing.T) {
	b := newBench(t, postgres.Config{})
	day := []agent.UsageKey{agent.UsageDay}
	b.ledger([]entry{{turn: "t1", tenant: tenant, agent: "a", at: midnightOf(8)}, {turn: "t2", tenant: tenant, agent: "a", at: midnightOf(9)}})
	first, err := b.UsageAt(t.Context(), agent.UsageQuery{Tenant: tenant, Group: day, PageSize: 1}, usageNow, time.Minute)
	require.NoError(t, err)
	token := first.Next
	require.NotEmpty(t, token)
	for field, q := range map[string]agent.UsageQuery{
		"group":      {Group: []agent.UsageKey{"1; DROP TABLE usage_ledger"}},
		"since":      {Since: usageNow.Add(-402 * 24 * time.Hour)},
		"limit":      {PageSize: 10_001},
		"page_token": {Group: day, PageToken: "odd"},
	} {
		_, err := b.UsageAt(t.Context(), q, usageNow, time.Minute)
		requireCode(t, agent.CodeInvalid, err)
		require.ErrorContains(t, err, field)
	}
	for _, group := range [][]agent.UsageKey{nil, {agent.UsageDay, agent.UsageUser}, {agent.UsageStep}, {agent.UsageEpoch}} { // of another report
		_, err := b.UsageAt(t.Context(), agent.UsageQuery{Group: group, PageToken: token}, usageNow, time.Minute)
		requireCode(t, agent.CodeInvalid, err)
	}
	_, err = b.UsageAt(t.Context(), agent.UsageQuery{Tenant: tenant, Group: []agent.UsageKey{agent.UsageUser}, PageToken: token}, usageNow, time.Minute)
	require.NoError(t, err, "a user id may be any text")
}

// A report that takes too long is cancelled, and the error says so.
func TestUsageTakesTooLong(t *testing.T) {
	b := newBench(t, postgres.Config{MaxConns: 1})
	_, err := b.UsageAt(t.Context(), agent.UsageQuery{Tenant: tenant}, usageNow, time.Minute) // prepares the statement
	require.NoError(t, err)
	other, err := pgx.Connect(t.Context(), b.pool.Config().ConnString())
	require.NoError(t, err)
	defer other.Close(context.WithoutCancel(t.Context()))
	tx, err := other.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `LOCK TABLE usage_ledger IN ACCESS EXCLUSIVE MODE`)
	require.NoError(t, err)
	_, err = b.UsageAt(t.Context(), agent.UsageQuery{Tenant: tenant}, usageNow, 50*time.Millisecond)
	requireCode(t, agent.CodeUnavailable, err)
	require.ErrorContains(t, err, "took longer than 50ms")
	var timeout string
	require.NoError(t, b.pool.QueryRow(t.Context(), `SHOW statement_timeout`).Scan(&timeout))
	require.NotEqual(t, "50ms", timeout, "the timeout does not affect other queries")
}

// shortened returns a long name in the form of the daily sums.
func shortened(name string) string {
	sum := md5.Sum([]byte(name))
	return string([]rune(name)[:100]) + " " + hex.EncodeToString(sum[:])
}
