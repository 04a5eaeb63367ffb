package relay

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Peer is what a process has to know of another to follow its streams.
type Peer struct {
	Process     string
	Address     string // host:port
	Token       string
	Certificate []byte // DER; the only one that is trusted
}

const (
	// serverName is in every certificate: a peer is known by the certificate itself.
	serverName = "turnstone-relay"
	// certificateLife is longer than any process lives.
	certificateLife = 10 * 365 * 24 * time.Hour

	tokenKey   = "authorization"
	processKey = "turnstone-process"
)

func newCertificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{serverName},
		NotBefore: now.Add(-24 * time.Hour), NotAfter: now.Add(certificateLife), // clocks may differ
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// clientTLS trusts the certificate of one peer and no other.
func clientTLS(p Peer) (*tls.Config, error) {
	certificate, err := x509.ParseCertificate(p.Certificate)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots, ServerName: serverName}, nil
}

// identity identifies a client in each of its calls; see credentials.PerRPCCredentials.
type identity struct{ process, token string }

func (i identity) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{tokenKey: i.token, processKey: i.process}, nil
}

func (i identity) RequireTransportSecurity() bool { return true }

// authenticate returns the name of a process that knows the token.
func authenticate(ctx context.Context, token string) (process string, err error) {
	md, _ := metadata.FromIncomingContext(ctx)
	tokens, processes := md.Get(tokenKey), md.Get(processKey)
	if len(tokens) != 1 || len(processes) != 1 || processes[0] == "" || subtle.ConstantTimeCompare([]byte(tokens[0]), []byte(token)) != 1 {
		return "", status.Error(codes.Unauthenticated, "the token is not that of this process")
	}
	return processes[0], nil
}
