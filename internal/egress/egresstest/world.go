package egresstest

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/egress"
)

// World is the front, the canary and the DNS server of a test.
type World struct {
	address string // of the front
	port    string // of both servers
	dns     string // host and port of the DNS server
	reached atomic.Int64
	good    string // body of the front's response for /good
	kind    string // its media type
	bomb    func() []byte
}

// NewWorld starts a world, which ends with the test. good and kind are the body of the front's response for /good and its media type. Empty: a JSON
// array of one object.
func NewWorld(t *testing.T, good, kind string) *World {
	t.Helper()
	w := &World{good: good, kind: kind, bomb: sync.OnceValue(gzipBomb)}
	if w.good == "" {
		w.good, w.kind = `[{"a":1}]`, "application/json"
	}
	front, canary := w.listen(t)
	w.address = front.Addr().String()
	serve(t, front, w.serveFront)
	serve(t, &countingListener{Listener: canary, accepted: &w.reached}, func(rw http.ResponseWriter, r *http.Request) { w.serveGood(rw, r) })
	w.dns = w.startDNS(t)
	return w
}

func serve(t *testing.T, l net.Listener, h http.HandlerFunc) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	_ = s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
}

// countingListener counts the connections to a server.
type countingListener struct {
	net.Listener

	accepted *atomic.Int64
}

func (c *countingListener) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.accepted.Add(1)
	}
	return conn, err
}

// frontHost is the front's address. On Linux, all addresses of 127.0.0.0/8 are this machine. The suite must not attack it.
const frontHost = "127.0.0.2"

// listen listens on both addresses, at a port that is free on both.
func (w *World) listen(t *testing.T) (front, canary net.Listener) {
	t.Helper()
	var listen net.ListenConfig
	var last error
	for range 100 {
		var err error
		front, err = listen.Listen(t.Context(), "tcp", frontHost+":0")
		require.NoError(t, err, "the suite needs a second loopback address; macOS: sudo ifconfig lo0 alias "+frontHost)
		_, w.port, err = net.SplitHostPort(front.Addr().String())
		require.NoError(t, err)
		if canary, err = listen.Listen(t.Context(), "tcp", "127.0.0.1:"+w.port); err == nil {
			return front, canary
		}
		last = err
		_ = front.Close()
	}
	require.NoError(t, last, "no port is free on two addresses")
	return nil, nil
}

// Reached returns how many connections the canary has seen.
func (w *World) Reached() int64 { return w.reached.Load() }

// Port returns the port of the front and of the canary.
func (w *World) Port() string { return w.port }

// Client returns a client that may reach the front. timeout is the default of its timeouts.
func (w *World) Client(t *testing.T, cfg egress.Config, timeout time.Duration) *egress.Client {
	t.Helper()
	cfg.AllowPrivate = append(slices.Clip(cfg.AllowPrivate), w.address)
	cfg.Resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", w.dns)
	}}
	if cfg.Timeout == 0 {
		cfg.Timeout = timeout
	}
	if cfg.HeaderTimeout == 0 {
		cfg.HeaderTimeout = timeout
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = clientBytes
	}
	c, err := egress.New(cfg)
	require.NoError(t, err)
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// Counted is an HTTP client that counts its requests.
type Counted struct {
	HTTP interface {
		Do(req *http.Request) (*http.Response, error)
	}
	N atomic.Int32
}

// Do counts and sends a request.
func (c *Counted) Do(req *http.Request) (*http.Response, error) {
	c.N.Add(1)
	return c.HTTP.Do(req)
}
