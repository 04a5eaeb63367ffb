// Package usage is the door to what model calls used and what they cost: /v1/usage.
package usage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

// Ledger adds up what was billed. What takes it too long is [agent.CodeUnavailable].
type Ledger interface {
	Usage(ctx context.Context, q agent.UsageQuery) (agent.UsagePage, error)
}

// Door serves reports. It implements [gateway.Door].
type Door struct {
	ledger Ledger
}

// New returns the door.
func New(l Ledger) (*Door, error) {
	if l == nil {
		return nil, errors.New("usage: the ledger is missing")
	}
	return &Door{ledger: l}, nil
}

// Bounds of requests.
const (
	maxText  = 512 // of a name
	maxToken = 8 << 10
)

// Routes implements [gateway.Door].
func (d *Door) Routes() []gateway.Route {
	return []gateway.Route{{Method: http.MethodGet, Path: "/v1/usage", Action: agent.ActionUsageRead, Handle: d.report}}
}

// report is GET /v1/usage?group=&since=&until=&user=&agent=&model=&channel=&session=&turn=&limit=&page_token=. A credential of every tenant
// that names none gets the sums of all.
func (d *Door) report(w http.ResponseWriter, r *http.Request, v *gateway.Visit) error {
	values, err := parameters(r)
	if err != nil {
		return err
	}
	q := agent.UsageQuery{
		Tenant: tenantOf(r, v, values), UserID: values.Get("user"), Agent: values.Get("agent"), Model: values.Get("model"), Channel: values.Get("channel"),
		SessionID: agent.SessionID(values.Get("session")), TurnID: agent.TurnID(values.Get("turn")), PageToken: values.Get("page_token"),
	}
	if group := values.Get("group"); group != "" {
		for key := range strings.SplitSeq(group, ",") {
			q.Group = append(q.Group, agent.UsageKey(strings.TrimSpace(key)))
		}
	}
	if q.Since, err = moment(values, "since"); err != nil {
		return err
	}
	if q.Until, err = moment(values, "until"); err != nil {
		return err
	}
	if text := values.Get("limit"); text != "" {
		if q.PageSize, err = strconv.Atoi(text); err != nil || q.PageSize < 0 {
			return agent.Invalid("limit", "want 1 to %d, got %.40q", agent.MaxUsageRows, text)
		}
	}
	now := time.Now()
	q.Fill(now)
	if err := q.Validate(now); err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(r.Context(), v.Limits().CallTimeout)
	defer stop()
	page, err := d.ledger.Usage(ctx, q)
	if err != nil {
		return err
	}
	page.Group, page.Rows = orEmpty(page.Group), orEmpty(page.Rows)
	v.WriteJSON(w, http.StatusOK, page)
	return nil
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// tenantOf is whose usage is told: the credential's tenant, the one that the request names where the credential is of every tenant, or all.
func tenantOf(r *http.Request, v *gateway.Visit, values url.Values) string {
	p := v.Principal()
	if p.Tenant == agent.AnyTenant && cmp.Or(r.Header.Get(tenantHeader), values.Get(tenantParam)) == "" {
		return agent.AnyTenant
	}
	return v.Tenant()
}

// Where a request names its tenant; the gateway reads it.
const (
	tenantHeader = "Turnstone-Tenant"
	tenantParam  = "tenant"
)

// parameters reads the query strictly: one that is unknown, given twice or too long is a fault.
func parameters(r *http.Request) (url.Values, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, agent.Invalid("", "malformed query: %w", err)
	}
	allowed := []string{
		tenantParam, "group", "since", "until", "user", "agent", "model", "channel", "session", "turn", "limit", "page_token",
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		most := maxText
		if name == "page_token" {
			most = maxToken
		}
		switch given := values[name]; {
		case !slices.Contains(allowed, name):
			return nil, agent.Invalid(fmt.Sprintf("%.100s", name), "is no parameter of this path")
		case len(given) > 1:
			return nil, agent.Invalid(name, "is given %d times", len(given))
		case len(given[0]) > most:
			return nil, agent.Invalid(name, "is %d bytes, at most %d", len(given[0]), most)
		case strings.ContainsRune(given[0], 0):
			return nil, agent.Invalid(name, "has a zero byte")
		}
	}
	return values, nil
}

// moment reads a time, or a day, which is midnight UTC.
func moment(values url.Values, name string) (time.Time, error) {
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
