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

// anything in an allow-list switches its check off.
const anything = "*"

// guard refuses requests that a foreign web page made a browser send. Without authentication, being able to connect is the only
// credential, and a browser on the same machine can be made to connect by anyone: directly (which Origin shows) or through a name
// that resolves to a loopback address (DNS rebinding, which Host shows).
type guard struct {
	hosts   []string
	origins []string
	anyHost bool // there is authentication: a browser that was led here has no credential
}

// check refuses a request with a foreign Host or Origin. The error names the value and the setting that would allow it. If pathOrigins is not nil, only
// these origins are allowed: not even pages of this host.
func (g *guard) check(r *http.Request, pathOrigins []string) error {
	if !g.anyHost && !g.hostAllowed(r.Host) {
		return agent.Errorf(agent.CodeDenied, "", "the Host header %.100q names neither this machine's loopback address nor an allowed host "+
			"(setting: allowed hosts)", r.Host)
	}
	for _, origin := range r.Header.Values("Origin") {
		switch {
		case pathOrigins != nil && !containsFold(pathOrigins, origin):
			return agent.Errorf(agent.CodeDenied, "", "requests from the origin %.100q are not allowed here, whatever is elsewhere", origin)
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
	if slices.Contains(g.hosts, anything) {
		return true
	}
	host, ok := hostOf(hostPort)
	if !ok {
		return false
	}
	return isLoopback(host) || containsFold(g.hosts, host)
}

// originAllowed accepts pages of this machine, pages that this very host served, and listed origins. "null", the origin of
// sandboxed frames and local files, is nobody's and refused.
func (g *guard) originAllowed(origin, requestHost string) bool {
	if slices.Contains(g.origins, anything) || containsFold(g.origins, origin) {
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

// hostOf strips the port and the brackets of an IPv6 literal; ok is false for what is no host[:port].
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
