package gateway_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

// panickingDoor has a handler that panics before it reads the body.
type panickingDoor struct{}

func (panickingDoor) Routes() []gateway.Route {
	return []gateway.Route{{Method: http.MethodPost, Path: "/panic", Public: true, Handle: func(http.ResponseWriter, *http.Request, *gateway.Call) error {
		panic("on purpose")
	}}}
}

// sendSlowly sends a request whose body comes a byte at a time, without end.
func sendSlowly(t *testing.T, addr, request string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, strings.ReplaceAll(request, "\n", "\r\n"))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				text := "x"
				if strings.Contains(request, "chunked") {
					text = "1\r\nx\r\n"
				}
				if _, err := io.WriteString(conn, text); err != nil {
					return
				}
			}
		}
	}()
	return conn
}

func TestDrippedBodiesHoldNoConnection(t *testing.T) {
	const bodyTime = 2 * time.Second
	d, _, _ := startWithKeys(t, func(c *gateway.Config) {
		c.Limits.ReadTimeout = bodyTime
		c.Doors = []gateway.Door{panickingDoor{}}
	})
	key := "Authorization: Bearer " + operatorKey() + "\n"
	const long, asJSON = "Content-Length: 200000\n\n", "Content-Type: application/json\n"
	cases := map[string]struct {
		request string
		status  int
		slow    bool // the answer waits for the body
	}{
		"no credential":              {"POST /v1/turns HTTP/1.1\nHost: x\n" + asJSON + long, 401, false},
		"no credential, 250 kB":      {"POST /v1/turns HTTP/1.1\nHost: x\n" + asJSON + "Content-Length: 250000\n\n", 401, false},
		"no credential, 2 MB":        {"POST /v1/turns HTTP/1.1\nHost: x\n" + asJSON + "Content-Length: 2000000\n\n", 401, false},
		"no credential, chunked":     {"POST /v1/turns HTTP/1.1\nHost: x\n" + asJSON + "Transfer-Encoding: chunked\n\n", 401, false},
		"no credential, expecting":   {"POST /v1/turns HTTP/1.1\nHost: x\nExpect: 100-continue\n" + long, 401, false},
		"no credential, HTTP/1.0":    {"POST /v1/turns HTTP/1.0\n" + long, 401, false},
		"wrong credential":           {"POST /v1/turns HTTP/1.1\nHost: x\nAuthorization: Bearer wrong\n" + long, 401, false},
		"foreign page":               {"POST /v1/turns HTTP/1.1\nHost: x\nOrigin: http://evil.example\n" + long, 403, false},
		"unknown path":               {"POST /nowhere HTTP/1.1\nHost: x\n" + key + long, 404, false},
		"unknown path, no one":       {"POST /nowhere HTTP/1.1\nHost: x\n" + long, 401, false},
		"unknown method":             {"PUT /v1/turns HTTP/1.1\nHost: x\n" + key + long, 405, false},
		"preflight":                  {"OPTIONS /v1/turns HTTP/1.1\nHost: x\nOrigin: http://x\nAccess-Control-Request-Method: POST\n" + long, 204, false},
		"the server's options":       {"OPTIONS * HTTP/1.1\nHost: x\n" + long, 400, false},
		"too large":                  {"POST /v1/turns HTTP/1.1\nHost: x\n" + key + asJSON + "Content-Length: 20000000\n\n", 413, false},
		"no content type":            {"POST /v1/turns HTTP/1.1\nHost: x\n" + key + long, 415, false},
		"bad parameter":              {"POST /v1/turns?x=1 HTTP/1.1\nHost: x\n" + key + long, 400, false},
		"a body that nobody wants":   {"GET /health HTTP/1.1\nHost: x\n" + long, 200, false},
		"a panic":                    {"POST /panic HTTP/1.1\nHost: x\n" + long, 500, false},
		"odd expectation":            {"POST /v1/turns HTTP/1.1\nHost: x\nExpect: gold\n" + long, 417, false},
		"known caller":               {"POST /v1/turns HTTP/1.1\nHost: x\n" + key + asJSON + long, 408, true},
		"known caller, chunked":      {"POST /v1/turns HTTP/1.1\nHost: x\n" + key + asJSON + "Transfer-Encoding: chunked\n\n", 408, true},
		"known caller, who expected": {"POST /v1/turns HTTP/1.1\nHost: x\nExpect: 100-continue\n" + key + asJSON + long, 408, true},
	}
	exchanges := map[string]chan exchange{}
	for name, c := range cases {
		done := make(chan exchange, 1)
		exchanges[name] = done
		begun := time.Now()
		conn := sendSlowly(t, d.HTTPAddr(), c.request)
		go func() { done <- readResponse(conn, begun) }()
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			x := <-exchanges[name]
			require.NoError(t, x.err)
			require.Equal(t, c.status, x.status)
			require.True(t, x.saysClose, "the answer does not say that the connection ends")
			require.Equal(t, c.slow, x.answered >= bodyTime, "%s", x.answered)
			require.True(t, x.isClosed, "the connection stays open")
			t.Logf("answered after %s, closed after %s", x.answered.Round(time.Millisecond), x.closed.Round(time.Millisecond))
		})
	}
}

