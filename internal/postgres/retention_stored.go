package postgres

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/retention"
)

// maxCounted bounds what is counted of a kind: who looks wants to know how it stands, and not to wait.
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

// storing is the query for the times of what there is of a kind.
func storing(kind string) (sql string, bit int16, err error) {
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

// StoredKind counts what a tenant has of a kind, and what of it is from before a time. Tenant "" has nothing but audit records.
func (s *Store) StoredKind(ctx context.Context, tenant, kind string, before time.Time) (retention.StoredKind, error) {
	sql, bit, err := storing(kind)
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
	inUTC(k.Oldest)
	return k, nil
}

// OldestKept is the time of the oldest of a kind, nil where there is none.
func (s *Store) OldestKept(ctx context.Context, tenant, kind string) (oldest *time.Time, err error) {
	sql, bit, err := storing(kind)
	if err != nil {
		return nil, err
	}
	err = s.pool.QueryRow(ctx, countStored+sql+`) s`, tenant, time.Unix(0, 0), 1, bit, kind).Scan(new(int64), new(int64), &oldest)
	inUTC(oldest)
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

// RetentionDue returns those sweeps that may find something, in one round trip. It looks and counts nothing.
func (s *Store) RetentionDue(ctx context.Context, all []retention.Sweep) ([]retention.Sweep, error) {
	var (
		b   pgx.Batch
		due = make([]bool, len(all))
	)
	for i := range all {
		w := &all[i]
		note := func(row pgx.Row) error {
			var yes bool
			err := row.Scan(&yes)
			due[i] = due[i] || yes
			return err
		}
		switch {
		case sweepStages(w) == nil:
			return nil, agent.Invalid("kind", "%.40q is not kept for tenant %.140q", w.Kind, w.Tenant)
		case w.Kind == retention.Audit:
			b.Queue(dueAudit, w.Tenant, w.Before).QueryRow(note)
			continue
		case w.Kind == retention.Usage:
			b.Queue(dueUsage, w.Tenant, w.Before).QueryRow(note)
			continue
		case w.Tenant == "":
			b.Queue(dueStreams, w.Before).QueryRow(note)
			continue
		case w.Kind == retention.Traces:
			b.Queue(dueRuns, w.Tenant, w.Before).QueryRow(note)
		}
		kind := turnKindOf(w)
		b.Queue(dueTurns, w.Tenant, w.Before, kind.bit, kind.needs, w.Kind).QueryRow(note)
	}
	if b.Len() == 0 {
		return nil, nil
	}
	if err := s.pool.SendBatch(ctx, &b).Close(); err != nil {
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

// nextTenant is the tenant behind another, over all tables that are swept by tenant.
func nextTenant(after string) string {
	least := make([]string, 0, 8)
	for _, table := range []string{"sessions", "audit_log", "usage_ledger", "usage_daily", "workflow_runs", "schedules", "pipeline_shapes"} {
		least = append(least, "(SELECT min(tenant) FROM "+table+" WHERE tenant > "+after+")")
	}
	return "LEAST(" + strings.Join(least, ", ") + ")"
}

// RetentionTenants lists the tenants of which anything is kept for a time, behind one, at most limit (100 by default, 1,000 at most). It reads one
// entry of an index for each.
func (s *Store) RetentionTenants(ctx context.Context, after string, limit int) ([]string, error) {
	rows, err := s.pool.Query(ctx, `WITH RECURSIVE n (owner) AS (
	SELECT `+nextTenant("$1")+` UNION ALL SELECT `+nextTenant("n.owner")+` FROM n WHERE n.owner IS NOT NULL
) SELECT owner FROM n WHERE owner IS NOT NULL LIMIT $2`, after, pageSize(limit))
	if err != nil {
		return nil, mapError("list tenants", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return found, mapError("list tenants", err)
}
