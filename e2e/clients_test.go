package e2e_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/llm/llmtest"
	"github.com/turnstone-run/turnstone/turnstonetest"
)

// refusing is a provider that answers "refuse 503 for x" with the status 503, and anything else with a call that a person has to approve. It counts
// the requests by what the user said.
type refusing struct {
	*httptest.Server

	mu    sync.Mutex
	asked map[string]int
}

func startRefusing(t *testing.T) *refusing {
	t.Helper()
	said := regexp.MustCompile(`(refuse (\d+)|purchase) for [a-z-]+`)
	p := &refusing{asked: map[string]int{}}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		found := said.FindSubmatch(body)
		if err != nil || found == nil {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		p.mu.Lock()
		p.asked[string(found[0])]++
		p.mu.Unlock()
		if status, err := strconv.Atoi(string(found[2])); err == nil {
			http.Error(w, `{"error":{"message":"not now","type":"server_error"}}`, status)
			return
		}
		post := `{"session_id":"x","pipeline":[{"step":"http_request","url":"http://192.0.2.1/orders","method":"POST"}]}`
		turnstonetest.Call("execute_pipeline", post)(&turnstonetest.Exchange{Writer: w, Request: r})
	}))
	t.Cleanup(p.Close)
	return p
}

// runClientScript runs a script of internal/gateway/openai/testdata/client beside the client libraries that it uses.
func runClientScript(t *testing.T, script string, env ...string) {
	t.Helper()
	source := filepath.Join("..", "internal", "gateway", "openai", "testdata", "client")
	run := func(dir string, args ...string) {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir = dir
		cmd.Env = append(cmd.Environ(), env...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", strings.Join(args, " "), out)
		t.Logf("%s", out)
	}
	run(makeOnce(t, source, func(path string) {
		require.NoError(t, os.CopyFS(path, os.DirFS(source)))
		run(path, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	}), "node", script)
}

// TestClientsDoNotMultiply: one call of each client library, with the retries that it comes with, is one turn. A provider that fails gets the requests
// that the agent's policy says and no more, and a person is asked once.
func TestClientsDoNotMultiply(t *testing.T) {
	t.Parallel()
	p := startRefusing(t)
	s := start(t, func(c *app.Config) {
		c.LLM.Provider, c.LLM.Model, c.LLM.APIKey = app.ProviderOpenAI, llmtest.ModelName, "test-key"
		c.LLM.BaseURL, c.LLM.MaxRetries = llmtest.OpenAI{}.BaseURL(p.URL), 1
	})
	runClientScript(t, "retries.mjs", "BASE_URL=http://"+s.HTTPAddr()+"/v1", "MODELS=analyst",
		"PROMPTS=refuse 429 for {client},refuse 500 for {client},refuse 503 for {client},purchase for {client}")
	require.Len(t, p.asked, 4*6)
	for what, n := range p.asked {
		want := 1 + s.set.LLM.MaxRetries
		if strings.HasPrefix(what, "purchase") {
			want = 1
		}
		require.Equal(t, want, n, "requests at the provider for %q", what)
	}
	db, err := pgx.Connect(t.Context(), s.set.Database.URL.Reveal())
	require.NoError(t, err)
	defer db.Close(t.Context())
	approvals, turns := 0, 0
	require.NoError(t, db.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM approvals), (SELECT count(*) FROM turns)`).Scan(&approvals, &turns))
	require.Equal(t, 6, approvals)
	require.Equal(t, 4*6, turns)
}
