package cli

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/internal/app"
)

// issued is a certificate with its key and its PEM file.
type issued struct {
	leaf *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

// issue returns a certificate that is signed by another one or, if by is nil, by itself. It has a common name only.
func issue(t *testing.T, by *issued, change func(*x509.Certificate)) *issued {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "turnstone.example"},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	if change != nil {
		change(c)
	}
	parent, signer := c, key
	if by != nil {
		parent, signer = by.leaf, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
	require.NoError(t, err)
	out := &issued{key: key, file: filepath.Join(t.TempDir(), "cert.pem")}
	out.leaf, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(out.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return out
}

// gateway starts a server that answers GET /health, over TLS if cert is not nil, and returns its address.
func gateway(t *testing.T, status int, cert *issued) string {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/health" {
			status = http.StatusNotFound
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"status":"x"}`)
	}))
	s.Config.ErrorLog = zap.NewStdLog(zap.NewNop()) // because handshakes fail on purpose
	t.Cleanup(s.Close)
	if cert == nil {
		s.Start()
	} else {
		s.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{cert.leaf.Raw}, PrivateKey: cert.key}}}
		s.StartTLS()
	}
	return s.Listener.Addr().String()
}

func TestHealth(t *testing.T) {
	own := issue(t, nil, nil)
	ended := issue(t, nil, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) })
	authority := issue(t, nil, func(c *x509.Certificate) {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
	})
	renewed := issue(t, authority, nil)
	for name, c := range map[string]struct {
		status int
		served *issued // certificate of the gateway
		file   string  // http.tls_cert
		want   string  // error; empty: no error
	}{
		"plain":                        {http.StatusOK, nil, "", ""},
		"no turn can run":              {http.StatusServiceUnavailable, nil, "", "not healthy: 503"},
		"self-signed":                  {http.StatusOK, own, own.file, ""},
		"self-signed, no turn can run": {http.StatusServiceUnavailable, own, own.file, "not healthy: 503"},
		"certificate has ended":        {http.StatusOK, ended, ended.file, ""},
		"signed by a trusted one":      {http.StatusOK, renewed, authority.file, ""},
		"another certificate":          {http.StatusOK, issue(t, nil, nil), own.file, "not the server of http.tls_cert"},
		"signed by an unknown one":     {http.StatusOK, renewed, own.file, "not the server of http.tls_cert"},
		"gateway without TLS":          {http.StatusOK, nil, own.file, "HTTP response to HTTPS client"},
		"no file":                      {http.StatusOK, own, own.file + ".gone", "http.tls_cert: open"},
		"no certificate in the file":   {http.StatusOK, own, "health_test.go", "http.tls_cert: health_test.go holds no certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			_, port, err := net.SplitHostPort(gateway(t, c.status, c.served))
			require.NoError(t, err)
			var out bytes.Buffer
			err = (&command{out: &out}).health(t.Context(), &app.Config{HTTP: app.HTTP{Addr: ":" + port, TLSCert: c.file}})
			if c.want == "" {
				require.NoError(t, err)
				require.JSONEq(t, `{"status":"x"}`, out.String())
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}
