package postgres_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
	"github.com/turnstone-run/turnstone/internal/retrieval"
	"github.com/turnstone-run/turnstone/internal/retrieval/retrievaltest"
)

var _ retrieval.Store = (*postgres.Store)(nil)

func TestKnowledge(t *testing.T) {
	retrievaltest.Exercise(t, func(t *testing.T) retrievaltest.Store { return newBench(t, postgres.Config{}).Store })
}

// TestKnowledgeWithoutVectors is TestKnowledge without the extension pgvector.
func TestKnowledgeWithoutVectors(t *testing.T) {
	t.Parallel()
	retrievaltest.Exercise(t, func(t *testing.T) retrievaltest.Store {
		b := newBench(t, postgres.Config{})
		b.dropVectors()
		require.False(t, b.Vectors())
		return b.Store
	})
}

func (b *bench) dropVectors() {
	b.t.Helper()
	b.exec(`DROP TABLE IF EXISTS knowledge_vectors`)
}

func knowledge(id string, texts ...string) (agent.KnowledgeDocument, []agent.KnowledgeChunk) {
	chunks := make([]agent.KnowledgeChunk, len(texts))
	for i, text := range texts {
		chunks[i] = agent.KnowledgeChunk{Position: i, Text: text}
	}
	return agent.KnowledgeDocument{Tenant: tenant, Collection: "docs", ID: id, Hash: "sha256:" + id, Chunks: len(texts)}, chunks
}

func (b *bench) put(id string, texts ...string) {
	b.t.Helper()
	d, chunks := knowledge(id, texts...)
	changed, err := b.PutDocument(b.t.Context(), d, chunks)
	require.NoError(b.t, err)
	require.True(b.t, changed)
}

func (b *bench) search(query string) []string {
	b.t.Helper()
	found, err := b.FullText(b.t.Context(), tenant, "docs", query, 10)
	require.NoError(b.t, err)
	ids := make([]string, len(found))
	for i, p := range found {
		ids[i] = p.ID
	}
	return ids
}

func TestFullTextRanks(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.put("a", "flight flight flight flight flight flight", "the price of a flight, and its refund", "nothing", "refund first, then many other words, then a flight at some price")
	require.Equal(t, []string{"a#1", "a#3", "a#0"}, b.search("What about the flight price refunds?"), "different words count for more than repeated ones")
	b.put("b", "he was running late", "run, said he")
	require.Equal(t, []string{"b#1", "b#0"}, b.search("run"), "a word as written ranks before its stem")
	require.Equal(t, []string{"b#0", "b#1"}, b.search("running"))
	b.put("c", "a red and big house", "a big house, painted red")
	require.Equal(t, []string{"c#1", "c#0"}, b.search(`"big house" red`), "the phrase counts")
	require.Empty(t, b.search("what is it for them"), "stop words do not count")
	require.Equal(t, []string{"c#0", "c#1"}, b.search("xyzzy in house"))
	b.put("d", `in acme docs`, `C:\dir it's`)
	require.Equal(t, []string{"d#1"}, b.search(`C:\dir`))
	b.put("e", `see example.com/it's\a for more`)
	require.Equal(t, []string{"e#0"}, b.search(`example.com/it's\a`))
}

