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

// AdmissionStore admits turns within the limits of tenants, users and agents:
//
//   - requests_per_minute is checked against a log of admissions, so that no period of a minute has more requests than the limit.
//   - concurrent_turns is checked against turn_places. A turn has a place from its admission to its end, also while it waits in its session's
//     queue or for a person. Triggers on turns remove the place in the transaction in which the turn ends or is deleted. A turn that is not
//     recorded within a minute of its admission loses its place until it begins.
//   - tokens_per_minute is checked against the usage ledger, and budgets against the view usage_by_day.
//
// Only the first two change with an admission, so only they require that the admissions of a tenant run one at a time. An advisory lock,
// which is held for one function call and its commit, ensures that among all processes, and tenantLocks ensure it within this process, so that
// a tenant waits with only one connection.
type AdmissionStore struct {
	*database

	locks tenantLocks
}

const admit = `
SELECT coalesce(r_kind, ''), coalesce(r_bound, ''), coalesce(r_used, 0), coalesce(r_again, r_now), r_now
FROM turnstone_admit($1, $2, $3, $4, $5, $6, $7)`

// boundedParty is a tenant, user or agent with the limits of its turns.
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

// limitsOf returns the limits in b in the order of [boundNames] and of the SQL function turnstone_admit.
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

// Admit admits a turn, or refuses it with [agent.CodeRateLimited], with an [agent.AdmissionRefused] as its cause and a RetryAfter. The cause
// names the first limit that is reached: of the tenant, the user or the agent, each in the order of the fields of [agent.Bound]. Admit takes
// one round trip and is atomic among all processes, so that no more turns are admitted than the limits allow.
//
// A turn that was admitted before and has its place, or has begun, is admitted again and counted once. A budget that is not used up admits a
// turn of any cost. A turn without a user or an agent has no limits of that kind. If there are no limits, Admit does not ask the database.
func (s *AdmissionStore) Admit(ctx context.Context, a agent.Admission) error {
	const op = "admit turn"
	if err := checkNames(
		nameField{"tenant", a.Tenant, true}, nameField{"turn_id", string(a.TurnID), true}, nameField{"agent", a.Agent, false},
	); err != nil {
		return err
	}
	var (
		limits   []float64
		hasLimit bool
		isSerial bool // whether one of the limits changes with each admission
	)
	for _, party := range boundedParties(&a) {
		for i, limit := range limitsOf(&party.bound) {
			limits = append(limits, limit)
			hasLimit = hasLimit || limit > 0
			isSerial = isSerial || limit > 0 && i < 2
		}
	}
	if !hasLimit {
		return nil
	}
	if isSerial {
		unlock, err := s.locks.lock(ctx, op, a.Tenant)
		if err != nil {
			return err
		}
		defer unlock()
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

// readPlaces returns the oldest places of each kind first, so that the many places of a tenant do not hide the few of a user.
const readPlaces = `
SELECT turn_id FROM (
	SELECT p.turn_id, p.at, row_number() OVER (PARTITION BY k.kind ORDER BY p.at, p.turn_id) AS n
	FROM unnest($5::text[]) AS k (kind), turn_places p
	WHERE p.tenant = $1 AND (p.begun OR p.at > coalesce($4, clock_timestamp()) - interval '1 minute')
		AND (k.kind = 'tenant' OR k.kind = 'user' AND p.user_id = turnstone_short_name($2) OR k.kind = 'agent' AND p.agent = turnstone_short_name($3))
) o GROUP BY turn_id ORDER BY min(n), min(at), turn_id LIMIT $6`

// Running returns the turns that count against the limits on concurrent turns in a, or against the tenant if there is no such limit. It
// returns those that were admitted first, at most limit (100 by default, 1,000 at most). After a refusal the caller can check whether they
// still run; [TurnStore.Finish] frees the place of a turn that does not.
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

// Leave frees the place of an admitted turn that will not begin. It does nothing if the turn has begun. The request still counts.
func (s *AdmissionStore) Leave(ctx context.Context, tenant string, id agent.TurnID) error {
	_, err := s.pool.Exec(ctx, leavePlace, cleanText(tenant), cleanText(string(id)))
	return mapError("leave place", err)
}

// maxWaiting bounds the requests of one tenant that wait to be admitted in one process.
const maxWaiting = 2000

// tenantLocks are mutexes by tenant. The database serialises admissions too, but a request that waits there occupies a connection, so that a
// tenant with many requests would soon occupy all of them.
type tenantLocks struct {
	mu       sync.Mutex
	byTenant map[string]*tenantLock // of tenants with requests
}

// tenantLock is a mutex that can be waited for with a context.
type tenantLock struct {
	held     chan struct{} // has an element while the lock is held
	requests int           // the number of requests that hold the lock or wait for it
}

// lock waits for the lock of a tenant. The caller must call unlock afterwards.
func (t *tenantLocks) lock(ctx context.Context, op, tenant string) (unlock func(), err error) {
	l, err := t.acquire(op, tenant)
	if err != nil {
		return nil, err
	}
	select {
	case l.held <- struct{}{}:
		return func() {
			<-l.held
			t.release(tenant, l)
		}, nil
	case <-ctx.Done():
		t.release(tenant, l)
		return nil, agent.Interrupted(ctx, op)
	}
}

// acquire returns the lock of a tenant and counts the request.
func (t *tenantLocks) acquire(op, tenant string) (*tenantLock, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.byTenant[tenant]
	if l == nil {
		l = &tenantLock{held: make(chan struct{}, 1)}
		if t.byTenant == nil {
			t.byTenant = map[string]*tenantLock{}
		}
		t.byTenant[tenant] = l
	}
	if l.requests >= maxWaiting {
		return nil, &agent.Error{
			Code: agent.CodeUnavailable, Op: op, RetryAfter: time.Second,
			Err: fmt.Errorf("%d requests of tenant %q wait to be admitted", l.requests, tenant),
		}
	}
	l.requests++
	return l, nil
}

func (t *tenantLocks) release(tenant string, l *tenantLock) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.requests--; l.requests == 0 {
		delete(t.byTenant, tenant)
	}
}
