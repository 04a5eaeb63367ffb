package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/turnstone-run/turnstone/internal/app"
)

const (
	healthTimeout = 3 * time.Second // less than the timeout of a container's health check
	maxHealth     = 64 << 10        // bytes of the answer that are printed
	maxCert       = 1 << 20         // bytes
)

// health prints the health of the gateway on this machine. It returns an error unless a turn can run.
func (c *command) health(ctx context.Context, settings *app.Config) error {
	transport := &http.Transport{DisableKeepAlives: true} // without a proxy
	if settings.HTTP.TLSCert != "" {
		var err error
		if transport.TLSClientConfig, err = trustOnlyFile(settings.HTTP.TLSCert); err != nil {
			return fmt.Errorf("http.tls_cert: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, settings.HTTP.LocalURL()+"/health", nil)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // read-only
	if _, err := io.Copy(c.out, io.LimitReader(resp.Body, maxHealth)); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return errors.New("not healthy: " + resp.Status)
	}
	return nil
}

// trustOnlyFile returns a configuration that trusts the certificates in a PEM file, those that they have signed, and no others. It ignores the names in
// a certificate, because few have the loopback address. It ignores when a certificate ends, because /health itself reports that, and a failed check
// would restart a worker that can still run turns.
func trustOnlyFile(file string) (*tls.Config, error) {
	trusted, err := readCertificates(file)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, //nolint:gosec // VerifyConnection verifies the certificate
		VerifyConnection: func(s tls.ConnectionState) error {
			leaf, intermediates := s.PeerCertificates[0], x509.NewCertPool()
			for _, c := range s.PeerCertificates[1:] {
				intermediates.AddCert(c)
			}
			_, err := leaf.Verify(x509.VerifyOptions{
				Roots: trusted, Intermediates: intermediates, CurrentTime: leaf.NotAfter, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
			})
			if err != nil {
				return fmt.Errorf("whoever answers there is not the server of http.tls_cert: %w", err)
			}
			return nil
		},
	}, nil
}

// readCertificates returns the certificates in a PEM file. It is an error if there are none.
func readCertificates(file string) (*x509.CertPool, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read-only
	text, err := io.ReadAll(io.LimitReader(f, maxCert))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate", file)
	}
	return pool, nil
}
