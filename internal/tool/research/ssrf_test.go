package research_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/egress"
	"github.com/turnstone-run/turnstone/internal/egress/egresstest"
	"github.com/turnstone-run/turnstone/internal/tool/research"
	"github.com/turnstone-run/turnstone/internal/tool/tooltest"
)

// TestAttacks checks that hostile answers of a source, such as redirects, reach no private address.
func TestAttacks(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]struct {
		tool, good, media string
		setURL            func(cfg *research.Config, url string)
	}{
		"pubmed":          {"search_pubmed", `{"esearchresult":{"count":"0","idlist":[]}}`, "", func(cfg *research.Config, url string) { cfg.PubMedURL = url }},
		"trials":          {"search_clinical_trials", `{"studies":[]}`, "", func(cfg *research.Config, url string) { cfg.TrialsURL = url }},
		"preprints":       {"search_preprints", `{"resultList":{"result":[]}}`, "", func(cfg *research.Config, url string) { cfg.PreprintsURL = url }},
		"openalex":        {"search_openalex", `{"results":[]}`, "", func(cfg *research.Config, url string) { cfg.OpenAlexURL = url }},
		"searxng":         {"search_web", `{"results":[]}`, "", web(research.SearXNG)},
		"brave":           {"search_web", `{"type":"search"}`, "", web(research.Brave)},
		"duckduckgo":      {"search_web", fixture(t, "duckduckgo_none.html"), "text/html", web(research.DuckDuckGo)},
		"several at once": {"search_research", `{"results":[]}`, "", func(cfg *research.Config, url string) { cfg.OpenAlexURL = url }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if s.media == "" {
				s.media = "application/json"
			}
			egresstest.Exercise(t, egresstest.Harness{Good: s.good, GoodType: s.media, Fetch: func(ctx context.Context, c *egress.Client, url string) error {
				counted := &egresstest.Counted{HTTP: c}
				cfg := research.Config{HTTP: counted, References: &tooltest.ReferenceStore{}}
				if s.setURL(&cfg, url); url == "" {
					return agent.Invalid("url", "is the default")
				}
				kit, err := research.New(cfg)
				if err != nil {
					return err
				}
				return searchQuietly(t, ctx, kit, s.tool, counted)
			}})
		})
	}
}

func web(provider string) func(cfg *research.Config, url string) {
	return func(cfg *research.Config, url string) { cfg.WebProvider, cfg.WebURL = provider, url }
}

// searchQuietly searches with a query that no error may repeat, and checks that the request is sent only once.
func searchQuietly(t *testing.T, ctx context.Context, kit agent.Toolkit, name string, counted *egresstest.Counted) error {
	t.Helper()
	args := map[string]any{"query": "quiet-query"}
	if name == "search_research" {
		args["sources"] = []string{"openalex"}
	}
	raw, err := json.Marshal(args)
	require.NoError(t, err)
	for _, each := range kit.Tools() {
		if each.Spec().Name != name {
			continue
		}
		res, err := each.Call(ctx, invocation(), agent.ToolCall{ID: "c", Name: name, Args: raw})
		require.NoError(t, err)
		require.LessOrEqual(t, counted.N.Load(), int32(1), "nothing is tried again")
		if res.Failure == nil {
			return nil
		}
		for _, hidden := range []string{"quiet-query", "meta-data", "_GET%20", "/etc", "/redirect/"} {
			require.NotContains(t, res.Failure.Message, hidden)
		}
		return res.Failure.AsError()
	}
	require.Failf(t, "no such tool", "%q", name)
	return nil
}
