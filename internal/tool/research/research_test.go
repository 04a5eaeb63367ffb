package research_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/egress"
	"github.com/turnstone-run/turnstone/internal/tool"
	"github.com/turnstone-run/turnstone/internal/tool/research"
	"github.com/turnstone-run/turnstone/internal/tool/tooltest"
)

// reply is an answer to a request.
type reply struct {
	status int // 0: 200
	media  string
	body   string
	header map[string]string
}

// services is a server for all sources.
type services struct {
	*httptest.Server

	mu      sync.Mutex
	replies map[string][]reply // by path; the last one is repeated
	asked   []*http.Request
}

func (s *services) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.Clone(context.WithoutCancel(r.Context())))
	list := s.replies[r.URL.Path]
	if len(list) > 1 {
		s.replies[r.URL.Path] = list[1:]
	}
	s.mu.Unlock()
	if len(list) == 0 {
		http.NotFound(w, r)
		return
	}
	answer := list[0]
	for name, value := range answer.header {
		w.Header().Set(name, value)
	}
	if answer.media != "" {
		w.Header().Set("Content-Type", answer.media)
	}
	if answer.status != 0 {
		w.WriteHeader(answer.status)
	}
	_, _ = w.Write([]byte(answer.body)) // the client may have hung up
}

// requests returns the queries of the requests to a path.
func (s *services) requests(path string) []url.Values {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []url.Values
	for _, r := range s.asked {
		if r.URL.Path == path {
			out = append(out, r.URL.Query())
		}
	}
	return out
}

func (s *services) set(path string, replies ...reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replies[path] = replies
}

// The paths of the services.
const (
	esearch  = "/eutils/esearch.fcgi"
	efetch   = "/eutils/efetch.fcgi"
	studies  = "/api/v2/studies"
	epmc     = "/europepmc/search"
	works    = "/works"
	duckPage = "/html/"
)

// world is a toolkit whose services answer with the fixtures.
type world struct {
	*services

	cfg        research.Config
	kit        agent.Toolkit
	references *tooltest.ReferenceStore
}

func fixture(t testing.TB, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return string(raw)
}

// start returns a world. change may change the configuration.
func start(t testing.TB, change func(cfg *research.Config)) *world {
	t.Helper()
	s := &services{replies: map[string][]reply{
		esearch:  {{media: "application/json; charset=UTF-8", body: fixture(t, "pubmed_esearch.json")}},
		efetch:   {{media: "text/xml; charset=UTF-8", body: fixture(t, "pubmed_efetch.xml")}},
		studies:  {{media: "application/json", body: fixture(t, "trials.json")}},
		epmc:     {{media: "application/json;charset=UTF-8", body: fixture(t, "europepmc.json")}},
		works:    {{media: "application/json", body: fixture(t, "openalex.json")}},
		duckPage: {{media: "text/html; charset=UTF-8", body: fixture(t, "duckduckgo.html")}},
	}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	client, err := egress.New(egress.Config{AllowPrivate: []string{strings.TrimPrefix(s.URL, "http://")}})
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	w := &world{services: s, references: &tooltest.ReferenceStore{}}
	w.cfg = research.Config{
		HTTP: client, References: w.references, Contact: "ops@example.org", WebProvider: research.DuckDuckGo, WebURL: s.URL,
		PubMedURL: s.URL + "/eutils", TrialsURL: s.URL + "/api/v2", PreprintsURL: s.URL + "/europepmc/", OpenAlexURL: s.URL,
		Rates: map[string]float64{"pubmed": 1000, "clinical_trials": 1000, "preprints": 1000, "openalex": 1000, "web": 1000},
	}
	if change != nil {
		change(&w.cfg)
	}
	w.kit, err = research.New(w.cfg)
	require.NoError(t, err)
	return w
}

func (w *world) tool(t testing.TB, name string) agent.Tool {
	t.Helper()
	for _, candidate := range w.kit.Tools() {
		if candidate.Spec().Name == name {
			return candidate
		}
	}
	require.Failf(t, "no such tool", "%q", name)
	return nil
}

// output is the output of any tool of the toolkit.
type output struct {
	Source   string           `json:"source"`
	Query    string           `json:"query"`
	Total    int              `json:"total"`
	Results  []map[string]any `json:"results"`
	Warnings []string         `json:"warnings"`
	Failed   []struct{ Source, Error string }

	Format       string           `json:"format"`
	Count        int              `json:"count"`
	Next         int              `json:"next"`
	Bibliography string           `json:"bibliography"`
	Items        []map[string]any `json:"items"`
}

// numberIn returns a number in decoded JSON, -1 for any other value.
func numberIn(v any) int {
	if n, ok := v.(float64); ok {
		return int(n)
	}
	return -1
}

func invocation() agent.Invocation {
	return agent.Invocation{Tenant: "acme", TurnID: "t-1", SessionID: "s-1", Step: 1, Attempt: 1, IdempotencyKey: "k"}
}

// call calls a tool that must succeed.
func (w *world) call(t testing.TB, name, args string) output {
	t.Helper()
	return w.callAs(t, invocation(), name, args)
}

func (w *world) callAs(t testing.TB, inv agent.Invocation, name, args string) output {
	t.Helper()
	res, err := w.tool(t, name).Call(t.Context(), inv, agent.ToolCall{ID: "c", Name: name, Args: json.RawMessage(args)})
	require.NoError(t, err)
	require.Nil(t, res.Failure, "%+v", res.Failure)
	var out output
	require.NoError(t, json.Unmarshal(res.Output, &out))
	return out
}

// fail calls a tool that must fail.
func (w *world) fail(t testing.TB, name, args string) *agent.Failure {
	t.Helper()
	res, err := w.tool(t, name).Call(t.Context(), invocation(), agent.ToolCall{ID: "c", Name: name, Args: json.RawMessage(args)})
	require.NoError(t, err)
	require.NotNil(t, res.Failure, "%s", res.Output)
	require.Equal(t, name, res.Failure.Tool)
	return res.Failure
}

func TestToolkit(t *testing.T) {
	w := start(t, nil)
	tooltest.Exercise(t, searches{w.kit})
	require.Equal(t, "research", w.kit.Name())
	onRequest, ok := w.kit.(interface{ OnRequest() bool })
	require.True(t, ok)
	require.True(t, onRequest.OnRequest())
	for _, each := range w.kit.Tools() {
		spec := each.Spec()
		require.True(t, spec.Idempotent && spec.InherentlySafe, spec.Name)
	}
	_, err := tool.Build(tool.Dependencies{HTTP: w.cfg.HTTP, Auth: noAuth{}, References: w.references}, research.Factory(research.Config{}))
	require.NoError(t, err)
	_, err = tool.Build(tool.Dependencies{HTTP: w.cfg.HTTP, Auth: noAuth{}}, research.Factory(research.Config{}))
	require.ErrorContains(t, err, "needs references")
}

// searches is the toolkit without get_bibliography, which accepts {} and so does not pass the suite.
type searches struct{ agent.Toolkit }

func (s searches) Tools() []agent.Tool { return s.Toolkit.Tools()[:len(s.Toolkit.Tools())-1] }

type noAuth struct{}

func (noAuth) Authorise(*http.Request, []agent.PlanAuth) error { return nil }
