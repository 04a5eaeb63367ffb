package egress

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"code.dny.dev/ssrf"
	"golang.org/x/net/idna"

	"github.com/turnstone-run/turnstone/agent"
)

// guard checks URLs before DNS resolution and addresses after it.
type guard struct {
	hosts   []hostRule     // the allow-list; empty: any host
	names   []hostRule     // private exceptions by name, always with a port
	nets    []netRule      // private exceptions by network
	special *ssrf.Guardian // checks for special-purpose addresses
}

// hostRule matches a host or, if isWildcard is set, any name below it. Port 0 matches any port.
type hostRule struct {
	host       string
	isWildcard bool
	port       uint16
}

// netRule matches addresses. Port 0 matches any port.
type netRule struct {
	prefix netip.Prefix
	port   uint16
}

func newGuard(hosts, private []string) (*guard, error) {
	g := &guard{special: ssrf.New(ssrf.WithAnyPort())}
	for i, s := range hosts {
		r, err := parseHostRule(s)
		if err != nil {
			return nil, agent.Invalid(indexedField("allow_hosts", i), "%q: %w", s, err)
		}
		g.hosts = append(g.hosts, r)
	}
	for i, s := range private {
		if err := g.allowPrivate(s); err != nil {
			return nil, agent.Invalid(indexedField("allow_private", i), "%q: %w", s, err)
		}
	}
	return g, nil
}

func indexedField(field string, i int) string { return field + "[" + strconv.Itoa(i) + "]" }

// checkURL checks a URL without DNS, and changes its host to its canonical form: lower case, ASCII, no final dot.
func (g *guard) checkURL(u *url.URL) error {
	if u.Scheme != "http" && u.Scheme != "https" {
		return agent.Invalid("url", "scheme %q: want http or https", u.Scheme)
	}
	if u.User != nil {
		return agent.Invalid("url", "has user information; credentials belong in an auth profile")
	}
	host, err := canonicalHost(u.Hostname())
	if err != nil {
		return err
	}
	port, err := portOf(u)
	if err != nil {
		return err
	}
	explicit := u.Port()
	u.Host = host
	if explicit != "" {
		u.Host = net.JoinHostPort(host, explicit)
	} else if strings.Contains(host, ":") {
		u.Host = "[" + host + "]"
	}
	if len(g.hosts) > 0 && !matchesHost(g.hosts, host, port) && !g.isPrivateException(host, port) {
		return agent.Errorf(agent.CodeDenied, operationName(u.Host), "the host is not on the allow-list")
	}
	// A literal address is checked now, because the error is better. The control hook checks it again.
	if ip, err := netip.ParseAddr(host); err == nil {
		return g.checkAddr(host, netip.AddrPortFrom(ip, port))
	}
	return nil
}

// control returns the hook for one dial. It runs before the socket connects to an address.
func (g *guard) control(addr string) func(network, address string, c syscall.RawConn) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	return func(_, address string, _ syscall.RawConn) error {
		ip, err := netip.ParseAddrPort(address)
		if err != nil {
			return agent.Errorf(agent.CodeDenied, operationName(host), "%q is not an address", address)
		}
		return g.checkAddr(host, ip)
	}
}

// checkAddr returns an error if no connection to an address is allowed. host is the name that resolved to it.
func (g *guard) checkAddr(host string, to netip.AddrPort) error {
	ip := to.Addr()
	if ip.Zone() == "" && (g.allowsAddr(ip, to.Port()) || matchesHost(g.names, host, to.Port())) {
		return nil
	}
	// The library refuses every IPv6 address outside 2000::/3, which includes the mapped and translated forms of IPv4 addresses.
	if err := g.special.SafeAddr(ip); err != nil {
		return agent.Errorf(agent.CodeDenied, operationName(host), "%s is not a public address", ip)
	}
	return nil
}

// isPrivateException reports whether the private exceptions name this host with this port.
func (g *guard) isPrivateException(host string, port uint16) bool {
	if matchesHost(g.names, host, port) {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && g.allowsAddr(ip, port)
}

// allowsAddr reports whether the private exceptions have a network with this address and port.
func (g *guard) allowsAddr(ip netip.Addr, port uint16) bool {
	return slices.ContainsFunc(g.nets, func(r netRule) bool { return r.prefix.Contains(ip.Unmap()) && (r.port == 0 || r.port == port) })
}

func matchesHost(rules []hostRule, host string, port uint16) bool {
	for _, r := range rules {
		if r.port != 0 && r.port != port {
			continue
		}
		if r.isWildcard && strings.HasSuffix(host, "."+r.host) || !r.isWildcard && host == r.host {
			return true
		}
	}
	return false
}

// canonicalHost returns the canonical form of a host. It refuses an IPv4 address in octal, hexadecimal, decimal or short form, which some resolvers take
// for an address such as 127.0.0.1 and others for a name.
func canonicalHost(host string) (string, error) {
	host = strings.TrimSuffix(host, ".")
	if host == "" {
		return "", agent.Invalid("url", "has no host")
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		if ip.Zone() != "" {
			return "", agent.Invalid("url", "an address with a zone is refused")
		}
		return ip.String(), nil
	}
	for i := range len(host) {
		if host[i] >= 0x80 {
			ascii, err := idna.Lookup.ToASCII(host)
			if err != nil {
				return "", agent.Invalid("url", "the host is not a valid name")
			}
			return canonicalHost(ascii)
		}
	}
	host = strings.ToLower(host)
	last := host[strings.LastIndexByte(host, '.')+1:]
	if last == "" || isIPv4Label(last) {
		return "", agent.Invalid("url", "the host %q is not a valid name or dotted address", host)
	}
	if strings.ContainsAny(host, ":%/\\@ []") {
		return "", agent.Invalid("url", "the host is not a valid name")
	}
	return host, nil
}

// isIPv4Label reports whether resolvers may take a host whose last label is label for an IPv4 address ("ends in a number" in the URL standard).
func isIPv4Label(label string) bool {
	if _, err := strconv.ParseUint(label, 0, 64); err == nil {
		return true
	}
	return strings.Trim(label, "0123456789") == ""
}

// portOf returns the port of a URL, or the default port of its scheme.
func portOf(u *url.URL) (uint16, error) {
	switch s := u.Port(); {
	case s != "":
		n, err := strconv.ParseUint(s, 10, 16)
		if err != nil || n == 0 {
			return 0, agent.Invalid("url", "port %q: want 1 to 65535", s)
		}
		return uint16(n), nil
	case u.Scheme == "http":
		return 80, nil
	default:
		return 443, nil
	}
}
