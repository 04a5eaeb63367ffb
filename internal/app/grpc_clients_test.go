package app

import (
	"crypto/tls"
	"encoding/pem"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpccredentials "google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/turnstone-run/turnstone/agent"
)

// serveGRPC starts a gRPC server with the health service and returns its address.
func serveGRPC(t *testing.T, opts ...grpc.ServerOption) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := grpc.NewServer(opts...)
	grpc_health_v1.RegisterHealthServer(s, health.NewServer())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() { s.Stop(); <-done })
	return l.Addr().String()
}

func openPool(t *testing.T, entries ...string) *grpcPool {
	t.Helper()
	p, err := newGRPCPool(entries)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

func checkHealth(t *testing.T, conn grpc.ClientConnInterface) error {
	t.Helper()
	_, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	return err
}

func TestPoolOpensOnceAndCloses(t *testing.T) {
	t.Parallel()
	p := openPool(t, "graph="+serveGRPC(t), "away=127.0.0.1:1")
	var wg sync.WaitGroup
	got := make([]grpc.ClientConnInterface, 16)
	for i := range got {
		wg.Go(func() { got[i], _ = p.Conn("graph") })
	}
	wg.Wait()
	for _, conn := range got {
		require.NotNil(t, conn)
		require.Same(t, got[0], conn)
	}
	require.NoError(t, checkHealth(t, got[0]))

	away, err := p.Conn("away")
	require.NoError(t, err, "nobody has called it yet")
	require.Equal(t, codes.Unavailable, status.Code(checkHealth(t, away)))

	_, err = p.Conn("element")
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))

	require.NoError(t, p.Close())
	require.Equal(t, codes.Canceled, status.Code(checkHealth(t, got[0])))
	_, err = p.Conn("graph")
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
}

func TestPoolSpeaksTLS(t *testing.T) {
	t.Parallel()
	web := httptest.NewUnstartedServer(nil)
	web.StartTLS()
	defer web.Close()
	pair := web.TLS.Certificates[0]
	address := serveGRPC(t, grpc.Creds(grpccredentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})))
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}), 0o600))

	p := openPool(t, "trusted=grpcs://"+address+"?server_name=example.com&ca_file="+ca, "by_address=grpcs://"+address+"?ca_file="+ca,
		"unknown_authority=grpcs://"+address, "another_name=grpcs://"+address+"?server_name=acme.test&ca_file="+ca, "plain="+address)
	for name, want := range map[string]codes.Code{
		"trusted": codes.OK, "by_address": codes.OK,
		"unknown_authority": codes.Unavailable, "another_name": codes.Unavailable, "plain": codes.Unavailable,
	} {
		conn, err := p.Conn(name)
		require.NoError(t, err)
		require.Equal(t, want, status.Code(checkHealth(t, conn)), name)
	}
}

func TestPoolRefuses(t *testing.T) {
	t.Parallel()
	for message, entries := range map[string]string{
		`gRPC client "a": address: want host:port, got ""`:         "a=",
		`gRPC client "a": address: want host:port, got "x"`:        "a=grpcs://x",
		`gRPC client "a": address: want host:port, got "x:0"`:      "a=x:0",
		`gRPC client "a": address: want host:port, got ":80"`:      "a=:80",
		`gRPC client "a": tls: is off`:                             "a=grpc://x:1?ca_file=ca.pem",
		`gRPC client "a": cert_file: and key_file belong together`: "a=grpcs://x:1?cert_file=c.pem",
		`tools.grpc_clients[0]: want name=host:port`:               "a=https://x:1",
		`tools.grpc_clients[1]: want name=host:port`:               "a=x:1 =x:1",
		`tools.grpc_clients[0]: unknown option "ca"`:               "a=grpcs://x:1?ca=ca.pem",
		`clients: client "a" is given twice, or without a name`:    "a=x:1 a=x:2",
		`clients: are 65, at most 64`:                              strings.Repeat("a=x:1 ", 65),
	} {
		_, err := newGRPCPool(strings.Fields(entries))
		require.ErrorContains(t, err, message)
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	}
}

func TestPoolRefusesBadCertificates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.pem")
	require.NoError(t, os.WriteFile(empty, []byte("nothing"), 0o600))
	absent := filepath.Join(dir, "absent.pem")
	for message, options := range map[string]string{
		"ca_file: open":        "ca_file=" + absent,
		"holds no certificate": "ca_file=" + empty,
		"cert_file: open":      "cert_file=" + absent + "&key_file=" + empty,
		"key_file: open":       "cert_file=" + empty + "&key_file=" + absent,
		"cert_file: ":          "cert_file=" + empty + "&key_file=" + empty,
	} {
		_, err := openPool(t, "a=grpcs://x:1?"+options).Conn("a")
		require.ErrorContains(t, err, message)
		require.ErrorContains(t, err, `open gRPC client "a"`)
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	}
}
