package research_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool/research"
	"github.com/turnstone-run/turnstone/internal/tool/tooltest"
)

// TestErrorAnswers checks error responses and malformed answers of the services.
func TestErrorAnswers(t *testing.T) {
	const page = "<!DOCTYPE html><html><body>Maintenance</body></html>"
	slow := map[string]string{"Retry-After": "3600"}
	tests := map[string]struct {
		tool, path string
		reply      reply
		code       agent.Code
		says       string
	}{
		"pubmed: ERROR":            {"search_pubmed", esearch, reply{body: `{"esearchresult":{"ERROR":"Invalid query: too many wildcards"}}`}, agent.CodeInvalid, "query: PubMed refused it: Invalid query: too many wildcards"},
		"pubmed: backend":          {"search_pubmed", esearch, reply{body: `{"esearchresult":{"ERROR":"Search Backend failed: Couldn't resolve #exLinkSrv2, the address table is empty."}}`}, agent.CodeUnavailable, "Search Backend failed"},
		"pubmed: error field":      {"search_pubmed", esearch, reply{body: `{"error":"cannot connect"}`}, agent.CodeUnavailable, "cannot connect"},
		"pubmed: key":              {"search_pubmed", esearch, reply{status: 400, media: "application/json", body: `{"error":"API key invalid","api-key":"SECRET-KEY","type":"invalid","status":"unknown"}`}, agent.CodeInvalid, "PubMed answered 400 Bad Request: API key invalid"},
		"pubmed: rate":             {"search_pubmed", esearch, reply{status: 429, header: slow, body: `{"error":"API rate limit exceeded","count":"4","limit":"3"}`}, agent.CodeRateLimited, "try again after 1h0m0s: API rate limit exceeded"},
		"pubmed: page":             {"search_pubmed", esearch, reply{body: page}, agent.CodeUnavailable, "is a web page, not JSON"},
		"pubmed: cut off":          {"search_pubmed", esearch, reply{body: `{"esearchresult":{"idlist":["1"`}, agent.CodeUnavailable, "malformed JSON"},
		"pubmed: empty":            {"search_pubmed", esearch, reply{body: ``}, agent.CodeUnavailable, "malformed JSON"},
		"pubmed: another shape":    {"search_pubmed", esearch, reply{body: `[1,2]`}, agent.CodeUnavailable, "has no esearchresult"},
		"pubmed: no identifiers":   {"search_pubmed", esearch, reply{body: `{"esearchresult":{"count":"1","idlist":["1&db=x"]}}`}, agent.CodeUnavailable, "identifiers that are none"},
		"efetch: cut off":          {"search_pubmed", efetch, reply{body: `<?xml version="1.0"?><PubmedArticleSet><PubmedArticle><MedlineCitation><PMID>33283989</PMID>`}, agent.CodeUnavailable, "malformed XML"},
		"efetch: cut off between":  {"search_pubmed", efetch, reply{body: `<PubmedArticleSet><PubmedArticle><MedlineCitation><PMID>33283989</PMID></MedlineCitation></PubmedArticle>`}, agent.CodeUnavailable, "malformed XML"},
		"efetch: ERROR":            {"search_pubmed", efetch, reply{body: `<?xml version="1.0"?><eFetchResult><ERROR>ID list is empty! &lt;x&gt;</ERROR></eFetchResult>`}, agent.CodeUnavailable, "ID list is empty! <x>"},
		"efetch: page":             {"search_pubmed", efetch, reply{body: page}, agent.CodeUnavailable, "is a web page"},
		"efetch: other XML":        {"search_pubmed", efetch, reply{body: `<rss/>`}, agent.CodeUnavailable, "is no PubmedArticleSet"},
		"efetch: 400":              {"search_pubmed", efetch, reply{status: 400, media: "text/plain", body: "Cannot process ID list"}, agent.CodeInvalid, "Cannot process ID list"},
		"trials: plain text":       {"search_clinical_trials", studies, reply{status: 400, media: "text/plain;charset=UTF-8", body: "Invalid 'filter.advanced' parameter:\n  unexpected ')'"}, agent.CodeInvalid, "Invalid 'filter.advanced' parameter: unexpected ')'"},
		"trials: JSON":             {"search_clinical_trials", studies, reply{status: 400, media: "application/json", body: `{"statusCode":400,"message":"Too complicated"}`}, agent.CodeInvalid, "Too complicated"},
		"trials: page":             {"search_clinical_trials", studies, reply{status: 403, media: "text/html", body: page}, agent.CodeDenied, "answered 403 Forbidden"},
		"trials: shape":            {"search_clinical_trials", studies, reply{body: `{"studyCount":1}`}, agent.CodeUnavailable, "has no studies"},
		"preprints: errMsg":        {"search_preprints", epmc, reply{body: `{"version":"6.9","errCode":404,"errMsg":"The query is malformed"}`}, agent.CodeInvalid, "query: Europe PMC refused it: The query is malformed"},
		"preprints: errMsg, 400":   {"search_preprints", epmc, reply{status: 400, body: `{"errCode":400,"errMsg":"The pageSize is out of range"}`}, agent.CodeInvalid, "The pageSize is out of range"},
		"preprints: shape":         {"search_preprints", epmc, reply{body: `{"hitCount":1}`}, agent.CodeUnavailable, "has no resultList"},
		"openalex: filter":         {"search_openalex", works, reply{status: 403, body: `{"error":"Invalid query parameters error.","message":"x is not a valid parameter"}`}, agent.CodeDenied, "Invalid query parameters error.: x is not a valid parameter"},
		"openalex: rate as 403":    {"search_openalex", works, reply{status: 403, body: `{"error":"Forbidden","message":"Rate limit exceeded"}`}, agent.CodeRateLimited, "Rate limit exceeded"},
		"openalex: rate":           {"search_openalex", works, reply{status: 429, header: slow, body: `{"error":"Too many requests","message":"slow down"}`}, agent.CodeRateLimited, "slow down"},
		"openalex: error with 200": {"search_openalex", works, reply{body: `{"error":"Invalid","message":"no"}`}, agent.CodeInvalid, "Invalid no"},
		"openalex: shape":          {"search_openalex", works, reply{body: `{}`}, agent.CodeUnavailable, "has no results"},
		"web: challenge":           {"search_web", duckPage, reply{status: 202, body: fixture(t, "duckduckgo_challenge.html")}, agent.CodeRateLimited, "asks whether a person is searching"},
		"web: challenge as 200":    {"search_web", duckPage, reply{body: fixture(t, "duckduckgo_challenge.html")}, agent.CodeRateLimited, "asks whether a person is searching"},
		"web: another page":        {"search_web", duckPage, reply{body: page}, agent.CodeUnavailable, "has no results that could be read"},
		"web: 202":                 {"search_web", duckPage, reply{status: 202, body: page}, agent.CodeRateLimited, "asks whether a person is searching"},
		"500":                      {"search_openalex", works, reply{status: 500, media: "text/html", body: page}, agent.CodeUnavailable, "OpenAlex answered 500 Internal Server Error"},
		"404":                      {"search_openalex", works, reply{status: 404}, agent.CodeInvalid, "answered 404 Not Found"},
		"redirect elsewhere":       {"search_openalex", works, reply{status: 302, header: map[string]string{"Location": "http://10.0.0.1/x"}}, agent.CodeDenied, "OpenAlex: request 10.0.0.1"},
		"too large":                {"search_openalex", works, reply{body: `{"results":[],"x":"` + strings.Repeat("x", 17<<20) + `"}`}, agent.CodeOverflow, "more than 16 MiB"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := start(t, nil)
			w.set(tt.path, tt.reply)
			f := w.fail(t, tt.tool, `{"query":"x"}`)
			require.Equal(t, string(tt.code), f.Type)
			require.Contains(t, f.Message, tt.says)
			require.NotContains(t, f.Message, "SECRET-KEY")
			require.NotContains(t, f.Message, "html")
			require.Equal(t, tt.code == agent.CodeUnavailable || tt.code == agent.CodeRateLimited, f.Retryable)
			kept, err := w.references.References(t.Context(), "acme", "s-1")
			require.NoError(t, err)
			require.Empty(t, kept)
		})
	}
}

