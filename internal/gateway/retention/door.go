// Package retention serves /v1/retention: what is kept, for how long, and the schedule of the sweeps.
package retention

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/retention"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

// Reporter says what is kept.
type Reporter interface {
	// Report is about one tenant, or a page of all for [agent.AnyTenant].
	Report(ctx context.Context, tenant string, p agent.Page) (retention.Report, error)
}

// Schedule starts the sweeps. If Temporal has none, both methods fail with [agent.CodeConflict].
type Schedule interface {
	Trigger(ctx context.Context) (retention.Status, error)
	Pause(ctx context.Context, paused bool, note string) (retention.Status, error)
}

// Audit records who controlled the schedule.
type Audit interface {
	Record(r agent.AuditRecord)
}

// Door serves reports and controls the schedule of the sweeps. It implements [gateway.Door].
type Door struct {
	reporter Reporter
	schedule Schedule
	audit    Audit
}

// New returns the door. audit may be nil.
func New(r Reporter, s Schedule, audit Audit) (*Door, error) {
	switch {
	case r == nil:
		return nil, errors.New("retention: Reporter is missing")
	case s == nil:
		return nil, errors.New("retention: Schedule is missing")
	}
	return &Door{reporter: r, schedule: s, audit: audit}, nil
}

// Bounds of requests.
const (
	maxNote     = 1000
	maxToken    = 128 // a tenant's name
	maxPage     = 100
	defaultPage = 20

	pathAll      = "/v1/retention"
	tenantHeader = "Turnstone-Tenant"
	tenantParam  = "tenant"
)

// Routes implements [gateway.Door].
func (d *Door) Routes() []gateway.Route {
	return []gateway.Route{
		{Method: http.MethodGet, Path: pathAll, Action: agent.ActionRetentionRead, Handle: d.report},
		{Method: http.MethodPost, Path: pathAll + "/run", Action: agent.ActionRetentionWrite, Handle: d.run},
		{Method: http.MethodPost, Path: pathAll + "/pause", Action: agent.ActionRetentionWrite, Handle: d.pause},
		{Method: http.MethodPost, Path: pathAll + "/resume", Action: agent.ActionRetentionWrite, Handle: d.resume},
	}
}

// report serves GET /v1/retention?page_size=&page_token=. A credential of every tenant that names no tenant gets a page of all.
func (d *Door) report(w http.ResponseWriter, r *http.Request, v *gateway.Visit) error {
	values, err := gateway.Parameters(r, "page_size", "page_token")
	if err != nil {
		return err
	}
	p, err := gateway.PageOf(values, defaultPage, maxPage)
	if err != nil {
		return err
	}
	if len(p.Token) > maxToken || strings.ContainsRune(p.Token, 0) {
		return agent.Invalid("page_token", "is not one that a page had")
	}
	ctx, stop := v.Bounded(r)
	defer stop()
	out, err := d.reporter.Report(ctx, tenantOf(r, v, values), p)
	if err != nil {
		return err
	}
	v.WriteJSON(w, http.StatusOK, out)
	return nil
}

// noteBody is the optional body of pause and resume.
type noteBody struct {
	Reason string `json:"reason,omitempty"`
}

// run starts the sweeps of all tenants now, unless they are running.
func (d *Door) run(w http.ResponseWriter, r *http.Request, v *gateway.Visit) error {
	if err := d.readOperatorBody(w, r, v, &struct{}{}); err != nil {
		return err
	}
	return d.controlSchedule(w, r, v, "run", http.StatusAccepted, d.schedule.Trigger)
}

func (d *Door) pause(w http.ResponseWriter, r *http.Request, v *gateway.Visit) error {
	return d.setPaused(w, r, v, true)
}

func (d *Door) resume(w http.ResponseWriter, r *http.Request, v *gateway.Visit) error {
	return d.setPaused(w, r, v, false)
}

func (d *Door) setPaused(w http.ResponseWriter, r *http.Request, v *gateway.Visit, paused bool) error {
	var body noteBody
	if err := d.readOperatorBody(w, r, v, &body); err != nil {
		return err
	}
	if len(body.Reason) > maxNote || strings.ContainsRune(body.Reason, 0) {
		return agent.Invalid("reason", "want at most %d bytes", maxNote)
	}
	note, action := cmp.Or(body.Reason, noteOf(v, paused)), "resume"
	if paused {
		action = "pause"
	}
	return d.controlSchedule(w, r, v, action, http.StatusOK, func(ctx context.Context) (retention.Status, error) { return d.schedule.Pause(ctx, paused, note) })
}

// readOperatorBody reads the body of a request that concerns all tenants, and rejects credentials of a single tenant.
func (d *Door) readOperatorBody(w http.ResponseWriter, r *http.Request, v *gateway.Visit, body any) error {
	if _, err := gateway.Parameters(r); err != nil {
		return err
	}
	if p := v.Principal(); !p.Trusted() && p.Tenant != agent.AnyTenant {
		d.record(v, strings.TrimPrefix(r.URL.Path, pathAll+"/"), agent.AuditDenied)
		return agent.Errorf(agent.CodeDenied, "", "the sweeps are of all tenants, and the credential is of tenant %q", p.Tenant)
	}
	data, err := v.ReadBody(w, r)
	if err != nil || len(bytes.TrimSpace(data)) == 0 {
		return err
	}
	if err := gateway.CheckContentType(r); err != nil {
		return err
	}
	return strictjson.Decode(data, body)
}

func (d *Door) controlSchedule(
	w http.ResponseWriter, r *http.Request, v *gateway.Visit, action string, code int, do func(context.Context) (retention.Status, error),
) error {
	ctx, stop := v.Bounded(r)
	defer stop()
	out, err := do(ctx)
	if err != nil {
		return err
	}
	d.record(v, action, agent.AuditAllowed)
	v.WriteJSON(w, code, out)
	return nil
}

// record writes into the audit trail who controlled the schedule, or was denied.
func (d *Door) record(v *gateway.Visit, action, outcome string) {
	if d.audit == nil {
		return
	}
	p := v.Principal()
	d.audit.Record(agent.AuditRecord{
		At: time.Now(), Tenant: v.Tenant(), Subject: p.Subject, Method: p.Method, Credential: p.Credential, Action: agent.ActionRetentionWrite,
		Resource: "retention/" + action, Outcome: outcome, Channel: "http", RequestID: v.RequestID(),
	})
}

// tenantOf returns the tenant of a report: the credential's or, for a credential of every tenant, the one that the request names, else all.
func tenantOf(r *http.Request, v *gateway.Visit, values url.Values) string {
	p := v.Principal()
	if (p.Trusted() || p.Tenant == agent.AnyTenant) && cmp.Or(r.Header.Get(tenantHeader), values.Get(tenantParam)) == "" {
		return agent.AnyTenant
	}
	return v.Tenant()
}

// noteOf returns the note of a caller who gave no reason.
func noteOf(v *gateway.Visit, paused bool) string {
	p := v.Principal()
	done := "resumed"
	if paused {
		done = "paused"
	}
	if caller := cmp.Or(p.Subject, p.Credential); caller != "" {
		return done + " by " + caller
	}
	return done
}
