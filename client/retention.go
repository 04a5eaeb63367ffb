package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/retention"
)

const retentionPath = "retention"

type (
	// RetentionReport says what is kept and for how long, and how the sweeps stand.
	RetentionReport = retention.Report
	// RetentionStatus is how the sweeps stand.
	RetentionStatus = retention.Status
	// RetentionTenant is what one tenant has.
	RetentionTenant = retention.TenantReport
	// RetentionKind is what there is of a kind.
	RetentionKind = retention.KindReport
)

// Retention returns what is kept of an empty tenant, which is the client's, or of one that it names; of a page of all tenants with
// [agent.AnyTenant], which is for credentials of every tenant.
func (c *Client) Retention(ctx context.Context, tenant string, p agent.Page) (RetentionReport, error) {
	query := pageQuery(p)
	if query == nil {
		query = url.Values{}
	}
	if tenant != agent.AnyTenant {
		set(query, tenantParam, tenant)
	}
	var out RetentionReport
	return out, c.call(ctx, http.MethodGet, []string{retentionPath}, query, nil, &out)
}

// RunRetention begins a sweep now, unless one is at work.
func (c *Client) RunRetention(ctx context.Context) (RetentionStatus, error) {
	var out RetentionStatus
	return out, c.call(ctx, http.MethodPost, []string{retentionPath, "run"}, nil, struct{}{}, &out)
}

// PauseRetention keeps the sweeps from running, or lets them run again; reason says why.
func (c *Client) PauseRetention(ctx context.Context, pause bool, reason string) (RetentionStatus, error) {
	action := "resume"
	if pause {
		action = "pause"
	}
	body := struct {
		Reason string `json:"reason,omitempty"`
	}{reason}
	var out RetentionStatus
	return out, c.call(ctx, http.MethodPost, []string{retentionPath, action}, nil, body, &out)
}
