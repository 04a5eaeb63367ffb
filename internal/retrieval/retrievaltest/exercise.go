// Package retrievaltest is the conformance suite of the store of knowledge collections.
package retrievaltest

import (
	"context"
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

// Store is the store of knowledge collections.
type Store interface {
	retrieval.Store
	// DeleteDocument deletes a document and its chunks. It returns [agent.CodeNotFound] if there is none.
	DeleteDocument(ctx context.Context, tenant, collection, id string) error
	// KnowledgeDocuments returns a page of the documents of a collection, ordered by id, after an id.
	KnowledgeDocuments(ctx context.Context, tenant, collection, after string, limit int) (agent.KnowledgePage, error)
}

// Exercise runs the suite. newStore returns an empty store that ends with its test.
func Exercise(t *testing.T, newStore func(t *testing.T) Store) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, s Store)
	}{
		{"stores all fields", testFields},
		{"the same hash changes nothing", testSameHash},
		{"a new hash replaces all chunks", testNewHash},
		{"deletes", testDelete},
		{"pages by id", testPages},
		{"tenants and collections are separate", testSeparation},
		{"concurrent writers of one document", testConcurrentWriters},
		{"full text: order", testFullTextOrder},
		{"full text: title", testFullTextTitle},
		{"full text: questions", testFullTextQuestions},
		{"full text: any query is valid", testAnyQuery},
		{"nearest", testNearest},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, newStore(t)) })
	}
}

// newDocument returns a document with a chunk for each text.
func newDocument(id string, texts ...string) (agent.KnowledgeDocument, []agent.KnowledgeChunk) {
	chunks := make([]agent.KnowledgeChunk, len(texts))
	for i, text := range texts {
		chunks[i] = agent.KnowledgeChunk{Position: i, Text: text}
	}
	return agent.KnowledgeDocument{
		Tenant: tenant, Collection: collection, ID: id, Hash: "sha256:" + strings.Join(texts, "|"), Chunks: len(texts),
		UpdatedAt: time.Date(2026, 3, 5, 10, 0, 0, 0, time.UTC),
	}, chunks
}

func put(t *testing.T, s Store, id string, texts ...string) {
	t.Helper()
	d, chunks := newDocument(id, texts...)
	changed, err := s.PutDocument(t.Context(), d, chunks)
	require.NoError(t, err)
	require.True(t, changed)
}

func searchTexts(t *testing.T, s Store, query string) []string {
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

func testFields(t *testing.T, s Store) {
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

func testSameHash(t *testing.T, s Store) {
	put(t, s, "a", "granite", "basalt")
	before, err := s.KnowledgeDocument(t.Context(), tenant, collection, "a")
	require.NoError(t, err)
	d, chunks := newDocument("a", "granite", "basalt")
	d.UpdatedAt = d.UpdatedAt.Add(time.Hour)
	changed, err := s.PutDocument(t.Context(), d, chunks)
	require.NoError(t, err)
	require.False(t, changed)
	after, err := s.KnowledgeDocument(t.Context(), tenant, collection, "a")
	require.NoError(t, err)
	require.Equal(t, before, after)
	require.Equal(t, []string{"granite"}, searchTexts(t, s, "granite"))
}

func testNewHash(t *testing.T, s Store) {
	put(t, s, "a", "granite", "basalt", "marble")
	put(t, s, "b", "slate")
	put(t, s, "a", "limestone")
	require.Empty(t, searchTexts(t, s, "granite"))
	require.Empty(t, searchTexts(t, s, "marble"))
	require.Equal(t, []string{"limestone"}, searchTexts(t, s, "limestone"))
	require.Equal(t, []string{"slate"}, searchTexts(t, s, "slate"))
	d, err := s.KnowledgeDocument(t.Context(), tenant, collection, "a")
	require.NoError(t, err)
	require.Equal(t, 1, d.Chunks)
}

func testDelete(t *testing.T, s Store) {
	put(t, s, "a", "granite")
	put(t, s, "b", "slate")
	require.NoError(t, s.DeleteDocument(t.Context(), tenant, collection, "a"))
	require.Empty(t, searchTexts(t, s, "granite"))
	require.Equal(t, []string{"slate"}, searchTexts(t, s, "slate"))
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(s.DeleteDocument(t.Context(), tenant, collection, "a")))
	_, err := s.KnowledgeDocument(t.Context(), tenant, collection, "a")
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
	put(t, s, "a", "granite")
	require.Equal(t, []string{"granite"}, searchTexts(t, s, "granite"))
}

func testPages(t *testing.T, s Store) {
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
		require.Empty(t, after, "there is no last page")
		require.Equal(t, []string{"a", "b", "c", "d", "e"}, ids, "limit %d", limit)
	}
}

func testSeparation(t *testing.T, s Store) {
	places := [][2]string{{tenant, collection}, {tenant, "other"}, {"globex", collection}}
	for _, p := range places {
		d, chunks := newDocument("a", "granite of "+p[0]+" "+p[1])
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
	require.Len(t, searchTexts(t, s, "granite"), 1)
}

func testConcurrentWriters(t *testing.T, s Store) {
	var writers sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		writers.Go(func() {
			d, chunks := newDocument("a", fmt.Sprintf("first version%d", i), fmt.Sprintf("second version%d", i))
			_, errs[i] = s.PutDocument(t.Context(), d, chunks)
		})
	}
	writers.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	stored := searchTexts(t, s, "first second")
	require.Len(t, stored, 2, "chunks of several versions")
	d, err := s.KnowledgeDocument(t.Context(), tenant, collection, "a")
	require.NoError(t, err)
	for _, text := range stored {
		require.Contains(t, d.Hash, text)
	}
}
