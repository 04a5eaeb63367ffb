// Package erasure serves /v1/erasures: requests to remove one user's data, and their reports.
package erasure

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/erasure"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

// Requests records and looks up requests. The error is [agent.CodeNotFound] if the tenant has no such erasure.
type Requests interface {
	// Create records a request and starts its erasure. If the user has an erasure that has not ended, it returns that one.
	Create(ctx context.Context, r erasure.Request, p agent.Principal) (erasure.Erasure, error)
	// Get returns an erasure with its report.
	Get(ctx context.Context, tenant, id string) (erasure.Erasure, error)
	List(ctx context.Context, tenant string, p agent.Page) (erasure.Page, error)
}

// Audit records who asked for an erasure.
type Audit interface {
	Record(r agent.AuditRecord)
}

// Door serves erasures. It implements [gateway.Door].
type Door struct {
	requests Requests
	audit    Audit
}

// New returns the door. audit may be nil.
func New(r Requests, audit Audit) (*Door, error) {
	if r == nil {
		return nil, errors.New("erasure: Requests is missing")
	}
	return &Door{requests: r, audit: audit}, nil
}

// The paths.
const (
	pathAll = "/v1/erasures"
	pathOne = pathAll + "/{id}"
)

// Bounds of requests.
const (
	maxID       = 128
	maxToken    = 4 << 10
	maxPage     = 1000
	defaultPage = 100
	sizeLimit   = 200 // of a page, even if more is asked for
)

// Routes implements [gateway.Door].
func (d *Door) Routes() []gateway.Route {
	return []gateway.Route{
		{Method: http.MethodPost, Path: pathAll, Action: erasure.ActionWrite, Handle: d.create},
		{Method: http.MethodGet, Path: pathAll, Action: erasure.ActionRead, Handle: d.list},
		{Method: http.MethodGet, Path: pathOne, Action: erasure.ActionRead, Handle: d.get},
	}
}

// create serves POST /v1/erasures with 202; a GET of the id returns its state.
func (d *Door) create(w http.ResponseWriter, r *http.Request, v *gateway.Visit) error {
	if _, err := gateway.Parameters(r); err != nil {
		return err
	}
	var body erasure.Request
	if err := v.DecodeBody(w, r, &body); err != nil {
		return err
	}
	var err error
	if body.Tenant, err = v.TenantNamed(r, body.Tenant); err != nil {
		return err
	}
	if err := body.Validate(); err != nil {
		return err
	}
	ctx, stop := v.Bounded(r)
	defer stop()
	e, err := d.requests.Create(ctx, body, v.Principal())
	if err != nil {
		return err
	}
	d.record(v, &e)
	w.Header().Set("Location", pathAll+"/"+e.ID)
	v.WriteJSON(w, http.StatusAccepted, e)
	return nil
}

func (d *Door) get(w http.ResponseWriter, r *http.Request, v *gateway.Visit) error {
	if _, err := gateway.Parameters(r); err != nil {
		return err
	}
	id := r.PathValue("id")
	if len(id) > maxID {
		return agent.FieldErrorf(agent.CodeNotFound, "erasure_id", "there is no erasure %.140q", id)
	}
	ctx, stop := v.Bounded(r)
	defer stop()
	e, err := d.requests.Get(ctx, v.Tenant(), id)
	if err != nil {
		return err
	}
	v.WriteJSON(w, http.StatusOK, e)
	return nil
}

func (d *Door) list(w http.ResponseWriter, r *http.Request, v *gateway.Visit) error {
	page, err := pageOf(r)
	if err != nil {
		return err
	}
	ctx, stop := v.Bounded(r)
	defer stop()
	found, err := d.requests.List(ctx, v.Tenant(), page)
	if err != nil {
		return err
	}
	if found.Erasures == nil {
		found.Erasures = []erasure.Erasure{}
	}
	v.WriteJSON(w, http.StatusOK, found)
	return nil
}

// record writes into the audit trail who asked for an erasure, without the user's id.
func (d *Door) record(v *gateway.Visit, e *erasure.Erasure) {
	if d.audit == nil {
		return
	}
	p := v.Principal()
	d.audit.Record(agent.AuditRecord{
		At: time.Now(), Tenant: e.Tenant, Subject: p.Subject, Method: p.Method, Credential: p.Credential, Action: erasure.ActionWrite,
		Resource: "erasure/" + e.ID, Outcome: agent.AuditAllowed, Channel: "http", RequestID: v.RequestID(),
		Detail: fmt.Appendf(nil, `{"dry_run":%t}`, e.DryRun),
	})
}

func pageOf(r *http.Request) (agent.Page, error) {
	values, err := gateway.Parameters(r, "page_size", "page_token")
	if err != nil {
		return agent.Page{}, err
	}
	p, err := gateway.PageOf(values, defaultPage, maxPage)
	p.Size = min(p.Size, sizeLimit)
	if len(p.Token) > maxToken {
		return p, agent.Invalid("page_token", "is not one that a page had")
	}
	return p, err
}
