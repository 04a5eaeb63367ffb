package apidoc_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/erasure"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
	"github.com/turnstone-run/turnstone/internal/retention"
)

// eraser has erased one user, and broken off with another.
type eraser struct{}

func (eraser) Create(_ context.Context, r erasure.Request, p agent.Principal) (erasure.Erasure, error) {
	salt := []byte("0123456789abcdef")
	return erasure.Erasure{
		ID: "e1", Tenant: r.Tenant, Status: erasure.StatusRequested, DryRun: r.DryRun, Subject: erasure.Subject(salt, r.Tenant, r.UserID),
		Salt: fmt.Sprintf("%x", salt), RequestedBy: p.Subject, Reason: r.Reason, CreatedAt: gatewaytest.Epoch(),
	}, nil
}

func (k eraser) Get(ctx context.Context, tenant, id string) (erasure.Erasure, error) {
	e, err := k.Create(ctx, erasure.Request{UserID: "ann", Tenant: tenant, Reason: "ticket 7"}, agent.Principal{Subject: "ops"})
	if err != nil {
		return e, err
	}
	end := gatewaytest.Epoch().Add(time.Second)
	e.FinishedAt = &end
	switch id {
	case "e1":
	case "broken":
		e.ID, e.Status, e.Error = id, erasure.StatusFailed, "a worker of another version"
		return e, nil
	default:
		return e, agent.FieldErrorf(agent.CodeNotFound, "erasure_id", "there is no erasure %q", id)
	}
	e.Status = erasure.StatusIncomplete
	e.Report = &erasure.Report{
		ErasureID: e.ID, Tenant: tenant, Subject: e.Subject, Salt: e.Salt, Pseudonym: erasure.Pseudonym(e.Subject), RequestedBy: e.RequestedBy,
		Reason: e.Reason, Status: e.Status, StartedAt: e.CreatedAt, FinishedAt: end, Rounds: 2, Turns: 3, Sessions: 1, Shared: 1,
		Kinds: []erasure.Kind{
			{Name: "turns", Removed: 3}, {Name: "usage_ledger", Unnamed: 2, Kept: "money stays countable"}, {Name: "events", Remaining: 1, Left: "a turn is at work"},
		},
		Executions: erasure.Executions{Found: 3, Deleted: 3}, Content: erasure.Content{Found: 2, Removed: 1, Bytes: 9, Shared: 1},
		Kept: []erasure.Kind{{Name: "catalog_head", Kept: "it is nobody's"}},
	}
	e.Digest, err = e.Report.Digest()
	e.AuditDigest = e.Digest
	return e, err
}

func (k eraser) List(ctx context.Context, tenant string, _ agent.Page) (erasure.Page, error) {
	e, err := k.Get(ctx, tenant, "e1")
	e.Report, e.AuditDigest = nil, ""
	return erasure.Page{Erasures: []erasure.Erasure{e}, Next: "more"}, err
}

// sweeper has as many tenants as a page may have.
type sweeper struct{ status retention.Status }

func (k *sweeper) Report(_ context.Context, tenant string, p agent.Page) (retention.Report, error) {
	at := gatewaytest.Epoch()
	kinds := []retention.KindReport{
		{Kind: retention.Events, Keep: "168h0m0s", Own: true, Unit: "turns", Stored: 100_000, More: true, Due: 9, Oldest: &at},
		{Kind: retention.Audit, Keep: "0s", Unit: "rows"},
	}
	out := retention.Report{Schedule: k.status, Tenants: []retention.TenantReport{}}
	if tenant != agent.AnyTenant {
		out.Tenants = append(out.Tenants, retention.TenantReport{Tenant: tenant, Kinds: kinds})
		return out, nil
	}
	for i := range p.Size {
		out.Next = fmt.Sprintf("t%d", i+1)
		out.Tenants = append(out.Tenants, retention.TenantReport{Tenant: out.Next, Kinds: kinds})
	}
	return out, nil
}

func (k *sweeper) Trigger(context.Context) (retention.Status, error) {
	at := gatewaytest.Epoch()
	k.status = retention.Status{ID: "turnstone-retention", Scheduled: true, Every: "1h0m0s", Running: true, LastRun: &at}
	return k.status, nil
}

