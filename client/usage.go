package client

import (
	"context"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

const usagePath = "usage"

// Usage returns a page of the usage and its cost. An empty tenant means the tenant of the client, [agent.AnyTenant] all tenants that the
// credential may read.
func (c *Client) Usage(ctx context.Context, q agent.UsageQuery) (agent.UsagePage, error) {
	keys := make([]string, len(q.Group))
	for i, k := range q.Group {
		keys[i] = string(k)
	}
	return get[agent.UsagePage](ctx, c, params(
		tenantParam, oneTenant(q.Tenant), "group", strings.Join(keys, ","), "since", moment(q.Since), "until", moment(q.Until),
		"user", q.UserID, "agent", q.Agent, "model", q.Model, "channel", q.Channel, "session", string(q.SessionID), "turn", string(q.TurnID),
		"limit", number(q.PageSize), "page_token", q.PageToken,
	), usagePath)
}
