package egress

import (
	"net/netip"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

func TestCheckURL(t *testing.T) {
	public, err := newGuard(nil, nil)
	require.NoError(t, err)
	listed, err := newGuard([]string{"api.example.com", "*.example.org:8443", "8.8.8.8"},
		[]string{"127.0.0.1:9000", "flights.internal:8080", "10.0.0.0/8:80"})
	require.NoError(t, err)

	tests := []struct {
		name string
		g    *guard
		url  string
		code agent.Code // empty: allowed
	}{
		{"public name", public, "https://api.example.com/x?y=z", ""},
		{"public name with a port", public, "http://api.example.com:8080/", ""},
		{"public address", public, "https://8.8.8.8/", ""},
		{"public IPv6 address", public, "https://[2606:4700::1111]/", ""},
		{"upper case and final dot", listed, "https://API.Example.COM./", ""},
		{"not on the list", listed, "https://evil.com/", agent.CodeDenied},
		{"list entry as a suffix", listed, "https://evilapi.example.com/", agent.CodeDenied},
		{"wildcard", listed, "https://a.b.example.org:8443/", ""},
		{"wildcard is not the name itself", listed, "https://example.org:8443/", agent.CodeDenied},
		{"wildcard on another port", listed, "https://a.example.org/", agent.CodeDenied},
		{"private exception needs no list entry", listed, "http://flights.internal:8080/", ""},
		{"private exception on another port", listed, "http://flights.internal/", agent.CodeDenied},
		{"private address exception", listed, "http://127.0.0.1:9000/", ""},
		{"private address on another port", listed, "http://127.0.0.1:9001/", agent.CodeDenied},
		{"private network exception", listed, "http://10.9.8.7/", ""},
		{"private network on another port", listed, "https://10.9.8.7/", agent.CodeDenied},

		{"file", public, "file:///etc/passwd", agent.CodeInvalid},
		{"gopher", public, "gopher://x/", agent.CodeInvalid},
		{"no scheme", public, "//x/", agent.CodeInvalid},
		{"no host", public, "http:///x", agent.CodeInvalid},
		{"user information", public, "http://api.example.com@evil.com/", agent.CodeInvalid},
		{"port 0", public, "http://x:0/", agent.CodeInvalid},
		{"port too large", public, "http://x:70000/", agent.CodeInvalid},

		{"metadata", public, "http://169.254.169.254/latest/meta-data", agent.CodeDenied},
		{"loopback", public, "http://127.0.0.1/", agent.CodeDenied},
		{"loopback, another", public, "http://127.8.9.1/", agent.CodeDenied},
		{"unspecified", public, "http://0.0.0.0/", agent.CodeDenied},
		{"private", public, "http://192.168.1.1/", agent.CodeDenied},
		{"shared (CGNAT)", public, "http://100.64.0.1/", agent.CodeDenied},
		{"multicast", public, "http://224.0.0.1/", agent.CodeDenied},
		{"broadcast", public, "http://255.255.255.255/", agent.CodeDenied},
		{"IPv6 loopback", public, "http://[::1]/", agent.CodeDenied},
		{"IPv6 unspecified", public, "http://[::]/", agent.CodeDenied},
		{"IPv6 unique local", public, "http://[fd00::1]/", agent.CodeDenied},
		{"IPv6 link-local", public, "http://[fe80::1]/", agent.CodeDenied},
		{"IPv6 zone", public, "http://[fe80::1%25lo]/", agent.CodeInvalid},
		{"IPv4-mapped", public, "http://[::ffff:127.0.0.1]/", agent.CodeDenied},
		{"IPv4-compatible", public, "http://[::127.0.0.1]/", agent.CodeDenied},
		{"NAT64", public, "http://[64:ff9b::7f00:1]/", agent.CodeDenied},
		{"NAT64, local prefix", public, "http://[64:ff9b:1::7f00:1]/", agent.CodeDenied},
		{"6to4", public, "http://[2002:7f00:1::]/", agent.CodeDenied},
		{"Teredo", public, "http://[2001:0:7f00:1::]/", agent.CodeDenied},
		{"decimal", public, "http://2130706433/", agent.CodeInvalid},
		{"octal", public, "http://0177.0.0.1/", agent.CodeInvalid},
		{"hexadecimal", public, "http://0x7f.0.0.0x1/", agent.CodeInvalid},
		{"one hexadecimal number", public, "http://0x7f000001/", agent.CodeInvalid},
		{"short form", public, "http://127.1/", agent.CodeInvalid},
		{"full-width digits", public, "http://１２７.０.０.１/", agent.CodeDenied},
		{"ideographic dots", public, "http://127。0。0。1/", agent.CodeDenied},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			u, err := url.Parse(tt.url)
			require.NoError(t, err)
			require.Equal(t, tt.code, agent.CodeOf((&Client{guard: tt.g}).Check(tt.url)))
			require.Equal(t, tt.code, agent.CodeOf(tt.g.checkURL(u)))
		})
	}
}

