package gateway

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// Usage is the port that sums up what model calls used and cost. [agent.CodeUnavailable] for a sum that takes too long.
type Usage interface {
	Usage(ctx context.Context, q agent.UsageQuery) (agent.UsagePage, error)
}

// Bounds of the parameters of a usage report, in bytes.
const (
	maxUsageText  = 512
	maxUsageToken = 8 << 10
)

// getUsage is GET /v1/usage?group=&since=&until=&user=&agent=&model=&channel=&session=&turn=&limit=&page_token=. A credential of every tenant
// that names none gets the sums of all.
func (s *httpServer) getUsage(c *Call) (any, error) {
	values, err := usageParameters(c.r.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	q := agent.UsageQuery{
		Tenant: c.caller.lookupTenant(), UserID: values.Get("user"), Agent: values.Get("agent"), Model: values.Get("model"), Channel: values.Get("channel"),
		SessionID: agent.SessionID(values.Get("session")), TurnID: agent.TurnID(values.Get("turn")), PageToken: values.Get("page_token"),
	}
	if group := values.Get("group"); group != "" {
		for key := range strings.SplitSeq(group, ",") {
			q.Group = append(q.Group, agent.UsageKey(strings.TrimSpace(key)))
		}
	}
	if q.Since, err = timeOrDay(values, "since"); err != nil {
		return nil, err
	}
	if q.Until, err = timeOrDay(values, "until"); err != nil {
		return nil, err
	}
	if text := values.Get("limit"); text != "" {
		if q.PageSize, err = strconv.Atoi(text); err != nil || q.PageSize < 0 {
			return nil, agent.Invalid("limit", "want 1 to %d, got %.40q", agent.MaxUsageRows, text)
		}
	}
	now := time.Now()
	q.Fill(now)
	if err := q.Validate(now); err != nil {
		return nil, err
	}
	page, err := s.cfg.Usage.Usage(c.bounded(), q)
	page.Group, page.Rows = orEmpty(page.Group), orEmpty(page.Rows)
	return page, err
}

// usageParameters reads a query strictly: a parameter that is unknown, given twice or too long is an error.
func usageParameters(rawQuery string) (url.Values, error) {
	values, err := url.ParseQuery(rawQuery)
	if err != nil {
		return nil, agent.Invalid("", "malformed query: %w", err)
	}
	allowed := []string{
		"tenant", "group", "since", "until", "user", "agent", "model", "channel", "session", "turn", "limit", "page_token",
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		limit := maxUsageText
		if name == "page_token" {
			limit = maxUsageToken
		}
		switch given := values[name]; {
		case !slices.Contains(allowed, name):
			return nil, agent.Invalid(fmt.Sprintf("%.100s", name), "is no parameter of this path")
		case len(given) > 1:
			return nil, agent.Invalid(name, "is given %d times", len(given))
		case len(given[0]) > limit:
			return nil, agent.Invalid(name, "is %d bytes, at most %d", len(given[0]), limit)
		case strings.ContainsRune(given[0], 0):
			return nil, agent.Invalid(name, "has a zero byte")
		}
	}
	return values, nil
}

// timeOrDay reads a time, or a day, which is midnight UTC.
func timeOrDay(values url.Values, name string) (time.Time, error) {
	text := values.Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, agent.Invalid(name, "want a time such as 2026-11-22T12:00:00Z, or a day, got %.60q", text)
}
