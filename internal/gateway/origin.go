package gateway

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// wildcard in a list of allowed hosts or origins allows all.
const wildcard = "*"

// guard refuses requests that a page of a foreign site made a browser send. Without authentication, everybody who can connect may do everything,
// and any page can make a browser on this machine connect: directly, which the Origin header shows, or through a name that resolves to a
// loopback address (DNS rebinding), which the Host header shows.
type guard struct {
	hosts         []string
	origins       []string
	allowsAnyHost bool // with authentication, because such a request has no credential
}

// check returns an error if a request has a foreign Host or Origin. If pathOrigins is not nil, only these origins are allowed.
func (g *guard) check(r *http.Request, pathOrigins []string) error {
	if !g.allowsAnyHost && !g.hostAllowed(r.Host) {
		return agent.Errorf(agent.CodeDenied, "", "the Host header %.100q names neither this machine's loopback address nor an allowed host "+
			"(setting: allowed hosts)", r.Host)
	}
	for _, origin := range r.Header.Values("Origin") {
		switch {
		case pathOrigins != nil && !containsFold(pathOrigins, origin):
			return agent.Errorf(agent.CodeDenied, "", "requests from the origin %.100q are not allowed on this path", origin)
		case pathOrigins == nil && !g.originAllowed(origin, r.Host):
			return agent.Errorf(agent.CodeDenied, "", "requests from the origin %.100q are not allowed (setting: allowed origins)", origin)
		}
	}
	return nil
}

func containsFold(list []string, text string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return strings.EqualFold(s, text) })
}

func (g *guard) hostAllowed(hostPort string) bool {
	if slices.Contains(g.hosts, wildcard) {
		return true
	}
	host, ok := hostOf(hostPort)
	if !ok {
		return false
	}
	return isLoopback(host) || containsFold(g.hosts, host)
}

// originAllowed reports whether an origin is listed, of a loopback address or of the requested host. It is false for "null", the origin of
// sandboxed frames and local files.
func (g *guard) originAllowed(origin, requestHost string) bool {
	if slices.Contains(g.origins, wildcard) || containsFold(g.origins, origin) {
		return true
	}
	u, err := parseOrigin(origin)
	if err != nil {
		return false
	}
	host, ok := hostOf(u.Host)
	return ok && (isLoopback(host) || strings.EqualFold(u.Host, requestHost))
}

func parseOrigin(origin string) (*url.URL, error) {
	u, err := url.Parse(origin)
	switch {
	case err != nil:
		return nil, errors.New("is no URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("wants http:// or https://")
	case u.Host == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("wants scheme://host[:port] and nothing else")
	}
	return u, nil
}

// hostOf returns the host of host[:port], without the brackets of an IPv6 literal. ok is false for invalid text.
func hostOf(hostPort string) (host string, ok bool) {
	host = hostPort
	if h, port, err := net.SplitHostPort(hostPort); err == nil {
		if port == "" || strings.Trim(port, "0123456789") != "" {
			return "", false
		}
		host = h
	} else if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	} else if strings.ContainsAny(host, ":[]") {
		return "", false
	}
	return host, host != ""
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Zone() == "" && ip.Unmap().IsLoopback()
}
