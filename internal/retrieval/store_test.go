package retrieval_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/turnstone-run/turnstone/agent"
)

// memoryStore keeps the documents of one collection. Its searches return chunks in the order in which they were stored.
type memoryStore struct {
	hasVectors   bool
	documents    map[string]agent.KnowledgeDocument
	chunks       map[string][]agent.KnowledgeChunk
	puts         int
	put          func(d agent.KnowledgeDocument) error // called before a document is stored; may be nil
	fullTextErr  error
	nearestErr   error
	fullTextHits []agent.Passage // returned instead of chunks
	nearestHits  []agent.Passage // returned instead of chunks
	limit        int             // of the last full text search
}

func newStore() *memoryStore {
	return &memoryStore{hasVectors: true, documents: map[string]agent.KnowledgeDocument{}, chunks: map[string][]agent.KnowledgeChunk{}}
}

func (s *memoryStore) Vectors() bool { return s.hasVectors }

func (s *memoryStore) PutDocument(_ context.Context, d agent.KnowledgeDocument, chunks []agent.KnowledgeChunk) (bool, error) {
	if s.put != nil {
		if err := s.put(d); err != nil {
			return false, err
		}
	}
	s.puts++
	s.documents[d.ID], s.chunks[d.ID] = d, slices.Clone(chunks)
	return true, nil
}

func (s *memoryStore) KnowledgeDocument(_ context.Context, _, _, id string) (agent.KnowledgeDocument, error) {
	d, ok := s.documents[id]
	if !ok {
		return d, agent.Errorf(agent.CodeNotFound, "", "no document %q", id)
	}
	return d, nil
}

func (s *memoryStore) FullText(_ context.Context, _, _, query string, limit int) ([]agent.Passage, error) {
	s.limit = limit
	if s.fullTextErr != nil || s.fullTextHits != nil {
		return s.fullTextHits, s.fullTextErr
	}
	words := splitWords(query)
	return s.passages(func(c agent.KnowledgeChunk) bool {
		return slices.ContainsFunc(splitWords(c.Text), func(word string) bool { return slices.Contains(words, word) })
	}), nil
}

func (s *memoryStore) Nearest(context.Context, string, string, []float32, int) ([]agent.Passage, error) {
	if s.nearestErr != nil || s.nearestHits != nil {
		return s.nearestHits, s.nearestErr
	}
	return s.passages(func(c agent.KnowledgeChunk) bool { return len(c.Embedding) > 0 }), nil
}

func (s *memoryStore) passages(matches func(c agent.KnowledgeChunk) bool) []agent.Passage {
	var found []agent.Passage
	for id, d := range s.documents {
		for _, c := range s.chunks[id] {
			if matches(c) {
				found = append(found, agent.Passage{
					ID: fmt.Sprintf("%s/%d", id, c.Position), Collection: d.Collection, DocumentID: id, Title: d.Title, Source: d.Source,
					Text: c.Text, Position: c.Position, Page: c.Page, Score: 1, Metadata: d.Metadata,
				})
			}
		}
	}
	return found
}

func splitWords(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) })
}
