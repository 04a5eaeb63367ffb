package research_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool"
	"github.com/turnstone-run/turnstone/internal/tool/research"
	"github.com/turnstone-run/turnstone/internal/tool/tooltest"
)

func TestSearchAll(t *testing.T) {
	w := start(t, nil)
	inv := invocation()
	var mu sync.Mutex
	var progress []string
	inv.Progress = func(text string) {
		mu.Lock()
		defer mu.Unlock()
		progress = append(progress, text)
	}
	out := w.callAs(t, inv, "search_research", `{"query":"sickle (cell","from_year":2019,"to_year":2022}`)
	require.ElementsMatch(t, []string{
		"PubMed: 4 results", "Europe PMC: 2 results", "OpenAlex: 3 results", "ClinicalTrials.gov: 2 results", "DuckDuckGo: 2 results",
	}, progress)
	require.Equal(t, "2019/01/01", w.requests(esearch)[0].Get("mindate"))
	require.Equal(t, "20", w.requests(esearch)[0].Get("retmax"))
	require.Equal(t, "from_publication_date:2019-01-01,to_publication_date:2022-12-31", w.requests(works)[0].Get("filter"))
	require.Equal(t, "(sickle  cell) AND (SRC:PPR) AND (FIRST_PDATE:[2019-01-01 TO 2022-12-31])", w.requests(epmc)[0].Get("query"))
	require.Equal(t, "sickle (cell", w.requests(studies)[0].Get("query.term"))

	require.Equal(t, "pubmed,preprints,openalex,clinical_trials,web", out.Source)
	require.Equal(t, 1342+2871+8123+57, out.Total)
	require.Empty(t, out.Failed)
	var order []string
	for i, r := range out.Results {
		require.Equal(t, i+1, numberIn(r["n"]))
		order = append(order, r["source"].(string))
	}
	require.Equal(t, []string{
		"pubmed", "preprints", "clinical_trials", "web", // first results; that of OpenAlex is merged with PubMed's
		"pubmed", "preprints", "openalex", "clinical_trials", // second results; that of the web is merged with PubMed's
		"pubmed", "openalex", "pubmed",
	}, order)
	first := out.Results[0]
	require.Equal(t, []any{"openalex", "web"}, first["also_in"])
	require.Equal(t, 1489, numberIn(first["cited_by"]), "sources complete each other")
	require.Equal(t, "W3111255098", first["openalex"])
	require.Contains(t, first["abstract"], "BACKGROUND")

	out = w.call(t, "search_research", `{"query":"x","max_results":2,"sources":["web","openalex","web"]}`)
	require.Equal(t, "openalex,web", out.Source)
	require.Len(t, out.Results, 2)
	require.Len(t, w.requests(esearch), 1, "not asked again")
	require.Equal(t, 11, w.call(t, "get_bibliography", `{}`).Total, "works that are not in an answer are not stored")
}

func TestSearchAllSurvivesFailures(t *testing.T) {
	w := start(t, nil)
	w.set(esearch, reply{status: 500})
	w.set(epmc, reply{body: `{"errMsg":"no"}`})
	w.set(duckPage, reply{status: 202, body: fixture(t, "duckduckgo_challenge.html")})
	out := w.call(t, "search_research", `{"query":"x"}`)
	require.Len(t, out.Results, 5)
	require.Len(t, out.Failed, 3)
	require.Equal(t, "pubmed", out.Failed[0].Source)
	require.Equal(t, "PubMed answered 500 Internal Server Error", out.Failed[0].Error)
	require.Equal(t, "preprints", out.Failed[1].Source)
	require.Equal(t, "web", out.Failed[2].Source)

	w.set(works, reply{body: `{"results":[]}`})
	w.set(studies, reply{body: `{"studies":[]}`})
	out = w.call(t, "search_research", `{"query":"x"}`)
	require.Empty(t, out.Results, "finding nothing is no failure")
	require.Len(t, out.Failed, 3)

	w.set(works, reply{status: 401})
	w.set(studies, reply{status: 400, media: "text/plain", body: "bad"})
	f := w.fail(t, "search_research", `{"query":"x"}`)
	require.True(t, f.Retryable, "some of the failures are")
	for _, source := range []string{"pubmed", "preprints", "openalex", "clinical_trials", "web"} {
		require.Contains(t, f.Message, source+": ")
	}
	require.Equal(t, "denied", w.fail(t, "search_research", `{"query":"x","sources":["openalex"]}`).Type)
}

// panicking is a client that panics at a request to DuckDuckGo.
type panicking struct{ tool.HTTP }

