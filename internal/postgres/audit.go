package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// AuditStore stores the audit trail.
type AuditStore struct{ *database }

const (
	defaultAudit   = 50
	maxAudit       = 500
	maxAuditBatch  = 10_000
	maxAuditText   = 1 << 10 // bytes of each text
	maxAuditDetail = 8 << 10 // bytes as JSON
)

const appendAudit = `
INSERT INTO audit_log (at, tenant, subject, method, credential, action, resource, outcome, channel, request_id, remote, detail)
SELECT a.at, a.tenant, a.subject, a.method, a.credential, a.action, a.resource, a.outcome, a.channel, a.request_id, a.remote, a.detail::jsonb
FROM unnest($1::timestamptz[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[],
	$11::text[], $12::text[]) WITH ORDINALITY
	AS a (at, tenant, subject, method, credential, action, resource, outcome, channel, request_id, remote, detail, n)
ORDER BY a.n`

// AppendAudit adds records to the audit trail in their order, in one round trip. The database assigns their ids. A record is never refused for
// its content: texts over 1 KiB are cut, and a detail that is not JSON or over 8 KiB is replaced by its size. A record without a time gets the
// current one. More than 10,000 records are [agent.CodeOverflow]. If the answer is lost and the batch is appended again, it is stored twice.
func (s *AuditStore) AppendAudit(ctx context.Context, records []agent.AuditRecord) error {
	const op = "append to the audit trail"
	n := len(records)
	switch {
	case n == 0:
		return nil
	case n > maxAuditBatch:
		return agent.Errorf(agent.CodeOverflow, op, "%d records at once, want at most %d", n, maxAuditBatch)
	}
	var (
		now     = time.Now()
		times   = make([]time.Time, n)
		details = make([]*string, n)
		texts   [10][]string
	)
	for i := range texts {
		texts[i] = make([]string, n)
	}
	for i := range records {
		r := &records[i]
		if times[i] = r.At; r.At.IsZero() {
			times[i] = now
		}
		for column, text := range []string{
			r.Tenant, r.Subject, r.Method, r.Credential, string(r.Action), r.Resource, r.Outcome, r.Channel, r.RequestID, r.Remote,
		} {
			texts[column][i] = clip.Prefix(cleanText(text), maxAuditText)
		}
		details[i] = auditDetail(r)
	}
	args := []any{times}
	for _, column := range texts {
		args = append(args, column)
	}
	_, err := s.pool.Exec(ctx, appendAudit, append(args, details)...)
	return mapError(op, err)
}

func auditDetail(r *agent.AuditRecord) *string {
	text, err := encodeJSONB(r.Detail)
	if err != nil || len(text) > maxAuditDetail {
		return new(fmt.Sprintf(`{"omitted_bytes":%d}`, len(r.Detail)))
	}
	return textOf(text)
}

const listAudit = `
SELECT id, at, tenant, subject, method, credential, action, resource, outcome, channel, request_id, remote, detail
FROM audit_log WHERE true`

// ListAudit returns a page of the trail, newest first. A limit below 0 or over 500 is [agent.CodeInvalid].
func (s *AuditStore) ListAudit(ctx context.Context, q agent.AuditQuery) (agent.AuditPage, error) {
	switch {
	case q.Limit < 0 || q.Limit > maxAudit:
		return agent.AuditPage{}, agent.Invalid("limit", "is %d, want 1 to %d", q.Limit, maxAudit)
	case q.Limit == 0:
		q.Limit = defaultAudit
	}
	sql, args := auditFilters(&q)
	args = append(args, q.Limit+1) // one more, to know whether there is a next page
	found, err := queryRows(ctx, s.pool, pgx.RowToStructByName[agent.AuditRecord],
		fmt.Sprintf("%s%s ORDER BY id DESC LIMIT $%d", listAudit, sql, len(args)), args...)
	if err != nil {
		return agent.AuditPage{}, mapError("list the audit trail", err)
	}
	page := agent.AuditPage{Records: append([]agent.AuditRecord{}, found[:min(len(found), q.Limit)]...)}
	if len(found) > q.Limit {
		page.Next = page.Records[q.Limit-1].ID
	}
	return page, nil
}

// auditFilters returns only the conditions that the query sets, so that PostgreSQL plans for these.
func auditFilters(q *agent.AuditQuery) (sql string, args []any) {
	add := func(condition string, arg any) {
		args = append(args, arg)
		sql += fmt.Sprintf(" AND "+condition, len(args))
	}
	if q.Tenant != agent.AnyTenant {
		add("tenant = $%d", cleanText(q.Tenant))
	}
	if q.Subject != "" {
		add("subject = $%d", cleanText(q.Subject))
	}
	if prefix, isPrefix := strings.CutSuffix(q.Action, "*"); isPrefix {
		add("starts_with(action, $%d)", cleanText(prefix))
	} else if q.Action != "" {
		add("action = $%d", cleanText(q.Action))
	}
	if q.Outcome != "" {
		add("outcome = $%d", cleanText(q.Outcome))
	}
	if !q.Since.IsZero() {
		add("at >= $%d", q.Since)
	}
	if q.Before > 0 {
		add("id < $%d", q.Before)
	}
	return sql, args
}

// ExpireAudit removes records from before a time, oldest first and at most limit (1,000 by default, 10,000 at most), and returns how many it
// has removed. To remove all of them, call it until it returns 0.
func (s *AuditStore) ExpireAudit(ctx context.Context, before time.Time, limit int) (removed int, err error) {
	if limit <= 0 {
		limit = maxPage
	}
	err = s.pool.QueryRow(ctx, `SELECT turnstone_expire_audit($1, $2)`, before, min(limit, maxAuditBatch)).Scan(&removed)
	return removed, mapError("expire the audit trail", err)
}
