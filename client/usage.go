package client

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

const usagePath = "usage"

// Usage returns a page of what was used and what it cost. An empty tenant is the client's; [agent.AnyTenant] is every one that the credential
// may see.
func (c *Client) Usage(ctx context.Context, q agent.UsageQuery) (agent.UsagePage, error) {
	query := url.Values{}
	if q.Tenant != agent.AnyTenant {
		set(query, tenantParam, q.Tenant)
	}
	keys := make([]string, len(q.Group))
	for i, k := range q.Group {
		keys[i] = string(k)
	}
	set(query, "group", strings.Join(keys, ","))
	for name, at := range map[string]time.Time{"since": q.Since, "until": q.Until} {
		if !at.IsZero() {
			query.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	set(query, "user", q.UserID)
	set(query, "agent", q.Agent)
	set(query, "model", q.Model)
	set(query, "channel", q.Channel)
	set(query, "session", string(q.SessionID))
	set(query, "turn", string(q.TurnID))
	setNumber(query, "limit", int64(q.PageSize))
	set(query, "page_token", q.PageToken)
	var out agent.UsagePage
	return out, c.call(ctx, http.MethodGet, []string{usagePath}, query, nil, &out)
}
