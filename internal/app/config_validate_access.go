package app

import (
	"fmt"
	"net/url"
	"regexp"
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
	// minOperatorKey is so long that nobody guesses it.
	minOperatorKey = 32
)

var webhookSecret = regexp.MustCompile(`^[A-Za-z0-9_-]{16,256}$`)

func (l *loader) access() {
	a := &l.cfg.Auth
	if key := a.OperatorKey.Reveal(); key != "" && len(key) < minOperatorKey {
		l.fault("auth.operator_key", "has %d characters, want at least %d", len(key), minOperatorKey)
	}
	if strings.ContainsFunc(a.OperatorKey.Reveal(), func(r rune) bool { return r <= ' ' || r > '~' }) {
		l.fault("auth.operator_key", "holds a space, a line break or a character outside ASCII")
	}
	l.most("auth.issuers", len(a.Issuers), maxIssuers)
	for i := range a.Issuers {
		l.issuer(fmt.Sprintf("auth.issuers[%d]", i), &a.Issuers[i])
	}
	l.most("auth.certificates", len(a.Certificates), maxCertificates)
	if len(a.Certificates) > 0 && l.cfg.GRPC.ClientCA == "" {
		l.fault("auth.certificates", "need grpc.client_ca, which signs them")
	}
	for i := range a.Certificates {
		c, path := &a.Certificates[i], fmt.Sprintf("auth.certificates[%d]", i)
		l.required(path+".name", c.Name)
		l.tenant(path+".tenant", c.Tenant)
		l.scopes(path+".scopes", c.Scopes)
	}
	l.pair("http.tls_cert", l.cfg.HTTP.TLSCert, "http.tls_key", l.cfg.HTTP.TLSKey)
	l.pair("grpc.tls_cert", l.cfg.GRPC.TLSCert, "grpc.tls_key", l.cfg.GRPC.TLSKey)
	if l.cfg.GRPC.ClientCA != "" {
		l.required("grpc.tls_cert", l.cfg.GRPC.TLSCert)
	}
}

func (l *loader) issuer(path string, i *Issuer) {
	l.webAddress(path+".url", i.URL)
	l.required(path+".url", i.URL)
	l.webAddress(path+".jwks_url", i.JWKSURL)
	if len(i.Audiences) == 0 {
		l.fault(path+".audiences", "is required: whom a token must be meant for")
	}
	for j, name := range i.Algorithms {
		known := []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
		if !slices.Contains(known, name) {
			l.fault(fmt.Sprintf("%s.algorithms[%d]", path, j), "want one of %s, got %q", strings.Join(known, ", "), name)
		}
	}
	switch {
	case (i.Tenant == "") == (i.TenantClaim == ""):
		l.fault(path+".tenant", "want either tenant or tenant_claim")
	case i.Tenant != "":
		l.tenant(path+".tenant", i.Tenant)
	}
	l.scopes(path+".scopes", i.Scopes)
}

func (l *loader) most(path string, n, most int) {
	if n > most {
		l.fault(path, "are %d, at most %d", n, most)
	}
}

// pair wants two settings together, or neither.
func (l *loader) pair(path, value, otherPath, other string) {
	if (value == "") != (other == "") {
		l.fault(path, "want %s and %s together, or neither", path, otherPath)
	}
}

func (l *loader) tenant(path, name string) {
	if name != agent.AnyTenant && !agent.ValidName(name) {
		l.fault(path, "want 1 to 128 of A-Z a-z 0-9 . _ -, or *")
	}
}

func (l *loader) scopes(path string, scopes []string) {
	for i, s := range scopes {
		if !access.ValidScope(s) {
			l.fault(fmt.Sprintf("%s[%d]", path, i), "%q allows nothing that there is", s)
		}
	}
}

func (l *loader) limits() {
	set := &l.cfg.Limits
	l.bound("limits.tenant", set.Tenant)
	l.bound("limits.user", set.User)
	l.bound("limits.agent", set.Agent)
	l.most("limits.tenants", len(set.Tenants), maxTenantLimits)
	seen := map[string]bool{}
	for i := range set.Tenants {
		t, path := &set.Tenants[i], fmt.Sprintf("limits.tenants[%d]", i)
		switch {
		case !agent.ValidName(t.Name):
			l.fault(path+".name", "want 1 to 128 of A-Z a-z 0-9 . _ -")
		case seen[t.Name]:
			l.fault(path+".name", "%q is there twice", t.Name)
		}
		seen[t.Name] = true
		l.bound(path+".tenant", t.Tenant)
		l.bound(path+".user", t.User)
	}
}

func (l *loader) bound(path string, b Bound) {
	between(l, path+".requests_per_minute", b.RequestsPerMinute, 0, 1_000_000)
	between(l, path+".concurrent_turns", b.ConcurrentTurns, 0, 1_000_000)
	between(l, path+".tokens_per_minute", b.TokensPerMinute, 0, 1e15)
	between(l, path+".daily_cost_usd", b.DailyCostUSD, 0, 1e9)
	between(l, path+".monthly_cost_usd", b.MonthlyCostUSD, 0, 1e9)
	between(l, path+".daily_tokens", b.DailyTokens, 0, 1e15)
	between(l, path+".monthly_tokens", b.MonthlyTokens, 0, 1e15)
}

func (l *loader) channels() {
	for i, c := range l.cfg.Gateway.DirectChannels {
		if !agent.ValidName(c) {
			l.fault(fmt.Sprintf("gateway.direct_channels[%d]", i), "want the name of a channel: http, grpc, ws, openai, chat, telegram, …")
		}
	}
	between(l, "gateway.audit_keep", l.cfg.Gateway.AuditKeep, 0, 100*365*24*time.Hour)
	between(l, "schedules.max_per_tenant", l.cfg.Schedules.MaxPerTenant, 1, 100_000)
	between(l, "schedules.keep_runs", l.cfg.Schedules.KeepRuns, 1, 100_000)
	l.webAddress("console.ui_url", l.cfg.Console.UIURL)
	t := &l.cfg.Telegram
	if t.Token == "" {
		return
	}
	if l.oneOf("telegram.updates", t.Updates, TelegramPolling, TelegramWebhook) && t.Updates == TelegramWebhook {
		if u, err := url.Parse(t.WebhookURL); err != nil || u.Scheme != "https" || u.Host == "" {
			l.fault("telegram.webhook_url", "want the public https address that leads to /channels/telegram")
		}
		if !webhookSecret.MatchString(t.WebhookSecret.Reveal()) {
			l.fault("telegram.webhook_secret", "want 16 to 256 of A-Z a-z 0-9 _ -")
		}
	}
	l.required("telegram.api_url", t.APIURL)
	l.webAddress("telegram.api_url", t.APIURL)
	if !agent.ValidName(t.Tenant) {
		l.fault("telegram.tenant", "want 1 to 128 of A-Z a-z 0-9 . _ -")
	}
	if t.Agent != "" && !agent.ValidName(t.Agent) {
		l.fault("telegram.agent", "want 1 to 128 of A-Z a-z 0-9 . _ -")
	}
	l.approvals("telegram.approvals", t.Approvals)
	between(l, "telegram.edit_every", t.EditEvery, 100*time.Millisecond, time.Minute)
}
