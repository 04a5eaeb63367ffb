package credentials

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/turnstone-run/turnstone/agent"
)

func TestCertificates(t *testing.T) {
	h, err := NewCertificates([]CertificateHolder{
		{Name: "spiffe://example.com/worker", Tenant: "acme", User: "worker", Scopes: []string{"turns.*"}},
		{Name: "ci.example.com", Tenant: "*", Role: "robot", Scopes: []string{"*"}},
		{Name: "ann@example.com", Tenant: "acme", User: "ann"},
		{Name: "printer", Tenant: "acme"},
	})
	require.NoError(t, err)
	uri, err := url.Parse("spiffe://example.com/worker")
	require.NoError(t, err)
	cases := []struct {
		cert x509.Certificate
		name string // empty: nobody
	}{
		{x509.Certificate{URIs: []*url.URL{uri}, DNSNames: []string{"ci.example.com"}}, "spiffe://example.com/worker"},
		{x509.Certificate{DNSNames: []string{"x.example.com", "ci.example.com"}}, "ci.example.com"},
		{x509.Certificate{EmailAddresses: []string{"ann@example.com"}}, "ann@example.com"},
		{x509.Certificate{Subject: pkix.Name{CommonName: "printer"}}, "printer"},
		{x509.Certificate{Subject: pkix.Name{CommonName: "printer"}, DNSNames: []string{"x.example.com"}}, ""},
		{x509.Certificate{DNSNames: []string{"CI.example.com.evil.example"}}, ""},
		{x509.Certificate{}, ""},
	}
	for _, c := range cases {
		p, known := h.Holder(&c.cert)
		require.Equal(t, c.name != "", known)
		if known {
			require.Equal(t, "certificate/"+c.name, p.Credential)
			require.Equal(t, agent.MethodMTLS, p.Method)
		}
	}
	_, err = NewCertificates([]CertificateHolder{{Tenant: "acme"}, {Name: "a", Tenant: "acme"}, {Name: "b", Tenant: "a b"}, {Name: "a", Tenant: "x", Scopes: []string{"x.y", "keys.write:agent:x"}}})
	for _, words := range []string{"name is empty", "there twice", "is no name", "x.y", "keys.write:agent:x"} {
		require.ErrorContains(t, err, words)
	}
}

// writePEM makes a self-signed certificate in two files.
func writePEM(t *testing.T, dir, name string) TLSFiles {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	f := TLSFiles{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	require.NoError(t, os.WriteFile(f.Cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(f.Key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE " + "KEY", Bytes: secret}), 0o600))
	return f
}

func nameOf(t *testing.T, c *tls.Config) string {
	t.Helper()
	leaf, err := x509.ParseCertificate(c.Certificates[0].Certificate[0])
	require.NoError(t, err)
	return leaf.Subject.CommonName
}

func TestServerTLSReloads(t *testing.T) {
	dir := t.TempDir()
	f := writePEM(t, dir, "old.example.com")
	core, logs := observer.New(zapcore.InfoLevel)
	s := &tlsReloader{files: f, logger: zap.New(core)}
	now := time.Now()
	s.now = func() time.Time { return now }
	var err error
	s.current, s.stamp, err = s.load()
	require.NoError(t, err)
	s.checkedAt = now

	writePEM(t, dir, "new.example.com")
	later := time.Now().Add(time.Minute) // whatever the clock of the file system
	require.NoError(t, os.Chtimes(f.Cert, later, later))
	require.Equal(t, "old.example.com", nameOf(t, s.config()), "not at every handshake")
	now = now.Add(tlsCheckInterval)
	require.Equal(t, "new.example.com", nameOf(t, s.config()))

	require.NoError(t, os.WriteFile(f.Key, []byte("half"), 0o600))
	now = now.Add(tlsCheckInterval)
	require.Equal(t, "new.example.com", nameOf(t, s.config()), "what is no good is not served")
	require.Equal(t, 1, logs.FilterLevelExact(zapcore.ErrorLevel).Len())
	require.NoError(t, os.Remove(f.Key))
	now = now.Add(tlsCheckInterval)
	require.Equal(t, "new.example.com", nameOf(t, s.config()))
}

func TestServerTLS(t *testing.T) {
	f := writePEM(t, t.TempDir(), "localhost")
	c, err := ServerTLS(f, nil)
	require.NoError(t, err)
	inner, err := c.GetConfigForClient(nil)
	require.NoError(t, err)
	require.Equal(t, tls.NoClientCert, inner.ClientAuth)
	require.Equal(t, uint16(tls.VersionTLS12), inner.MinVersion)
	f.ClientCA = f.Cert
	c, err = ServerTLS(f, nil)
	require.NoError(t, err)
	require.Equal(t, tls.VerifyClientCertIfGiven, c.ClientAuth)
	f.Require = true
	c, err = ServerTLS(f, nil)
	require.NoError(t, err)
	require.Equal(t, tls.RequireAndVerifyClientCert, c.ClientAuth)

	for _, broken := range []TLSFiles{
		{Cert: "/nowhere", Key: f.Key}, {Cert: f.Cert, Key: f.Cert}, {Cert: f.Cert, Key: f.Key, ClientCA: f.Key}, {Cert: t.TempDir(), Key: f.Key},
	} {
		_, err := ServerTLS(broken, nil)
		require.Error(t, err)
	}
}
