package egress

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// The defaults of a [Config].
const (
	DefaultMaxBytes     = 32 << 20
	DefaultTimeout      = 30 * time.Second
	DefaultMaxRedirects = 5
)

const (
	dialTimeout     = 10 * time.Second
	maxHeaderBytes  = 64 << 10
	maxConnsPerHost = 16
	maxIdleConns    = 32
	idleTimeout     = 30 * time.Second
	userAgent       = "turnstone-egress/1"
)

// Config says where requests may go, and bounds their time and size.
type Config struct {
	// AllowHosts are the hosts that may be asked: "api.example.com", "*.example.com" (any name below it), either with ":port".
	// Empty: any public host.
	AllowHosts []string
	// AllowPrivate are exceptions from the refusal of private addresses: "10.1.2.3:8080", "name.internal:8080", "10.0.0.0/8" or
	// "10.0.0.0/8:8080". A name or address given here with its port need not be on AllowHosts as well.
	AllowPrivate []string
	// MaxBytes bounds a response's body, as sent and as decompressed. 0: 32 MiB.
	MaxBytes int64
	// Timeout bounds a request from its first byte to the last of the response, redirects included. 0: 30 s; negative: only the request's
	// context bounds it, for responses that are streams.
	Timeout time.Duration
	// HeaderTimeout bounds the wait for each response's header once its request is sent. 0: Timeout, or 30 s if that is no bound.
	HeaderTimeout time.Duration
	// MaxRedirects is how many redirects are followed. 0: 5; negative: none.
	MaxRedirects int
	// MaxConnsPerHost bounds the connections to one host, busy and idle. 0: 16 busy ones.
	MaxConnsPerHost int
	// Resolver resolves names; the addresses are checked in any case. Nil: the system's.
	Resolver *net.Resolver
}

// Client sends requests within the bounds of a [Config]. It is safe for concurrent use.
type Client struct {
	guard        *guard
	dialer       net.Dialer
	http         http.Client
	maxBytes     int64
	maxRedirects int
}

// New returns a client. The error is [agent.CodeInvalid] and names the entry at fault.
func New(cfg Config) (*Client, error) {
	g, err := newGuard(cfg.AllowHosts, cfg.AllowPrivate)
	if err != nil {
		return nil, err
	}
	switch {
	case cfg.MaxBytes < 0:
		return nil, agent.Invalid("max_bytes", "is negative")
	case cfg.HeaderTimeout < 0:
		return nil, agent.Invalid("header_timeout", "is negative")
	case cfg.MaxConnsPerHost < 0:
		return nil, agent.Invalid("max_conns_per_host", "is negative")
	}
	c := &Client{
		guard: g, maxBytes: cmp.Or(cfg.MaxBytes, DefaultMaxBytes), maxRedirects: max(cmp.Or(cfg.MaxRedirects, DefaultMaxRedirects), 0),
		dialer: net.Dialer{Timeout: dialTimeout, Resolver: cfg.Resolver},
	}
	timeout := max(cmp.Or(cfg.Timeout, DefaultTimeout), 0) // 0 is none to net/http
	c.http = http.Client{
		Timeout:       timeout,
		CheckRedirect: c.checkRedirect,
		Transport: &http.Transport{
			Proxy:                  nil, // never from the environment: a proxy could connect to a private address
			DialContext:            c.dial,
			ForceAttemptHTTP2:      true,
			TLSHandshakeTimeout:    dialTimeout,
			ResponseHeaderTimeout:  cmp.Or(cfg.HeaderTimeout, timeout, DefaultTimeout),
			MaxResponseHeaderBytes: maxHeaderBytes,
			MaxConnsPerHost:        cmp.Or(cfg.MaxConnsPerHost, maxConnsPerHost),
			MaxIdleConns:           max(maxIdleConns, cfg.MaxConnsPerHost),
			MaxIdleConnsPerHost:    cfg.MaxConnsPerHost, // 0 is 2 to net/http
			IdleConnTimeout:        idleTimeout,
		},
	}
	return c, nil
}

