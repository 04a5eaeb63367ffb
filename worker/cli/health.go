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
	// healthTimeout bounds "worker health": a container's health check waits for it.
	healthTimeout = 3 * time.Second
	maxHealth     = 64 << 10 // bytes of the answer that are shown
	maxCert       = 1 << 20
)

// health asks the gateway on this machine, over TLS where it is served with it. It fails unless a turn can run.
func (c *command) health(ctx context.Context, settings *app.HTTP) error {
	transport := &http.Transport{DisableKeepAlives: true} // and no proxy: the gateway is here
	if settings.TLSCert != "" {
		var err error
		if transport.TLSClientConfig, err = trustOnlyFile(settings.TLSCert); err != nil {
			return fmt.Errorf("http.tls_cert: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, settings.LocalURL()+"/health", nil)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // nothing was written
	if _, err := io.Copy(c.out, io.LimitReader(resp.Body, maxHealth)); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return errors.New("not healthy: " + resp.Status)
	}
	return nil
}

// trustOnlyFile trusts a server that has the certificate of a PEM file, or one that a certificate of that file has signed, and nobody else. Who issued
// it does not matter. Its names do not either, since loopback is in few certificates, nor its end: /health itself says when that comes, and a
// check that failed over it would have a worker restarted that runs its turns.
func trustOnlyFile(file string) (*tls.Config, error) {
	known, err := certificates(file)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, //nolint:gosec // VerifyConnection verifies what the comment says
		VerifyConnection: func(s tls.ConnectionState) error {
			leaf, rest := s.PeerCertificates[0], x509.NewCertPool()
			for _, c := range s.PeerCertificates[1:] {
				rest.AddCert(c)
			}
			_, err := leaf.Verify(x509.VerifyOptions{
				Roots: known, Intermediates: rest, CurrentTime: leaf.NotAfter, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
			})
			if err != nil {
				return fmt.Errorf("whoever answers there is not the server of http.tls_cert: %w", err)
			}
			return nil
		},
	}, nil
}

// certificates reads those of a PEM file, of which there is one at least.
func certificates(file string) (*x509.CertPool, error) {
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
