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

const (
	defaultAudit   = 50
	maxAudit       = 500
	maxAuditBatch  = 10_000
	maxAuditText   = 1 << 10 // bytes of each text
	maxAuditDetail = 8 << 10 // bytes as JSON; a page has at most 500 of them
)

const appendAudit = `
INSERT INTO audit_log (at, tenant, subject, method, credential, action, resource, outcome, channel, request_id, remote, detail)
SELECT a.at, a.tenant, a.subject, a.method, a.credential, a.action, a.resource, a.outcome, a.channel, a.request_id, a.remote, a.detail::jsonb
FROM unnest($1::timestamptz[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[],
	$11::text[], $12::text[]) WITH ORDINALITY
	AS a (at, tenant, subject, method, credential, action, resource, outcome, channel, request_id, remote, detail, n)
ORDER BY a.n`

// AppendAudit adds records to the audit trail in their order, in one round trip; their ids are the database's. A record is never refused for what
// it says: texts over 1 KiB are cut, a detail over 8 KiB, or that is no JSON, is left out with a note of its size. A record without a time
// is of now. More than 10,000 at once are [agent.CodeOverflow]. A batch that is appended twice, because the answer was lost, is there twice.
func (s *Store) AppendAudit(ctx context.Context, records []agent.AuditRecord) error {
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
			texts[column][i] = clip.Prefix(plain(text), maxAuditText)
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

// The filters differ so much in what they leave that each query is made of those that are asked for.
const listAudit = `
SELECT id, at, tenant, subject, method, credential, action, resource, outcome, channel, request_id, remote, detail
FROM audit_log WHERE true`

// ListAudit returns a page of the trail, newest first. A limit below 0 or over 500 is [agent.CodeInvalid].
func (s *Store) ListAudit(ctx context.Context, q agent.AuditQuery) (agent.AuditPage, error) {
	const op = "list the audit trail"
	switch {
	case q.Limit < 0 || q.Limit > maxAudit:
		return agent.AuditPage{}, agent.Invalid("limit", "is %d, want 1 to %d", q.Limit, maxAudit)
	case q.Limit == 0:
		q.Limit = defaultAudit
	}
	sql, args := auditFilters(&q)
	args = append(args, q.Limit+1) // one more, to know whether there is one
	rows, err := s.pool.Query(ctx, fmt.Sprintf("%s%s ORDER BY id DESC LIMIT $%d", listAudit, sql, len(args)), args...)
	if err != nil {
		return agent.AuditPage{}, mapError(op, err)
	}
	found, err := pgx.CollectRows(rows, scanAudit)
	if err != nil {
		return agent.AuditPage{}, mapError(op, err)
	}
	page := agent.AuditPage{Records: append([]agent.AuditRecord{}, found[:min(len(found), q.Limit)]...)}
	if len(found) > q.Limit {
		page.Next = page.Records[q.Limit-1].ID
	}
	return page, nil
}

func auditFilters(q *agent.AuditQuery) (sql string, args []any) {
	add := func(condition string, arg any) {
		args = append(args, arg)
		sql += fmt.Sprintf(" AND "+condition, len(args))
	}
	if q.Tenant != agent.AnyTenant {
		add("tenant = $%d", plain(q.Tenant))
	}
	if q.Subject != "" {
		add("subject = $%d", plain(q.Subject))
	}
	if begin, open := strings.CutSuffix(q.Action, "*"); open {
		add("starts_with(action, $%d)", plain(begin))
	} else if q.Action != "" {
		add("action = $%d", plain(q.Action))
	}
	if q.Outcome != "" {
		add("outcome = $%d", plain(q.Outcome))
	}
	if !q.Since.IsZero() {
		add("at >= $%d", q.Since)
	}
	if q.Before > 0 {
		add("id < $%d", q.Before)
	}
	return sql, args
}

func scanAudit(row pgx.CollectableRow) (r agent.AuditRecord, err error) {
	err = row.Scan(&r.ID, &r.At, &r.Tenant, &r.Subject, &r.Method, &r.Credential, &r.Action, &r.Resource, &r.Outcome, &r.Channel, &r.RequestID,
		&r.Remote, (*[]byte)(&r.Detail))
	r.At = r.At.UTC()
	return r, err
}

// ExpireAudit removes records from before a time, the oldest first and at most limit (1,000 by default, 10,000 at most), and says how many
// there were: whoever removes all goes on until there are none.
func (s *Store) ExpireAudit(ctx context.Context, before time.Time, limit int) (int, error) {
	if limit <= 0 {
		limit = maxPage
	}
	var gone int
	err := s.pool.QueryRow(ctx, `SELECT turnstone_expire_audit($1, $2)`, before, min(limit, maxAuditBatch)).Scan(&gone)
	return gone, mapError("expire the audit trail", err)
}
