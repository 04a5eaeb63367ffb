package gateway_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func issueCertificate(t *testing.T, name string, by *authority) (tls.Certificate, *authority) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<60))
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	self := &authority{cert: template, key: key, pool: x509.NewCertPool()}
	if by == nil {
		template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
		by = self
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, key.Public(), by.key)
	require.NoError(t, err)
	self.cert, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	self.pool.AddCert(self.cert)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, self
}

func TestMutualTLS(t *testing.T) {
	_, ca := issueCertificate(t, "ca", nil)
	_, strangers := issueCertificate(t, "strangers", nil)
	server, _ := issueCertificate(t, "server", ca)
	worker, _ := issueCertificate(t, "worker", ca)
	unknown, _ := issueCertificate(t, "unknown", ca)
	forged, _ := issueCertificate(t, "worker", strangers)
	for _, isRequired := range []bool{false, true} {
		set := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{server}, ClientCAs: ca.pool, ClientAuth: tls.VerifyClientCertIfGiven}
		if isRequired {
			set.ClientAuth = tls.RequireAndVerifyClientCert
		}
		d := startGateway(t, func(c *gateway.Config) {
			c.GRPCTLS = set
			c.HTTPTLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{server}}
			c.Auth = gatewaytest.Credentials{"cn:worker": gatewaytest.Caller("acme", "worker", "*"), "ann": gatewaytest.Caller("acme", "ann", "*")}
		})
		call := func(cert *tls.Certificate, bearerText string) codes.Code {
			c := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: ca.pool}
			if cert != nil {
				c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil }
			}
			conn, err := grpc.NewClient(d.GRPCAddr(), grpc.WithTransportCredentials(credentials.NewTLS(c)))
			require.NoError(t, err)
			defer conn.Close()
			ctx := t.Context()
			if bearerText != "" {
				ctx = withBearer(ctx, bearerText)
			}
			_, err = pb.NewAgentRuntimeClient(conn).ListAgents(ctx, &pb.ListAgentsRequest{})
			return status.Code(err)
		}
		require.Equal(t, codes.OK, call(&worker, ""))
		require.Equal(t, codes.Unauthenticated, call(&unknown, ""))
		require.Equal(t, codes.Unavailable, call(&forged, ""), "no connection")
		require.Equal(t, codes.Unauthenticated, call(&worker, "wrong"))
		without, with := codes.Unauthenticated, codes.OK
		if isRequired {
			without, with = codes.Unavailable, codes.Unavailable
		}
		require.Equal(t, without, call(nil, ""))
		require.Equal(t, with, call(nil, "ann"))

		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: ca.pool}, ForceAttemptHTTP2: true}}
		for path, want := range map[string]int{"/health": 200, "/v1/agents": 401} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+d.HTTPAddr()+path, nil)
			require.NoError(t, err)
			resp, err := client.Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, want, resp.StatusCode)
		}
		client.CloseIdleConnections()
	}
}

func TestGatewayWarnsOfItself(t *testing.T) {
	for address, level := range map[string]zapcore.Level{"127.0.0.1:0": zapcore.WarnLevel, "0.0.0.0:0": zapcore.ErrorLevel} {
		core, logs := observer.New(zapcore.WarnLevel)
		startGateway(t, func(c *gateway.Config) { c.Logger, c.GRPCAddr = zap.New(core), address })
		require.Equal(t, 1, logs.Len())
		require.Equal(t, level, logs.All()[0].Level)
		require.Contains(t, logs.All()[0].Message, "authentication is off")
		require.Contains(t, logs.All()[0].ContextMap()["remedy"], "auth.keys")
	}
	core, logs := observer.New(zapcore.WarnLevel)
	startGateway(t, func(c *gateway.Config) {
		c.Logger, c.GRPCAddr, c.Auth = zap.New(core), "0.0.0.0:0", gatewaytest.Credentials{}
	})
	require.Zero(t, logs.Len())
}
