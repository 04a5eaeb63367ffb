package cli

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/access"
	"github.com/turnstone-run/turnstone/internal/access/accesstest"
	"github.com/turnstone-run/turnstone/internal/access/credentials"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

// keyring is a [gateway.Keys] with fixed keys.
type keyring struct {
	made  []agent.KeyRequest
	calls []string
}

var _ gateway.Keys = (*keyring)(nil)

func (k *keyring) newKey(id string, r agent.KeyRequest) agent.NewKey {
	n := agent.NewKey{Key: "the-" + "key-itself", APIKey: agent.APIKey{
		ID: id, Tenant: r.Tenant, Name: r.Name, Subject: r.Subject, Role: r.Role, Scopes: r.Scopes, CreatedAt: gatewaytest.Epoch(), CreatedBy: "ops",
	}}
	if r.ExpiresIn > 0 {
		n.ExpiresAt = new(gatewaytest.Epoch().Add(r.ExpiresIn))
	}
	return n
}

func (k *keyring) CreateKey(_ context.Context, _ agent.Principal, r agent.KeyRequest) (agent.NewKey, error) {
	k.made = append(k.made, r)
	if r.Name == "greedy" {
		return agent.NewKey{}, agent.FieldErrorf(agent.CodeDenied, "scopes", "%q is more than you may do yourself", r.Scopes[0])
	}
	return k.newKey("aaaaaaaaaaaaaaaa", r), nil
}

func (k *keyring) RotateKey(_ context.Context, _ agent.Principal, id string, overlap time.Duration) (agent.NewKey, error) {
	k.calls = append(k.calls, "rotate "+id+" "+overlap.String())
	if id == "unknown" {
		return agent.NewKey{}, agent.Errorf(agent.CodeNotFound, "", "there is no key %q", id)
	}
	return k.newKey("cccccccccccccccc", agent.KeyRequest{Tenant: "acme", Name: "bot"}), nil
}

func (k *keyring) RevokeKey(_ context.Context, _ agent.Principal, id string) (agent.APIKey, error) {
	k.calls = append(k.calls, "revoke "+id)
	return agent.APIKey{ID: id, Tenant: "acme", RevokedAt: new(gatewaytest.Epoch())}, nil
}

func (k *keyring) ListKeys(_ context.Context, tenant, after string, limit int) ([]agent.APIKey, error) {
	k.calls = append(k.calls, "list "+tenant)
	at := gatewaytest.Epoch()
	var found []agent.APIKey
	for _, one := range []agent.APIKey{
		{ID: "aaaaaaaaaaaaaaaa", Tenant: "acme", Name: "bot\x1b[2J", Subject: "ann", Scopes: []string{"turns.*", "results.read"}, LastUsedAt: &at},
		{ID: "bbbbbbbbbbbbbbbb", Tenant: "acme", Name: "old", Scopes: []string{"*"}, RevokedAt: &at},
		{ID: "cccccccccccccccc", Tenant: "zoo", Name: "next", Scopes: []string{"*"}, ExpiresAt: &at, ReplacedBy: "dddddddddddddddd"},
		{ID: "dddddddddddddddd", Tenant: agent.AnyTenant, Name: "ops", Scopes: []string{"*"}, ExpiresAt: &at},
	} {
		if one.ID > after && len(found) < limit && (tenant == agent.AnyTenant || one.Tenant == tenant) {
			found = append(found, one)
		}
	}
	return found, nil
}

// Credentials of the tests. They are joined from two parts so that a secret scanner does not find them.
const (
	operators = "operators-" + "own"
	anns      = "anns-" + "own"
)

// withAuth is a bench whose gateway requires credentials, with API keys and an audit trail.
func withAuth(t *testing.T) (*bench, *keyring, *gatewaytest.Trail) {
	t.Helper()
	ring, trail := &keyring{}, &gatewaytest.Trail{}
	b := setupWith(t, func(cfg *gateway.Config) {
		cfg.Keys, cfg.Audit = ring, trail
		cfg.Auth = gatewaytest.Credentials{
			operators: {Method: agent.MethodKey, Tenant: agent.AnyTenant, Scopes: []string{"*"}, Credential: access.OperatorCredential},
			anns:      gatewaytest.Caller("acme", "ann", "turns.*", "agents.read"),
		}
	})
	b.key = operators
	return b, ring, trail
}

