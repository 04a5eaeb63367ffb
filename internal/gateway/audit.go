package gateway

import (
	"context"
	"encoding/json"
	"maps"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// Audit is the port of the audit trail.
type Audit interface {
	// Record stores a record later. It never blocks.
	Record(r agent.AuditRecord)
	// List returns a page of records, newest first.
	List(ctx context.Context, q agent.AuditQuery) (agent.AuditPage, error)
}

// maxAuditPage is the maximum number of audit records in a page.
const maxAuditPage = 500

// Rates of audit records of invalid credentials and of denials. Records beyond them are skipped and counted, and the next record has the count.
const (
	invalidPerSecond = 2
	invalidBurst     = 100
	denialsPerSecond = 20
	denialsBurst     = 500
)

// auditLimiter limits the rate at which refused callers cause audit records.
type auditLimiter struct {
	port    Audit // nil: there is no audit trail
	invalid bucket
	denials bucket
}

// bucket limits the rate of records and counts those that are skipped.
type bucket struct {
	limit   *rate.Limiter
	skipped atomic.Int64
}

func newAuditLimiter(a Audit) *auditLimiter {
	return &auditLimiter{
		port:    a,
		invalid: bucket{limit: rate.NewLimiter(invalidPerSecond, invalidBurst)},
		denials: bucket{limit: rate.NewLimiter(denialsPerSecond, denialsBurst)},
	}
}

// take reports whether a record may be written, and how many were skipped since the last one.
func (b *bucket) take() (ok bool, skipped int64) {
	if !b.limit.Allow() {
		b.skipped.Add(1)
		return false, 0
	}
	return true, b.skipped.Swap(0)
}

// facts is the detail of an audit record.
type facts map[string]any

// audit records an action of the caller. It skips denials and failures beyond their rate.
func (c identity) audit(outcome string, a agent.Action, resource string, detail facts) {
	if c.g == nil || c.g.trail.port == nil {
		return
	}
	if outcome != agent.AuditAllowed {
		ok, skipped := c.g.trail.denials.take()
		if !ok {
			return
		}
		detail = detail.withSuppressed(skipped)
	}
	c.writeAudit(outcome, a, resource, detail)
}

// auditInvalidCredential records that a credential was not valid.
func (c identity) auditInvalidCredential(err error) {
	if c.g.trail.port == nil {
		return
	}
	if ok, skipped := c.g.trail.invalid.take(); ok {
		c.writeAudit(agent.AuditDenied, agent.AuditAuthenticate, "", facts{"reason": err.Error()}.withSuppressed(skipped))
	}
}

// withSuppressed returns the facts with the number of skipped records, if there are any.
func (d facts) withSuppressed(n int64) facts {
	if n == 0 {
		return d
	}
	if d == nil {
		d = facts{}
	}
	d["suppressed"] = n
	return d
}

func (c identity) writeAudit(outcome string, a agent.Action, resource string, detail facts) {
	tenant := c.tenant
	if tenant == "" && c.isOfOneTenant() {
		tenant = c.principal.Tenant
	}
	r := agent.AuditRecord{
		At: time.Now(), Tenant: tenant, Subject: c.principal.Subject, Method: c.principal.Method, Credential: c.principal.Credential, Action: a,
		Resource: clip.Bytes(resource, maxPath), Outcome: outcome, Channel: c.door, RequestID: c.requestID, Remote: c.remote,
	}
	if len(detail) > 0 {
		if raw, err := json.Marshal(detail); err == nil {
			r.Detail = raw
		}
	}
	c.g.trail.port.Record(r)
}

// auditChange records a change or its failure. It skips malformed requests, and denials, which are already recorded.
func (c identity) auditChange(a agent.Action, resource string, detail facts, err error) {
	switch code := agent.CodeOf(err); code {
	case "":
		c.audit(agent.AuditAllowed, a, resource, detail)
	case agent.CodeDenied, agent.CodeInvalid, agent.CodeOverflow:
	default:
		failed := facts{"error": string(code)}
		maps.Copy(failed, detail)
		c.audit(agent.AuditFailed, a, resource, failed)
	}
}

// getAudit is GET /v1/audit?tenant=&subject=&action=&outcome=&since=&before=&limit=. Without a tenant, a credential of every tenant gets the
// records of all tenants.
func (s *httpServer) getAudit(c *Call) (any, error) {
	q := c.query
	query := agent.AuditQuery{
		Tenant: c.caller.lookupTenant(), Subject: q.text("subject", maxText), Action: q.text("action", maxText), Outcome: q.text("outcome", maxText),
		Since: q.time("since"), Before: q.number("before"),
	}
	query.Limit = q.limit(maxAuditPage)
	if err := q.validate(); err != nil {
		return nil, err
	}
	switch query.Outcome {
	case "", agent.AuditAllowed, agent.AuditDenied, agent.AuditFailed:
	default:
		return nil, agent.Invalid("outcome", "want allowed, denied or failed, got %.60q", query.Outcome)
	}
	page, err := s.cfg.Audit.List(c.callContext(), query)
	page.Records = orEmpty(page.Records)
	return page, err
}
