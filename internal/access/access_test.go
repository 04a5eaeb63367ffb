package access_test

import (
	"context"
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/access"
)

// verifier accepts one text.
type verifier struct {
	text string
	p    agent.Principal
}

func (v verifier) Verify(_ context.Context, text string) (agent.Principal, error) {
	if text != v.text {
		return agent.Principal{}, access.Refused("no")
	}
	return v.p, nil
}

type holders map[string]agent.Principal

func (h holders) Holder(leaf *x509.Certificate) (agent.Principal, bool) {
	p, ok := h[leaf.Subject.CommonName]
	return p, ok
}

func named(name string) *x509.Certificate {
	c := &x509.Certificate{NotAfter: time.Now().Add(time.Hour)}
	c.Subject.CommonName = name
	return c
}

func TestJoined(t *testing.T) {
	ann := agent.Principal{Method: agent.MethodKey, Tenant: "acme", Subject: "ann"}
	byToken := agent.Principal{Method: agent.MethodJWT, Tenant: "acme", Subject: "ann", Role: "clerk"}
	bob := agent.Principal{Method: agent.MethodMTLS, Tenant: "acme", Subject: "bob"}
	byCert := agent.Principal{Method: agent.MethodMTLS, Tenant: "acme", Subject: "ann"}
	operatorKey := strings.Repeat("operator", 5)
	over := named("bob")
	over.NotAfter = time.Now().Add(-time.Second)
	a, err := access.New(access.Config{
		Keys: verifier{"tsk_good", ann}, OperatorKey: operatorKey, Tokens: verifier{"a.b.c", byToken},
		Certificates: holders{"ann": byCert, "bob": bob},
	})
	require.NoError(t, err)
	cases := []struct {
		name string
		c    access.Credentials
		want string // the method; empty: refused
		who  string
	}{
		{"none", access.Credentials{}, "", ""},
		{"key as bearer", access.Credentials{Bearer: "tsk_good"}, "key", "ann"},
		{"key in its own header", access.Credentials{Key: "tsk_good"}, "key", "ann"},
		{"key twice", access.Credentials{Bearer: "tsk_good", Key: "tsk_good"}, "key", "ann"},
		{"two that differ", access.Credentials{Bearer: "a.b.c", Key: "tsk_good"}, "", ""},
		{"wrong key", access.Credentials{Bearer: "tsk_bad"}, "", ""},
		{"token", access.Credentials{Bearer: "a.b.c"}, "jwt", "ann"},
		{"token as key", access.Credentials{Key: "a.b.c"}, "", ""},
		{"operator", access.Credentials{Bearer: operatorKey}, "key", ""},
		{"operator as key", access.Credentials{Key: operatorKey}, "key", ""},
		{"operator, cut", access.Credentials{Bearer: operatorKey[:39]}, "", ""},
		{"nonsense", access.Credentials{Bearer: "hello"}, "", ""},
		{"too long", access.Credentials{Bearer: strings.Repeat("x", access.MaxCredential+1)}, "", ""},
		{"certificate", access.Credentials{Certificates: []*x509.Certificate{named("bob")}}, "mtls", "bob"},
		{"second chain", access.Credentials{Certificates: []*x509.Certificate{named("x"), named("bob")}}, "mtls", "bob"},
		{"certificate that has expired since the handshake", access.Credentials{Certificates: []*x509.Certificate{over}}, "", ""},
		{"unknown certificate", access.Credentials{Certificates: []*x509.Certificate{named("x")}}, "", ""},
		{"certificate and token of one", access.Credentials{Bearer: "a.b.c", Certificates: []*x509.Certificate{named("ann")}}, "jwt", "ann"},
		{"certificate and token of two", access.Credentials{Bearer: "a.b.c", Certificates: []*x509.Certificate{named("bob")}}, "", ""},
		{"certificate and a wrong token", access.Credentials{Bearer: "a.b.d", Certificates: []*x509.Certificate{named("ann")}}, "", ""},
		{"token over a mesh", access.Credentials{Bearer: "a.b.c", Certificates: []*x509.Certificate{named("x")}}, "jwt", "ann"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p, err := a.Authenticate(t.Context(), c.c)
			if c.want == "" {
				require.Equal(t, agent.CodeUnauthenticated, agent.CodeOf(err))
				require.Equal(t, agent.Principal{}, p)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, p.Method)
			require.Equal(t, c.who, p.Subject)
		})
	}
	p, err := a.Authenticate(t.Context(), access.Credentials{Bearer: operatorKey})
	require.NoError(t, err)
	require.Equal(t, agent.Principal{Method: agent.MethodKey, Tenant: "*", Scopes: []string{"*"}, Credential: "operator"}, p)

	_, err = access.New(access.Config{})
	require.Error(t, err)
	without, err := access.New(access.Config{Keys: verifier{"tsk_good", ann}})
	require.NoError(t, err)
	for _, c := range []access.Credentials{{Bearer: "a.b.c"}, {Bearer: operatorKey}, {Certificates: []*x509.Certificate{named("bob")}}, {Bearer: ""}} {
		_, err := without.Authenticate(t.Context(), c)
		require.Equal(t, agent.CodeUnauthenticated, agent.CodeOf(err))
	}
}

func TestHeaders(t *testing.T) {
	for value, want := range map[string]string{
		"Bearer abc": "abc", "bearer abc": "abc", "BEARER  abc": "abc", " Bearer abc ": "abc",
		"Basic abc": "", "Bearer": "", "Bearer ": "", "abc": "", "Bearer a b": "", "Bearer a\tb": "", "Bearer \x00": "", "Bearer é": "", "": "",
		"Bearer " + strings.Repeat("x", access.MaxCredential+1): "",
	} {
		got, err := access.Bearer([]string{value})
		require.Equal(t, want, got, value)
		require.Equal(t, want == "", err != nil, value)
	}
	none, err := access.Bearer(nil)
	require.NoError(t, err)
	require.Empty(t, none)
	_, err = access.Bearer([]string{"Bearer a", "Bearer a"})
	require.Error(t, err)
	key, err := access.Key([]string{" abc "})
	require.NoError(t, err)
	require.Equal(t, "abc", key)
	for _, values := range [][]string{{""}, {"a", "b"}, {"a b"}} {
		_, err := access.Key(values)
		require.Error(t, err)
	}
}

func FuzzBearer(f *testing.F) {
	for _, seed := range []string{"", "Bearer abc", "bearer  x", "Basic eDp5", "Bearer \xff", "Bearer a,b", "Bearer\tabc"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		token, err := access.Bearer([]string{value})
		if err != nil {
			require.Empty(t, token)
			require.Equal(t, agent.CodeUnauthenticated, agent.CodeOf(err))
			require.Less(t, len(err.Error()), 200, "an error repeats nothing of it")
			return
		}
		require.NotEmpty(t, token)
		require.LessOrEqual(t, len(token), access.MaxCredential)
		require.True(t, strings.HasSuffix(strings.Trim(value, " \t"), token))
		require.NotContains(t, token, " ")
	})
}
