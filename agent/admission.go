package agent

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Bound limits the turns, tokens and cost of a tenant, a user or an agent. A field that is 0 sets no bound.
type Bound struct {
	RequestsPerMinute int     `json:"requests_per_minute,omitempty" yaml:"requests_per_minute"`
	ConcurrentTurns   int     `json:"concurrent_turns,omitempty" yaml:"concurrent_turns"`
	TokensPerMinute   int64   `json:"tokens_per_minute,omitempty" yaml:"tokens_per_minute"`
	DailyCostUSD      float64 `json:"daily_cost_usd,omitempty" yaml:"daily_cost_usd"` // budgets are of calendar days and months in UTC
	MonthlyCostUSD    float64 `json:"monthly_cost_usd,omitempty" yaml:"monthly_cost_usd"`
	DailyTokens       int64   `json:"daily_tokens,omitempty" yaml:"daily_tokens"`
	MonthlyTokens     int64   `json:"monthly_tokens,omitempty" yaml:"monthly_tokens"`
}

// The kinds of subjects that a [Bound] applies to.
const (
	BoundTenant = "tenant"
	BoundUser   = "user"
	BoundAgent  = "agent"
)

// Admission is a request to admit a turn. Bounds count the turns that all processes have admitted.
type Admission struct {
	TurnID                 TurnID
	Tenant                 string
	UserID                 string // empty: the turn belongs to no user
	Agent                  string
	Tenants, Users, Agents Bound     // of the tenant, of the user within the tenant, of the agent within the tenant
	At                     time.Time // zero: now
}

// AdmissionRefused is the reason why a turn was not admitted. An [Error] with [CodeRateLimited] wraps it. RetryAfter of that error says when the
// same request may be admitted; it is an estimate if another turn has to end first.
type AdmissionRefused struct {
	Kind  string // tenant, user or agent
	Name  string // of the tenant, user or agent
	Bound string // the field of [Bound] in snake_case: requests_per_minute, daily_cost_usd, …
	Limit float64
	Used  float64
}

// The bounds by name: the fields of [Bound] in snake_case, in the order in which they are checked.
const (
	BoundRequestsPerMinute = "requests_per_minute"
	BoundConcurrentTurns   = "concurrent_turns"
	BoundTokensPerMinute   = "tokens_per_minute" //nolint:gosec // the name of a bound, no credential
	BoundDailyCost         = "daily_cost_usd"
	BoundMonthlyCost       = "monthly_cost_usd"
	BoundDailyTokens       = "daily_tokens"
	BoundMonthlyTokens     = "monthly_tokens"
)

// Error describes the refusal for the caller. It has no names or numbers of others.
func (r AdmissionRefused) Error() string {
	subject := fmt.Sprintf("%s %q", r.Kind, r.Name)
	used, limit := formatCount(r.Used), formatCount(r.Limit)
	budget := func(period, used, limit, unit string) string {
		return fmt.Sprintf("the budget of %s for %s is used up (%s of %s %s)", subject, period, used, limit, unit)
	}
	switch r.Bound {
	case BoundRequestsPerMinute:
		return fmt.Sprintf("%s has begun %s of %s turns within a minute", subject, used, limit)
	case BoundConcurrentTurns:
		return fmt.Sprintf("%s has %s of %s turns at once", subject, used, limit)
	case BoundTokensPerMinute:
		return fmt.Sprintf("%s has used %s of %s tokens within a minute", subject, used, limit)
	case BoundDailyCost:
		return budget("today", formatUSD(r.Used), formatUSD(r.Limit), "USD")
	case BoundMonthlyCost:
		return budget("this month", formatUSD(r.Used), formatUSD(r.Limit), "USD")
	case BoundDailyTokens:
		return budget("today", used, limit, "tokens")
	case BoundMonthlyTokens:
		return budget("this month", used, limit, "tokens")
	default:
		return fmt.Sprintf("%s is at its bound %s: %s of %s", subject, r.Bound, used, limit)
	}
}

func formatCount(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// formatUSD returns an amount with at least two and at most six decimals.
func formatUSD(usd float64) string {
	s := strconv.FormatFloat(usd, 'f', 6, 64)
	cents := strings.IndexByte(s, '.') + len(".00")
	return s[:cents] + strings.TrimRight(s[cents:], "0")
}

// Spending is what a tenant has used today and this month, in UTC.
type Spending struct {
	Tenant string    `json:"tenant"`
	At     time.Time `json:"at"`
	Today  Spent     `json:"today"`
	Month  Spent     `json:"month"` // including today
	// The users, agents and models with the highest cost of the month, at most [MaxSpenders] each; never nil.
	Users  []Spender `json:"users"`
	Agents []Spender `json:"agents"`
	Models []Spender `json:"models"`
}

// MaxSpenders bounds each list of a [Spending].
const MaxSpenders = 100

// Spender is the use of a user, an agent or a model.
type Spender struct {
	Name  string `json:"name"`
	Today Spent  `json:"today"`
	Month Spent  `json:"month"`
}

// Spent is the total use of several model calls.
type Spent struct {
	Calls        int64   `json:"calls"`
	InputTokens  int64   `json:"input_tokens"`
	OutputTokens int64   `json:"output_tokens"`
	CostUSD      float64 `json:"cost_usd"`
}
