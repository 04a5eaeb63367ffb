package gateway

import (
	"context"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// Usage is the port of reports on the tokens and the cost of model calls. A report that takes too long is [agent.CodeUnavailable].
type Usage interface {
	Usage(ctx context.Context, q agent.UsageQuery) (agent.UsagePage, error)
}

// Bounds of the parameters of a usage report, in bytes.
const (
	maxUsageText  = 512
	maxUsageToken = 8 << 10
)

// getUsage is GET /v1/usage?group=&since=&until=&user=&agent=&model=&channel=&session=&turn=&limit=&page_token=. Without a tenant, a credential of
// every tenant gets the sums of all tenants.
func (s *httpServer) getUsage(c *Call) (any, error) {
	p := c.query
	q := agent.UsageQuery{
		Tenant: c.caller.lookupTenant(), UserID: p.text("user", maxUsageText), Agent: p.text("agent", maxUsageText), Model: p.text("model", maxUsageText),
		Channel: p.text("channel", maxUsageText), SessionID: agent.SessionID(p.text("session", maxUsageText)),
		TurnID: agent.TurnID(p.text("turn", maxUsageText)), Since: p.timeOrDay("since"), Until: p.timeOrDay("until"), PageSize: int(p.number("limit")),
		PageToken: p.text("page_token", maxUsageToken),
	}
	if group := p.text("group", maxUsageText); group != "" {
		for key := range strings.SplitSeq(group, ",") {
			q.Group = append(q.Group, agent.UsageKey(strings.TrimSpace(key)))
		}
	}
	if err := p.validate(); err != nil {
		return nil, err
	}
	now := time.Now()
	q.Fill(now)
	if err := q.Validate(now); err != nil {
		return nil, err
	}
	page, err := s.cfg.Usage.Usage(c.callContext(), q)
	page.Group, page.Rows = orEmpty(page.Group), orEmpty(page.Rows)
	return page, err
}
