package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// What is counted, and from what:
//
//   - requests_per_minute: a log of admissions, so that no minute, wherever it begins, has more than the bound; two windows that are weighed
//     against each other would need less room, and let in more at times.
//   - concurrent_turns: turn_places. A turn has its place from its admission to its end, also while it waits: in its session's queue, for a
//     person. Triggers on turns free it in the transaction in which the turn ends or goes, whichever release does that. A turn that has no
//     row in turns within a minute has lost its place, until it begins after all.
//   - tokens_per_minute: the usage ledger. Budgets: the view usage_by_day, which adds the ledger's rows that are not added up yet.
//
// Only the first two change by an admission. So only they need one at a time of a tenant: an advisory lock, which is held for one function
// call and its commit, sees to that among all processes, and a turnstile in front of it to one connection of this process.

const admit = `
SELECT coalesce(r_kind, ''), coalesce(r_bound, ''), coalesce(r_used, 0), coalesce(r_again, r_now), r_now
FROM turnstone_admit($1, $2, $3, $4, $5, $6, $7)`

// kinds are those who are bound, in the order in which the database checks them.
func kinds(a *agent.Admission) [3]struct {
	kind, name string
	bound      agent.Bound
} {
	return [3]struct {
		kind, name string
		bound      agent.Bound
	}{
		{agent.BoundTenant, a.Tenant, a.Tenants}, {agent.BoundUser, a.UserID, a.Users}, {agent.BoundAgent, a.Agent, a.Agents},
	}
}

// limitsOf lists bounds in the order of turnstone_admit.
func limitsOf(b *agent.Bound) []float64 {
	return []float64{
		float64(b.RequestsPerMinute), float64(b.ConcurrentTurns), float64(b.TokensPerMinute), b.DailyCostUSD, b.MonthlyCostUSD,
		float64(b.DailyTokens), float64(b.MonthlyTokens),
	}
}

func boundNames() []string {
	return []string{
		agent.BoundRequestsPerMinute, agent.BoundConcurrentTurns, agent.BoundTokensPerMinute, agent.BoundDailyCost, agent.BoundMonthlyCost,
		agent.BoundDailyTokens, agent.BoundMonthlyTokens,
	}
}

// Admit lets a turn in, or refuses with [agent.CodeRateLimited], an [agent.AdmissionRefused] as its cause and a RetryAfter, naming the first
// bound that is reached: those of the tenant, of the user, of the agent, each in the order of [agent.Bound]'s fields. In one round trip and
// one transaction, atomic among all processes: of any number who ask at once no more are let in than the bounds allow.
//
// A turn that was let in before, and holds its place or has begun, is let in again and counted once. A budget that is not used up lets a
// turn in whatever that will cost. A turn without a user, or an agent, has no bound of that kind. Without any bound nothing is asked.
func (s *Store) Admit(ctx context.Context, a agent.Admission) error {
	const op = "admit turn"
	if err := checkNames(
		named{"tenant", a.Tenant, true}, named{"turn_id", string(a.TurnID), true}, named{"agent", a.Agent, false},
	); err != nil {
		return err
	}
	var (
		limits        []float64
		bound, counts bool
	)
	for _, k := range kinds(&a) {
		of := limitsOf(&k.bound)
		limits = append(limits, of...)
		for i, limit := range of {
			bound = bound || limit > 0
			counts = counts || limit > 0 && i < 2
		}
	}
	if !bound {
		return nil
	}
	if counts {
		leave, err := s.turnstiles.enter(ctx, op, a.Tenant)
		if err != nil {
			return err
		}
		defer leave()
	}
	var (
		kind, name string
		used       float64
		again, now time.Time
	)
	err := s.pool.QueryRow(ctx, admit, a.Tenant, a.TurnID, plain(a.UserID), a.Agent, optionalTime(a.At), limits, counts).
		Scan(&kind, &name, &used, &again, &now)
	if err != nil {
		return mapError(op, err)
	}
	if kind == "" {
		return nil
	}
	return refused(&a, kind, name, used, again.Sub(now))
}

func refused(a *agent.Admission, kind, bound string, used float64, wait time.Duration) error {
	r := agent.AdmissionRefused{Kind: kind, Bound: bound, Used: used}
	for _, k := range kinds(a) {
		if k.kind != kind {
			continue
		}
		r.Name = k.name
		for i, name := range boundNames() {
			if name == bound {
				r.Limit = limitsOf(&k.bound)[i]
			}
		}
	}
	return &agent.Error{Code: agent.CodeRateLimited, RetryAfter: max(wait, time.Millisecond), Err: r}
}

func optionalTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// Of those who are bound each gets its oldest looked at: the tenant's many hide the few of a user otherwise.
const readPlaces = `
SELECT turn_id FROM (
	SELECT p.turn_id, p.at, row_number() OVER (PARTITION BY k.kind ORDER BY p.at, p.turn_id) AS n
	FROM unnest($5::text[]) AS k (kind), turn_places p
	WHERE p.tenant = $1 AND (p.begun OR p.at > coalesce($4, clock_timestamp()) - interval '1 minute')
		AND (k.kind = 'tenant' OR k.kind = 'user' AND p.user_id = turnstone_short_name($2) OR k.kind = 'agent' AND p.agent = turnstone_short_name($3))
) o GROUP BY turn_id ORDER BY min(n), min(at), turn_id LIMIT $6`

// Running returns turns that hold places which count for a: the longest admitted of the tenant, of the user and of the agent, of each that
// has a bound on concurrent turns (of the tenant where none has), at most limit (100 by default, 1,000 at most). Whoever was refused can
// find out with it whether all of them still run; one that does not loses its place by [Store.Finish].
func (s *Store) Running(ctx context.Context, a agent.Admission, limit int) ([]agent.TurnID, error) {
	const op = "list admitted turns"
	var of []string
	for _, k := range kinds(&a) {
		if k.bound.ConcurrentTurns > 0 && k.name != "" {
			of = append(of, k.kind)
		}
	}
	if of == nil {
		of = []string{agent.BoundTenant}
	}
	rows, err := s.pool.Query(ctx, readPlaces, plain(a.Tenant), plain(a.UserID), plain(a.Agent), optionalTime(a.At), of, pageSize(limit))
	if err != nil {
		return nil, mapError(op, err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[agent.TurnID])
	return ids, mapError(op, err)
}

const leavePlace = `
DELETE FROM turn_places WHERE tenant = $1 AND turn_id = $2 AND NOT begun`

// Leave gives back the place of an admitted turn of which the caller knows that it will not begin. Of one that has begun it changes nothing;
// the request stays counted.
func (s *Store) Leave(ctx context.Context, tenant string, id agent.TurnID) error {
	_, err := s.pool.Exec(ctx, leavePlace, plain(tenant), plain(string(id)))
	return mapError("leave place", err)
}