func TestKeys(t *testing.T) {
	b, ring, _ := withAuth(t)
	b.steps("keys",
		line(0, "create", "bot", "--tenant", "acme", "--subject", "ann", "--role", "trader", "--scope", "turns.run:analyst", "--scope", "turns.read"),
		line(0, "create", "ops", "--tenant", "*", "--scope", "*", "--expires", "720h"),
		line(exitUsage, "create", "greedy", "--scope", "*"),
		line(exitUsage, "create", "late", "--expires", "-1h"),
		line(0, "list"),
		line(0, "list", "--tenant", "acme"),
		line(0, "list", "--tenant", "*", "--limit", "1"),
		line(0, "rotate", "aaaaaaaaaaaaaaaa", "--overlap", "1h"),
		line(0, "rotate", "aaaaaaaaaaaaaaaa", "--overlap", "0s"),
		line(0, "rotate", "aaaaaaaaaaaaaaaa"),
		line(exitUsage, "rotate", "unknown"),
		line(exitUsage, "rotate", "a/b/c", "--overlap", "-1s"),
		line(0, "revoke", "aaaaaaaaaaaaaaaa"),
	)
	golden(t, "keys", b.screen.String())
	require.Equal(t, agent.KeyRequest{
		Name: "bot", Tenant: "acme", Subject: "ann", Role: "trader", Scopes: []string{"turns.run:analyst", "turns.read"},
	}, ring.made[0])
	require.Equal(t, agent.KeyRequest{Name: "ops", Tenant: agent.AnyTenant, Scopes: []string{"*"}, ExpiresIn: 720 * time.Hour}, ring.made[1])
	require.Equal(t, []string{
		"list *", "list acme", "list *", "rotate aaaaaaaaaaaaaaaa 1h0m0s", "rotate aaaaaaaaaaaaaaaa 0s", "rotate aaaaaaaaaaaaaaaa 24h0m0s",
		"rotate unknown 24h0m0s", "revoke aaaaaaaaaaaaaaaa",
	}, ring.calls)

	b.show(0, "keys", "create", "laptop")
	require.Equal(t, "the-key-itself\n", b.screen.out(), "standard output has only the key, so that a shell can capture it")
	made := answer[agent.NewKey](b, "keys", "create", "laptop")
	require.Equal(t, "the-key-itself", made.Key)
}

// A key that keys create made is valid until it is revoked.
func TestCreatedKeyIsValid(t *testing.T) {
	ring, err := credentials.NewKeys(credentials.KeysConfig{Store: &accesstest.KeyStore{}})
	require.NoError(t, err)
	joined, err := access.New(access.Config{Keys: ring, OperatorKey: operators})
	require.NoError(t, err)
	b := setupWith(t, func(cfg *gateway.Config) { cfg.Auth, cfg.Keys = joined, ring })
	b.key = operators
	made := answer[agent.NewKey](b, "keys", "create", "laptop", "--tenant", "acme")

	file := writeFile(t, "\n  "+made.Key+"\n", t.TempDir(), "key")
	b.key, b.screen = "not-"+"good", &terminal{}
	b.rt.Script = says("hello")
	require.Equal(t, 0, b.run(noInput(), "chat", "x", "--key-file", file), "the file overrides the environment: %s", b.screen)
	require.Equal(t, "acme", b.rt.Submitted()[0].Principal.Tenant)
	require.Equal(t, 0, b.run(noInput(), "tail", "turn-1", "--key-file", file), "streams send the key, too")

	b.key = operators
	b.show(0, "keys", "revoke", made.ID)
	require.Contains(t, b.show(exitUsage, "whoami", "--key-file", file), "The credential of --key-file is not valid on this server")
	require.NotContains(t, b.screen.String(), made.Key)
}

func TestInvalidCredentials(t *testing.T) {
	b, _, _ := withAuth(t)
	folder := t.TempDir()
	secret := "hunter" + "2"
	for name, c := range map[string]struct {
		key, args, says string
	}{
		"none":            {"", "whoami", "Give a credential: TURNSTONE_KEY or --key-file; starter keys create makes one."},
		"a wrong one":     {secret, "agents", "The credential of TURNSTONE_KEY is not valid on this server, or has expired"},
		"not allowed":     {anns, "audit", "does not allow audit.read"},
		"another tenant":  {anns, "agents --tenant zoo", "the credential is of tenant"},
		"no file":         {anns, "whoami --key-file " + filepath.Join(folder, "nope"), "--key-file: open"},
		"an empty file":   {anns, "whoami --key-file " + writeFile(t, " \n", folder, "empty"), "is empty"},
		"no text":         {anns, "whoami --key-file " + writeFile(t, secret+"\n"+secret, folder, "two"), "holds a space"},
		"something large": {anns, "whoami --key-file " + writeFile(t, strings.Repeat("x", maxKeyFile+1), folder, "large"), "is no file with a key"},
	} {
		b.key = c.key
		require.Contains(t, b.show(exitUsage, strings.Fields(c.args)...), c.says, name)
		require.NotContains(t, b.screen.String(), secret, name)
	}
	b.rt.Refuse = func(agent.Envelope) error {
		return &agent.Error{Code: agent.CodeRateLimited, RetryAfter: 42 * time.Second, Err: agent.AdmissionRefused{Kind: "user", Name: "ann", Bound: agent.BoundDailyCost, Limit: 1, Used: 1}}
	}
	b.key = anns
	require.Contains(t, b.show(exitUnreachable, "start", "x"), "Try again in 42s.")
}

