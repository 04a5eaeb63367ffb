package conns_test

import (
	"crypto/tls"
	"encoding/pem"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool/conns"
)

// serve starts a gRPC server with the health service and returns its address.
func serve(t *testing.T, opts ...grpc.ServerOption) string {
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

func pool(t *testing.T, clients ...conns.Client) *conns.Pool {
	t.Helper()
	p, err := conns.New(clients...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

func check(t *testing.T, conn grpc.ClientConnInterface) error {
	t.Helper()
	_, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	return err
}

func TestPoolOpensOnceAndCloses(t *testing.T) {
	t.Parallel()
	p := pool(t, conns.Client{Name: "graph", Address: serve(t)}, conns.Client{Name: "away", Address: "127.0.0.1:1"})
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
	require.NoError(t, check(t, got[0]))

	away, err := p.Conn("away")
	require.NoError(t, err, "nobody has called it yet")
	require.Equal(t, codes.Unavailable, status.Code(check(t, away)))

	_, err = p.Conn("element")
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))

	require.NoError(t, p.Close())
	require.Equal(t, codes.Canceled, status.Code(check(t, got[0])))
	_, err = p.Conn("graph")
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
}

func TestPoolSpeaksTLS(t *testing.T) {
	t.Parallel()
	web := httptest.NewUnstartedServer(nil)
	web.StartTLS()
	defer web.Close()
	pair := web.TLS.Certificates[0]
	address := serve(t, grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})))
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}), 0o600))

	p := pool(t,
		conns.Client{Name: "trusted", Address: address, TLS: true, CAFile: ca, ServerName: "example.com"},
		conns.Client{Name: "by address", Address: address, TLS: true, CAFile: ca},
		conns.Client{Name: "unknown authority", Address: address, TLS: true},
		conns.Client{Name: "another name", Address: address, TLS: true, CAFile: ca, ServerName: "acme.test"},
		conns.Client{Name: "plain", Address: address},
	)
	for name, want := range map[string]codes.Code{
		"trusted": codes.OK, "by address": codes.OK,
		"unknown authority": codes.Unavailable, "another name": codes.Unavailable, "plain": codes.Unavailable,
	} {
		conn, err := p.Conn(name)
		require.NoError(t, err)
		require.Equal(t, want, status.Code(check(t, conn)), name)
	}
}

func TestPoolRefuses(t *testing.T) {
	t.Parallel()
	for says, c := range map[string]conns.Client{
		`gRPC client "a": address: want host:port, got ""`:          {Name: "a"},
		`gRPC client "a": address: want host:port, got "https://x"`: {Name: "a", Address: "https://x"},
		`gRPC client "a": address: want host:port, got "x:0"`:       {Name: "a", Address: "x:0"},
		`gRPC client "a": address: want host:port, got ":80"`:       {Name: "a", Address: ":80"},
		`gRPC client "a": tls: is off`:                              {Name: "a", Address: "x:1", CAFile: "ca.pem"},
		`gRPC client "a": cert_file: and key_file belong together`:  {Name: "a", Address: "x:1", TLS: true, CertFile: "c.pem"},
		`gRPC client "a": max_message_bytes: is negative`:           {Name: "a", Address: "x:1", MaxMessageBytes: -1},
		`clients: client "" is given twice, or without a name`:      {Address: "x:1"},
	} {
		_, err := conns.New(c)
		require.ErrorContains(t, err, says)
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	}
	_, err := conns.New(conns.Client{Name: "a", Address: "x:1"}, conns.Client{Name: "a", Address: "x:2"})
	require.ErrorContains(t, err, `"a" is given twice`)
	_, err = conns.New(make([]conns.Client, 65)...)
	require.ErrorContains(t, err, "at most 64")
}

func TestPoolRefusesBadCertificates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.pem")
	require.NoError(t, os.WriteFile(empty, []byte("nothing"), 0o600))
	absent := filepath.Join(dir, "absent.pem")
	for field, c := range map[string]conns.Client{
		"ca_file: open":        {Name: "a", Address: "x:1", TLS: true, CAFile: absent},
		"holds no certificate": {Name: "a", Address: "x:1", TLS: true, CAFile: empty},
		"cert_file: open":      {Name: "a", Address: "x:1", TLS: true, CertFile: absent, KeyFile: empty},
		"key_file: open":       {Name: "a", Address: "x:1", TLS: true, CertFile: empty, KeyFile: absent},
		"cert_file: ":          {Name: "a", Address: "x:1", TLS: true, CertFile: empty, KeyFile: empty},
	} {
		_, err := pool(t, c).Conn("a")
		require.ErrorContains(t, err, field)
		require.ErrorContains(t, err, `open gRPC client "a"`)
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	}
}
