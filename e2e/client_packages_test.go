//go:build unix

package e2e_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/turnstonetest"
)

// TestClientPackages runs the tests of the clients in other languages against a stack, beside a proxy that loses connections, and the example of
// their README as it stands there.
func TestClientPackages(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		example  string // the file that the README's example becomes
		commands [][]string
	}{
		"typescript": {"example.mjs", [][]string{
			{"npm", "ci", "--no-audit", "--no-fund"}, {"npm", "test", "--silent"}, {"node", "example.mjs"},
		}},
		"python": {"example.py", [][]string{
			{"python3", "-m", "unittest", "discover", "-v", "-s", "tests", "-t", "."}, {"python3", "example.py"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("..", "clients", name))))
			for _, built := range []string{"node_modules", "lib"} { // by whoever works on the client
				require.NoError(t, os.RemoveAll(filepath.Join(dir, built)))
			}
			provider := turnstonetest.NewModel(t, converse(t))
			s := start(t, provider.Use)
			server := "http://" + s.HTTPAddr()
			readme, err := os.ReadFile(filepath.Join(dir, "README.md"))
			require.NoError(t, err)
			code := regexp.MustCompile("(?s)```(?:js|python)\n((?:import|from) .*?)```").FindSubmatch(readme)
			require.NotNil(t, code, "the README has an example")
			example := strings.ReplaceAll(string(code[1]), "http://127.0.0.1:8080", server)
			require.NoError(t, os.WriteFile(filepath.Join(dir, c.example), []byte(example), 0o600))
			var out []byte
			for _, args := range c.commands {
				cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
				cmd.Dir = dir
				cmd.Env = append(cmd.Environ(), "TURNSTONE_URL="+server, "TURNSTONE_CUT_URL="+startCuttingProxy(t, server), "NO_PROXY=127.0.0.1")
				out, err = cmd.CombinedOutput()
				require.NoError(t, err, "%v: %s", args, out)
				t.Logf("%v\n%s", args, out)
			}
			require.Regexp(t, `(?s)approved: execute_pipeline .*Three flights leave today\.`, string(out))
		})
	}
}

// converse returns a model whose answer depends on what the user says. Asked to break off it does so once, in the middle of the answer.
func converse(t testing.TB) turnstonetest.Reply {
	var broken atomic.Bool
	order := `{"session_id":"x","pipeline":[{"step":"http_request","url":"` + turnstonetest.FlightsURL(t) + `/flights","method":"POST"}]}`
	return func(x *turnstonetest.Exchange) {
		switch {
		case strings.Contains(x.Body, "add 2 and 3"):
			adds(x)
		case strings.Contains(x.Body, "hold on"):
			x.Begin("I am ")
			x.Hold()
		case strings.Contains(x.Body, "break off") && !broken.Swap(true):
			x.Begin("all is ")
			x.Cut()
		case strings.Contains(x.Body, "break off"):
			turnstonetest.Say("all is well again")(x)
		case strings.Contains(x.Body, "fetch flights") && !strings.Contains(x.Body, `"role":"tool"`):
			turnstonetest.Call("execute_pipeline", order)(x)
		default:
			turnstonetest.Say("Three flights leave today.")(x)
		}
	}
}

// startCuttingProxy starts a proxy that wants the key "key-1", loses the answer of the first start, breaks the first three connections of each
// stream in the middle of an event, and is busy when a turn is asked for first.
func startCuttingProxy(t *testing.T, server string) string {
	t.Helper()
	target, err := url.Parse(server)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Header.Del("Authorization") }, FlushInterval: -1}
	var mu sync.Mutex
	seen := map[string]int{}
	p := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		n := seen[r.Method+r.URL.Path]
		seen[r.Method+r.URL.Path]++
		mu.Unlock()
		switch {
		case r.Header.Get("Authorization") != "Bearer key-1":
			http.Error(w, "who are you?", http.StatusUnauthorized)
		case r.Method == http.MethodPost && n == 0:
			proxy.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		case strings.HasSuffix(r.URL.Path, "/events"):
			if n < 3 {
				w = &cutWriter{w, 1000}
			}
			proxy.ServeHTTP(w, r)
		case r.Method == http.MethodGet && n == 0:
			w.Header().Set("Retry-After", "1")
			http.Error(w, `{"error":{"type":"unavailable","message":"not now","retryable":true}}`, http.StatusServiceUnavailable)
		default:
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(p.Close)
	return p.URL
}

// cutWriter fails after so many bytes, whereupon the proxy breaks the connection.
type cutWriter struct {
	http.ResponseWriter

	left int
}

func (c *cutWriter) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p[:min(len(p), c.left)])
	if c.left -= n; err == nil && n < len(p) {
		err = errors.New("cut")
	}
	return n, err
}

// Unwrap lets the proxy flush.
func (c *cutWriter) Unwrap() http.ResponseWriter { return c.ResponseWriter }
