package agent

import "time"

// Bound limits what a tenant, a user or an agent may have at once and within a time; 0 means no bound of this kind.
type Bound struct {
	RequestsPerMinute int     `json:"requests_per_minute,omitempty" yaml:"requests_per_minute"`
	ConcurrentTurns   int     `json:"concurrent_turns,omitempty" yaml:"concurrent_turns"`
	TokensPerMinute   int64   `json:"tokens_per_minute,omitempty" yaml:"tokens_per_minute"`
	DailyCostUSD      float64 `json:"daily_cost_usd,omitempty" yaml:"daily_cost_usd"` // budgets are of calendar days and months in UTC
	MonthlyCostUSD    float64 `json:"monthly_cost_usd,omitempty" yaml:"monthly_cost_usd"`
	DailyTokens       int64   `json:"daily_tokens,omitempty" yaml:"daily_tokens"`
	MonthlyTokens     int64   `json:"monthly_tokens,omitempty" yaml:"monthly_tokens"`
}

// The kinds of those who are bound.
const (
	BoundTenant = "tenant"
	BoundUser   = "user"
	BoundAgent  = "agent"
)

// Admission asks to let a turn in. Bounds are counted over everything that was admitted, by every process (DESIGN §6).
type Admission struct {
	TurnID                 TurnID
	Tenant                 string
	UserID                 string // empty: nobody's own
	Agent                  string
	Tenants, Users, Agents Bound     // of the tenant, of the user within the tenant, of the agent within the tenant
	At                     time.Time // zero: now
}

// AdmissionRefused is why a turn was not let in. It travels in an [Error] of code [CodeRateLimited], whose RetryAfter says when the same
// request may be let in; where only the end of another turn helps, that is a guess.
type AdmissionRefused struct {
	Kind  string  // tenant, user or agent
	Name  string  // of whoever is bound
	Bound string  // the field of [Bound] in snake_case: requests_per_minute, daily_cost_usd, …
	Limit float64 // the bound
	Used  float64 // what is used of it
}
