package agent

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// UsageKey is a key by which a usage report can be grouped.
type UsageKey string

// The keys.
const (
	UsageDay     UsageKey = "day" // UTC
	UsageTenant  UsageKey = "tenant"
	UsageUser    UsageKey = "user"
	UsageAgent   UsageKey = "agent"
	UsageModel   UsageKey = "model"
	UsageSession UsageKey = "session"
	UsageTurn    UsageKey = "turn"
	UsageStep    UsageKey = "step"  // of a turn; 0 is its preparation
	UsageEpoch   UsageKey = "epoch" // of a step: the attempt; negative for calls of middleware
	UsageChannel UsageKey = "channel"
)

// UsageKeys returns all keys.
func UsageKeys() []UsageKey {
	return []UsageKey{UsageDay, UsageTenant, UsageUser, UsageAgent, UsageModel, UsageSession, UsageTurn, UsageStep, UsageEpoch, UsageChannel}
}

// Bounds of a report.
const (
	MaxUsageGroups = 5
	MaxUsageRows   = 10_000 // of a page
	UsageRows      = 1000   // default size of a page
	MaxUsageSpan   = 400 * 24 * time.Hour
	UsageSpan      = 30 * 24 * time.Hour // default span of a report
)

// UsageQuery is a request for a report of billed model calls.
type UsageQuery struct {
	Tenant    string     // exact; [AnyTenant]: all tenants
	Group     []UsageKey // the keys of the rows, which are sorted by them; empty: one row for all calls
	Since     time.Time  // zero: [UsageSpan] before Until
	Until     time.Time  // exclusive; zero: now
	UserID    string     // this and the following fields select calls; empty: all
	Agent     string
	Model     string // the provider's name
	Channel   string
	SessionID SessionID
	TurnID    TurnID
	PageSize  int // 0: [UsageRows]; at most [MaxUsageRows]
	PageToken string
}

// Fill sets defaults. The default of Since is a midnight in UTC, because a report of whole days is much cheaper.
func (q *UsageQuery) Fill(now time.Time) {
	if q.Since.IsZero() {
		q.Since = q.end(now).Add(-UsageSpan).UTC().Truncate(24 * time.Hour)
	}
	q.PageSize = cmp.Or(q.PageSize, UsageRows)
}

// end returns the end of the report.
func (q *UsageQuery) end(now time.Time) time.Time {
	if q.Until.IsZero() {
		return now
	}
	return q.Until
}

// Validate returns a [CodeInvalid] error whose Field is the invalid parameter. Call it after [UsageQuery.Fill].
func (q *UsageQuery) Validate(now time.Time) error {
	if len(q.Group) > MaxUsageGroups {
		return Invalid("group", "names %d keys, at most %d", len(q.Group), MaxUsageGroups)
	}
	for i, key := range q.Group {
		switch {
		case !slices.Contains(UsageKeys(), key):
			return Invalid("group", "has %.60q: want %s", key, joinKeys(UsageKeys()))
		case slices.Contains(q.Group[:i], key):
			return Invalid("group", "has %s twice", key)
		}
	}
	switch span := q.end(now).Sub(q.Since); {
	case span <= 0:
		return Invalid("since", "is not before the end")
	case span > MaxUsageSpan+24*time.Hour: // the last day may be incomplete
		return Invalid("since", "is %d days before the end, at most %d", int(span/(24*time.Hour)), MaxUsageSpan/(24*time.Hour))
	case q.PageSize < 1 || q.PageSize > MaxUsageRows:
		return Invalid("limit", "want 1 to %d, got %d", MaxUsageRows, q.PageSize)
	}
	return nil
}

func joinKeys(keys []UsageKey) string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = string(k)
	}
	return strings.Join(names, ", ")
}

// UsageSums is the total usage of several model calls. Rebilled is the part of calls that were repeated after an error, a timeout, or the death of a
// worker. Estimated is the part that no provider reported, because the request was interrupted. Unpriced are the calls of models without a price,
// which are not part of the cost.
type UsageSums struct {
	Calls           int64   `json:"calls"`
	InputTokens     int64   `json:"input_tokens"`
	OutputTokens    int64   `json:"output_tokens"`
	CachedTokens    int64   `json:"cached_tokens"`    // part of the input
	ReasoningTokens int64   `json:"reasoning_tokens"` // part of the output
	CostUSD         float64 `json:"cost_usd"`
	RebilledCalls   int64   `json:"rebilled_calls"`
	RebilledTokens  int64   `json:"rebilled_tokens"` // input and output
	RebilledCostUSD float64 `json:"rebilled_cost_usd"`
	EstimatedTokens int64   `json:"estimated_tokens"` // input and output
	UnpricedCalls   int64   `json:"unpriced_calls"`
}

// UsageRow is the usage of the calls with the same keys. Only keys that the report is grouped by are set. An empty key means calls without a value.
type UsageRow struct {
	Day     *string `json:"day,omitempty"` // 2026-11-22
	Tenant  *string `json:"tenant,omitempty"`
	User    *string `json:"user,omitempty"`
	Agent   *string `json:"agent,omitempty"`
	Model   *string `json:"model,omitempty"`
	Session *string `json:"session,omitempty"`
	Turn    *string `json:"turn,omitempty"`
	Step    *int64  `json:"step,omitempty"`
	Epoch   *int64  `json:"epoch,omitempty"`
	Channel *string `json:"channel,omitempty"`
	UsageSums
}

// UsagePage is a page of a report, sorted by the keys. The first page has Totals of all pages.
type UsagePage struct {
	Since  time.Time  `json:"since"`
	Until  time.Time  `json:"until"` // exclusive
	Group  []UsageKey `json:"group"`
	Rows   []UsageRow `json:"rows"`
	Totals *UsageSums `json:"totals,omitempty"`
	Next   string     `json:"next_page_token"` // empty on the last page
}
