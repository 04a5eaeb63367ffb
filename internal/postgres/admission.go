package postgres

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/turnstone-run/turnstone/agent"
)

// AdmissionStore counts what tenants, users and agents use, and admits turns within their bounds:
//
//   - requests_per_minute counts a log of admissions, so that no minute, wherever it begins, has more than the bound.
//   - concurrent_turns counts turn_places. A turn has its place from its admission to its end, also while it waits in its session's queue or for a
//     person. Triggers on turns remove it in the transaction in which the turn ends or is deleted. A turn without a row in turns for a minute loses
//     its place until it begins.
//   - tokens_per_minute counts the usage ledger. Budgets count the view usage_by_day, which includes rows that are not added up yet.
//
// Only the first two change with an admission, so only they need admissions of a tenant one at a time. Among all processes an advisory lock
// does that, held for one function call and its commit. Within this process [turnstiles] do, so that a tenant waits with one connection.
type AdmissionStore struct {
	*database

	turnstiles turnstiles
}

const admit = `
SELECT coalesce(r_kind, ''), coalesce(r_bound, ''), coalesce(r_used, 0), coalesce(r_again, r_now), r_now
FROM turnstone_admit($1, $2, $3, $4, $5, $6, $7)`

// boundedParty is somebody whose turns have bounds.
type boundedParty struct {
	kind, name string
	bound      agent.Bound
}

// boundedParties returns the tenant, the user and the agent of a turn, in the order in which the database checks them.
func boundedParties(a *agent.Admission) [3]boundedParty {
	return [3]boundedParty{
		{agent.BoundTenant, a.Tenant, a.Tenants}, {agent.BoundUser, a.UserID, a.Users}, {agent.BoundAgent, a.Agent, a.Agents},
	}
}

// limitsOf returns the limits of a bound in the order of [boundNames] and of the function turnstone_admit.
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

// Admit admits a turn, or refuses it with [agent.CodeRateLimited], an [agent.AdmissionRefused] as its cause and a RetryAfter. It names the
// first bound that is reached: those of the tenant, of the user, of the agent, each in the order of [agent.Bound]'s fields. It takes one
// round trip and one transaction, and is atomic among all processes: no more turns are admitted than the bounds allow.
//
// A turn that was admitted before, and has its place or has begun, is admitted again and counted once. A budget that is not used up admits
// a turn whatever that will cost. A turn without a user or an agent has no bound of that kind. Without any bound the database is not asked.
func (s *AdmissionStore) Admit(ctx context.Context, a agent.Admission) error {
	const op = "admit turn"
	if err := checkNames(
		nameField{"tenant", a.Tenant, true}, nameField{"turn_id", string(a.TurnID), true}, nameField{"agent", a.Agent, false},
	); err != nil {
		return err
	}
	var (
		limits            []float64
		isBound, isSerial bool // there is a bound; there is one that admissions change
	)
	for _, party := range boundedParties(&a) {
		for i, limit := range limitsOf(&party.bound) {
			limits = append(limits, limit)
			isBound = isBound || limit > 0
			isSerial = isSerial || limit > 0 && i < 2
		}
	}
	if !isBound {
		return nil
	}
	if isSerial {
		leave, err := s.turnstiles.enter(ctx, op, a.Tenant)
		if err != nil {
			return err
		}
		defer leave()
	}
	var (
		kind, bound    string
		used           float64
		retryTime, now time.Time
	)
	err := s.pool.QueryRow(ctx, admit, a.Tenant, a.TurnID, cleanText(a.UserID), a.Agent, zeronull.Timestamptz(a.At), limits, isSerial).
		Scan(&kind, &bound, &used, &retryTime, &now)
	if err != nil {
		return mapError(op, err)
	}
	if kind == "" {
		return nil
	}
	return admissionRefused(&a, kind, bound, used, retryTime.Sub(now))
}

func admissionRefused(a *agent.Admission, kind, bound string, used float64, wait time.Duration) error {
	r := agent.AdmissionRefused{Kind: kind, Bound: bound, Used: used}
	for _, party := range boundedParties(a) {
		if party.kind == kind {
			r.Name = party.name
			if i := slices.Index(boundNames(), bound); i >= 0 {
				r.Limit = limitsOf(&party.bound)[i]
			}
		}
	}
	return &agent.Error{Code: agent.CodeRateLimited, RetryAfter: max(wait, time.Millisecond), Err: r}
}

