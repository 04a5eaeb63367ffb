package cli

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone"
	"github.com/turnstone-run/turnstone/internal/app"
)

// taken listens on a free port until the test ends, and returns the address.
func taken(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l.Addr().String()
}

// portOf returns the port of an address, which must not be 0.
func portOf(t *testing.T, addr string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	require.NotEqual(t, "0", port)
	return port
}

func TestHoldAddress(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "localhost", "0.0.0.0", ""} {
		addr, held, err := holdAddress(t.Context(), net.JoinHostPort(host, "0"), false)
		require.NoError(t, err)
		port := portOf(t, addr)
		require.Equal(t, net.JoinHostPort(host, port), addr, "the host as it was given, with the port that it will have")
		_, _, err = holdAddress(t.Context(), addr, false)
		require.ErrorIs(t, err, syscall.EADDRINUSE, "it is held")
		require.NoError(t, held.Close())
		again, held, err := holdAddress(t.Context(), addr, true)
		require.NoError(t, err)
		require.Equal(t, addr, again, "what is free is not replaced")
		require.NoError(t, held.Close())
	}
	busy := taken(t)
	addr, held, err := holdAddress(t.Context(), busy, true)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, held.Close()) })
	require.NotEqual(t, portOf(t, busy), portOf(t, addr))
	require.Equal(t, held.Addr().String(), addr)
	for _, bad := range []string{"", "127.0.0.1", "127.0.0.1:70000"} {
		_, _, err := holdAddress(t.Context(), bad, true)
		require.Error(t, err, bad)
	}
}

// TestCodecEndpoint checks that the codec endpoint of the Web UI has the address on which the gateway listens, not the configured one.
func TestCodecEndpoint(t *testing.T) {
	endpoint := func(settings *turnstone.Settings) string {
		return (&dev{}).stackConfig(settings, stackOptions{}, zap.NewNop()).Temporal.CodecEndpoint
	}
	settings := func(change func(*turnstone.Settings)) *turnstone.Settings {
		s := &turnstone.Settings{}
		s.Gateway.Enabled, s.HTTP.Addr, s.Temporal.OffloadBytes = true, "127.0.0.1:8080", 1
		change(s)
		return s
	}
	for want, change := range map[string]func(*turnstone.Settings){
		"http://127.0.0.1:8080/codec": func(s *turnstone.Settings) { s.Temporal.EncryptionKeys, s.Temporal.OffloadBytes = "2026-11:…", 0 },
		"http://127.0.0.1:8081/codec": func(s *turnstone.Settings) { s.HTTP.Addr = "0.0.0.0:8081" },
		"http://127.0.0.1:8082/codec": func(s *turnstone.Settings) { s.HTTP.Addr = ":8082" },
		"http://127.0.0.1:8083/codec": func(s *turnstone.Settings) { s.HTTP.Addr = "[::]:8083" },
		"http://[::1]:8084/codec":     func(s *turnstone.Settings) { s.HTTP.Addr = "[::1]:8084" },
		"https://laptop.lan:8085/codec": func(s *turnstone.Settings) {
			s.HTTP = app.HTTP{Addr: "laptop.lan:8085", TLSCert: "c.pem", TLSKey: "k.pem"}
		},
	} {
		require.Equal(t, want, endpoint(settings(change)))
	}
	for _, change := range []func(*turnstone.Settings){
		func(s *turnstone.Settings) { s.Temporal.OffloadBytes = 0 }, // payloads are neither encrypted nor offloaded
		func(s *turnstone.Settings) { s.Gateway.Enabled = false },
	} {
		require.Empty(t, endpoint(settings(change)))
	}

	busy := taken(t)
	inst := &instance{settings: settings(func(s *turnstone.Settings) { s.HTTP.Addr, s.GRPC.Addr = busy, "127.0.0.1:0" })}
	err := inst.holdGatewayAddresses(t.Context(), false)
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.ErrorContains(t, err, "http.addr: ")
	require.NoError(t, inst.holdGatewayAddresses(t.Context(), true))
	require.Len(t, inst.held, 2)
	require.NotEqual(t, busy, inst.settings.HTTP.Addr)
	require.Equal(t, "http://127.0.0.1:"+portOf(t, inst.held[0].Addr().String())+"/codec", endpoint(inst.settings))
	require.Equal(t, inst.held[1].Addr().String(), inst.settings.GRPC.Addr)
	require.NoError(t, inst.stop(t.Context()), "nothing else was started")
	_, again, err := holdAddress(t.Context(), inst.settings.HTTP.Addr, false)
	require.NoError(t, err, "it was released")
	require.NoError(t, again.Close())
}
