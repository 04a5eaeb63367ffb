package postgres

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/retention"
)

// maxCounted bounds the rows that a report counts of each kind, so that it does not take long.
const maxCounted = 100_000

const (
	storedTurns = `
SELECT t.finished_at AS at FROM turns t
WHERE t.tenant = $1 AND t.finished_at IS NOT NULL AND t.swept & $4 = 0
	AND t.finished_at >= coalesce((SELECT m.at FROM retention_marks m WHERE m.tenant = $1 AND m.kind = $5), '-infinity')
ORDER BY t.finished_at LIMIT $3`
	storedAudit = `
SELECT a.at FROM audit_log a WHERE a.tenant = $1 AND $4::smallint = 0 AND $5 <> '' ORDER BY a.id LIMIT $3`
	storedUsage = `
SELECT u.created_at AS at FROM usage_ledger u WHERE u.tenant = $1 AND $4::smallint = 0 AND $5 <> '' ORDER BY u.created_at LIMIT $3`
	countStored = `
SELECT count(*), count(*) FILTER (WHERE s.at < $2), min(s.at) FROM (`
)

// storedTimes returns the query for the times of the stored data of a kind, and the bit of that kind.
func storedTimes(kind string) (sql string, bit int16, err error) {
	switch kind {
	case retention.Audit:
		return storedAudit, 0, nil
	case retention.Usage:
		return storedUsage, 0, nil
	case retention.Events, retention.Transcripts, retention.Results, retention.Traces, retention.Blobs, retention.Turns:
		return storedTurns, turnKindOf(&retention.Sweep{Kind: kind}).bit, nil
	default:
		return "", 0, agent.Invalid("kind", "%.40q is none", kind)
	}
}

// StoredKind counts the stored data of a tenant of one kind, and the part of it that is from before a time. The tenant "" only has audit records.
func (s *RetentionStore) StoredKind(ctx context.Context, tenant, kind string, before time.Time) (retention.StoredKind, error) {
	sql, bit, err := storedTimes(kind)
	if err != nil {
		return retention.StoredKind{}, err
	}
	var k retention.StoredKind
	if before.IsZero() {
		before = time.Unix(0, 0)
	}
	err = s.pool.QueryRow(ctx, countStored+sql+`) s`, tenant, before, maxCounted+1, bit, kind).Scan(&k.Count, &k.Due, &k.Oldest)
	if err != nil {
		return retention.StoredKind{}, mapError("count what is stored", err)
	}
	if k.More = k.Count > maxCounted; k.More {
		k.Count = maxCounted
	}
	k.Due = min(k.Due, maxCounted)
	return k, nil
}

// OldestKept returns the time of the oldest data of a kind, or nil if there is none.
func (s *RetentionStore) OldestKept(ctx context.Context, tenant, kind string) (oldest *time.Time, err error) {
	sql, bit, err := storedTimes(kind)
	if err != nil {
		return nil, err
	}
	err = s.pool.QueryRow(ctx, countStored+sql+`) s`, tenant, time.Unix(0, 0), 1, bit, kind).Scan(new(int64), new(int64), &oldest)
	return oldest, mapError("look for the oldest", err)
}