func TestErrorsOfWebProviders(t *testing.T) {
	searx := start(t, func(cfg *research.Config) { cfg.WebProvider = research.SearXNG })
	searx.set("/search", reply{status: 403, media: "text/html", body: "<html>Forbidden</html>"}, reply{body: `{"results":[],"unresponsive_engines":[["bing","timeout"]]}`}, reply{body: `{}`})
	f := searx.fail(t, "search_web", `{"query":"x"}`)
	require.Equal(t, "denied", f.Type)
	require.Contains(t, f.Message, "does the instance allow the format json?")
	require.Contains(t, searx.fail(t, "search_web", `{"query":"x"}`).Message, "SearXNG found nothing: SearXNG had no answer of bing: timeout")
	require.Contains(t, searx.fail(t, "search_web", `{"query":"x"}`).Message, "has no results")

	brave := start(t, func(cfg *research.Config) { cfg.WebProvider = research.Brave })
	const invalid = `{"error":{"code":"SUBSCRIPTION_TOKEN_INVALID","detail":"The provided subscription token is invalid.","status":422},"type":"ErrorResponse"}`
	brave.set("/res/v1/web/search", reply{status: 422, media: "application/json", body: invalid},
		reply{body: `{"type":"ErrorResponse","error":{"detail":"no"}}`}, reply{body: `{"type":"other"}`})
	require.Contains(t, brave.fail(t, "search_web", `{"query":"x"}`).Message, "Brave Search answered 422 Unprocessable Entity: The provided subscription token is invalid.")
	require.Contains(t, brave.fail(t, "search_web", `{"query":"x"}`).Message, "Brave Search answered: no")
	require.Contains(t, brave.fail(t, "search_web", `{"query":"x"}`).Message, "is no search")
}

