package client

import (
	"context"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/retention"
)

const retentionPath = "retention"

type (
	// RetentionReport says what is kept, for how long, and what the sweeps have done.
	RetentionReport = retention.Report
	// RetentionStatus is the state of the sweeps.
	RetentionStatus = retention.Status
	// RetentionTenant is what one tenant has.
	RetentionTenant = retention.TenantReport
	// RetentionKind is what there is of a kind.
	RetentionKind = retention.KindReport
)

// Retention returns what is stored for a tenant: the client's own if tenant is empty. With [agent.AnyTenant] it returns a page of all
// tenants, which needs a credential for every tenant.
func (c *Client) Retention(ctx context.Context, tenant string, p agent.Page) (RetentionReport, error) {
	return get[RetentionReport](ctx, c, pageParams(p, tenantParam, oneTenant(tenant)), retentionPath)
}

// RunRetention starts a sweep now, unless one is running.
func (c *Client) RunRetention(ctx context.Context) (RetentionStatus, error) {
	return post[RetentionStatus](ctx, c, struct{}{}, retentionPath, "run")
}

// PauseRetention pauses the sweeps if pause is true, else resumes them. The reason is stored.
func (c *Client) PauseRetention(ctx context.Context, pause bool, reason string) (RetentionStatus, error) {
	body := struct {
		Reason string `json:"reason,omitempty"`
	}{reason}
	return post[RetentionStatus](ctx, c, body, retentionPath, pauseAction(pause))
}
