package app

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/access"
)

// Bounds of the lists that only YAML can give.
const (
	maxIssuers      = 32
	maxCertificates = 1000
	maxTenantLimits = 10_000
)

// minOperatorKey is the smallest length of an operator key, so that nobody can guess it.
const minOperatorKey = 32

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

func (l *loader) checkAccess() {
	cfg := l.cfg
	a := &cfg.Auth
	if key := a.OperatorKey.Reveal(); key != "" && len(key) < minOperatorKey {
		l.addFault("auth.operator_key", "has %d characters, want at least %d", len(key), minOperatorKey)
	}
	l.checkCount("auth.issuers", len(a.Issuers), maxIssuers)
	for i := range a.Issuers {
		l.checkIssuer(fmt.Sprintf("auth.issuers[%d]", i), &a.Issuers[i])
	}
	l.checkCount("auth.certificates", len(a.Certificates), maxCertificates)
	if len(a.Certificates) > 0 && cfg.GRPC.ClientCA == "" {
		l.addFault("auth.certificates", "need grpc.client_ca, the authority that signs them")
	}
	for i := range a.Certificates {
		c, path := &a.Certificates[i], fmt.Sprintf("auth.certificates[%d]", i)
		l.checkTenant(path+".tenant", c.Tenant)
		l.checkScopes(path+".scopes", c.Scopes)
	}
	l.checkKeyPair("http", cfg.HTTP.TLSCert, cfg.HTTP.TLSKey)
	l.checkKeyPair("grpc", cfg.GRPC.TLSCert, cfg.GRPC.TLSKey)
	if cfg.GRPC.ClientCA != "" {
		l.checkText("grpc.tls_cert", "required", cfg.GRPC.TLSCert)
	}
}

func (l *loader) checkIssuer(path string, issuer *Issuer) {
	if len(issuer.Audiences) == 0 {
		l.addFault(path+".audiences", "is required: the audiences that a token may be issued for")
	}
	algorithms := []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
	each(path+".algorithms", issuer.Algorithms, func(path, name string) {
		if !slices.Contains(algorithms, name) {
			l.addFault(path, "want one of %s, got %q", strings.Join(algorithms, ", "), name)
		}
	})
	switch {
	case (issuer.Tenant == "") == (issuer.TenantClaim == ""):
		l.addFault(path+".tenant", "want either tenant or tenant_claim")
	case issuer.Tenant != "":
		l.checkTenant(path+".tenant", issuer.Tenant)
	}
	l.checkScopes(path+".scopes", issuer.Scopes)
}

// checkCount checks the length of a list.
func (l *loader) checkCount(path string, n, limit int) {
	if n > limit {
		l.addFault(path, "has %d entries, at most %d are allowed", n, limit)
	}
}

// checkKeyPair requires both files of a server's TLS, or neither.
func (l *loader) checkKeyPair(door, cert, key string) {
	if (cert == "") != (key == "") {
		l.addFault(door+".tls_cert", "want %s.tls_cert and %s.tls_key together, or neither", door, door)
	}
}

func (l *loader) checkTenant(path, name string) {
	if name != agent.AnyTenant && !agent.ValidName(name) {
		l.addFault(path, "want 1 to 128 of A-Z a-z 0-9 . _ -, or *")
	}
}

func (l *loader) checkScopes(path string, scopes []string) {
	each(path, scopes, func(path, scope string) {
		if !access.ValidScope(scope) {
			l.addFault(path, "%q is no scope (docs/guides/auth.md)", scope)
		}
	})
}

func (l *loader) checkLimits() {
	tenants := l.cfg.Limits.Tenants
	l.checkCount("limits.tenants", len(tenants), maxTenantLimits)
	seen := map[string]bool{}
	for i := range tenants {
		l.checkUnique(fmt.Sprintf("limits.tenants[%d].name", i), tenants[i].Name, seen, "%q is there twice")
	}
}