func (p panicking) Do(req *http.Request) (*http.Response, error) {
	if req.URL.Path == duckPage {
		panic("a request to DuckDuckGo")
	}
	return p.HTTP.Do(req)
}

func TestSearchAllSurvivesAPanic(t *testing.T) {
	w := start(t, func(cfg *research.Config) { cfg.HTTP = panicking{cfg.HTTP} })
	out := w.call(t, "search_research", `{"query":"x"}`)
	require.NotEmpty(t, out.Results)
	require.Len(t, out.Failed, 1)
	require.Equal(t, "search: DuckDuckGo: its answer could not be handled", out.Failed[0].Error)
}

func TestSearchAllBoundsEachSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kit, err := research.New(research.Config{
			HTTP: direct{handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case strings.HasSuffix(r.URL.Path, "/esearch.fcgi"):
					<-r.Context().Done() // never answers
				case strings.HasSuffix(r.URL.Path, "/works"):
					time.Sleep(5 * time.Second) // in the time of synctest
					_, _ = w.Write([]byte(`{"results":[{"id":"https://openalex.org/W1","display_name":"A"}]}`))
				default:
					w.WriteHeader(http.StatusTeapot)
				}
			})},
			References: &tooltest.ReferenceStore{}, SourceTimeout: 8 * time.Second,
		})
		require.NoError(t, err)
		began := time.Now()
		res, err := callOf(t.Context(), kit, "search_research", invocation())
		require.NoError(t, err)
		require.Equal(t, 8*time.Second, time.Since(began), "all at once, each within its time")
		var out output
		require.NoError(t, json.Unmarshal(res.Output, &out))
		require.Len(t, out.Results, 1)
		require.Equal(t, "PubMed did not answer within 8s", out.Failed[0].Error)
	})
}

func TestArguments(t *testing.T) {
	w := start(t, nil)
	long := strings.Repeat("ä", 1001)
	for _, tt := range []struct{ tool, args, says string }{
		{"search_pubmed", `{}`, "query: is required"},
		{"search_pubmed", `{"query":null}`, "query: is required"},
		{"search_pubmed", `{"query":" \n "}`, "query: is empty"},
		{"search_pubmed", `{"query":7}`, "query: want a string"},
		{"search_pubmed", `{"query":"` + long + `"}`, "query: has 1001 characters, at most 1000"},
		{"search_pubmed", `{"query":"x","max_results":0}`, "max_results: want 1 to 50, got 0"},
		{"search_pubmed", `{"query":"x","max_results":51}`, "max_results: want 1 to 50, got 51"},
		{"search_pubmed", `{"query":"x","max_results":"5"}`, "max_results: want a whole number"},
		{"search_pubmed", `{"query":"x","sort":"cited"}`, `sort: want one of relevance, date, got "cited"`},
		{"search_pubmed", `{"query":"x","date_from":"last year"}`, `date_from: want a date as 2024, 2024-05 or 2024-05-17, got "last year"`},
		{"search_pubmed", `{"query":"x","date_to":"2024-02-30"}`, "date_to: want a date"},
		{"search_pubmed", `{"query":"x","date_to":"2024-13"}`, "date_to: want a date"},
		{"search_pubmed", `{"query":"x","date_to":"0000"}`, "date_to: want a date"},
		{"search_pubmed", `{"query":"x","date_from":"2024-05-02","date_to":"2024-05-01"}`, "date_to: 2024-05-01 is before date_from, 2024-05-02"},
		{"search_pubmed", `{"query":"x","site":"a.b"}`, "site: unknown field"},
		{"search_pubmed", `{"query":"x","query":"y"}`, "query: is given twice"},
		{"search_clinical_trials", `{"query":"x","status":["RECRUITING","OPEN"]}`, "status[1]: want one of RECRUITING, "},
		{"search_clinical_trials", `{"query":"x","status":"RECRUITING"}`, "status: want an array"},
		{"search_clinical_trials", `{"query":"x","phase":["2"]}`, "phase[0]: want one of EARLY_PHASE1, "},
		{"search_clinical_trials", `{"query":"x","phase":["NA","NA","NA","NA","NA","NA","NA"]}`, "phase: has 7 entries, there are 6"},
		{"search_clinical_trials", `{"query":"x","condition":"` + long + `"}`, "condition: has 1001 characters"},
		{"search_preprints", `{"query":"a) OR (b"}`, "query: has a parenthesis without its other"},
		{"search_preprints", `{"query":"(a"}`, "query: has a parenthesis without its other"},
		{"search_preprints", `{"query":"\"a"}`, "query: has a quotation mark without its other"},
		{"search_openalex", `{"query":"x","from_year":99}`, "from_year: want a year from 1500 to 2199, got 99"},
		{"search_openalex", `{"query":"x","from_year":2020,"to_year":2019}`, "to_year: 2019 is before from_year, 2020"},
		{"search_openalex", `{"query":"x","type":"article,is_oa:true"}`, "type: want one of article, "},
		{"search_openalex", `{"query":"x","open_access":"yes"}`, "open_access: want "},
		{"search_web", `{"query":"x","site":"https://a.example/"}`, "site: want a host as example.org"},
		{"search_web", `{"query":"x","site":"a.example OR b"}`, "site: want a host as example.org"},
		{"search_web", `{"query":"x","recency":"d"}`, "recency: want one of day, week, month, year"},
		{"search_research", `{"query":"x","sources":["scopus"]}`, "sources[0]: want one of pubmed, "},
		{"search_research", `{"query":"x","sources":[]}`, "sources: is empty"},
		{"search_research", `{"query":"x","from_year":1}`, "from_year: want a year"},
	} {
		f := w.fail(t, tt.tool, tt.args)
		require.Contains(t, f.Message, tt.says, tt.args)
		require.False(t, f.Retryable)
		require.NotEmpty(t, f.Field)
	}
	require.Empty(t, w.asked, "nothing was sent")
}

