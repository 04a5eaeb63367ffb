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

// Config has the allowed destinations of requests and their limits.
type Config struct {
	// AllowHosts lists the allowed hosts: "api.example.com", "*.example.com" (any name below it), either with ":port".
	// Empty: any public host.
	AllowHosts []string
	// AllowPrivate lists private addresses that are allowed nevertheless: "10.1.2.3:8080", "name.internal:8080", "10.0.0.0/8" or
	// "10.0.0.0/8:8080". A name or address with a port in this list need not be in AllowHosts.
	AllowPrivate []string
	// MaxBytes limits a response's body, as sent and as decompressed. 0: 32 MiB.
	MaxBytes int64
	// Timeout limits the time of a request with its redirects and its response. 0: 30 s; negative: only the request's context limits it, for
	// responses that are streams.
	Timeout time.Duration
	// HeaderTimeout limits the time between a request and its response's header. 0: Timeout, or 30 s if Timeout is negative.
	HeaderTimeout time.Duration
	// MaxRedirects is how many redirects are followed. 0: 5; negative: none.
	MaxRedirects int
	// MaxConnsPerHost limits the connections to one host, busy and idle. 0: 16 busy ones.
	MaxConnsPerHost int
	// Resolver resolves names. The addresses that it returns are checked. Nil: the system's.
	Resolver *net.Resolver
}

// Client sends requests as a [Config] allows. It is safe for concurrent use.
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
	timeout := max(cmp.Or(cfg.Timeout, DefaultTimeout), 0) // 0 means no timeout to net/http
	c.http = http.Client{
		Timeout:       timeout,
		CheckRedirect: c.checkRedirect,
		Transport: &http.Transport{
			Proxy:                  nil, // not from the environment, because a proxy could connect to a private address
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

// Do sends a request and returns its response, or the response after the last redirect. It follows redirects of GET and HEAD only. The caller must close
// the body. Reading more than MaxBytes from it returns an overflow error. Do does not change req.
//
// Errors are [agent.Error]: invalid (the URL), denied (a host or address, also of a redirect), overflow (size of the response, too many redirects),
// unavailable (DNS, connection, TLS, timeout), cancelled (the request's context has ended). An HTTP status is not an error.
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
		_ = resp.Body.Close()
		return nil, tooLargeError(host, c.maxBytes)
	}
	resp.Body = &boundedBody{ctx: req.Context(), body: resp.Body, remaining: c.maxBytes, maxBytes: c.maxBytes, host: host}
	maskCredentials(resp, secretsOf(req.Context(), out))
	return resp, nil
}

// Check returns an error if Do would refuse a URL without resolving its host. It neither resolves nor connects.
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

// keptAcrossOrigins has the headers that are sent with a redirect to another origin. net/http itself removes only Authorization and cookies, and not, for
// example, X-Api-Key.
//
//nolint:gochecknoglobals // nothing changes it
var keptAcrossOrigins = map[string]bool{
	"Accept": true, "Accept-Encoding": true, "Accept-Language": true, "Content-Type": true, "User-Agent": true,
}

// checkRedirect checks a redirect before it is followed. It does not follow redirects of other methods than GET and HEAD, but makes the redirect the
// response: net/http would send a GET after 301, 302 and 303, and repeat the request at another place after 307 and 308.
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
	req.Header.Del("Referer") // net/http sets it to the last URL with its query
	return protectCredentials(req, via)
}

func operationName(host string) string { return "request " + host }

func tooLargeError(host string, maxBytes int64) *agent.Error {
	return agent.Errorf(agent.CodeOverflow, operationName(host), "response is larger than %d bytes", maxBytes)
}

// badLocation begins net/http's error for a malformed redirect, which quotes the whole address.
const badLocation = "failed to parse Location header"

// badResponse is part of net/http's errors for a response that is not HTTP, which quote the response.
const badResponse = "malformed "

// requestError returns the error to report for an error of net/http. It names only the host of the URL. If the guard or checkRedirect refused the
// request, their error is in the chain and is returned.
func requestError(ctx context.Context, host string, err error) error {
	if ctx.Err() != nil {
		return &agent.Error{Code: agent.CodeCancelled, Op: operationName(host), Err: context.Cause(ctx)}
	}
	if refusal, ok := errors.AsType[*agent.Error](err); ok {
		return refusal
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
		return agent.Errorf(agent.CodeInvalid, operationName(host), "redirects to an invalid URL")
	}
	if strings.Contains(text, badResponse) {
		text = "the answer is not valid HTTP"
	}
	return &agent.Error{Code: agent.CodeUnavailable, Op: operationName(host), Err: errors.New(text)}
}
