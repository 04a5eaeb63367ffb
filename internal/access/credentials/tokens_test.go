package credentials_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/access/accesstest"
	"github.com/turnstone-run/turnstone/internal/access/credentials"
)

// issuer is an OpenID Connect provider that can be away, rotate its keys, and misbehave.
type issuer struct {
	*httptest.Server

	mu        sync.Mutex
	down      bool
	keys      map[string]crypto.PublicKey
	asked     map[string]int
	body      []byte // of the key set, instead
	discovery string // of discovery, instead
}

func provider(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{keys: map[string]crypto.PublicKey{}, asked: map[string]int{}}
	i.Server = httptest.NewServer(http.HandlerFunc(i.serve))
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) serve(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.asked[r.URL.Path]++
	switch {
	case i.down:
		http.Error(w, "out of order", http.StatusServiceUnavailable)
	case r.URL.Path == "/.well-known/openid-configuration" && i.discovery != "":
		fmt.Fprint(w, i.discovery)
	case r.URL.Path == "/.well-known/openid-configuration":
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, i.URL, i.URL+"/keys")
	case r.URL.Path == "/keys" && i.body != nil:
		_, _ = w.Write(i.body)
	case r.URL.Path == "/keys":
		set := jose.JSONWebKeySet{}
		for kid, key := range i.keys {
			set.Keys = append(set.Keys, jose.JSONWebKey{Key: key, KeyID: kid, Use: "sig"})
		}
		_ = json.NewEncoder(w).Encode(set)
	case r.URL.Path == "/moved":
		http.Redirect(w, r, "/keys", http.StatusFound)
	default:
		http.NotFound(w, r)
	}
}

func (i *issuer) set(change func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change()
}

func (i *issuer) count(path string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.asked[path]
}

type world struct {
	*issuer
	*accesstest.Clock

	key      *rsa.PrivateKey
	verifier *credentials.Tokens
	logs     *observer.ObservedLogs
}

func begin(t *testing.T, change func(*credentials.Issuer)) *world {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	w := &world{issuer: provider(t), Clock: accesstest.NewClock(time.Unix(1_790_000_000, 0)), key: key}
	w.keys["k1"] = key.Public()
	set := credentials.Issuer{URL: w.URL, Audiences: []string{"turnstone", "other-name"}, TenantClaim: "org.tenant"}
	if change != nil {
		change(&set)
	}
	core, logs := observer.New(zap.WarnLevel)
	w.logs = logs
	w.verifier, err = credentials.NewTokens(credentials.TokensConfig{Issuers: []credentials.Issuer{set}, Now: w.Now, Transport: w.Client().Transport, Logger: zap.New(core)})
	require.NoError(t, err)
	return w
}

// claims are those of a good token, changed.
func (w *world) claims(change ...any) jwt.MapClaims {
	now := w.Now()
	c := jwt.MapClaims{
		"iss": w.URL, "aud": "turnstone", "sub": "ann", "exp": now.Add(time.Hour).Unix(), "iat": now.Unix(), "jti": "t-1",
		"org": map[string]any{"tenant": "acme"}, "scope": "openid turns.run approvals.*",
	}
	for i := 0; i+1 < len(change); i += 2 {
		name, _ := change[i].(string)
		if change[i+1] == nil {
			delete(c, name)
			continue
		}
		c[name] = change[i+1]
	}
	return c
}

func sign(t *testing.T, method jwt.SigningMethod, kid string, key any, c jwt.MapClaims) string {
	t.Helper()
	token := jwt.NewWithClaims(method, c)
	if kid != "" {
		token.Header["kid"] = kid
	}
	text, err := token.SignedString(key)
	require.NoError(t, err)
	return text
}

func (w *world) token(t *testing.T, change ...any) string {
	t.Helper()
	return sign(t, jwt.SigningMethodRS256, "k1", w.key, w.claims(change...))
}

