package gatewaytest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/gateway"
)

// patience is how long a gateway may take to shut down on a slow machine.
const patience = 20 * time.Second

// Serve starts a gateway with HTTP on a free port. At the end of the test it shuts the gateway down and checks that no Follow or Watch is left.
func Serve(t testing.TB, cfg gateway.Config) *gateway.Gateway {
	t.Helper()
	cfg.HTTPAddr = "127.0.0.1:0"
	g, err := gateway.New(cfg)
	require.NoError(t, err)
	require.NoError(t, g.Start(t.Context()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		require.NoError(t, g.Shutdown(ctx))
		require.Empty(t, g.Failed())
		if rt, ok := cfg.Turns.(interface{ Followers() int }); ok {
			require.Eventually(t, func() bool { return rt.Followers() == 0 }, patience, time.Millisecond, "a follow outlived the gateway")
		}
		if c, ok := cfg.Documents.(interface{ Watchers() int }); ok {
			require.Eventually(t, func() bool { return c.Watchers() == 0 }, patience, time.Millisecond, "a watch outlived the gateway")
		}
	})
	return g
}

// Open sends a request, whose body is JSON unless it is empty, and returns the response. The test closes it at its end. header has names and values in
// turn.
func Open(ctx context.Context, t testing.TB, method, url, body string, header ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	require.NoError(t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
			continue
		}
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// Send sends a request as Open does, and returns the complete response.
func Send(t testing.TB, method, url, body string, header ...string) (status int, answered http.Header, data []byte) {
	t.Helper()
	resp := Open(t.Context(), t, method, url, body, header...)
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, resp.Header, data
}

// Frames returns a function that reads the next frame of an event stream, without the empty line after it. At the end of the stream it returns "".
func Frames(t testing.TB, body io.Reader) func() string {
	t.Helper()
	r := bufio.NewReader(body)
	return func() string {
		t.Helper()
		var frame strings.Builder
		for {
			line, err := r.ReadString('\n')
			if errors.Is(err, io.EOF) && frame.Len()+len(line) == 0 {
				return ""
			}
			require.NoError(t, err, "the stream ended behind %q", frame.String()+line)
			if line == "\n" {
				return frame.String()
			}
			frame.WriteString(line)
		}
	}
}
