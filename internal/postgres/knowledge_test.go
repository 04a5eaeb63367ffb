package postgres_test

import (
	"fmt"
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
	retrievaltest.Exercise(t, func(t *testing.T) retrieval.Store { return newBench(t, postgres.Config{}).Store })
}

// TestKnowledgeWithoutVectors is the same where the extension is missing.
func TestKnowledgeWithoutVectors(t *testing.T) {
	retrievaltest.Exercise(t, func(t *testing.T) retrieval.Store {
		b := newBench(t, postgres.Config{})
		b.dropVectors()
		require.False(t, b.Vectors())
		return b.Store
	})
}

func (b *bench) dropVectors() {
	b.t.Helper()
	_, err := b.pool.Exec(b.t.Context(), `DROP TABLE IF EXISTS knowledge_vectors`)
	require.NoError(b.t, err)
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
	require.Equal(t, []string{"b#1", "b#0"}, b.search("run"), "as written before stemmed")
	require.Equal(t, []string{"b#0", "b#1"}, b.search("running"))
	b.put("c", "a red and big house", "a big house, painted red")
	require.Equal(t, []string{"c#1", "c#0"}, b.search(`"big house" red`), "the phrase counts")
	require.Empty(t, b.search("what is it for them"), "stop words are in every text")
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
			requireCode(t, agent.CodeInvalid, err)
			requireField(t, test.field, err)
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

// Searches read what the index says of one collection, not what others hold.
func TestSearchesUseTheIndex(t *testing.T) {
	b := newBench(t, postgres.Config{})
	for i := range 20 {
		d, chunks := knowledge(fmt.Sprint(i), strings.Split(strings.Repeat("the same common words|", 200), "|")...)
		d.Collection = fmt.Sprintf("c%d", i)
		_, err := b.PutDocument(t.Context(), d, chunks)
		require.NoError(t, err)
	}
	b.put("a", "common ground")
	_, err := b.pool.Exec(t.Context(), `VACUUM ANALYZE knowledge_chunks`)
	require.NoError(t, err)
	require.Equal(t, []string{"a#0"}, b.search("common"))
	var plan string
	rows, err := b.pool.Query(t.Context(), `EXPLAIN (ANALYZE) SELECT FROM knowledge_chunks
		WHERE search @@ ('''in acme docs'''::tsquery && '''common'''::tsquery)`)
	require.NoError(t, err)
	for rows.Next() {
		var line string
		require.NoError(t, rows.Scan(&line))
		plan += line + "\n"
	}
	require.NoError(t, rows.Err())
	require.Contains(t, plan, "Bitmap Index Scan on knowledge_chunks_search")
	require.Regexp(t, `knowledge_chunks_search +\(.*\) \(actual time=\S+ rows=1 `, plan)
}
