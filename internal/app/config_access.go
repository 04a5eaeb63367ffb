package app

import (
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// Auth says who may call. If nothing is configured, everybody who can connect may do everything. Else a caller without a credential may do
// nothing.
type Auth struct {
	// Keys are made with starter keys create and kept hashed in the database.
	Keys bool `yaml:"keys" help:"accept API keys"`
	// OperatorKey is for the first steps and for emergencies. It has at least 32 characters.
	OperatorKey Secret   `yaml:"operator_key" check:"key" help:"a key that may do everything; empty: none"`
	Issuers     []Issuer `yaml:"issuers" help:"OpenID Connect issuers whose tokens are accepted (YAML only)"`
	// Certificates are those of clients that grpc.client_ca has signed.
	Certificates []ClientCertificate `yaml:"certificates" help:"client certificates that are accepted (YAML only)"`
}

// On reports whether any authentication is configured.
func (a *Auth) On() bool {
	return a.Keys || a.OperatorKey != "" || len(a.Issuers) > 0 || len(a.Certificates) > 0
}

// Issuer is an OpenID Connect provider. Claims are named by dotted paths.
type Issuer struct {
	URL         string   `yaml:"url" check:"required,url"` // as in the claim iss; its keys are found by discovery
	JWKSURL     string   `yaml:"jwks_url" check:"url"`     // where its keys are, for one without discovery
	Audiences   []string `yaml:"audiences"`                // one of which a token must be meant for; required
	Algorithms  []string `yaml:"algorithms"`               // of signatures; empty: RS256, ES256 and EdDSA
	Tenant      string   `yaml:"tenant"`                   // of all tokens; or
	TenantClaim string   `yaml:"tenant_claim"`             // the claim that names it
	UserClaim   string   `yaml:"user_claim"`               // empty: sub
	RoleClaim   string   `yaml:"role_claim"`               // empty: none
	FlagsClaim  string   `yaml:"flags_claim"`              // an object; empty: none
	ScopeClaim  string   `yaml:"scope_claim"`              // words in a text, or a list; empty: scope
	ScopePrefix string   `yaml:"scope_prefix"`             // of the scopes in it that are meant for Turnstone, removed; empty: all are
	Scopes      []string `yaml:"scopes"`                   // that every token has besides
}

// ClientCertificate says who the holder of a certificate is.
type ClientCertificate struct {
	Name   string   `yaml:"name" check:"required"` // a DNS name, URI or email address of the certificate, else its common name
	Tenant string   `yaml:"tenant"`                // * : every tenant
	User   string   `yaml:"user"`
	Role   string   `yaml:"role"`
	Scopes []string `yaml:"scopes"`
}

// Limits bound what tenants, users and agents may have. The limits in an agent's document (rate_limits) apply as well.
type Limits struct {
	Tenant Bound `yaml:"tenant"` // of each tenant
	User   Bound `yaml:"user"`   // of each user of a tenant
	Agent  Bound `yaml:"agent"`  // of each agent within a tenant
	// Tenants are bounds of single ones, in place of Tenant and User.
	Tenants []TenantLimits `yaml:"tenants" help:"limits of single tenants (YAML only)"`
}

// Bound is as [agent.Bound].
type Bound struct {
	RequestsPerMinute int     `yaml:"requests_per_minute" range:"0..1000000" help:"turns begun within a minute; 0: no bound"`
	ConcurrentTurns   int     `yaml:"concurrent_turns" range:"0..1000000" help:"turns at once; 0: no bound"`
	TokensPerMinute   int64   `yaml:"tokens_per_minute" range:"0..1000000000000000" help:"tokens within a minute; 0: no bound"`
	DailyCostUSD      float64 `yaml:"daily_cost_usd" range:"0..1e9" help:"budget of a day (UTC) in USD; 0: no bound"`
	MonthlyCostUSD    float64 `yaml:"monthly_cost_usd" range:"0..1e9" help:"budget of a month (UTC) in USD; 0: no bound"`
	DailyTokens       int64   `yaml:"daily_tokens" range:"0..1000000000000000" help:"tokens of a day (UTC); 0: no bound"`
	MonthlyTokens     int64   `yaml:"monthly_tokens" range:"0..1000000000000000" help:"tokens of a month (UTC); 0: no bound"`
}

// Of returns the bound for the runtime.
func (b Bound) Of() agent.Bound { return agent.Bound(b) }

// TenantLimits are the bounds of one tenant.
type TenantLimits struct {
	Name   string `yaml:"name" check:"name"`
	Tenant Bound  `yaml:"tenant"`
	User   Bound  `yaml:"user"`
}

// How updates of a Telegram bot arrive.
const (
	TelegramPolling = "polling"
	TelegramWebhook = "webhook"
)

// Telegram is the bot that people talk to.
type Telegram struct {
	Token      Secret `yaml:"token" help:"token of the bot; empty: none"`
	Updates    string `yaml:"updates" default:"polling" help:"polling or webhook"`
	WebhookURL string `yaml:"webhook_url" help:"public address of /channels/telegram"`
	// WebhookSecret is 16 to 256 of A-Z a-z 0-9 _ -. It is required with webhook.
	WebhookSecret Secret `yaml:"webhook_secret" help:"secret that Telegram sends along"`
	APIURL        string `yaml:"api_url" default:"https://api.telegram.org" help:"address of the Bot API"`
	Tenant        string `yaml:"tenant" default:"default" help:"tenant of chats that are not linked"`
	Agent         string `yaml:"agent" help:"agent that answers; empty: routing decides"`
	// Unlinked: without it, chats that are linked to no user are told how to be linked.
	Unlinked bool `yaml:"unlinked" help:"answer chats that are linked to no user"`
	// ApproverChat: its linked members decide besides those whom the approvals concern.
	ApproverChat int64 `yaml:"approver_chat" help:"chat whose linked members may decide about approvals; 0: none"`
	CopyWebChat  bool  `yaml:"copy_web_chat" default:"true" help:"send answers of POST /api/chat to the user's linked chats too"`
	// Approvals may be names of tools, with commas between them. Calls of other tools are refused then.
	Approvals string        `yaml:"approvals" default:"wait" help:"a call that needs an approval: wait, refuse, or a list of tools that need none"`
	EditEvery time.Duration `yaml:"edit_every" default:"1s" help:"how often a growing answer is shown"`
}

// Console is the web page on which people talk to agents.
type Console struct {
	Enabled bool   `yaml:"enabled" default:"true" help:"serve the console at /"`
	UIURL   string `yaml:"ui_url" check:"url" help:"address of the Temporal Web UI for links; empty: none"`
}

// Schedules are agents that run by the clock.
type Schedules struct {
	MaxPerTenant int `yaml:"max_per_tenant" default:"100" range:"1..100000" help:"schedules of one tenant"`
	KeepRuns     int `yaml:"keep_runs" default:"100" range:"1..100000" help:"finished runs of a schedule that are remembered"`
}