func (k *sweeper) Pause(_ context.Context, paused bool, note string) (retention.Status, error) {
	if note == "none" {
		return retention.Status{}, agent.Errorf(agent.CodeConflict, "", "there is no schedule")
	}
	k.status.Paused, k.status.Note, k.status.NextRun = paused, note, nil
	if !paused {
		k.status.NextRun = new(gatewaytest.Epoch().Add(time.Hour))
	}
	return k.status, nil
}

func userErasures() []exchange {
	return []exchange{
		{method: "POST", path: "/v1/erasures", body: `{"user_id":"ann","reason":"ticket 7"}`, status: 202, contains: `"status":"requested"`},
		{method: "POST", path: "/v1/erasures", body: `{"user_id":"bob","tenant":"zoo","reason":"ticket 8","dry_run":true}`, status: 202, contains: `"tenant":"zoo"`},
		{method: "POST", path: "/v1/erasures", body: `{"user_id":"ann","reason":"ann wants it"}`, status: 400, contains: `"field":"reason"`},
		{method: "POST", path: "/v1/erasures", body: `{"user_id":"ann"}`, status: 400, refused: true},
		{method: "POST", path: "/v1/erasures", body: `{"user_id":"","reason":"ticket 7"}`, status: 400, refused: true},
		{method: "POST", path: "/v1/erasures", body: `{"user_id":"ann","reason":"ticket 7","force":true}`, status: 400, refused: true},
		{method: "POST", path: "/v1/erasures", body: `{"user_id":"ann","reason":"ticket 7"}`, as: reader, status: 403, contains: "erasures.write"},
		{method: "POST", path: "/v1/erasures", body: `{"user_id":"` + strings.Repeat("x", 65<<10) + `","reason":"r"}`, status: 413},
		{method: "GET", path: "/v1/erasures?page_size=1", status: 200, contains: `"next_page_token":"more"`},
		{method: "GET", path: "/v1/erasures", as: reader, status: 403, contains: "erasures.read"},
		{method: "GET", path: "/v1/erasures?page_size=1001", status: 400, refused: true},
		{method: "GET", path: "/v1/erasures/e1", status: 200, contains: `"unnamed":2`},
		{method: "GET", path: "/v1/erasures/broken", status: 200, contains: `"status":"failed"`},
		{method: "GET", path: "/v1/erasures/unknown", status: 404},
	}
}

func sweeps() []exchange {
	return []exchange{
		{method: "GET", path: "/v1/retention", status: 200, contains: `"tenant":"t20"`},
		{method: "GET", path: "/v1/retention?page_size=1&page_token=t1", status: 200, contains: `"next_page_token":"t1"`},
		{method: "GET", path: "/v1/retention?tenant=zoo", status: 200, contains: `"tenant":"zoo"`},
		{method: "GET", path: "/v1/retention", header: []string{"Turnstone-Tenant", "zoo"}, status: 200, contains: `"tenant":"zoo"`},
		{method: "GET", path: "/v1/retention?page_size=101", status: 400, refused: true},
		{method: "GET", path: "/v1/retention?page_token=" + strings.Repeat("x", 129), status: 400},
		{method: "GET", path: "/v1/retention", as: reader, status: 403, contains: "retention.read"},
		{method: "POST", path: "/v1/retention/run", status: 202, contains: `"running":true`},
		{method: "POST", path: "/v1/retention/run", body: `{"tenant":"zoo"}`, status: 400, refused: true},
		{method: "POST", path: "/v1/retention/run", as: reader, status: 403, contains: "retention.write"},
		{method: "POST", path: "/v1/retention/pause", body: `{"reason":"a backup"}`, status: 200, contains: `"note":"a backup"`},
		{method: "POST", path: "/v1/retention/pause", body: `{"note":"a backup"}`, status: 400, refused: true},
		{method: "POST", path: "/v1/retention/pause", body: `{"reason":"none"}`, status: 409},
		{method: "POST", path: "/v1/retention/resume", status: 200, contains: "resumed by ops"},
		{method: "POST", path: "/v1/retention/resume", body: `{"reason":"` + strings.Repeat("x", 65<<10) + `"}`, status: 413},
	}
}