// TestTokenScopesThatAllowNothing: they are passed over, and the operator is told once: of those that were meant for us.
func TestTokenScopesThatAllowNothing(t *testing.T) {
	for name, c := range map[string]struct {
		prefix, scope string
		want          []string
		told          string
	}{
		"a confined one that cannot be": {"", "openid keys.write:agent:x turns.run", []string{"turns.run"}, "keys.write:agent:x"},
		"those of others":               {"", "openid profile turns.run:analyst", []string{"turns.run:analyst"}, ""},
		"with the prefix":               {"ts:", "fly ts:fly ts:turns.run", []string{"turns.run"}, "fly"},
		"a long one":                    {"ts:", "ts:" + strings.Repeat("x", 5000), []string{}, strings.Repeat("x", 256)},
	} {
		t.Run(name, func(t *testing.T) {
			w := begin(t, func(i *credentials.Issuer) { i.ScopePrefix = c.prefix })
			for range 3 {
				p, err := w.verifier.Verify(t.Context(), w.token(t, "scope", c.scope))
				require.NoError(t, err)
				require.Equal(t, c.want, p.Scopes)
			}
			if c.told == "" {
				require.Zero(t, w.logs.Len())
				return
			}
			require.Equal(t, 1, w.logs.Len(), "once")
			require.Equal(t, c.told, w.logs.All()[0].ContextMap()["scope"])
			require.Equal(t, w.URL, w.logs.All()[0].ContextMap()["issuer"])
		})
	}
	_, err := credentials.NewTokens(credentials.TokensConfig{Issuers: []credentials.Issuer{{URL: "x", Audiences: []string{"a"}, Tenant: "acme", Scopes: []string{"keys.write:agent:x"}}}})
	require.ErrorContains(t, err, `scope "keys.write:agent:x" allows nothing that there is`)
}

func TestTokenIsVerified(t *testing.T) {
	w := begin(t, func(i *credentials.Issuer) {
		i.RoleClaim, i.FlagsClaim, i.Scopes = "realm_access.roles", "features", []string{"agents.read"}
	})
	p, err := w.verifier.Verify(t.Context(), w.token(t, "realm_access", map[string]any{"roles": []string{"clerk", "x"}}, "features", map[string]any{"beta": true}))
	require.NoError(t, err)
	require.Equal(t, agent.Principal{
		Method: agent.MethodJWT, Tenant: "acme", Subject: "ann", Role: "clerk", Flags: map[string]any{"beta": true},
		Scopes: []string{"agents.read", "turns.run", "approvals.*"}, Credential: "jwt/" + w.URL + "#t-1",
	}, p)
	for range 50 {
		_, err := w.verifier.Verify(t.Context(), w.token(t))
		require.NoError(t, err)
	}
	require.Equal(t, 1, w.count("/keys"))
	require.Equal(t, 1, w.count("/.well-known/openid-configuration"))
}

func TestInvalidTokens(t *testing.T) {
	w := begin(t, nil)
	now := w.Now()
	stranger, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	public, err := x509.MarshalPKIXPublicKey(w.key.Public())
	require.NoError(t, err)
	good := w.token(t)
	parts := strings.Split(good, ".")
	part := func(v any) string {
		raw, err := json.Marshal(v)
		require.NoError(t, err)
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	embedded := jwt.NewWithClaims(jwt.SigningMethodRS256, w.claims())
	embedded.Header["kid"], embedded.Header["jku"] = "k9", w.URL+"/keys"
	embedded.Header["jwk"] = jose.JSONWebKey{Key: stranger.Public(), KeyID: "k9"}
	own, err := embedded.SignedString(stranger)
	require.NoError(t, err)
	cases := []struct{ name, token, words string }{
		{"expired", w.token(t, "exp", now.Add(-credentials.Leeway).Unix()), "expired"},
		{"no exp", w.token(t, "exp", nil), "never expires"},
		{"exp 0", w.token(t, "exp", 0), "expired"},
		{"exp as text", w.token(t, "exp", fmt.Sprint(now.Add(time.Hour).Unix())), "claim exp is no time"},
		{"exp beyond all time", w.token(t, "exp", 1e300), "claim exp is no time"},
		{"not yet", w.token(t, "nbf", now.Add(credentials.Leeway+time.Second).Unix()), "not valid yet"},
		{"nbf is no time", w.token(t, "nbf", "soon"), "malformed"},
		{"issued tomorrow", w.token(t, "iat", now.Add(24*time.Hour).Unix()), "future"},
		{"issued in 1970", w.token(t, "iat", 5), "too long ago"},
		{"wrong audience", w.token(t, "aud", "somebody"), "audience"},
		{"wrong audiences", w.token(t, "aud", []string{"a", "b"}), "audience"},
		{"no audience", w.token(t, "aud", nil), "audience"},
		{"another issuer", w.token(t, "iss", "https://issuer.example"), "issuer are not accepted"},
		{"issuer with a slash", w.token(t, "iss", w.URL+"/"), "issuer are not accepted"},
		{"no issuer", w.token(t, "iss", nil), "issuer are not accepted"},
		{"no tenant", w.token(t, "org", nil), "names no tenant"},
		{"tenant is no name", w.token(t, "org", map[string]any{"tenant": "a/b"}), "names no tenant"},
		{"every tenant", w.token(t, "org", map[string]any{"tenant": "*"}), "names no tenant"},
		{"tenant is a list", w.token(t, "org", map[string]any{"tenant": []string{"acme"}}), "names no tenant"},
		{"no user", w.token(t, "sub", nil), "names no user"},
		{"empty user", w.token(t, "sub", ""), "names no user"},
		{"none", sign(t, jwt.SigningMethodNone, "k1", jwt.UnsafeAllowNoneSignatureType, w.claims()), "not signed"},
		{"none, signature kept", part(map[string]string{"alg": "none", "kid": "k1"}) + "." + parts[1] + "." + parts[2], "not signed"},
		{"HS256 with the public key", sign(t, jwt.SigningMethodHS256, "k1", public, w.claims()), "not signed"},
		{"an algorithm that is not allowed", sign(t, jwt.SigningMethodRS512, "k1", w.key, w.claims()), "not signed"},
		{"a stranger's key", sign(t, jwt.SigningMethodRS256, "k1", stranger, w.claims()), "not signed"},
		{"unknown kid", sign(t, jwt.SigningMethodRS256, "k2", w.key, w.claims()), "not signed"},
		{"brings its own key", own, "not signed"},
		{"other claims", parts[0] + "." + part(w.claims("sub", "bob")) + "." + parts[2], "not signed"},
		{"no signature", parts[0] + "." + parts[1] + ".", "not signed"},
		{"cut", good[:len(good)-4], "not signed"},
		{"huge", w.token(t, "x", strings.Repeat("x", 8<<10)), "longer"},
		{"two parts", parts[0] + "." + parts[1], "malformed"},
		{"no base64", "a.!.c", "malformed"},
		{"no JSON", "a." + base64.RawURLEncoding.EncodeToString([]byte("x")) + ".c", "malformed"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := w.verifier.Verify(t.Context(), c.token)
			require.Equal(t, agent.CodeUnauthenticated, agent.CodeOf(err), "%v", err)
			require.ErrorContains(t, err, c.words)
			for _, secret := range []string{parts[2][:20], parts[1][:20]} {
				require.NotContains(t, err.Error(), secret)
			}
		})
	}
	for name, token := range map[string]string{
		"a little late": w.token(t, "exp", now.Add(-credentials.Leeway+time.Second).Unix()), "a little early": w.token(t, "nbf", now.Add(credentials.Leeway).Unix()),
		"second audience": w.token(t, "aud", []string{"x", "other-name"}), "no iat": w.token(t, "iat", nil),
	} {
		_, err := w.verifier.Verify(t.Context(), token)
		require.NoError(t, err, name)
	}
}