func TestPutDocumentRefuses(t *testing.T) {
	b := newBench(t, postgres.Config{})
	tests := map[string]struct {
		change func(d *agent.KnowledgeDocument, c []agent.KnowledgeChunk)
		field  string
	}{
		"no id":         {func(d *agent.KnowledgeDocument, _ []agent.KnowledgeChunk) { d.ID = "" }, "id"},
		"long id":       {func(d *agent.KnowledgeDocument, _ []agent.KnowledgeChunk) { d.ID = strings.Repeat("x", 1025) }, "id"},
		"bad tenant":    {func(d *agent.KnowledgeDocument, _ []agent.KnowledgeChunk) { d.Tenant = "\xff" }, "tenant"},
		"no collection": {func(d *agent.KnowledgeDocument, _ []agent.KnowledgeChunk) { d.Collection = "" }, "collection"},
		"long title":    {func(d *agent.KnowledgeDocument, _ []agent.KnowledgeChunk) { d.Title = strings.Repeat("x", 4097) }, "title"},
		"long source":   {func(d *agent.KnowledgeDocument, _ []agent.KnowledgeChunk) { d.Source = strings.Repeat("x", 4097) }, "source"},
		"metadata": {func(d *agent.KnowledgeDocument, _ []agent.KnowledgeChunk) {
			d.Metadata = []byte(strings.Repeat("1", 64<<10+1))
		}, "metadata"},
		"long text":      {func(_ *agent.KnowledgeDocument, c []agent.KnowledgeChunk) { c[1].Text = strings.Repeat("x", 64<<10+1) }, "chunks[1].text"},
		"position twice": {func(_ *agent.KnowledgeDocument, c []agent.KnowledgeChunk) { c[1].Position = 0 }, "chunks[1].position"},
		"page":           {func(_ *agent.KnowledgeDocument, c []agent.KnowledgeChunk) { c[0].Page = -1 }, "chunks[0].page"},
		"two lengths": {func(_ *agent.KnowledgeDocument, c []agent.KnowledgeChunk) {
			c[0].Embedding, c[1].Embedding = []float32{1}, []float32{1, 2}
		}, "chunks[1].embedding"},
		"no direction": {func(_ *agent.KnowledgeDocument, c []agent.KnowledgeChunk) { c[0].Embedding = []float32{0, 0} }, "chunks[0].embedding"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d, chunks := knowledge("a", "one", "two")
			test.change(&d, chunks)
			_, err := b.PutDocument(t.Context(), d, chunks)
			requireFault(t, agent.CodeInvalid, test.field, err)
		})
	}
	d, _ := knowledge("a")
	_, err := b.PutDocument(t.Context(), d, make([]agent.KnowledgeChunk, 50_001))
	requireCode(t, agent.CodeOverflow, err)
	d.Metadata = []byte(`{`)
	_, err = b.PutDocument(t.Context(), d, nil)
	requireCode(t, agent.CodeInvalid, err)
	require.Zero(t, b.count("knowledge_documents"))
}

func TestPutDocumentTakesTheLargestTexts(t *testing.T) {
	b := newBench(t, postgres.Config{})
	var words strings.Builder // as many different words as fit
	for i := 0; words.Len() < 64<<10-8; i++ {
		fmt.Fprintf(&words, "%x ", i)
	}
	d, chunks := knowledge("a", words.String(), strings.Repeat("é", 32<<10), "nul \x00 and \xff")
	d.Title, d.ID = strings.Repeat("t ", 2<<10), strings.Repeat("i", 1<<10)
	changed, err := b.PutDocument(t.Context(), d, chunks)
	require.NoError(t, err)
	require.True(t, changed)
	got, err := b.KnowledgeDocument(t.Context(), tenant, "docs", d.ID)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), got.UpdatedAt, time.Minute)
	require.NotEmpty(t, b.search("1fff"))
}

func TestPutDocumentOfManyChunks(t *testing.T) {
	b := newBench(t, postgres.Config{})
	texts := make([]string, 1203)
	for i := range texts {
		texts[i] = fmt.Sprintf("word%d", i)
	}
	b.put("a", texts...)
	require.Equal(t, len(texts), b.count("knowledge_chunks"))
	require.Equal(t, []string{"a#1202"}, b.search("word1202"))
}

