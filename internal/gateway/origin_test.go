package gateway_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

func TestHostAndOrigin(t *testing.T) {
	d := startGateway(t, func(c *gateway.Config) {
		c.AllowedHosts = []string{"turnstone.internal"}
		c.AllowedOrigins = []string{"https://console.example.com"}
	})
	cases := []struct {
		host, origin string
		ok           bool
	}{
		{host: "localhost", ok: true},
		{host: "LOCALHOST:8080", ok: true},
		{host: "127.0.0.1:8080", ok: true},
		{host: "127.8.8.8", ok: true},
		{host: "[::1]:8080", ok: true},
		{host: "[::1]", ok: true},
		{host: "[::ffff:127.0.0.1]:80", ok: true},
		{host: "turnstone.internal:8080", ok: true},

		{host: "evil.example.com"},
		{host: "127.0.0.1.evil.example.com"}, // DNS rebinding
		{host: "127.0.0.1.nip.io:8080"},
		{host: "localhost.evil.example.com"},
		{host: "localhost."},
		{host: "evil.localhost"},
		{host: "turnstone.internal.evil.com"},
		{host: "192.168.1.7:8080"},
		{host: "10.0.0.1"},
		{host: "0.0.0.0:8080"},
		{host: "169.254.169.254"},
		{host: "[::]:8080"},
		{host: "[fe80::1]"},
		{host: "2130706433"}, // 127.0.0.1 as a number
		{host: "0x7f.1"},

		{host: "localhost", origin: "http://localhost:3000", ok: true},
		{host: "localhost", origin: "http://127.0.0.1:8233", ok: true},
		{host: "localhost", origin: "http://[::1]:3000", ok: true},
		{host: "localhost", origin: "https://console.example.com", ok: true},
		{host: "turnstone.internal:8080", origin: "http://turnstone.internal:8080", ok: true},
		{host: "turnstone.internal:8080", origin: "http://turnstone.internal:9999"},
		{host: "localhost", origin: "http://console.example.com"},
		{host: "localhost", origin: "https://console.example.com:444"},
		{host: "localhost", origin: "null"},
		{host: "localhost", origin: "https://evil.example.com"},
		{host: "localhost", origin: "http://localhost.evil.example.com"},
		{host: "localhost", origin: "http://localhost@evil.example.com"},
		{host: "localhost", origin: "file://"},
		{host: "localhost", origin: "chrome-extension://localhost"},
		{host: "localhost", origin: "http://192.168.1.7"},
	}
	for _, c := range cases {
		t.Run(c.host+" "+c.origin, func(t *testing.T) {
			header := []string{"Host", c.host}
			if c.origin != "" {
				header = append(header, "Origin", c.origin)
			}
			for _, path := range []string{"/health", "/v1/agents"} {
				a := d.send("GET", path, "", header...)
				if c.ok {
					require.Equal(t, 200, a.status, "%s", a.body)
					continue
				}
				require.Equal(t, 403, a.status)
				f := a.failure(t)
				require.Equal(t, "denied", f.Type)
				require.Contains(t, f.Message, "setting: allowed")
			}
		})
	}
}

func TestAnyHostAndOrigin(t *testing.T) {
	d := startGateway(t, func(c *gateway.Config) { c.AllowedHosts, c.AllowedOrigins = []string{"*"}, []string{"*"} })
	require.Equal(t, 200, d.send("GET", "/health", "", "Host", "anything.example.com", "Origin", "null").status)
}

func TestCORS(t *testing.T) {
	auth := gatewaytest.Credentials{"ann": gatewaytest.Caller("acme", "ann", "*")}
	d := startGateway(t, func(c *gateway.Config) { c.Auth, c.AllowedOrigins = auth, []string{"https://console.example.com"} })
	ask := func(origin, path, method string) answer {
		return d.send("OPTIONS", path, "", "Host", "turnstone.example.com", "Origin", origin, "Access-Control-Request-Method", method)
	}
	const console = "https://console.example.com"
	for path, want := range map[string]string{
		"/v1/turns": "GET, HEAD, POST", "/v1/turns/t/events": "GET, HEAD", "/v1/sessions/s": "PATCH, DELETE", "/v1/workflows/w": "GET, HEAD, POST, PUT, DELETE",
		"/v1/results/artifact://x": "GET, HEAD", "/v1/tools/composites/c": "PATCH", "/health": "GET, HEAD",
	} {
		a := ask(console, path, "POST")
		require.Equal(t, 204, a.status, path)
		require.Equal(t, console, a.header.Get("Access-Control-Allow-Origin"))
		require.Equal(t, want, a.header.Get("Access-Control-Allow-Methods"), path)
		for _, name := range []string{"Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID", "Turnstone-Tenant", "X-API-Key", "X-Request-Id"} {
			require.Contains(t, a.header.Get("Access-Control-Allow-Headers"), name)
		}
		require.Contains(t, a.header.Values("Vary"), "Origin")
		require.Empty(t, a.header.Get("Access-Control-Allow-Credentials"))
	}
	require.Equal(t, 404, ask(console, "/v1/nope", "GET").status)
	require.Equal(t, 405, d.send("OPTIONS", "/v1/turns", "", "Origin", console).status, "no preflight")
	for _, origin := range []string{"https://evil.example.com", "null", "https://console.example.com.evil.example"} {
		a := ask(origin, "/v1/turns", "POST")
		require.Equal(t, 403, a.status)
		require.Empty(t, a.header.Get("Access-Control-Allow-Origin"))
		require.Equal(t, 403, d.send("GET", "/v1/agents", "", append(bearer("ann"), "Origin", origin)...).status)
	}
	for status, header := range map[int][]string{200: bearer("ann"), 401: bearer("nobody")} {
		a := d.send("GET", "/v1/agents", "", append(header, "Origin", console, "Host", "any.example.com")...)
		require.Equal(t, status, a.status, "any Host will do")
		require.Equal(t, console, a.header.Get("Access-Control-Allow-Origin"))
		require.Contains(t, a.header.Get("Access-Control-Expose-Headers"), "Turnstone-Turn-Id")
	}
	require.Equal(t, "https://any.example.com", d.send("GET", "/v1/agents", "",
		append(bearer("ann"), "Origin", "https://any.example.com", "Host", "any.example.com")...).header.Get("Access-Control-Allow-Origin"), "its own pages")

	all := startGateway(t, func(c *gateway.Config) { c.Auth, c.AllowedOrigins = auth, []string{"*"} })
	a := all.send("GET", "/v1/agents", "", append(bearer("ann"), "Origin", "https://x.example")...)
	require.Equal(t, "*", a.header.Get("Access-Control-Allow-Origin"))
	require.Empty(t, a.header.Get("Access-Control-Allow-Credentials"))
}