// A redirect to another server does not send the credential there.
func TestRedirectGetsNoCredential(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("asked with %q", r.Header.Get("Authorization")) }))
	t.Cleanup(elsewhere.Close)
	away := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	t.Cleanup(away.Close)
	b, _, _ := withAuth(t)
	require.NotZero(t, b.run(noInput(), "--server", away.URL, "whoami"))
	require.NotContains(t, b.screen.String(), operators)
}

func TestWhoamiAndAudit(t *testing.T) {
	b, _, trail := withAuth(t)
	for _, r := range []agent.AuditRecord{
		{Tenant: "acme", Subject: "ann", Action: agent.ActionTurnsRun, Resource: "turn/t1", Outcome: agent.AuditAllowed, Credential: "key/k1", Channel: "http", Detail: json.RawMessage(`{"mode":"direct"}`)},
		{Tenant: "zoo", Action: agent.ActionKeysWrite, Resource: "key/\x1b[2Jx", Outcome: agent.AuditDenied},
	} {
		r.At = gatewaytest.Epoch()
		trail.Record(r)
	}
	b.steps("",
		line(0, "whoami"),
		line(0, "audit"),
		line(0, "audit", "--tenant", "*", "--limit", "1"),
		line(0, "audit", "--tenant", "acme", "--outcome", "allowed"),
		line(exitUsage, "audit", "--outcome", "odd"),
		line(exitUsage, "audit", "--limit", "0"),
		line(exitUsage, "audit", "--since", "-1h"),
	)
	b.key = anns
	b.steps("", line(0, "whoami"))
	golden(t, "whoami_audit", b.screen.String())

	open := setup(t)
	require.Equal(t, 0, open.run(noInput(), "whoami"))
	require.Contains(t, open.screen.out(), "no authentication is configured")
}

// An audit trail with more than one page is complete.
func TestAuditPages(t *testing.T) {
	b, _, trail := withAuth(t)
	for range auditPage + 20 {
		trail.Record(agent.AuditRecord{At: gatewaytest.Epoch(), Tenant: "acme", Action: agent.ActionTurnsRun, Outcome: agent.AuditAllowed})
	}
	for limit, want := range map[string]int{"1000": auditPage + 20, "510": 510, "3": 3} {
		records := answer[[]agent.AuditRecord](b, "audit", "--limit", limit)
		require.Len(t, records, want)
		require.EqualValues(t, auditPage+20, records[0].ID)
		require.EqualValues(t, auditPage+20-want+1, records[want-1].ID)
	}
}

// certificate returns a self-signed certificate for the loopback address, and its PEM file.
func certificate(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), 0o600))
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}, file
}

func TestTLS(t *testing.T) {
	cert, file := certificate(t)
	_, other := certificate(t)
	b := setupWith(t, func(cfg *gateway.Config) {
		cfg.HTTPTLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
		cfg.Auth = gatewaytest.Credentials{anns: gatewaytest.Caller("acme", "ann", "*")}
	})
	b.key = anns
	b.rt.Script = says("hello")
	require.Equal(t, 0, b.run(noInput(), "chat", "x", "--ca", file), b.screen.String())
	require.Equal(t, "hello\n", b.screen.out())
	nothing := writeFile(t, "no certificate", t.TempDir(), "nothing.pem")
	for text, c := range map[string]struct {
		want int
		args []string
	}{
		"signed by unknown authority": {exitUnreachable, []string{"whoami"}},
		"certificate":                 {exitUnreachable, []string{"whoami", "--ca", other}},
		"holds no certificate":        {exitUsage, []string{"whoami", "--ca", nothing}},
		"--ca: open":                  {exitUsage, []string{"whoami", "--ca", nothing + "x"}},
	} {
		require.Contains(t, b.show(c.want, c.args...), text)
	}
}