// The oldest places of each kind come first: otherwise a tenant's many places hide the few of a user.
const readPlaces = `
SELECT turn_id FROM (
	SELECT p.turn_id, p.at, row_number() OVER (PARTITION BY k.kind ORDER BY p.at, p.turn_id) AS n
	FROM unnest($5::text[]) AS k (kind), turn_places p
	WHERE p.tenant = $1 AND (p.begun OR p.at > coalesce($4, clock_timestamp()) - interval '1 minute')
		AND (k.kind = 'tenant' OR k.kind = 'user' AND p.user_id = turnstone_short_name($2) OR k.kind = 'agent' AND p.agent = turnstone_short_name($3))
) o GROUP BY turn_id ORDER BY min(n), min(at), turn_id LIMIT $6`

// Running returns turns whose places count for a: those of the tenant, of the user and of the agent that have a bound on concurrent turns
// (of the tenant if none has), the longest admitted first, at most limit (100 by default, 1,000 at most). After a refusal, the caller can
// check whether they still run; [TurnStore.Finish] frees the place of a turn that does not.
func (s *AdmissionStore) Running(ctx context.Context, a agent.Admission, limit int) ([]agent.TurnID, error) {
	var kinds []string
	for _, party := range boundedParties(&a) {
		if party.bound.ConcurrentTurns > 0 && party.name != "" {
			kinds = append(kinds, party.kind)
		}
	}
	if kinds == nil {
		kinds = []string{agent.BoundTenant}
	}
	ids, err := queryRows(ctx, s.pool, pgx.RowTo[agent.TurnID], readPlaces, cleanText(a.Tenant), cleanText(a.UserID), cleanText(a.Agent),
		zeronull.Timestamptz(a.At), kinds, pageSize(limit))
	return ids, mapError("list admitted turns", err)
}

const leavePlace = `
DELETE FROM turn_places WHERE tenant = $1 AND turn_id = $2 AND NOT begun`

// Leave frees the place of an admitted turn that will not begin. It does nothing if the turn has begun; the request stays counted.
func (s *AdmissionStore) Leave(ctx context.Context, tenant string, id agent.TurnID) error {
	_, err := s.pool.Exec(ctx, leavePlace, cleanText(tenant), cleanText(string(id)))
	return mapError("leave place", err)
}

// maxWaiting bounds the requests of one tenant that wait to be admitted in one process.
const maxWaiting = 2000

// turnstiles let one request at a time through for each tenant. The database does so among all processes, but a request that waits there
// has a connection: a tenant with many requests would soon have all of them.
type turnstiles struct {
	mu       sync.Mutex
	byTenant map[string]*tenantGate // of tenants with requests
}

type tenantGate struct {
	free     chan struct{} // has an element while no request is let through
	requests int
}

// enter waits until the caller may pass. The caller must call leave afterwards.
func (t *turnstiles) enter(ctx context.Context, op, tenant string) (leave func(), err error) {
	stile, err := t.join(op, tenant)
	if err != nil {
		return nil, err
	}
	select {
	case <-stile.free:
		return func() {
			stile.free <- struct{}{}
			t.exit(tenant, stile)
		}, nil
	case <-ctx.Done():
		t.exit(tenant, stile)
		return nil, agent.Interrupted(ctx, op)
	}
}

func (t *turnstiles) join(op, tenant string) (*tenantGate, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	stile := t.byTenant[tenant]
	if stile == nil {
		stile = &tenantGate{free: make(chan struct{}, 1)}
		stile.free <- struct{}{}
		if t.byTenant == nil {
			t.byTenant = map[string]*tenantGate{}
		}
		t.byTenant[tenant] = stile
	}
	if stile.requests >= maxWaiting {
		return nil, &agent.Error{
			Code: agent.CodeUnavailable, Op: op, RetryAfter: time.Second,
			Err: fmt.Errorf("%d requests of tenant %q wait to be admitted", stile.requests, tenant),
		}
	}
	stile.requests++
	return stile, nil
}

func (t *turnstiles) exit(tenant string, stile *tenantGate) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if stile.requests--; stile.requests == 0 {
		delete(t.byTenant, tenant)
	}
}
