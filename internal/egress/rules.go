package egress

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
)

var (
	errNeedsPort = errors.New("a private host is allowed with its port only, as host:port")
	errHostShape = errors.New("want a host name, *.name or an address, with or without :port; no scheme, no path")
	errCIDRShape = errors.New("want a network as 10.0.0.0/8 or 10.0.0.0/8:8080")
)

// parseHostRule parses name, *.name, address or [address], each with or without :port.
func parseHostRule(s string) (hostRule, error) {
	var r hostRule
	s, r.isWildcard = strings.CutPrefix(s, "*.")
	host, port, err := splitPort(s)
	if err != nil || host == "" || strings.ContainsAny(host, "/*@") {
		return r, errHostShape
	}
	r.port = port
	r.host, err = canonicalHost(host)
	if err != nil {
		return r, errHostShape
	}
	return r, nil
}

// allowPrivate adds one exception to the refusal of private addresses.
func (g *guard) allowPrivate(s string) error {
	if !strings.Contains(s, "/") {
		r, err := parseHostRule(s)
		if err != nil {
			return err
		}
		if r.port == 0 || r.isWildcard {
			return errNeedsPort
		}
		// An address is allowed for every name that resolves to it.
		if ip, err := netip.ParseAddr(r.host); err == nil {
			ip = ip.Unmap()
			g.nets = append(g.nets, netRule{prefix: netip.PrefixFrom(ip, ip.BitLen()), port: r.port})
			return nil
		}
		g.names = append(g.names, r)
		return nil
	}
	network, tail, _ := strings.Cut(s, "/")
	bits, portText, hasPort := strings.Cut(tail, ":")
	prefix, err := netip.ParsePrefix(strings.Trim(network, "[]") + "/" + bits)
	if err != nil || prefix.Addr().Is4In6() {
		return errCIDRShape
	}
	r := netRule{prefix: prefix.Masked()}
	if hasPort {
		if r.port, err = parsePort(portText); err != nil {
			return errCIDRShape
		}
	}
	g.nets = append(g.nets, r)
	return nil
}

// splitPort splits text into host and port, which is 0 if there is none. An IPv6 address with a port needs brackets.
func splitPort(s string) (host string, port uint16, err error) {
	if rest, ok := strings.CutPrefix(s, "["); ok {
		addr, tail, isClosed := strings.Cut(rest, "]")
		if !isClosed {
			return "", 0, errHostShape
		}
		if tail == "" {
			return addr, 0, nil
		}
		text, ok := strings.CutPrefix(tail, ":")
		if !ok {
			return "", 0, errHostShape
		}
		port, err = parsePort(text)
		return addr, port, err
	}
	if strings.Count(s, ":") != 1 {
		return s, 0, nil
	}
	host, text, _ := strings.Cut(s, ":")
	port, err = parsePort(text)
	return host, port, err
}

func parsePort(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 {
		return 0, errHostShape
	}
	return uint16(n), nil
}
