// Package retrievaltest is the conformance suite of the store of knowledge collections: what one implementation answers, all answer.
package retrievaltest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/retrieval"
)

const (
	tenant     = "acme"
	collection = "handbook"
)

// Exercise runs the suite. newStore returns an empty store that ends with its test.
func Exercise(t *testing.T, newStore func(t *testing.T) retrieval.Store) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, s retrieval.Store)
	}{
		{"keeps what it is given", keeps},
		{"the same hash changes nothing", idempotent},
		{"a new hash replaces all chunks", replaces},
		{"deletes", deletes},
		{"pages by id", pages},
		{"tenants and collections are apart", isolated},
		{"two writers of one document", concurrent},
		{"full text: order", fullTextOrder},
		{"full text: title", fullTextTitle},
		{"full text: questions", fullTextQuestions},
		{"full text: any query is safe", fullTextSafe},
		{"nearest", nearest},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, newStore(t)) })
	}
}

// document makes a document of chunks.
func document(id string, texts ...string) (agent.KnowledgeDocument, []agent.KnowledgeChunk) {
	chunks := make([]agent.KnowledgeChunk, len(texts))
	for i, text := range texts {
		chunks[i] = agent.KnowledgeChunk{Position: i, Text: text}
	}
	return agent.KnowledgeDocument{
		Tenant: tenant, Collection: collection, ID: id, Hash: "sha256:" + strings.Join(texts, "|"), Chunks: len(texts),
		UpdatedAt: time.Date(2026, 3, 5, 10, 0, 0, 0, time.UTC),
	}, chunks
}

func put(t *testing.T, s retrieval.Store, id string, texts ...string) {
	t.Helper()
	d, chunks := document(id, texts...)
	changed, err := s.PutDocument(t.Context(), d, chunks)
	require.NoError(t, err)
	require.True(t, changed)
}

func found(t *testing.T, s retrieval.Store, query string) []string {
	t.Helper()
	passages, err := s.FullText(t.Context(), tenant, collection, query, 10)
	require.NoError(t, err)
	return texts(passages)
}

func texts(passages []agent.Passage) []string {
	list := make([]string, len(passages))
	for i := range passages {
		list[i] = passages[i].Text
	}
	return list
}

func keeps(t *testing.T, s retrieval.Store) {
	d := agent.KnowledgeDocument{
		Tenant: tenant, Collection: collection, ID: "https://example.com/a b?c=1", Title: "Überblick — 概要", Source: "https://example.com/a",
		MIMEType: "application/pdf", Hash: "sha256:1", Bytes: 1 << 33, Chunks: 2, Metadata: []byte(`{"lang":"de","n":[1,{"x":null}]}`),
		UpdatedAt: time.Date(2026, 3, 5, 10, 30, 0, 0, time.UTC),
	}
	changed, err := s.PutDocument(t.Context(), d, []agent.KnowledgeChunk{
		{Position: 0, Page: 1, Text: "Erste Seite: größe 🎉"}, {Position: 1, Page: 7, Text: "a backslash \\ and a 'quote'\n\tkeystone"},
	})
	require.NoError(t, err)
	require.True(t, changed)

	got, err := s.KnowledgeDocument(t.Context(), tenant, collection, d.ID)
	require.NoError(t, err)
	require.JSONEq(t, string(d.Metadata), string(got.Metadata))
	require.True(t, d.UpdatedAt.Equal(got.UpdatedAt), "%s", got.UpdatedAt)
	got.Metadata, got.UpdatedAt = d.Metadata, d.UpdatedAt
	require.Equal(t, d, got)

	passages, err := s.FullText(t.Context(), tenant, collection, "keystone", 10)
	require.NoError(t, err)
	require.Len(t, passages, 1)
	p := passages[0]
	require.NotEmpty(t, p.ID)
	require.Positive(t, p.Score)
	require.JSONEq(t, string(d.Metadata), string(p.Metadata))
	p.ID, p.Score, p.Metadata = "", 0, nil
	require.Equal(t, agent.Passage{
		Collection: collection, DocumentID: d.ID, Title: d.Title, Source: d.Source, Text: "a backslash \\ and a 'quote'\n\tkeystone", Position: 1, Page: 7,
	}, p)
}