// A body that breaks the rules of HTTP is an invalid request.
func TestMalformedBodies(t *testing.T) {
	d, _, _ := startWithKeys(t, func(*gateway.Config) {})
	head := "POST /v1/turns HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + operatorKey() + "\r\nContent-Type: application/json\r\n"
	for name, body := range map[string]string{
		"a length that is no number":  "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
		"a chunk longer than it says": "Transfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n",
		"an endless length":           "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1", 40) + "\r\n{}\r\n0\r\n\r\n",
		"cut off":                     "Transfer-Encoding: chunked\r\n\r\n2\r\n{",
		"shorter than it says":        "Content-Length: 9\r\n\r\n{",
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", d.HTTPAddr())
			require.NoError(t, err)
			t.Cleanup(func() { _ = conn.Close() })
			_, err = io.WriteString(conn, head+body)
			require.NoError(t, err)
			tcp, ok := conn.(*net.TCPConn)
			require.True(t, ok)
			require.NoError(t, tcp.CloseWrite())
			x := readResponse(conn, time.Now())
			require.NoError(t, x.err)
			require.Equal(t, http.StatusBadRequest, x.status)
		})
	}
}

// exchange is the response to a request as its client sees it.
type exchange struct {
	status              int
	saysClose, isClosed bool
	answered, closed    time.Duration
	err                 error
}

// readResponse reads the response, and then until the connection is closed. Times are since start.
func readResponse(conn net.Conn, start time.Time) (x exchange) {
	if x.err = conn.SetReadDeadline(start.Add(20 * time.Second)); x.err != nil {
		return x
	}
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	for err == nil && resp.StatusCode == http.StatusContinue {
		resp, err = http.ReadResponse(r, nil)
	}
	if err != nil {
		x.err = err
		return x
	}
	x.answered, x.status, x.saysClose = time.Since(start), resp.StatusCode, resp.Close
	if _, x.err = io.ReadAll(resp.Body); x.err != nil {
		return x
	}
	_, err = r.ReadByte()
	x.closed, x.isClosed = time.Since(start), err != nil && !isTimeout(err)
	return x
}

func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

// If the body of a refused request has arrived, the connection stays open.
func TestRefusedBodiesThatHaveArrivedKeepTheConnection(t *testing.T) {
	d, _, _ := startWithKeys(t, nil)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", d.HTTPAddr())
	require.NoError(t, err)
	defer conn.Close()
	r := bufio.NewReader(conn)
	for range 3 {
		_, err = io.WriteString(conn, "POST /v1/turns HTTP/1.1\r\nHost: x\r\nContent-Length: 10000\r\n\r\n"+strings.Repeat("x", 10_000))
		require.NoError(t, err)
		resp, err := http.ReadResponse(r, nil)
		require.NoError(t, err)
		_, err = io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, 401, resp.StatusCode)
		require.False(t, resp.Close)
	}
}

// ReadTimeout does not end streams.
func TestStreamsOutliveTheTimeForBodies(t *testing.T) {
	d := startGateway(t, func(c *gateway.Config) {
		c.Limits.ReadTimeout, c.Limits.Heartbeat = 300*time.Millisecond, 50*time.Millisecond
	})
	d.begin("t")
	posted := gatewaytest.Open(t.Context(), t, http.MethodPost, d.url+"/v1/turns", `{"message":"x","turn_id":"u"}`, "Accept", "text/event-stream")
	waited := make(chan answer, 1)
	go func() { waited <- d.send("POST", "/v1/turns", `{"message":"x","turn_id":"w"}`) }()
	next := gatewaytest.Frames(t, d.follow(t.Context(), "/v1/turns/t/events").Body)
	for range 20 { // a second of heartbeats
		next()
	}
	d.rt.Say("u", "still here")
	d.rt.Say("w", "still here")
	streamed, err := io.ReadAll(posted.Body)
	require.NoError(t, err)
	require.Contains(t, string(streamed), "still here")
	require.Contains(t, string((<-waited).body), "still here")
}

// Over HTTP/2 a slow body ends only its own stream.
func TestDrippedBodiesOverHTTP2(t *testing.T) {
	_, ca := issueCertificate(t, "ca", nil)
	server, _ := issueCertificate(t, "server", ca)
	d, _, _ := startWithKeys(t, func(c *gateway.Config) {
		c.Limits.ReadTimeout = time.Second
		c.HTTPTLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{server}, NextProtos: []string{"h2", "http/1.1"}}
	})
	transport := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: ca.pool}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	for credential, want := range map[string]int{"wrong": 401, operatorKey(): 408} {
		body, write := io.Pipe()
		t.Cleanup(func() { _ = write.Close() })
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+d.HTTPAddr()+"/v1/turns", body)
		require.NoError(t, err)
		req.ContentLength = 200_000
		req.Header.Set("Authorization", "Bearer "+credential)
		req.Header.Set("Content-Type", "application/json")
		start := time.Now()
		resp, err := transport.RoundTrip(req)
		require.NoError(t, err)
		require.Equal(t, 2, resp.ProtoMajor)
		require.Equal(t, want, resp.StatusCode)
		require.NoError(t, resp.Body.Close())
		require.Less(t, time.Since(start), 10*time.Second)
	}
}

// LongTimeout ends a slow upload.
func TestUploadsThatDripAreCut(t *testing.T) {
	d := startGateway(t, func(c *gateway.Config) { c.Limits.LongTimeout = time.Second })
	d.rt.Collections = []string{"docs"}
	conn := sendSlowly(t, d.HTTPAddr(), "POST /v1/knowledge/docs/documents?id=a HTTP/1.1\nHost: localhost\nContent-Type: text/plain\nContent-Length: 200000\n\n")
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(20*time.Second)))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 408, resp.StatusCode)
}