func TestAddressExceptionForAnyName(t *testing.T) {
	g, err := newGuard(nil, []string{"127.0.0.1:9000", "flights.internal:8080", "[::1]:9000"})
	require.NoError(t, err)
	require.NoError(t, g.checkAddr("localhost", netip.MustParseAddrPort("127.0.0.1:9000")))
	require.NoError(t, g.checkAddr("localhost", netip.MustParseAddrPort("[::1]:9000")))
	require.Error(t, g.checkAddr("localhost", netip.MustParseAddrPort("127.0.0.1:9001")))
	require.NoError(t, g.checkAddr("flights.internal", netip.MustParseAddrPort("10.1.1.1:8080")))
	require.Error(t, g.checkAddr("other.internal", netip.MustParseAddrPort("10.1.1.1:8080")))
}

func TestInvalidConfig(t *testing.T) {
	tests := []struct {
		name  string
		cfg   Config
		field string
	}{
		{"host with a scheme", Config{AllowHosts: []string{"ok.com", "https://x.com"}}, "allow_hosts[1]"},
		{"negative connections", Config{MaxConnsPerHost: -1}, "max_conns_per_host"},
		{"host with a path", Config{AllowHosts: []string{"x.com/y"}}, "allow_hosts[0]"},
		{"star in the middle", Config{AllowHosts: []string{"a.*.com"}}, "allow_hosts[0]"},
		{"empty host", Config{AllowHosts: []string{""}}, "allow_hosts[0]"},
		{"private without a port", Config{AllowPrivate: []string{"127.0.0.1"}}, "allow_private[0]"},
		{"private wildcard", Config{AllowPrivate: []string{"*.internal:80"}}, "allow_private[0]"},
		{"bad network", Config{AllowPrivate: []string{"10.0.0.0/40"}}, "allow_private[0]"},
		{"bad network port", Config{AllowPrivate: []string{"10.0.0.0/8:x"}}, "allow_private[0]"},
		{"negative size", Config{MaxBytes: -1}, "max_bytes"},
		{"negative time", Config{HeaderTimeout: -1}, "header_timeout"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := New(tt.cfg)
			var e *agent.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, agent.CodeInvalid, e.Code)
			require.Equal(t, tt.field, e.Field)
		})
	}
}

// FuzzCheckURL checks that no URL makes the check panic or accept a special address.
func FuzzCheckURL(f *testing.F) {
	for _, s := range []string{
		"http://127.0.0.1/", "https://api.example.com:8443/x?y", "http://[::ffff:10.0.0.1]:80", "http://0x7f.1", "http://a..b",
		"http://１２７.1/", "http://xn--/", "HTTP://EXAMPLE.com.", "http://[fe80::1%25eth0]/",
	} {
		f.Add(s)
	}
	g, err := newGuard(nil, nil)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, s string) {
		u, err := url.Parse(s)
		if err != nil || g.checkURL(u) != nil {
			return
		}
		if ip, err := netip.ParseAddr(u.Hostname()); err == nil {
			ip = ip.Unmap()
			require.False(t, ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified(), s)
		}
		before := u.Host
		require.NoError(t, g.checkURL(u), "the canonical form %q is refused", before)
		require.Equal(t, before, u.Host, "the canonical form changes again")
	})
}
