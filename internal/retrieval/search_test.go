package retrieval_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/retrieval"
)

// hits returns a passage for each letter, with falling scores.
func hits(ids string, score float64) []agent.Passage {
	list := make([]agent.Passage, len(ids))
	for i := range ids {
		list[i] = agent.Passage{ID: "c" + ids[i:i+1], DocumentID: ids[i : i+1], Score: score - float64(i)/100}
	}
	return list
}

func newEmbedder(context.Context, agent.PlanModel) (agent.Embedder, error) { return &embedder{}, nil }

func TestFusion(t *testing.T) {
	for name, c := range map[string]struct {
		matching, nearest string
		minScore          float64
		topK              int
		want              string
	}{
		"both agree on second best": {"abc", "dbe", 0, 3, "bad"},
		"ties by document":          {"ba", "ab", 0, 3, "ab"},
		"ties, one each":            {"z", "y", 0, 3, "yz"},
		"words alone":               {"cab", "", 0, 3, "cab"},
		"vectors alone":             {"", "cab", 0, 2, "ca"},
		"below the score":           {"ab", "xyb", 0.895, 5, "axb"}, // y scores 0.89, so y and b are too far away, but full text finds b
		"a passage twice":           {"aab", "", 0, 5, "ab"},
		"default":                   {"abcdefgh", "", 0, 0, "abcd"},
		"nothing":                   {"", "", 0, 3, ""},
	} {
		t.Run(name, func(t *testing.T) {
			store := newStore()
			store.fullTextHits, store.nearestHits = hits(c.matching, 3), hits(c.nearest, 0.9)
			l, err := retrieval.New(retrieval.Config{Store: store, Embedders: newEmbedder})
			require.NoError(t, err)
			q := query("x")
			q.TopK, q.MinScore = c.topK, c.minScore
			passages, err := l.Search(t.Context(), q)
			require.NoError(t, err)
			got := ""
			for i := range passages {
				got += passages[i].DocumentID
				require.True(t, i == 0 || passages[i].Score <= passages[i-1].Score)
				require.Positive(t, passages[i].Score)
			}
			require.Equal(t, c.want, got)
			require.GreaterOrEqual(t, store.limit, 20)
		})
	}
}

func TestFusionScores(t *testing.T) {
	store := newStore()
	store.fullTextHits, store.nearestHits = hits("aab", 1), hits("b", 1)
	l, err := retrieval.New(retrieval.Config{Store: store, Embedders: newEmbedder})
	require.NoError(t, err)
	passages, err := l.Search(t.Context(), query("x"))
	require.NoError(t, err)
	require.Equal(t, []string{"b/0", "a/0"}, passageIDs(passages))
	require.InDelta(t, 1.0/62+1.0/61, passages[0].Score, 1e-9)
	require.InDelta(t, 1.0/61, passages[1].Score, 1e-9)
}

func TestSearchFallsBack(t *testing.T) {
	failed := agent.Errorf(agent.CodeUnavailable, "", "down")
	for name, c := range map[string]struct {
		breakIt func(l fixture, q *agent.KnowledgeQuery)
		logs    string
		code    agent.Code
	}{
		"embedder fails":     {func(l fixture, _ *agent.KnowledgeQuery) { l.embedder.embed = failToEmbed }, "full text answers alone", ""},
		"embedder hangs":     {func(l fixture, _ *agent.KnowledgeQuery) { l.embedder.embed = hang }, "full text answers alone", ""},
		"no embedder":        {func(_ fixture, q *agent.KnowledgeQuery) { q.Embedding.Profile = "missing" }, "full text answers alone", ""},
		"vectors fail":       {func(l fixture, _ *agent.KnowledgeQuery) { l.store.nearestErr = failed }, "full text answers alone", ""},
		"full text fails":    {func(l fixture, _ *agent.KnowledgeQuery) { l.store.fullTextErr = failed }, "vectors answer alone", ""},
		"both fail":          {func(l fixture, _ *agent.KnowledgeQuery) { l.store.fullTextErr, l.embedder.embed = failed, failToEmbed }, "", agent.CodeUnavailable},
		"the only one fails": {func(l fixture, q *agent.KnowledgeQuery) { l.store.fullTextErr, q.Embedding = failed, nil }, "", agent.CodeUnavailable},
		"no vectors kept":    {func(l fixture, _ *agent.KnowledgeQuery) { l.store.hasVectors = false }, "", ""},
		"no model":           {func(_ fixture, q *agent.KnowledgeQuery) { q.Embedding = nil }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // without waiting for embedTimeout
				l := newLibrary(t)
				_, err := l.Add(t.Context(), request("a.txt", "The tower has a bell."))
				require.NoError(t, err)
				q := query("bell")
				c.breakIt(l, &q)
				passages, err := l.Search(t.Context(), q)
				require.Equal(t, c.code, agent.CodeOf(err), "%v", err)
				if c.code != "" {
					require.ErrorContains(t, err, `collection "handbook"`)
					return
				}
				require.Equal(t, []string{"a.txt/0"}, passageIDs(passages))
				if c.logs == "" {
					require.Empty(t, l.logs.All())
					return
				}
				require.Len(t, l.logs.All(), 1)
				require.Contains(t, l.logs.All()[0].Message, c.logs)
				require.NotContains(t, fmt.Sprint(l.logs.All()[0].ContextMap()), "bell", "queries are not logged")
			})
		})
	}
}

func failToEmbed(context.Context, []string) ([][]float32, error) { return nil, errors.New("no") }

func hang(ctx context.Context, _ []string) ([][]float32, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestSearchValidatesTheQuery(t *testing.T) {
	l := newLibrary(t)
	for field, change := range map[string]func(q *agent.KnowledgeQuery){
		"tenant":     func(q *agent.KnowledgeQuery) { q.Tenant = "" },
		"collection": func(q *agent.KnowledgeQuery) { q.Collection = "" },
		"top_k":      func(q *agent.KnowledgeQuery) { q.TopK = -1 },
		"min_score":  func(q *agent.KnowledgeQuery) { q.MinScore = math.NaN() },
	} {
		q := query("x")
		change(&q)
		_, err := l.Search(t.Context(), q)
		var e *agent.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, field, e.Field)
	}
	passages, err := l.Search(t.Context(), query(" \x00\n"))
	require.NoError(t, err)
	require.Empty(t, passages)
	require.Empty(t, l.embedder.batches)

	l.embedder.embed = func(_ context.Context, texts []string) ([][]float32, error) {
		require.Len(t, []rune(texts[0]), 8_000)
		return [][]float32{{1}}, nil
	}
	_, err = l.Search(t.Context(), query(strings.Repeat("ü", 50_000)))
	require.NoError(t, err)
	require.Len(t, l.embedder.batches, 1)
	l.embedder.embed = nil

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = l.Search(ctx, query("x"))
	require.Equal(t, agent.CodeCancelled, agent.CodeOf(err))
}