// Do sends a request and returns its response, or that of the last redirect. Only redirects of GET and HEAD are followed. The caller
// closes the body; reading more of it than the bound is an overflow. The request itself does not change.
//
// Errors are [agent.Error]: invalid (the URL), denied (the host, the address or a redirect's), overflow (announced or read size,
// too many redirects), unavailable (DNS, connection, TLS, time), cancelled (the request's context ended). Any HTTP status is a
// response, not an error.
func (c *Client) Do(req *http.Request) (*http.Response, error) {
	out := req.Clone(req.Context())
	if err := c.guard.checkURL(out.URL); err != nil {
		return nil, err
	}
	out.Host = ""
	if out.Header.Get("User-Agent") == "" {
		out.Header.Set("User-Agent", userAgent)
	}
	host := out.URL.Host
	resp, err := c.http.Do(out)
	if err != nil {
		return nil, requestError(req.Context(), host, err)
	}
	host = resp.Request.URL.Host
	if resp.ContentLength > c.maxBytes {
		_ = resp.Body.Close() // it is not read
		return nil, tooLargeError(host, c.maxBytes)
	}
	resp.Body = &boundedBody{ctx: req.Context(), body: resp.Body, left: c.maxBytes, bound: c.maxBytes, host: host}
	maskCredentials(resp, secretsOf(req.Context(), out))
	return resp, nil
}

// Check returns why a URL would be refused whatever its host resolves to, nil if it may be tried. It neither resolves nor connects.
func (c *Client) Check(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return agent.Invalid("url", "is not a valid URL")
	}
	return c.guard.checkURL(u)
}

// CloseIdleConnections closes the connections that no request uses.
func (c *Client) CloseIdleConnections() { c.http.CloseIdleConnections() }

// dial connects to addr, the host and port of the URL. The guard checks each address that the host resolves to.
func (c *Client) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	d := c.dialer
	d.Control = c.guard.control(addr)
	return d.DialContext(ctx, network, addr)
}

// keptAcrossOrigins are the headers that a redirect to another origin may take along. net/http removes only Authorization and cookies,
// and not, for example, X-Api-Key.
//
//nolint:gochecknoglobals // a constant in all but syntax
var keptAcrossOrigins = map[string]bool{
	"Accept": true, "Accept-Encoding": true, "Accept-Language": true, "Content-Type": true, "User-Agent": true,
}

// checkRedirect checks a redirect before it is followed. Only redirects of GET and HEAD are: 301, 302 and 303 would turn any other method
// into a GET, which then looks done, and 307 and 308 would repeat it somewhere else. The redirect itself is then the response.
func (c *Client) checkRedirect(req *http.Request, via []*http.Request) error {
	if m := via[0].Method; m != "" && m != http.MethodGet && m != http.MethodHead {
		return http.ErrUseLastResponse
	}
	if len(via) > c.maxRedirects {
		return agent.Errorf(agent.CodeOverflow, operationName(via[0].URL.Host), "redirects more than %d times", c.maxRedirects)
	}
	if err := c.guard.checkURL(req.URL); err != nil {
		return err
	}
	req.Header.Del("Referer") // net/http puts the whole last URL there, query included
	return protectCredentials(req, via)
}

func operationName(host string) string { return "request " + host }

func tooLargeError(host string, bound int64) *agent.Error {
	return agent.Errorf(agent.CodeOverflow, operationName(host), "response is larger than %d bytes", bound)
}

// badLocation is the beginning of net/http's error for a malformed redirect, which quotes the whole address.
const badLocation = "failed to parse Location header"

// badAnswer is a part of net/http's errors for an answer that is not HTTP, which quote the answer.
const badAnswer = "malformed "

// requestError turns an error of net/http into one that names only the host of the URL. Refusals by the control hook or of a redirect are
// in the chain of the error.
func requestError(ctx context.Context, host string, err error) error {
	if ctx.Err() != nil {
		return &agent.Error{Code: agent.CodeCancelled, Op: operationName(host), Err: context.Cause(ctx)}
	}
	if own, ok := errors.AsType[*agent.Error](err); ok {
		return own
	}
	var dns *net.DNSError
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return agent.Errorf(agent.CodeUnavailable, operationName(host), "host not found")
	case errors.As(err, &dns):
		return agent.Errorf(agent.CodeUnavailable, operationName(host), "the host's name could not be resolved")
	case errors.As(err, &timeout) && timeout.Timeout():
		return agent.Errorf(agent.CodeUnavailable, operationName(host), "timed out")
	}
	text := shortReason(err)
	if strings.HasPrefix(text, badLocation) {
		return agent.Errorf(agent.CodeInvalid, operationName(host), "redirects to what is not a valid URL")
	}
	if strings.Contains(text, badAnswer) {
		text = "the answer is not valid HTTP"
	}
	return &agent.Error{Code: agent.CodeUnavailable, Op: operationName(host), Err: errors.New(text)}
}
