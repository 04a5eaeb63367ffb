package retrievaltest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

func testFullTextOrder(t *testing.T, s Store) {
	put(t, s, "a", "The tower has a bell.", "The tower has a clock.", "The tower has a staircase made of porphyry.", "Nothing of that here.")
	require.Equal(t, []string{"The tower has a staircase made of porphyry."}, searchTexts(t, s, "porphyry"))
	all := searchTexts(t, s, "tower porphyry")
	require.Len(t, all, 3)
	require.Equal(t, "The tower has a staircase made of porphyry.", all[0], "the rarer word decides")
	require.Equal(t, all, searchTexts(t, s, "PORPHYRY tower"), "neither case nor order matters")

	passages, err := s.FullText(t.Context(), tenant, collection, "tower porphyry", 2)
	require.NoError(t, err)
	require.Equal(t, all[:2], texts(passages))
	for i := 1; i < len(passages); i++ {
		require.GreaterOrEqual(t, passages[i-1].Score, passages[i].Score)
	}
}

func testFullTextTitle(t *testing.T, s Store) {
	d, chunks := newDocument("a", "How the wheels are greased.")
	d.Title = "Velocipede maintenance"
	_, err := s.PutDocument(t.Context(), d, chunks)
	require.NoError(t, err)
	put(t, s, "b", "How the horses are fed.")
	require.Equal(t, []string{"How the wheels are greased."}, searchTexts(t, s, "velocipede"))
	require.Equal(t, "How the wheels are greased.", searchTexts(t, s, "velocipede fed")[0], "a word of the title counts at least as much")
}

// testFullTextQuestions searches with whole sentences, of which only a few words are in the text.
func testFullTextQuestions(t *testing.T, s Store) {
	put(t, s, "a", "Refunds are paid within fourteen days.", "Parcels are sent on workdays.")
	require.Equal(t, "Refunds are paid within fourteen days.", searchTexts(t, s, "Could you please tell me how long I wait for refunds?")[0])
	require.Empty(t, searchTexts(t, s, "submarine"))
	for _, none := range []string{"", "   ", "?!", "…", "- -"} {
		require.Empty(t, searchTexts(t, s, none), "%q", none)
	}
}

func testAnyQuery(t *testing.T, s Store) {
	put(t, s, "a", "granite")
	for _, query := range []string{
		"'", "''", `"`, `"open`, `\`, "&|!", "a & | b", "!", "()", "((((", "a:*", "<->", "a <-> b", "%", "_", "$1", "--", "; DROP TABLE x", "-granite",
		"or", "OR OR", "and", "\x00", "gra\x00nite", "\xff\xfe", "\u2028", "🎉", "كلمة", "单词", strings.Repeat("word ", 20_000), strings.Repeat("x", 100_000),
		strings.Repeat("(", 5_000), strings.Repeat(`"`, 5_001),
	} {
		_, err := s.FullText(t.Context(), tenant, collection, query, 5)
		require.NoError(t, err, "%.40q", query)
	}
	require.Equal(t, []string{"granite"}, searchTexts(t, s, `"granite" & '`))
}

func testNearest(t *testing.T, s Store) {
	if !s.Vectors() {
		_, err := s.Nearest(t.Context(), tenant, collection, []float32{1, 0, 0}, 3)
		require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err), "%v", err)
		d, chunks := newDocument("a", "granite")
		chunks[0].Embedding = []float32{1, 0, 0}
		_, err = s.PutDocument(t.Context(), d, chunks)
		require.NoError(t, err, "the text is stored without vectors")
		require.Equal(t, []string{"granite"}, searchTexts(t, s, "granite"))
		return
	}
	passages, err := s.Nearest(t.Context(), tenant, collection, []float32{1, 0, 0}, 3)
	require.NoError(t, err)
	require.Empty(t, passages)

	d, chunks := newDocument("a", "east", "north-east", "north", "nowhere")
	chunks[0].Embedding = []float32{2, 0, 0} // its length does not matter
	chunks[1].Embedding = []float32{1, 1, 0}
	chunks[2].Embedding = []float32{0, 1, 0}
	_, err = s.PutDocument(t.Context(), d, chunks)
	require.NoError(t, err)
	passages, err = s.Nearest(t.Context(), tenant, collection, []float32{1, 0, 0}, 10)
	require.NoError(t, err)
	require.Equal(t, []string{"east", "north-east", "north"}, texts(passages), "a chunk without a vector is not found")
	require.InDelta(t, 1, passages[0].Score, 1e-3)
	require.InDelta(t, 0.7071, passages[1].Score, 1e-3)
	require.InDelta(t, 0, passages[2].Score, 1e-3)
	require.Equal(t, 1, passages[1].Position)
	require.Equal(t, "a", passages[1].DocumentID)
	require.NotEmpty(t, passages[1].ID)

	passages, err = s.Nearest(t.Context(), tenant, collection, []float32{0, 1, 0}, 1)
	require.NoError(t, err)
	require.Equal(t, []string{"north"}, texts(passages))

	d, chunks = newDocument("a", "west")
	chunks[0].Embedding = []float32{-1, 0.1, 0}
	_, err = s.PutDocument(t.Context(), d, chunks)
	require.NoError(t, err)
	passages, err = s.Nearest(t.Context(), tenant, collection, []float32{0, 1, 0}, 10)
	require.NoError(t, err)
	require.Equal(t, []string{"west"}, texts(passages), "the vectors of replaced chunks are gone")
}