func TestBadConfigurations(t *testing.T) {
	good := research.Config{HTTP: plainHTTP{}, References: &tooltest.ReferenceStore{}}
	for field, change := range map[string]func(cfg *research.Config){
		"http":           func(cfg *research.Config) { cfg.HTTP = nil },
		"references":     func(cfg *research.Config) { cfg.References = nil },
		"pubmed_url":     func(cfg *research.Config) { cfg.PubMedURL = "eutils.ncbi.nlm.nih.gov" },
		"trials_url":     func(cfg *research.Config) { cfg.TrialsURL = "https://user:pass@example.org" },
		"preprints_url":  func(cfg *research.Config) { cfg.PreprintsURL = "https://example.org/?a=b" },
		"openalex_url":   func(cfg *research.Config) { cfg.OpenAlexURL = "file:///etc/passwd" },
		"web_provider":   func(cfg *research.Config) { cfg.WebProvider = "bing" },
		"web_url":        func(cfg *research.Config) { cfg.WebProvider = research.SearXNG },
		"contact":        func(cfg *research.Config) { cfg.Contact = "ops@example.org)\r\nX: y" },
		"rates.scopus":   func(cfg *research.Config) { cfg.Rates = map[string]float64{"scopus": 1} },
		"rates.web":      func(cfg *research.Config) { cfg.Rates = map[string]float64{"web": 0} },
		"max_wait":       func(cfg *research.Config) { cfg.MaxWait = -1 },
		"source_timeout": func(cfg *research.Config) { cfg.SourceTimeout = -1 },
	} {
		cfg := good
		change(&cfg)
		_, err := research.New(cfg)
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err), field)
		require.ErrorContains(t, err, field)
		require.NotContains(t, err.Error(), "pass@")
	}
	kit, err := research.New(good)
	require.NoError(t, err)
	require.Len(t, kit.Tools(), 6, "without a provider there is no search_web")
	schema := string(kit.Tools()[4].Spec().Parameters)
	require.Contains(t, schema, `"clinical_trials"]`, "and no source of that name")
	require.NotContains(t, schema, `"web"`)
}

func TestSummaries(t *testing.T) {
	w := start(t, nil)
	for _, tt := range []struct {
		tool, args, want string
		free             bool
	}{
		{"search_pubmed", `{"query":"what nobody should read in the history"}`, "10 at most", false},
		{"search_research", `{"query":"x"}`, "20 at most", false},
		{"search_pubmed", `{}`, "invalid arguments", true},
		{"get_bibliography", `{}`, "markdown", true},
		{"get_bibliography", `{"format":"bibtex"}`, "bibtex", true},
		{"get_bibliography", `{"format":1}`, "invalid arguments", true},
	} {
		s, ok := w.tool(t, tt.tool).(interface {
			agent.Summarizer
			agent.EffectFree
		})
		require.True(t, ok)
		require.Equal(t, tt.want, s.Summarize(json.RawMessage(tt.args)))
		require.Equal(t, tt.free, s.EffectFree(json.RawMessage(tt.args)))
	}
}