func TestCompressedAnswersAreRead(t *testing.T) {
	w := start(t, nil)
	var packed strings.Builder
	z := gzip.NewWriter(&packed)
	_, err := z.Write([]byte(fixture(t, "openalex.json")))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	w.set(works, reply{body: packed.String(), header: map[string]string{"Content-Encoding": "gzip"}})
	require.Len(t, w.call(t, "search_openalex", `{"query":"x"}`).Results, 3)
}

func TestRetriesOnce(t *testing.T) {
	w := start(t, nil)
	good := reply{body: fixture(t, "openalex.json")}
	busy := reply{status: 503, header: map[string]string{"Retry-After": "0"}}
	w.set(works, busy, good)
	require.Len(t, w.call(t, "search_openalex", `{"query":"x"}`).Results, 3)
	require.Len(t, w.requests(works), 2)

	w.set(works, busy, busy, good)
	require.Equal(t, "unavailable", w.fail(t, "search_openalex", `{"query":"x"}`).Type)
	require.Len(t, w.requests(works), 4, "twice, and no more")

	w.set(works, reply{status: 500}, good)
	require.Equal(t, "unavailable", w.fail(t, "search_openalex", `{"query":"x"}`).Type)
	require.Len(t, w.requests(works), 5, "other errors are not retried")
}

// direct passes requests to a handler without a network, so that tests can run in synctest.
type direct struct {
	handler http.Handler
	sent    func(req *http.Request)
}

func (d direct) Do(req *http.Request) (*http.Response, error) {
	if err := req.Context().Err(); err != nil {
		return nil, &agent.Error{Code: agent.CodeCancelled, Err: err}
	}
	if d.sent != nil {
		d.sent(req)
	}
	rec := httptest.NewRecorder()
	d.handler.ServeHTTP(rec, req)
	if err := req.Context().Err(); err != nil {
		return nil, &agent.Error{Code: agent.CodeCancelled, Err: err}
	}
	return rec.Result(), nil
}

// callOf calls a tool of a toolkit by name.
func callOf(ctx context.Context, kit agent.Toolkit, name string, inv agent.Invocation, query ...string) (agent.ToolResult, error) {
	for _, each := range kit.Tools() {
		if each.Spec().Name == name {
			return each.Call(ctx, inv, agent.ToolCall{ID: "c", Name: name, Args: json.RawMessage(`{"query":"x` + strings.Join(query, "") + `"}`)})
		}
	}
	return agent.ToolResult{}, agent.Errorf(agent.CodeNotFound, "", "there is no tool %q", name)
}

// TestRates measures the times of requests in synctest.
func TestRates(t *testing.T) {
	empty := map[string]string{
		"search_pubmed": `{"esearchresult":{"count":"0","idlist":[]}}`, "search_clinical_trials": `{"studies":[]}`, "search_openalex": `{"results":[]}`,
		"search_preprints": `{"resultList":{"result":[]}}`, "search_web": fixture(t, "duckduckgo_none.html"),
	}
	key := []agent.PlanAuth{{Name: "ncbi", Type: agent.AuthAPIKey, Query: "api_key", Hosts: []string{"eutils.ncbi.nlm.nih.gov"}}}
	tests := map[string]struct {
		tool  string
		auth  []agent.PlanAuth
		rates map[string]float64
		n     int
		want  time.Duration // from the first to the last
	}{
		"pubmed":        {tool: "search_pubmed", n: 7, want: 2 * time.Second},
		"pubmed, keyed": {tool: "search_pubmed", n: 11, want: time.Second, auth: key},
		"trials":        {tool: "search_clinical_trials", n: 6, want: 3600 * time.Millisecond},
		"preprints":     {tool: "search_preprints", n: 11, want: time.Second},
		"openalex":      {tool: "search_openalex", n: 11, want: time.Second},
		"web":           {tool: "search_web", n: 3, want: 4 * time.Second},
		"configured":    {tool: "search_openalex", n: 3, want: 4 * time.Second, rates: map[string]float64{"openalex": 0.5}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sent []time.Time
				kit, err := research.New(research.Config{
					HTTP: direct{
						handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(empty[tt.tool])) }),
						sent:    func(*http.Request) { sent = append(sent, time.Now()) },
					},
					Auth: noAuth{}, References: &tooltest.ReferenceStore{}, WebProvider: research.DuckDuckGo, Rates: tt.rates,
				})
				require.NoError(t, err)
				inv := invocation()
				inv.Auth = tt.auth
				for i := range tt.n {
					res, err := callOf(t.Context(), kit, tt.tool, inv, strconv.Itoa(i))
					require.NoError(t, err)
					require.Nil(t, res.Failure)
				}
				require.Len(t, sent, tt.n)
				require.InDelta(t, tt.want, sent[tt.n-1].Sub(sent[0]), float64(20*time.Millisecond))
			})
		})
	}
}

