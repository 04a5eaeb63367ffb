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

// Audit keeps the audit trail.
type Audit interface {
	// Record takes a record; it never waits.
	Record(r agent.AuditRecord)
	// List returns a page, newest first.
	List(ctx context.Context, q agent.AuditQuery) (agent.AuditPage, error)
}

// How many records callers can cause who change nothing: those beyond are counted, and the next record says how many there were.
const (
	strangersPerSecond = 2
	strangersAtOnce    = 100
	refusalsPerSecond  = 20
	refusalsAtOnce     = 500
)

// trail bounds what goes to the audit trail.
type trail struct {
	audit     Audit // nil: there is none
	strangers bucket
	refusals  bucket
}

type bucket struct {
	limit   *rate.Limiter
	skipped atomic.Int64
}

func newTrail(a Audit) *trail {
	return &trail{
		audit:     a,
		strangers: bucket{limit: rate.NewLimiter(strangersPerSecond, strangersAtOnce)},
		refusals:  bucket{limit: rate.NewLimiter(refusalsPerSecond, refusalsAtOnce)},
	}
}

// take reports whether a record may be written, and how many were not since the last that was.
func (b *bucket) take() (ok bool, skipped int64) {
	if !b.limit.Allow() {
		b.skipped.Add(1)
		return false, 0
	}
	return true, b.skipped.Swap(0)
}

// facts is the detail of an audit record.
type facts map[string]any

// audit records what the caller did or tried. Refusals beyond a rate are counted and not recorded.
func (c identity) audit(outcome string, a agent.Action, resource string, detail facts) {
	if c.g == nil || c.g.trail.audit == nil {
		return
	}
	if outcome != agent.AuditAllowed {
		ok, skipped := c.g.trail.refusals.take()
		if !ok {
			return
		}
		detail = detail.with("suppressed", skipped)
	}
	c.writeAudit(outcome, a, resource, detail)
}

// auditStranger records that a credential was not valid.
func (c identity) auditStranger(err error) {
	if c.g.trail.audit == nil {
		return
	}
	if ok, skipped := c.g.trail.strangers.take(); ok {
		c.writeAudit(agent.AuditDenied, agent.AuditAuthenticate, "", facts{"reason": err.Error()}.with("suppressed", skipped))
	}
}

func (d facts) with(name string, n int64) facts {
	if n == 0 {
		return d
	}
	if d == nil {
		d = facts{}
	}
	d[name] = n
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
	c.g.trail.audit.Record(r)
}

// auditChange records a change, or why it failed. It skips denials, which are recorded where they are made, and malformed requests.
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