func TestIssuerKeyRotation(t *testing.T) {
	w := begin(t, nil)
	_, err := w.verifier.Verify(t.Context(), w.token(t))
	require.NoError(t, err)
	next, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	w.set(func() { w.keys = map[string]crypto.PublicKey{"k2": next.Public()} })
	w.Pass(11 * time.Second)
	// The library may answer once more from a request that has just ended.
	rotated := sign(t, jwt.SigningMethodES256, "k2", next, w.claims())
	require.Eventually(t, func() bool {
		_, err := w.verifier.Verify(t.Context(), rotated)
		return err == nil
	}, 5*time.Second, time.Millisecond)
	require.Equal(t, 2, w.count("/keys"))
	// Keys that nobody has make the issuer be asked no more often than every few seconds.
	for i := range 100 {
		_, err := w.verifier.Verify(t.Context(), sign(t, jwt.SigningMethodES256, fmt.Sprint("x", i), next, w.claims()))
		require.Equal(t, agent.CodeUnauthenticated, agent.CodeOf(err))
	}
	require.LessOrEqual(t, w.count("/keys"), 3)
	_, err = w.verifier.Verify(t.Context(), w.token(t))
	require.Equal(t, agent.CodeUnauthenticated, agent.CodeOf(err), "a key that is gone")
}

func TestIssuerUnavailable(t *testing.T) {
	w := begin(t, nil)
	w.set(func() { w.down = true })
	for range 20 {
		_, err := w.verifier.Verify(t.Context(), w.token(t))
		require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err), "%v", err)
		require.NotContains(t, err.Error(), "order")
	}
	require.Equal(t, 1, w.count("/.well-known/openid-configuration"), "not before its time")
	w.set(func() { w.down = false })
	w.Pass(2 * time.Second)
	_, err := w.verifier.Verify(t.Context(), w.token(t))
	require.NoError(t, err)

	// What its known keys have signed holds; what needs new ones has to wait.
	w.set(func() { w.down = true })
	w.Pass(time.Minute)
	_, err = w.verifier.Verify(t.Context(), w.token(t))
	require.NoError(t, err)
	stranger := sign(t, jwt.SigningMethodRS256, "k2", w.key, w.claims())
	require.Eventually(t, func() bool { // as above
		_, err := w.verifier.Verify(t.Context(), stranger)
		return agent.CodeOf(err) == agent.CodeUnavailable
	}, 5*time.Second, time.Millisecond)
	w.set(func() { w.down, w.body = false, []byte("<html>") })
	w.Pass(time.Minute)
	_, err = w.verifier.Verify(t.Context(), sign(t, jwt.SigningMethodRS256, "k2", w.key, w.claims()))
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err), "an answer that is no key set")
	w.set(func() { w.body = make([]byte, 2<<20) })
	w.Pass(time.Minute)
	_, err = w.verifier.Verify(t.Context(), sign(t, jwt.SigningMethodRS256, "k2", w.key, w.claims()))
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err), "an answer without end")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	cold := begin(t, nil)
	cold.set(func() { cold.down = true })
	_, err = cold.verifier.Verify(ctx, cold.token(t))
	require.Equal(t, agent.CodeCancelled, agent.CodeOf(err))
}