func idempotent(t *testing.T, s retrieval.Store) {
	put(t, s, "a", "granite", "basalt")
	before, err := s.KnowledgeDocument(t.Context(), tenant, collection, "a")
	require.NoError(t, err)
	d, chunks := document("a", "granite", "basalt")
	d.UpdatedAt = d.UpdatedAt.Add(time.Hour)
	changed, err := s.PutDocument(t.Context(), d, chunks)
	require.NoError(t, err)
	require.False(t, changed)
	after, err := s.KnowledgeDocument(t.Context(), tenant, collection, "a")
	require.NoError(t, err)
	require.Equal(t, before, after)
	require.Equal(t, []string{"granite"}, found(t, s, "granite"))
}

func replaces(t *testing.T, s retrieval.Store) {
	put(t, s, "a", "granite", "basalt", "marble")
	put(t, s, "b", "slate")
	put(t, s, "a", "limestone")
	require.Empty(t, found(t, s, "granite"))
	require.Empty(t, found(t, s, "marble"))
	require.Equal(t, []string{"limestone"}, found(t, s, "limestone"))
	require.Equal(t, []string{"slate"}, found(t, s, "slate"))
	d, err := s.KnowledgeDocument(t.Context(), tenant, collection, "a")
	require.NoError(t, err)
	require.Equal(t, 1, d.Chunks)
}

func deletes(t *testing.T, s retrieval.Store) {
	put(t, s, "a", "granite")
	put(t, s, "b", "slate")
	require.NoError(t, s.DeleteDocument(t.Context(), tenant, collection, "a"))
	require.Empty(t, found(t, s, "granite"))
	require.Equal(t, []string{"slate"}, found(t, s, "slate"))
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(s.DeleteDocument(t.Context(), tenant, collection, "a")))
	_, err := s.KnowledgeDocument(t.Context(), tenant, collection, "a")
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
	put(t, s, "a", "granite")
	require.Equal(t, []string{"granite"}, found(t, s, "granite"))
}

func pages(t *testing.T, s retrieval.Store) {
	page, err := s.KnowledgeDocuments(t.Context(), tenant, collection, "", 2)
	require.NoError(t, err)
	require.Empty(t, page.Documents)
	require.Empty(t, page.Next)
	for _, id := range []string{"d", "a", "e", "c", "b"} {
		put(t, s, id, "text of "+id)
	}
	for limit := 1; limit <= 6; limit++ {
		var ids []string
		after := ""
		for range 7 {
			page, err := s.KnowledgeDocuments(t.Context(), tenant, collection, after, limit)
			require.NoError(t, err)
			require.LessOrEqual(t, len(page.Documents), limit)
			for i := range page.Documents {
				ids = append(ids, page.Documents[i].ID)
			}
			if after = page.Next; after == "" {
				break
			}
		}
		require.Empty(t, after, "it pages on for ever")
		require.Equal(t, []string{"a", "b", "c", "d", "e"}, ids, "limit %d", limit)
	}
}

func isolated(t *testing.T, s retrieval.Store) {
	places := [][2]string{{tenant, collection}, {tenant, "other"}, {"globex", collection}}
	for _, p := range places {
		d, chunks := document("a", "granite of "+p[0]+" "+p[1])
		d.Tenant, d.Collection = p[0], p[1]
		if s.Vectors() {
			chunks[0].Embedding = []float32{1, 0, 0}
		}
		changed, err := s.PutDocument(t.Context(), d, chunks)
		require.NoError(t, err)
		require.True(t, changed)
	}
	for _, p := range places {
		want := []string{"granite of " + p[0] + " " + p[1]}
		passages, err := s.FullText(t.Context(), p[0], p[1], "granite", 10)
		require.NoError(t, err)
		require.Equal(t, want, texts(passages))
		page, err := s.KnowledgeDocuments(t.Context(), p[0], p[1], "", 10)
		require.NoError(t, err)
		require.Len(t, page.Documents, 1)
		if s.Vectors() {
			passages, err = s.Nearest(t.Context(), p[0], p[1], []float32{1, 0, 0}, 10)
			require.NoError(t, err)
			require.Equal(t, want, texts(passages))
		}
	}
	require.NoError(t, s.DeleteDocument(t.Context(), tenant, "other", "a"))
	require.Len(t, found(t, s, "granite"), 1)
}

func concurrent(t *testing.T, s retrieval.Store) {
	var writers sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		writers.Go(func() {
			d, chunks := document("a", fmt.Sprintf("first version%d", i), fmt.Sprintf("second version%d", i))
			_, errs[i] = s.PutDocument(t.Context(), d, chunks)
		})
	}
	writers.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	left := found(t, s, "first second")
	require.Len(t, left, 2, "chunks of several versions")
	d, err := s.KnowledgeDocument(t.Context(), tenant, collection, "a")
	require.NoError(t, err)
	for _, text := range left {
		require.Contains(t, d.Hash, text)
	}
}

