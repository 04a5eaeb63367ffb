package egress

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// upstream starts a server and a client that may reach it.
func upstream(t *testing.T, cfg Config, h http.HandlerFunc) (*Client, string) {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	cfg.AllowPrivate = append(cfg.AllowPrivate, strings.TrimPrefix(srv.URL, "http://"))
	c, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(c.CloseIdleConnections)
	return c, srv.URL
}

// get reads a URL to its end.
func get(t *testing.T, c *Client, url string) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	resp, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

func TestGet(t *testing.T) {
	c, url := upstream(t, Config{}, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello "+r.URL.RawQuery) })
	body, err := get(t, c, url+"/?a=b")
	require.NoError(t, err)
	require.Equal(t, "hello a=b", body)
}

func TestNoProxyFromTheEnvironment(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	c, err := New(Config{})
	require.NoError(t, err)
	require.Nil(t, c.http.Transport.(*http.Transport).Proxy)
}

func TestSize(t *testing.T) {
	var gz bytes.Buffer
	z := gzip.NewWriter(&gz)
	_, err := z.Write(make([]byte, 1<<20))
	require.NoError(t, err)
	require.NoError(t, z.Close())

	tests := []struct {
		name string
		h    http.HandlerFunc
		code agent.Code
	}{
		{"exactly the bound", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1000)) }, ""},
		{"announced too large", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "2147483648")
			_, _ = w.Write([]byte("x"))
		}, agent.CodeOverflow},
		{"endless", func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := w.Write(make([]byte, 4096)); err != nil {
					return
				}
			}
		}, agent.CodeOverflow},
		{"too large once decompressed", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(gz.Bytes())
		}, agent.CodeOverflow},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, url := upstream(t, Config{MaxBytes: 2000}, tt.h)
			body, err := get(t, c, url)
			require.Equal(t, tt.code, agent.CodeOf(err), "%v", err)
			require.LessOrEqual(t, len(body), 2000)
		})
	}
}

func TestTime(t *testing.T) {
	tests := []struct {
		name string
		h    http.HandlerFunc
	}{
		{"no header", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
		{"no end of the body", func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte("x"))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, url := upstream(t, Config{Timeout: 100 * time.Millisecond}, tt.h)
			_, err := get(t, c, url)
			require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
			require.ErrorContains(t, err, "timed out")
		})
	}
}

// A stream has no time limit, but its header has one.
func TestStream(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	c, url := upstream(t, Config{Timeout: -1, HeaderTimeout: 100 * time.Millisecond}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/silent" {
			<-r.Context().Done()
			return
		}
		_ = http.NewResponseController(w).Flush()
		<-release
		fmt.Fprint(w, "late")
	})
	_, err := get(t, c, url+"/silent")
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
	require.ErrorContains(t, err, "timed out")

	time.AfterFunc(300*time.Millisecond, func() { close(release) }) // well after the header timeout
	body, err := get(t, c, url+"/stream")
	require.NoError(t, err)
	require.Equal(t, "late", body)

	c, err = New(Config{Timeout: -1})
	require.NoError(t, err)
	require.Equal(t, DefaultTimeout, c.http.Transport.(*http.Transport).ResponseHeaderTimeout)
	require.Zero(t, c.http.Timeout)
}

func TestCancelledContext(t *testing.T) {
	c, url := upstream(t, Config{}, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	require.NoError(t, err)
	_, err = c.Do(req)
	require.Equal(t, agent.CodeCancelled, agent.CodeOf(err))
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestUnavailable(t *testing.T) {
	c, url := upstream(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	})
	_, err := get(t, c, url+"/secret-path?token=hunter2")
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
	require.ErrorContains(t, err, "127.0.0.1")
	require.NotContains(t, err.Error(), "hunter2")
	require.NotContains(t, err.Error(), "secret-path")
}

func TestRedirects(t *testing.T) {
	var other atomic.Pointer[http.Request]
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { other.Store(r) }))
	t.Cleanup(target.Close)
	cfg := Config{AllowPrivate: []string{strings.TrimPrefix(target.URL, "http://")}, MaxRedirects: 2}
	c, url := upstream(t, cfg, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/metadata":
			http.Redirect(w, r, "http://169.254.169.254/latest", http.StatusFound)
		case "/file":
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		case "/malformed":
			w.Header().Set("Location", `http://x\@y/?token=hunter2`)
			w.WriteHeader(http.StatusFound)
		case "/user":
			http.Redirect(w, r, "http://u:p@"+r.Host+"/", http.StatusFound)
		case "/other":
			http.Redirect(w, r, target.URL+"/x", http.StatusFound)
		case "/twice":
			http.Redirect(w, r, "/once", http.StatusFound)
		case "/once":
			http.Redirect(w, r, "/", http.StatusFound)
		default:
			fmt.Fprint(w, "arrived"+r.Referer())
		}
	})

	for path, code := range map[string]agent.Code{
		"/loop": agent.CodeOverflow, "/metadata": agent.CodeDenied, "/file": agent.CodeInvalid, "/user": agent.CodeInvalid,
		"/malformed": agent.CodeInvalid,
	} {
		_, err := get(t, c, url+path)
		require.Equal(t, code, agent.CodeOf(err), "%s: %v", path, err)
		require.NotContains(t, err.Error(), "hunter2")
	}
	body, err := get(t, c, url+"/twice")
	require.NoError(t, err)
	require.Equal(t, "arrived", body, "a redirect is followed, without Referer")

	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/other?key=hunter2", nil)
	require.NoError(t, err)
	req.Header.Set("X-Api-Key", "hunter2")
	req.Header.Set("Accept", "application/json")
	resp, err := c.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	got := other.Load()
	require.NotNil(t, got)
	require.Empty(t, got.Header.Get("X-Api-Key"), "a credential followed a redirect to another origin")
	require.Empty(t, got.Header.Get("Referer"))
	require.Equal(t, "application/json", got.Header.Get("Accept"))
}

// Only redirects of GET and HEAD are followed.
func TestOnlyGetAndHeadAreRedirected(t *testing.T) {
	var requests atomic.Int32
	c, url := upstream(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if code, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/")); err == nil {
			http.Redirect(w, r, "/there", code)
		}
	})
	for _, code := range []int{301, 302, 303, 307, 308} {
		for method, want := range map[string]int{"POST": code, "PUT": code, "PATCH": code, "DELETE": code, "GET": 200, "HEAD": 200} {
			requests.Store(0)
			req, err := http.NewRequestWithContext(t.Context(), method, fmt.Sprintf("%s/%d", url, code), strings.NewReader("a"))
			require.NoError(t, err)
			resp, err := c.Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, want, resp.StatusCode, "%s %d", method, code)
			require.Equal(t, want == 200, requests.Load() == 2, "%s %d", method, code)
		}
	}
}