func TestIssuerDiscoveryRefused(t *testing.T) {
	for _, answer := range []string{
		`{"issuer":"https://issuer.example","jwks_uri":"https://issuer.example/keys"}`, `{"issuer":"%s"}`, `[]`, `<html>`,
	} {
		w := begin(t, nil)
		w.set(func() { w.discovery = strings.ReplaceAll(answer, "%s", w.URL) })
		_, err := w.verifier.Verify(t.Context(), w.token(t))
		require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err), answer)
	}
	redirected := begin(t, func(i *credentials.Issuer) { i.JWKSURL = i.URL + "/moved" })
	_, err := redirected.verifier.Verify(t.Context(), redirected.token(t))
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err), "redirects are not followed")
	direct := begin(t, func(i *credentials.Issuer) { i.JWKSURL = i.URL + "/keys" })
	_, err = direct.verifier.Verify(t.Context(), direct.token(t))
	require.NoError(t, err)
	require.Zero(t, direct.count("/.well-known/openid-configuration"))
}

func TestTokenClaims(t *testing.T) {
	w := begin(t, func(i *credentials.Issuer) {
		i.TenantClaim, i.Tenant = "", "fixed"
		i.UserClaim, i.ScopeClaim, i.ScopePrefix = "https://example.com/user.name", "permissions", "turnstone:"
		i.RoleClaim, i.FlagsClaim = "role", "flags"
	})
	p, err := w.verifier.Verify(t.Context(), w.token(t,
		"https://example.com/user", map[string]any{"name": "ann"},
		"permissions", []any{"turnstone:turns.run:analyst", "turns.read", "turnstone:nonsense", 7, "turnstone:*"},
		"role", 7, "flags", "none"))
	require.NoError(t, err)
	require.Equal(t, "fixed", p.Tenant)
	require.Equal(t, "ann", p.Subject)
	require.Equal(t, []string{"turns.run:analyst", "*"}, p.Scopes)
	require.Empty(t, p.Role)
	require.Nil(t, p.Flags)
}

func TestTokensOfSeveralEntries(t *testing.T) {
	w := begin(t, nil)
	v, err := credentials.NewTokens(credentials.TokensConfig{Now: w.Now, Transport: w.Client().Transport, Issuers: []credentials.Issuer{
		{URL: w.URL, Audiences: []string{"one"}, Tenant: "one"}, {URL: w.URL, Audiences: []string{"two"}, Tenant: "two"},
	}})
	require.NoError(t, err)
	for _, name := range []string{"one", "two"} {
		p, err := v.Verify(t.Context(), w.token(t, "aud", name))
		require.NoError(t, err)
		require.Equal(t, name, p.Tenant)
	}
}

func TestTokensConfigurationFaults(t *testing.T) {
	_, err := credentials.NewTokens(credentials.TokensConfig{Issuers: []credentials.Issuer{
		{URL: "https://a.example", Tenant: "x"},
		{URL: "https://b.example", Audiences: []string{"x"}},
		{URL: "https://c.example", Audiences: []string{"x"}, Tenant: "x", Algorithms: []string{"HS256"}},
		{URL: "https://d.example", Audiences: []string{"x"}, Tenant: "x", Algorithms: []string{"none"}},
		{URL: "https://e.example", Audiences: []string{"x"}, Tenant: "x", Scopes: []string{"nonsense"}},
		{Audiences: []string{"x"}, Tenant: "x"},
	}})
	for _, words := range []string{"audiences are missing", "either tenant", `"HS256"`, `"none"`, `"nonsense"`, "url is missing"} {
		require.ErrorContains(t, err, words)
	}
	_, err = credentials.NewTokens(credentials.TokensConfig{})
	require.ErrorContains(t, err, "no issuers")
}
