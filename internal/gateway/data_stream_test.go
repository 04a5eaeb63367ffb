package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

// rowGenerator is a JSON array of rows that are generated while it is read. If err is set, reading ends with err.
type rowGenerator struct {
	ctx    context.Context
	rows   int
	err    error
	read   *atomic.Int64
	closed *atomic.Int64

	at  int
	buf []byte // the rest of the generated rows
}

// tableRow has 2 KB.
var tableRow = `,{"id":"0123456789","note":"` + strings.Repeat("x", 2000-29) + `"}`

// manyRows is a batch of rows.
var manyRows = []byte(strings.Repeat(tableRow, 50))

func (s *rowGenerator) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	if len(s.buf) == 0 && s.at <= s.rows {
		n := min(s.rows-s.at, 50)
		switch {
		case n == 0 && s.err != nil:
			return 0, s.err
		case n == 0:
			s.buf, s.at = []byte("]"), s.at+1
		case s.at == 0:
			s.buf, s.at = append([]byte("["), manyRows[1:n*len(tableRow)]...), n
		default:
			s.buf, s.at = manyRows[:n*len(tableRow)], s.at+n
		}
	}
	if len(s.buf) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.buf)
	s.buf = s.buf[n:]
	s.read.Add(int64(n))
	return n, nil
}

func (s *rowGenerator) Close() error {
	s.closed.Add(1)
	return nil
}

// storeGenerator stores generated rows, and counts the bytes that are read, and how often the rows are opened and closed.
func (d *testGateway) storeGenerator(ref string, rows int, err error) (read, opened, closed *atomic.Int64) {
	read, opened, closed = new(atomic.Int64), new(atomic.Int64), new(atomic.Int64)
	d.rt.StoreStream("default", ref, func(ctx context.Context) (io.ReadCloser, error) {
		opened.Add(1)
		return &rowGenerator{ctx: ctx, rows: rows, err: err, read: read, closed: closed}, nil
	})
	return read, opened, closed
}

// heapGrowth calls do and returns the maximum growth of the heap meanwhile in bytes.
func heapGrowth(do func()) int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	base, most := int64(m.HeapAlloc), int64(0)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				most = max(most, int64(m.HeapAlloc)-base)
			}
		}
	}()
	do()
	close(stop)
	<-done
	return most
}

// Large datasets need little memory in every format.
func TestDataIsStreamed(t *testing.T) {
	d := startGateway(t, nil)
	for format, rows := range map[string]int{"json": 50_000, "ndjson": 10_000, "csv": 10_000} {
		t.Run(format, func(t *testing.T) {
			read, opened, closed := d.storeGenerator("big", rows, nil)
			var got int64
			grown := heapGrowth(func() {
				resp := d.do(t.Context(), "GET", "/v1/results/big/data?format="+format, nil)
				require.Equal(t, 200, resp.StatusCode)
				var err error
				got, err = io.Copy(io.Discard, resp.Body)
				require.NoError(t, err)
			})
			require.Greater(t, read.Load(), int64(rows)*2000)
			require.Greater(t, got, int64(rows)*1900)
			require.Less(t, grown, int64(20<<20))
			require.Eventually(t, func() bool { return closed.Load() == opened.Load() }, 5*time.Second, time.Millisecond)
		})
	}
}

