package app

import (
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// Auth says who may call. Where nothing of it is configured whoever can connect may do everything; where anything is,
// whoever has no credential may do nothing.
type Auth struct {
	// Keys accepts API keys, which are made with starter keys create and kept hashed in the database. Default false.
	Keys bool `yaml:"keys" help:"accept API keys"`
	// OperatorKey is a key that may do everything, for every tenant: for the first steps, and for emergencies. At least 32 characters.
	// Default empty: there is none.
	OperatorKey Secret `yaml:"operator_key" help:"a key that may do everything; empty: none"`
	// Issuers are whose tokens are accepted as bearer tokens; only YAML can give them.
	Issuers []Issuer `yaml:"issuers" help:"OpenID Connect issuers whose tokens are accepted (YAML only)"`
	// Certificates are the clients that grpc.client_ca has signed, and who they are; only YAML can give them.
	Certificates []ClientCertificate `yaml:"certificates" help:"client certificates that are accepted (YAML only)"`
}

// On reports whether any authentication is configured.
func (a *Auth) On() bool {
	return a.Keys || a.OperatorKey != "" || len(a.Issuers) > 0 || len(a.Certificates) > 0
}

// Issuer is an OpenID Connect provider. What its tokens say is taken from claims, by dotted paths.
type Issuer struct {
	URL         string   `yaml:"url"`          // as in the claim iss; its keys are found by discovery
	JWKSURL     string   `yaml:"jwks_url"`     // where its keys are, for one without discovery
	Audiences   []string `yaml:"audiences"`    // one of which a token must be meant for; required
	Algorithms  []string `yaml:"algorithms"`   // of signatures; empty: RS256, ES256 and EdDSA
	Tenant      string   `yaml:"tenant"`       // of all tokens; or
	TenantClaim string   `yaml:"tenant_claim"` // the claim that names it
	UserClaim   string   `yaml:"user_claim"`   // empty: sub
	RoleClaim   string   `yaml:"role_claim"`   // empty: none
	FlagsClaim  string   `yaml:"flags_claim"`  // an object; empty: none
	ScopeClaim  string   `yaml:"scope_claim"`  // words in a text, or a list; empty: scope
	ScopePrefix string   `yaml:"scope_prefix"` // of the scopes in it that are meant for Turnstone, removed; empty: all are
	Scopes      []string `yaml:"scopes"`       // that every token has besides
}

// ClientCertificate says who the holder of a certificate is.
type ClientCertificate struct {
	Name   string   `yaml:"name"`   // a DNS name, URI or email address of the certificate, else its common name
	Tenant string   `yaml:"tenant"` // * : every tenant
	User   string   `yaml:"user"`
	Role   string   `yaml:"role"`
	Scopes []string `yaml:"scopes"`
}

// Limits bound what tenants, users and agents may have. Those of an agent's document (rate_limits) count besides.
type Limits struct {
	Tenant Bound `yaml:"tenant"` // of each tenant
	User   Bound `yaml:"user"`   // of each user of a tenant
	Agent  Bound `yaml:"agent"`  // of each agent within a tenant
	// Tenants are bounds of single ones, in place of Tenant and User; only YAML can give them.
	Tenants []TenantLimits `yaml:"tenants" help:"limits of single tenants (YAML only)"`
}

// Bound is as [agent.Bound].
type Bound struct {
	RequestsPerMinute int     `yaml:"requests_per_minute" help:"turns begun within a minute; 0: no bound"`
	ConcurrentTurns   int     `yaml:"concurrent_turns" help:"turns at once; 0: no bound"`
	TokensPerMinute   int64   `yaml:"tokens_per_minute" help:"tokens within a minute; 0: no bound"`
	DailyCostUSD      float64 `yaml:"daily_cost_usd" help:"budget of a day (UTC) in USD; 0: no bound"`
	MonthlyCostUSD    float64 `yaml:"monthly_cost_usd" help:"budget of a month (UTC) in USD; 0: no bound"`
	DailyTokens       int64   `yaml:"daily_tokens" help:"tokens of a day (UTC); 0: no bound"`
	MonthlyTokens     int64   `yaml:"monthly_tokens" help:"tokens of a month (UTC); 0: no bound"`
}

// Of is the bound as the runtime has it.
func (b Bound) Of() agent.Bound { return agent.Bound(b) }

// TenantLimits are the bounds of one tenant.
type TenantLimits struct {
	Name   string `yaml:"name"`
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
	// Token is the bot's. Default empty: no bot.
	Token Secret `yaml:"token" help:"token of the bot; empty: none"`
	// Updates is polling, or webhook where WebhookURL leads to this gateway. Default polling.
	Updates string `yaml:"updates" help:"polling or webhook"`
	// WebhookURL is the public https address of /channels/telegram. Default empty.
	WebhookURL string `yaml:"webhook_url" help:"public address of /channels/telegram"`
	// WebhookSecret is what Telegram sends along, 16 to 256 of A-Z a-z 0-9 _ -. Required with webhook.
	WebhookSecret Secret `yaml:"webhook_secret" help:"secret that Telegram sends along"`
	// APIURL is the Bot API. Default https://api.telegram.org.
	APIURL string `yaml:"api_url" help:"address of the Bot API"`
	// Tenant owns what is said in chats that are linked to nobody. Default "default".
	Tenant string `yaml:"tenant" help:"tenant of chats that are not linked"`
	// Agent answers. Default empty: routing decides.
	Agent string `yaml:"agent" help:"agent that answers; empty: routing decides"`
	// Unlinked chats may talk without being linked to a user. Default false: they are told how to be linked.
	Unlinked bool `yaml:"unlinked" help:"answer chats that are linked to no user"`
	// ApproverChat is a chat whose linked members decide about approvals besides those whom they concern. Default 0: none.
	ApproverChat int64 `yaml:"approver_chat" help:"chat whose linked members may decide about approvals; 0: none"`
	// CopyWebChat sends what POST /api/chat answers to the chats that the user has linked, too. Default true.
	CopyWebChat bool `yaml:"copy_web_chat" help:"send answers of POST /api/chat to the user's linked chats too"`
	// Approvals is wait, refuse, or names of tools that need no approval, with commas between them: other calls are refused then. Default wait.
	Approvals string `yaml:"approvals" help:"a call that needs an approval: wait, refuse, or a list of tools that need none"`
	// EditEvery is how often a message is edited while its answer grows. Default 1s.
	EditEvery time.Duration `yaml:"edit_every" help:"how often a growing answer is shown"`
}

// Console is the page in the browser that people talk to agents on.
type Console struct {
	// Enabled serves it at /. Default true.
	Enabled bool `yaml:"enabled" help:"serve the console at /"`
	// UIURL is Temporal's Web UI, which turns are linked to. Default empty: there are no links.
	UIURL string `yaml:"ui_url" help:"address of the Temporal Web UI for links; empty: none"`
}

// Schedules are agents that run by the clock.
type Schedules struct {
	// MaxPerTenant bounds how many there are. Default 100.
	MaxPerTenant int `yaml:"max_per_tenant" help:"schedules of one tenant"`
	// KeepRuns is how many finished runs of a schedule are remembered. Default 100.
	KeepRuns int `yaml:"keep_runs" help:"finished runs of a schedule that are remembered"`
}