// Searches use an index of the collection and do not read the chunks of others.
func TestSearchesUseTheIndex(t *testing.T) {
	b := newBench(t, postgres.Config{})
	for i := range 20 {
		d, chunks := knowledge(fmt.Sprint(i), strings.Split(strings.Repeat("the same common words|", 200), "|")...)
		d.Collection = fmt.Sprintf("c%d", i)
		_, err := b.PutDocument(t.Context(), d, chunks)
		require.NoError(t, err)
	}
	b.put("a", "common ground")
	b.exec(`VACUUM ANALYZE knowledge_chunks`)
	require.Equal(t, []string{"a#0"}, b.search("common"))
	plan := b.explain(`SELECT FROM knowledge_chunks WHERE search @@ ('''in acme docs'''::tsquery && '''common'''::tsquery)`)
	require.Contains(t, plan, "Bitmap Index Scan on knowledge_chunks_search")
	require.Regexp(t, `knowledge_chunks_search +\(.*\) \(actual time=\S+ rows=1 `, plan)
}

func TestNearestRefuses(t *testing.T) {
	b := newBench(t, postgres.Config{})
	for _, v := range map[string][]float32{
		"empty": nil, "no direction": {0, 0}, "no number": {float32(math.NaN()), 1}, "too long": make([]float32, 16_001),
	} {
		_, err := b.Nearest(t.Context(), tenant, "docs", v, 3)
		requireFault(t, agent.CodeInvalid, "embedding", err)
	}
}

// On a server with pgvector this tests vectors; without it, it tests that documents are stored without them.
func TestVectorsOfOneLength(t *testing.T) {
	b := newBench(t, postgres.Config{})
	put := func(id, hash string, v ...float32) (bool, error) {
		d, chunks := knowledge(id, "text of "+id)
		d.Hash, chunks[0].Embedding = hash, v
		return b.PutDocument(t.Context(), d, chunks)
	}
	for _, id := range []string{"a", "b"} {
		changed, err := put(id, "1", 1, 0)
		require.NoError(t, err)
		require.True(t, changed)
	}
	changed, err := put("a", "1", 1, 0)
	require.NoError(t, err)
	require.False(t, changed, "the same hash")
	_, mixed := put("c", "1", 1, 0, 0)
	_, asked := b.Nearest(t.Context(), tenant, "docs", []float32{1, 0, 0}, 3)
	if !b.Vectors() {
		require.NoError(t, mixed)
		requireCode(t, agent.CodeUnavailable, asked)
		return
	}
	requireFault(t, agent.CodeInvalid, "embedding", mixed)
	requireFault(t, agent.CodeInvalid, "embedding", asked)
	require.NoError(t, b.DeleteDocument(t.Context(), tenant, "docs", "b"))
	changed, err = put("a", "2", 1, 0, 0)
	require.NoError(t, err, "without other documents the collection takes a new length")
	require.True(t, changed)
	require.Equal(t, 1, b.count("knowledge_vectors"))
}

// Of concurrent writers of vectors of two lengths, those of one length succeed.
func TestVectorsOfOneLengthAtOnce(t *testing.T) {
	b := newBench(t, postgres.Config{})
	atOnce(8, func(i int) error {
		d, chunks := knowledge(newID(), "text")
		chunks[0].Embedding = make([]float32, 2+i%2)
		chunks[0].Embedding[0] = 1
		_, err := b.PutDocument(t.Context(), d, chunks)
		return err
	})
	want := 8
	if b.Vectors() {
		want = 4
		require.Equal(t, 4, b.count("knowledge_vectors"))
	}
	require.Equal(t, want, b.count("knowledge_documents"))
}

// A document that was stored without vectors is stored again once the database has vectors.
func TestVectorsThatComeLater(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.dropVectors()
	d, chunks := knowledge("a", "text")
	chunks[0].Embedding = []float32{1, 0}
	for _, want := range []bool{true, false} {
		changed, err := b.PutDocument(t.Context(), d, chunks)
		require.NoError(t, err)
		require.Equal(t, want, changed)
	}
	require.NoError(t, postgres.Migrate(t.Context(), b.pool))
	changed, err := b.PutDocument(t.Context(), d, chunks)
	require.NoError(t, err)
	require.Equal(t, b.Vectors(), changed)
}

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
		require.Equal(t, []int{0, 1, 2}, indexes, "ties keep the order of the documents")
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