// An error in the middle of the rows cuts the connection.
func TestDataThatBreaksOff(t *testing.T) {
	core, logs := observer.New(zapcore.InfoLevel)
	d := startGateway(t, func(c *gateway.Config) { c.Logger = zap.New(core) })
	for _, path := range []string{"/v1/results/big/data", "/v1/results/big/data?format=ndjson"} {
		_, opened, closed := d.storeGenerator("big", 1000, errors.New("disk on fire"))
		resp := d.do(t.Context(), "GET", path, nil)
		require.Equal(t, 200, resp.StatusCode)
		n, err := io.Copy(io.Discard, resp.Body)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.Positive(t, n)
		require.Eventually(t, func() bool { return closed.Load() == opened.Load() }, 5*time.Second, time.Millisecond)
	}
	faults := func() []observer.LoggedEntry { return logs.FilterLevelExact(zapcore.ErrorLevel).All() }
	require.Eventually(t, func() bool { return len(faults()) == 2 }, 5*time.Second, time.Millisecond)
	require.Contains(t, faults()[0].ContextMap()["error"], "disk on fire")

	// For a CSV, the first pass finds the error before the response begins.
	a := d.send("GET", "/v1/results/big/data?format=csv", "")
	require.Equal(t, 500, a.status)
	require.NotContains(t, string(a.body), "fire")

	// An error in the middle of a document cuts the connection too.
	d = startGateway(t, func(c *gateway.Config) { c.Results = failingResults{gatewaytest.New()} })
	resp := d.do(t.Context(), "GET", "/v1/results/turn-1", nil)
	require.Equal(t, 200, resp.StatusCode)
	_, err := io.Copy(io.Discard, resp.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// failingResults has a result that cannot be read to its end.
type failingResults struct{ *gatewaytest.Runtime }

func (failingResults) Result(ctx context.Context, _, ref string) (gateway.ResultView, error) {
	body := &rowGenerator{ctx: ctx, rows: 1000, err: errors.New("disk on fire"), read: new(atomic.Int64), closed: new(atomic.Int64)}
	return gateway.ResultView{Ref: ref, Size: -1, Body: body}, nil
}

// Reading ends when the client leaves or does not read.
func TestDataClientLeaves(t *testing.T) {
	core, logs := observer.New(zapcore.InfoLevel)
	d := startGateway(t, func(c *gateway.Config) { c.Limits.WriteTimeout = 200 * time.Millisecond; c.Logger = zap.New(core) })
	const rows = 200_000
	for name, leave := range map[string]func(conn net.Conn){
		"leaves":        func(conn net.Conn) { _ = conn.Close() },
		"takes nothing": func(net.Conn) {},
	} {
		t.Run(name, func(t *testing.T) {
			read, opened, closed := d.storeGenerator("big", rows, nil)
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", d.HTTPAddr())
			require.NoError(t, err)
			defer conn.Close()
			_, err = io.WriteString(conn, "GET /v1/results/big/data HTTP/1.1\r\nHost: localhost\r\n\r\n")
			require.NoError(t, err)
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			defer resp.Body.Close()
			require.Equal(t, 200, resp.StatusCode)
			leave(conn)
			require.Eventually(t, func() bool { return opened.Load() > 0 && closed.Load() == opened.Load() }, 10*time.Second, time.Millisecond)
			require.Less(t, read.Load(), int64(rows)*1000)
		})
	}
	require.Zero(t, logs.FilterLevelExact(zapcore.ErrorLevel).Len(), "that is nobody's fault: %v", logs.All())
}

// Reading ends when the gateway shuts down, and the connection is cut.
func TestDataGatewayCloses(t *testing.T) {
	d := startGateway(t, nil)
	const endless = 1 << 40
	d.storeGenerator("json", endless, nil)
	opened := make(chan struct{}, 1)
	d.rt.StoreStream("default", "csv", func(ctx context.Context) (io.ReadCloser, error) { // ignores the end of ctx
		opened <- struct{}{}
		return &rowGenerator{ctx: context.WithoutCancel(ctx), rows: endless, read: new(atomic.Int64), closed: new(atomic.Int64)}, nil
	})
	resp := d.do(t.Context(), "GET", "/v1/results/json/data", nil)
	require.Equal(t, 200, resp.StatusCode)
	columns := make(chan answer, 1)
	go func() { columns <- d.send("GET", "/v1/results/csv/data?format=csv", "") }()
	whole := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, resp.Body)
		whole <- err
	}()
	<-opened
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.NoError(t, d.Shutdown(ctx))
	require.ErrorIs(t, <-whole, io.ErrUnexpectedEOF)
	last := <-columns
	require.Equal(t, 503, last.status, "%s", last.body)
}

// CallTimeout bounds opening, but not reading.
func TestDataOpensInTime(t *testing.T) {
	d := startGateway(t, func(c *gateway.Config) { c.Limits.CallTimeout = 50 * time.Millisecond; c.Limits.Streams = 1 })
	entered := make(chan struct{})
	d.rt.StoreStream("default", "slow", func(ctx context.Context) (io.ReadCloser, error) {
		entered <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	slow := make(chan answer, 1)
	go func() { slow <- d.send("GET", "/v1/results/slow/data", "") }()
	<-entered
	require.Equal(t, 429, d.send("GET", "/v1/results/slow/data", "").status, "exports take places among the streams")
	require.Equal(t, 503, (<-slow).status)

	d.rt.StoreStream("default", "long", func(ctx context.Context) (io.ReadCloser, error) {
		in, out := io.Pipe()
		go func() {
			_, _ = io.WriteString(out, "[1,")
			select {
			case <-ctx.Done():
				_ = out.CloseWithError(ctx.Err())
			case <-time.After(150 * time.Millisecond): // three times the bound
			}
			_, _ = io.WriteString(out, "2]")
			_ = out.Close()
		}()
		return in, nil
	})
	a := d.send("GET", "/v1/results/long/data", "")
	require.Equal(t, 200, a.status)
	var rows []int
	require.NoError(t, json.Unmarshal(a.body, &rows))
	require.Equal(t, []int{1, 2}, rows)
}
