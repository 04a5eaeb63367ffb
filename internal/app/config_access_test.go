package app_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/app"
)

// Who may call, and what they may have, is read whole; what is secret of it is shown to nobody.
func TestAccess(t *testing.T) {
	cfg, err := app.Load(sources(t, `
auth:
  keys: true
  operator_key: ${OPERATOR}
  issuers:
    - {url: https://login.example, audiences: [turnstone], tenant_claim: org.id, role_claim: role, scopes: ["turns.*"]}
  certificates:
    - {name: billing.example, tenant: acme, scopes: ["turns.run:analyst"]}
grpc: {tls_cert: cert.pem, tls_key: key.pem, client_ca: /etc/ca.pem}
limits:
  tenant: {concurrent_turns: 10, daily_cost_usd: 2.5}
  tenants:
    - {name: acme, tenant: {concurrent_turns: 50}, user: {requests_per_minute: 5}}
`, []string{"OPERATOR=" + strings.Repeat("hunter2.", 4)}))
	require.NoError(t, err)
	require.True(t, cfg.Auth.On())
	require.Equal(t, []app.Issuer{
		{URL: "https://login.example", Audiences: []string{"turnstone"}, TenantClaim: "org.id", RoleClaim: "role", Scopes: []string{"turns.*"}},
	}, cfg.Auth.Issuers)
	require.Equal(t, []app.ClientCertificate{{Name: "billing.example", Tenant: "acme", Scopes: []string{"turns.run:analyst"}}}, cfg.Auth.Certificates)
	require.Equal(t, app.Bound{ConcurrentTurns: 10, DailyCostUSD: 2.5}, cfg.Limits.Tenant)
	require.Equal(t, []app.TenantLimits{{Name: "acme", Tenant: app.Bound{ConcurrentTurns: 50}, User: app.Bound{RequestsPerMinute: 5}}}, cfg.Limits.Tenants)
	require.True(t, strings.HasSuffix(cfg.GRPC.TLSCert, "/cert.pem") && strings.HasPrefix(cfg.GRPC.TLSCert, "/"), "a path is one from the file's folder")
	require.Equal(t, "/etc/ca.pem", cfg.GRPC.ClientCA)
	var out bytes.Buffer
	require.NoError(t, cfg.Print(&out))
	require.NotContains(t, out.String(), "hunter2")
	require.Contains(t, out.String(), "login.example")
	require.False(t, new(app.Auth).On())
}

func TestFaultsOfAccess(t *testing.T) {
	for text, says := range map[string]string{
		"auth: {operator_key: short}":                                                                      "auth.operator_key",
		"auth: {issuers: [{url: 'https://x', audiences: [a]}]}":                                            "auth.issuers[0].tenant",
		"auth: {issuers: [{url: 'https://x', audiences: [a], tenant: t, tenant_claim: c}]}":                "auth.issuers[0].tenant",
		"auth: {issuers: [{url: 'https://x', tenant: t}]}":                                                 "auth.issuers[0].audiences",
		"auth: {issuers: [{audiences: [a], tenant: t}]}":                                                   "auth.issuers[0].url",
		"auth: {issuers: [{url: 'https://x', audiences: [a], tenant: t, algorithms: [none]}]}":             "auth.issuers[0].algorithms[0]",
		"auth: {issuers: [{url: 'https://x', audiences: [a], tenant: t, algorithms: [HS256]}]}":            "auth.issuers[0].algorithms[0]",
		"auth: {issuers: [{url: 'https://x', audiences: [a], tenant: t, scopes: [turn.run]}]}":             "auth.issuers[0].scopes[0]",
		"auth: {certificates: [{name: x, tenant: t}]}":                                                     "auth.certificates",
		"auth: {certificates: [{name: x, tenant: 'a b'}]}":                                                 "auth.certificates[0].tenant",
		"auth: {certificates: [{tenant: t}]}":                                                              "auth.certificates[0].name",
		"http: {tls_cert: a}":                                                                              "http.tls_cert",
		"grpc: {client_ca: a}":                                                                             "grpc.tls_cert",
		"limits: {tenant: {concurrent_turns: -1}}":                                                         "limits.tenant.concurrent_turns",
		"limits: {user: {daily_cost_usd: -0.5}}":                                                           "limits.user.daily_cost_usd",
		"limits: {tenants: [{name: a}, {name: a}]}":                                                        "limits.tenants[1].name",
		"limits: {tenants: [{name: '*'}]}":                                                                 "limits.tenants[0].name",
		"gateway: {direct_channels: ['a b']}":                                                              "gateway.direct_channels[0]",
		"telegram: {token: x, updates: push}":                                                              "telegram.updates",
		"telegram: {token: x, updates: webhook, webhook_secret: 0123456789abcdef}":                         "telegram.webhook_url",
		"telegram: {token: x, updates: webhook, webhook_url: 'https://x/channels/telegram'}":               "telegram.webhook_secret",
		"telegram: {token: x, edit_every: 1ms}":                                                            "telegram.edit_every",
		"telegram: {token: x, api_url: 'ftp://x'}":                                                         "telegram.api_url",
		"schedules: {max_per_tenant: 0}":                                                                   "schedules.max_per_tenant",
		"limits: {tenants: [{name: a, tenant: {tokens_per_minute: x}}]}":                                   "want a whole number",
		"auth: {issuers: [{url: 'https://x', audiences: [a], tenant: t, jwks_url: 'file:///etc/passwd'}]}": "auth.issuers[0].jwks_url",
	} {
		_, err := app.Load(sources(t, text, nil))
		require.ErrorContains(t, err, says, text)
	}
}

func TestLocalURL(t *testing.T) {
	for addr, want := range map[string]string{
		":8080": "http://127.0.0.1:8080", "0.0.0.0:1": "http://127.0.0.1:1", "[::]:1": "http://127.0.0.1:1", "[fd00::7]:1": "http://[fd00::7]:1",
		"host:1": "http://host:1",
	} {
		require.Equal(t, want, (&app.HTTP{Addr: addr}).LocalURL())
	}
	require.Equal(t, "https://host:1", (&app.HTTP{Addr: "host:1", TLSCert: "cert.pem"}).LocalURL())
}