// TestWaits checks calls that have to wait until a request may be sent.
func TestWaits(t *testing.T) {
	newKit := func(t *testing.T, handler http.HandlerFunc) agent.Toolkit {
		t.Helper()
		kit, err := research.New(research.Config{
			HTTP: direct{handler: handler}, References: &tooltest.ReferenceStore{}, Rates: map[string]float64{"openalex": 0.2},
		})
		require.NoError(t, err)
		return kit
	}
	good := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"results":[]}`)) }
	t.Run("too many at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			kit := newKit(t, good) // a request every 5 s, and MaxWait is 10 s
			var calls sync.WaitGroup
			failures := make(chan *agent.Failure, 4)
			for range 4 {
				calls.Go(func() {
					if res, _ := callOf(t.Context(), kit, "search_openalex", invocation()); res.Failure != nil {
						failures <- res.Failure
					}
				})
			}
			calls.Wait()
			require.Len(t, failures, 1)
			f := <-failures
			require.Equal(t, "rate_limited", f.Type)
			require.Contains(t, f.Message, "too many searches at once: the next may begin in 15s")
			require.True(t, f.Retryable)
		})
	})
	t.Run("deadline before the rate", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			kit := newKit(t, good)
			_, err := callOf(t.Context(), kit, "search_openalex", invocation())
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			began := time.Now()
			_, err = callOf(ctx, kit, "search_openalex", invocation())
			require.ErrorIs(t, err, context.DeadlineExceeded, "an error for the runtime: a call with more time may succeed")
			require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
			require.Zero(t, time.Since(began), "at once")
		})
	})
	t.Run("cancelled while waiting", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			kit := newKit(t, good)
			_, err := callOf(t.Context(), kit, "search_openalex", invocation())
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			began := time.Now()
			_, err = callOf(ctx, kit, "search_openalex", invocation())
			require.ErrorIs(t, err, context.Canceled)
			require.Equal(t, agent.CodeCancelled, agent.CodeOf(err))
			require.Equal(t, time.Second, time.Since(began))
		})
	})
	retryAfter := func(status int, after string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if after != "" {
				w.Header().Set("Retry-After", after)
			}
			w.WriteHeader(status)
		}
	}
	for name, tt := range map[string]struct {
		status int
		after  string
		want   time.Duration
	}{
		"seconds":        {503, "4", 5 * time.Second}, // the rate is slower
		"longer":         {429, "7", 7 * time.Second},
		"a date":         {429, time.Date(2000, 1, 1, 0, 0, 8, 0, time.UTC).Format(http.TimeFormat), 8 * time.Second},
		"no time":        {502, "", 5 * time.Second},
		"beyond MaxWait": {429, "11", 0},
	} {
		t.Run("Retry-After: "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				res, err := callOf(t.Context(), newKit(t, retryAfter(tt.status, tt.after)), "search_openalex", invocation())
				require.NoError(t, err)
				require.NotNil(t, res.Failure)
				require.InDelta(t, tt.want, time.Since(began), float64(time.Millisecond))
			})
		})
	}
	t.Run("Retry-After beyond the deadline", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			_, err := callOf(ctx, newKit(t, retryAfter(429, "4")), "search_openalex", invocation())
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
	})
}

// keyed adds a key to requests, as auth profiles do.
type keyed struct{ err error }

const theKey = "s3cr3t+key/ü"

func (k keyed) Authorise(req *http.Request, profiles []agent.PlanAuth) error {
	if k.err != nil {
		return k.err
	}
	if len(profiles) == 0 {
		return nil
	}
	if profiles[0].Header != "" {
		req.Header.Set(profiles[0].Header, "Bearer "+theKey)
		return nil
	}
	query := req.URL.Query()
	query.Set(profiles[0].Query, theKey)
	u := *req.URL
	u.RawQuery = query.Encode()
	req.URL = &u
	return nil
}

func TestCredentials(t *testing.T) {
	w := start(t, func(cfg *research.Config) { cfg.Auth = keyed{} })
	inv := invocation()
	inv.Auth = []agent.PlanAuth{{Name: "openalex", Type: agent.AuthAPIKey, Query: "api_key", Hosts: []string{strings.TrimPrefix(w.URL, "http://")}}}
	w.callAs(t, inv, "search_openalex", `{"query":"x"}`)
	require.Equal(t, theKey, w.requests(works)[0].Get("api_key"))

	for name, body := range map[string]string{
		"in words": `{"error":"the key ` + theKey + ` is invalid"}`, "encoded": `{"error":"api_key=s3cr3t%2Bkey%2F%C3%BC is invalid"}`, "as text": "no such key: " + theKey,
	} {
		for _, header := range []string{"", "Authorization"} {
			if header != "" && name == "encoded" {
				continue
			}
			inv.Auth[0].Header = header
			w.set(works, reply{status: 401, media: "text/plain", body: body})
			res, err := w.tool(t, "search_openalex").Call(t.Context(), inv, agent.ToolCall{Args: json.RawMessage(`{"query":"x"}`)})
			require.NoError(t, err)
			require.Equal(t, "OpenAlex answered 401 Unauthorized", res.Failure.Message, name+header)
			require.NotContains(t, string(res.Output), "s3cr3t")
		}
	}

	refused := start(t, func(cfg *research.Config) {
		cfg.Auth = keyed{err: agent.Errorf(agent.CodeDenied, "authorise request", `auth profile "x" cannot be used`)}
	})
	inv.Auth[0].Hosts = []string{strings.TrimPrefix(refused.URL, "http://")}
	res, err := refused.tool(t, "search_openalex").Call(t.Context(), inv, agent.ToolCall{Args: json.RawMessage(`{"query":"x"}`)})
	require.NoError(t, err)
	require.Equal(t, "denied", res.Failure.Type)
	require.Empty(t, refused.requests(works), "nothing was sent")
}

// failing is a store of references that is not available.
type failing struct{ tooltest.ReferenceStore }

func (*failing) AddReferences(context.Context, string, agent.SessionID, []agent.Reference) ([]agent.Reference, error) {
	return nil, agent.Errorf(agent.CodeUnavailable, "add references", "the database is away")
}

func (*failing) References(context.Context, string, agent.SessionID) ([]agent.Reference, error) {
	return nil, agent.Errorf(agent.CodeUnavailable, "list references", "the database is away")
}

func TestUnavailableStoreIsAnError(t *testing.T) {
	w := start(t, func(cfg *research.Config) { cfg.References = &failing{} })
	for name, args := range map[string]string{"search_openalex": `{"query":"x"}`, "get_bibliography": `{}`} {
		_, err := w.tool(t, name).Call(t.Context(), invocation(), agent.ToolCall{Args: json.RawMessage(args)})
		require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err), name)
	}
}

func TestDeadlineIsAnError(t *testing.T) {
	held := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-held:
		}
	}))
	t.Cleanup(srv.Close)
	t.Cleanup(func() { close(held) })
	for _, name := range []string{"search_openalex", "search_research"} {
		w := start(t, func(cfg *research.Config) { cfg.OpenAlexURL = srv.URL; cfg.HTTP = plainHTTP{} })
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := callOf(ctx, w.kit, name, invocation())
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded, name)
		require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err), name)
	}
}

// plainHTTP is a client without egress rules.
type plainHTTP struct{}

func (plainHTTP) Do(req *http.Request) (*http.Response, error) {
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, errors.New("connection lost: " + err.Error())
	}
	return resp, nil
}

func TestResultsHaveTheirShape(t *testing.T) {
	w := start(t, nil)
	for _, each := range w.kit.Tools() {
		args := `{"query":"x"}`
		if each.Spec().Name == "get_bibliography" {
			args = `{"format":"csl-json"}`
		}
		res, err := each.Call(t.Context(), invocation(), agent.ToolCall{Args: json.RawMessage(args)})
		require.NoError(t, err)
		require.Nil(t, res.Failure)
		tooltest.CheckResult(t, res)
		require.NotEmpty(t, res.Data)
	}
}