const (
	dueTurns = `
SELECT EXISTS (SELECT FROM turns t
	WHERE t.tenant = $1 AND t.finished_at IS NOT NULL AND t.finished_at < $2 AND t.swept & $3 = 0 AND t.swept & $4 = $4
		AND t.finished_at >= coalesce((SELECT m.at FROM retention_marks m WHERE m.tenant = $1 AND m.kind = $5), '-infinity'))`
	dueRuns = `
SELECT EXISTS (SELECT FROM workflow_runs WHERE tenant = $1 AND started_at < $2 AND finished_at < $2)
	OR EXISTS (SELECT FROM schedule_runs WHERE tenant = $1 AND ended_at < $2)
	OR EXISTS (SELECT FROM pipeline_uses WHERE tenant = $1 AND at < $2)
	OR EXISTS (SELECT FROM pipeline_shapes WHERE tenant = $1 AND used_at < $2)`
	dueAudit = `
SELECT coalesce((SELECT at < $2 FROM audit_log WHERE tenant = $1 ORDER BY id LIMIT 1), false)`
	dueUsage = `
SELECT coalesce((SELECT created_at < $2 FROM usage_ledger WHERE tenant = $1 ORDER BY created_at LIMIT 1), false) OR EXISTS (
	SELECT FROM usage_daily WHERE tenant = $1 AND kind = 'tenant' AND day < ($2::timestamptz AT TIME ZONE 'UTC')::date)`
	dueStreams = `
SELECT EXISTS (SELECT FROM streams WHERE closed_at IS NOT NULL AND NOT swept AND closed_at < $1 AND closed_at >= coalesce((
	SELECT m.at FROM retention_marks m WHERE m.tenant = '' AND m.kind = 'events'), '-infinity'))`
)

// RetentionDue returns those of the sweeps that would remove something, in one round trip.
func (s *RetentionStore) RetentionDue(ctx context.Context, all []retention.Sweep) ([]retention.Sweep, error) {
	var (
		b   pgx.Batch
		due = make([]bool, len(all))
	)
	for i := range all {
		w := &all[i]
		setDue := func(row pgx.Row) error {
			var isDue bool
			err := row.Scan(&isDue)
			due[i] = due[i] || isDue
			return err
		}
		switch {
		case sweepStages(w) == nil:
			return nil, agent.Invalid("kind", "%.40q is not kept for tenant %.140q", w.Kind, w.Tenant)
		case w.Kind == retention.Audit:
			b.Queue(dueAudit, w.Tenant, w.Before).QueryRow(setDue)
			continue
		case w.Kind == retention.Usage:
			b.Queue(dueUsage, w.Tenant, w.Before).QueryRow(setDue)
			continue
		case w.Tenant == "":
			b.Queue(dueStreams, w.Before).QueryRow(setDue)
			continue
		case w.Kind == retention.Traces:
			b.Queue(dueRuns, w.Tenant, w.Before).QueryRow(setDue)
		}
		kind := turnKindOf(w)
		b.Queue(dueTurns, w.Tenant, w.Before, kind.bit, kind.needs, w.Kind).QueryRow(setDue)
	}
	if b.Len() == 0 {
		return nil, nil
	}
	if err := s.send(ctx, &b); err != nil {
		return nil, mapError("look for what is due", err)
	}
	var found []retention.Sweep
	for i := range all {
		if due[i] {
			found = append(found, all[i])
		}
	}
	return found, nil
}

// nextTenant returns an expression for the next tenant after another one that has data in any of the tables with retention.
func nextTenant(after string) string {
	var next []string
	for _, table := range []string{"sessions", "audit_log", "usage_ledger", "usage_daily", "workflow_runs", "schedules", "pipeline_shapes"} {
		next = append(next, "(SELECT min(tenant) FROM "+table+" WHERE tenant > "+after+")")
	}
	return "LEAST(" + strings.Join(next, ", ") + ")"
}

// RetentionTenants lists the tenants after a name that have data in any of the tables with retention, at most limit (100 by default, 1,000 at most). It
// reads one index entry of each table per tenant.
func (s *RetentionStore) RetentionTenants(ctx context.Context, after string, limit int) ([]string, error) {
	found, err := queryRows(ctx, s.pool, pgx.RowTo[string], `WITH RECURSIVE n (owner) AS (
	SELECT `+nextTenant("$1")+` UNION ALL SELECT `+nextTenant("n.owner")+` FROM n WHERE n.owner IS NOT NULL
) SELECT owner FROM n WHERE owner IS NOT NULL LIMIT $2`, after, pageSize(limit))
	return found, mapError("list tenants", err)
}
