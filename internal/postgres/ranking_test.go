package postgres_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

func TestRankTexts(t *testing.T) {
	b := newBench(t, postgres.Config{})
	titles := []string{"execute_pipeline", "patch_workflow", "send_email", "orderStatus", "search.pubmed", "who", "c++", "Größe"}
	bodies := []string{
		"Runs steps over data: fetches rows by HTTP, filters, sorts and joins them.", "Changes the definition of a workflow.",
		"Sends a notification by mail; of a pipeline, too.", "Where an order stands.", "Finds articles about medicine.",
		"The one and only.", "Compiles.", "Misst die Länge.",
	}
	rank := func(query string, n int) []int {
		t.Helper()
		indexes, scores, err := b.RankTexts(t.Context(), query, titles, bodies, n)
		require.NoError(t, err)
		require.Len(t, scores, len(indexes))
		for i := 1; i < len(scores); i++ {
			require.GreaterOrEqual(t, scores[i-1], scores[i])
		}
		return indexes
	}
	tests := map[string]struct {
		query string
		want  []int
	}{
		"a title counts more":            {"pipeline", []int{0, 2}},
		"names are their words":          {"order status", []int{3}},
		"a name as a query":              {"execute_pipeline", []int{0, 2}},
		"camel case as a query":          {"orderStatus", []int{3}},
		"points":                         {"pubmed", []int{4}},
		"stems":                          {"filtering sorted", []int{0}},
		"any word":                       {"email medicine", []int{2, 4}},
		"the last word's beginning":      {"artic", []int{4}},
		"not the first's":                {"artic notification", []int{2}},
		"nor a short one's":              {"wo", nil},
		"stop words do not count":        {"the pubmed of a", []int{4}},
		"but alone they do":              {"who", []int{5}},
		"stop words alone":               {"the", []int{1, 5}},
		"no words":                       {" !? ", nil},
		"nothing":                        {"", nil},
		"no such word":                   {"zebra", nil},
		"letters of elsewhere":           {"größe", []int{7}},
		"a query's syntax is not obeyed": {`') | !pipeline & 'x:*`, []int{0, 2}},
		"quotes, backslashes, NUL":       {"a'b \\ \x00pubmed", []int{4}},
		"all words stand before some":    {"notification pipeline", []int{2, 0}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.want, rank(test.query, 10))
		})
	}
	require.Equal(t, []int{0}, rank("pipeline", 1))
	require.Empty(t, rank("pipeline", 0))

	for range 3 {
		indexes, _, err := b.RankTexts(t.Context(), "same", []string{"same", "same", "same"}, make([]string, 3), 10)
		require.NoError(t, err)
		require.Equal(t, []int{0, 1, 2}, indexes, "ties are in order")
	}
	_, _, err := b.RankTexts(t.Context(), "x", titles, nil, 1)
	requireCode(t, agent.CodeInvalid, err)
	_, _, err = b.RankTexts(t.Context(), "x", make([]string, 2001), make([]string, 2001), 1)
	requireCode(t, agent.CodeOverflow, err)
	_, _, err = b.RankTexts(t.Context(), "x", []string{"x"}, []string{strings.Repeat("x", 2<<20)}, 1)
	requireCode(t, agent.CodeOverflow, err)
	many := make([]string, 2000)
	for i := range many {
		many[i] = strings.Repeat("some words of a description ", 30)
	}
	indexes, _, err := b.RankTexts(t.Context(), strings.Repeat("words of ", 4000), many, many, 50)
	require.Nil(t, indexes)
	requireCode(t, agent.CodeOverflow, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = b.RankTexts(ended, "", titles, bodies, 1)
	requireCode(t, agent.CodeCancelled, err)
}

func BenchmarkRankTexts(b *testing.B) {
	s := newBench(b, postgres.Config{})
	titles, bodies := make([]string, 500), make([]string, 500)
	for i := range titles {
		titles[i] = "tool_number_" + strings.Repeat("x", i%7)
		bodies[i] = strings.Repeat("some words of a description that a tool has ", 10)
	}
	for b.Loop() {
		if _, _, err := s.RankTexts(b.Context(), "find the flights description", titles, bodies, 10); err != nil {
			b.Fatal(err)
		}
	}
}