func fullTextOrder(t *testing.T, s retrieval.Store) {
	put(t, s, "a", "The tower has a bell.", "The tower has a clock.", "The tower has a staircase made of porphyry.", "Nothing of that here.")
	require.Equal(t, []string{"The tower has a staircase made of porphyry."}, found(t, s, "porphyry"))
	all := found(t, s, "tower porphyry")
	require.Len(t, all, 3)
	require.Equal(t, "The tower has a staircase made of porphyry.", all[0], "the rarer word decides")
	require.Equal(t, all, found(t, s, "PORPHYRY tower"), "neither case nor order matters")

	passages, err := s.FullText(t.Context(), tenant, collection, "tower porphyry", 2)
	require.NoError(t, err)
	require.Equal(t, all[:2], texts(passages))
	for i := 1; i < len(passages); i++ {
		require.GreaterOrEqual(t, passages[i-1].Score, passages[i].Score)
	}
}

func fullTextTitle(t *testing.T, s retrieval.Store) {
	d, chunks := document("a", "How the wheels are greased.")
	d.Title = "Velocipede maintenance"
	_, err := s.PutDocument(t.Context(), d, chunks)
	require.NoError(t, err)
	put(t, s, "b", "How the horses are fed.")
	require.Equal(t, []string{"How the wheels are greased."}, found(t, s, "velocipede"))
	require.Equal(t, "How the wheels are greased.", found(t, s, "velocipede fed")[0], "a word of the title counts at least as much")
}

// fullTextQuestions: people ask in sentences, of which a text that answers holds a few words.
func fullTextQuestions(t *testing.T, s retrieval.Store) {
	put(t, s, "a", "Refunds are paid within fourteen days.", "Parcels are sent on workdays.")
	require.Equal(t, "Refunds are paid within fourteen days.", found(t, s, "Could you please tell me how long I wait for refunds?")[0])
	require.Empty(t, found(t, s, "submarine"))
	for _, none := range []string{"", "   ", "?!", "…", "- -"} {
		require.Empty(t, found(t, s, none), "%q", none)
	}
}

func fullTextSafe(t *testing.T, s retrieval.Store) {
	put(t, s, "a", "granite")
	for _, query := range []string{
		"'", "''", `"`, `"open`, `\`, "&|!", "a & | b", "!", "()", "((((", "a:*", "<->", "a <-> b", "%", "_", "$1", "--", "; DROP TABLE x", "-granite",
		"or", "OR OR", "and", "\x00", "gra\x00nite", "\xff\xfe", "\u2028", "🎉", "كلمة", "单词", strings.Repeat("word ", 20_000), strings.Repeat("x", 100_000),
		strings.Repeat("(", 5_000), strings.Repeat(`"`, 5_001),
	} {
		_, err := s.FullText(t.Context(), tenant, collection, query, 5)
		require.NoError(t, err, "%.40q", query)
	}
	require.Equal(t, []string{"granite"}, found(t, s, `"granite" & '`))
}

func nearest(t *testing.T, s retrieval.Store) {
	if !s.Vectors() {
		_, err := s.Nearest(t.Context(), tenant, collection, []float32{1, 0, 0}, 3)
		require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err), "%v", err)
		d, chunks := document("a", "granite")
		chunks[0].Embedding = []float32{1, 0, 0}
		_, err = s.PutDocument(t.Context(), d, chunks)
		require.NoError(t, err, "the vectors are left out, the text is kept")
		require.Equal(t, []string{"granite"}, found(t, s, "granite"))
		return
	}
	passages, err := s.Nearest(t.Context(), tenant, collection, []float32{1, 0, 0}, 3)
	require.NoError(t, err)
	require.Empty(t, passages)

	d, chunks := document("a", "east", "north-east", "north", "nowhere")
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

	d, chunks = document("a", "west")
	chunks[0].Embedding = []float32{-1, 0.1, 0}
	_, err = s.PutDocument(t.Context(), d, chunks)
	require.NoError(t, err)
	passages, err = s.Nearest(t.Context(), tenant, collection, []float32{0, 1, 0}, 10)
	require.NoError(t, err)
	require.Equal(t, []string{"west"}, texts(passages), "vectors go with the chunks that they are of")
}
