package e2e_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/turnstonetest"
)

// library serves the fixtures of the research toolkit as the services do.
func library(t *testing.T) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	for path, file := range map[string]string{
		"/eutils/esearch.fcgi": "pubmed_esearch.json", "/eutils/efetch.fcgi": "pubmed_efetch.xml", "/openalex/works": "openalex.json",
	} {
		body, err := os.ReadFile(filepath.Join("..", "internal", "tool", "research", "testdata", file))
		require.NoError(t, err)
		media := map[string]string{".json": "application/json", ".xml": "text/xml"}[filepath.Ext(file)]
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", media)
			_, _ = w.Write(body) // a client that left wants nothing
		})
	}
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// found is what a search answers.
type found struct {
	Results []struct {
		N   int    `json:"n"`
		DOI string `json:"doi"`
	} `json:"results"`
}

func (f *found) numbers() map[string]int {
	out := map[string]int{}
	for _, r := range f.Results {
		if r.DOI != "" {
			out[r.DOI] = r.N
		}
	}
	return out
}

// TestBibliographyOfAConversation searches in one turn and again in the next: a work keeps its number, and the bibliography has them all.
func TestBibliographyOfAConversation(t *testing.T) {
	t.Parallel()
	services := library(t)
	provider := turnstonetest.NewModel(t,
		asks("c1", "search_pubmed", `{"query":"sickle cell","max_results":4}`), turnstonetest.Say("four papers"),
		asks("c2", "search_openalex", `{"query":"sickle cell"}`),
		asks("c3", "search_pubmed", `{"query":"sickle cell gene editing","max_results":4}`),
		asks("c4", "get_bibliography", `{"format":"csl-json"}`), turnstonetest.Say("here they are"),
		asks("c5", "get_bibliography", `{}`), turnstonetest.Say("none"),
	)
	s := start(t, reach(services), func(c *app.Config) {
		c.Tools.Research.PubMedURL, c.Tools.Research.OpenAlexURL = services.URL+"/eutils", services.URL+"/openalex"
		c.Tools.Research.Contact = "ops@example.org"
	})
	s.worksFor(provider, "[research]")
	read := func(answer string) map[string]int {
		var f found
		require.NoError(t, json.Unmarshal([]byte(answer), &f), answer)
		require.NotEmpty(t, f.Results, answer)
		return f.numbers()
	}

	out, events := s.ask("papers", "what is known?")
	require.Equal(t, agent.ResultSuccess, out.ToolCalls[0].Status, toolOutput(events))
	first := read(toolOutput(events))
	require.Equal(t, 1, first["10.1056/nejmoa2031054"])
	require.Zero(t, count(events, agent.EventApprovalRequested))

	out, events = s.ask("papers", "and elsewhere? list all")
	answers := toolEnds(events)
	require.Len(t, answers, 3)
	more, again := read(answers[0]), read(answers[1])
	require.Equal(t, first, again, "numbers stay")
	for doi, n := range more {
		if known, ok := first[doi]; ok {
			require.Equal(t, known, n, "the same work has the same number wherever it is found")
		} else {
			require.Greater(t, n, len(first))
		}
	}
	require.Equal(t, agent.ResultSuccess, out.ToolCalls[2].Status, answers[2])
	for doi := range first {
		require.Contains(t, answers[2], doi)
	}
	for doi := range more {
		require.Contains(t, answers[2], doi)
	}

	_, events = s.ask("others", "list all")
	require.NotContains(t, toolOutput(events), "10.1056", "a bibliography is its conversation's")
}
