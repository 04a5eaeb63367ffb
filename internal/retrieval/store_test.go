package retrieval_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/retrieval"
	"github.com/turnstone-run/turnstone/internal/retrieval/retrievaltest"
)

func TestMemoryStore(t *testing.T) {
	retrievaltest.Exercise(t, func(*testing.T) retrieval.Store { return newStore(true) })
}

func TestMemoryStoreWithoutVectors(t *testing.T) {
	retrievaltest.Exercise(t, func(*testing.T) retrieval.Store { return newStore(false) })
}

type place struct{ tenant, collection, id string }

type kept struct {
	document agent.KnowledgeDocument
	chunks   []agent.KnowledgeChunk
}

// memoryStore is a store for tests: it ranks by tf·idf.
type memoryStore struct {
	vectors bool

	mu        sync.Mutex
	documents map[place]kept
	puts      int
	fullText  error // what FullText, Nearest and PutDocument answer
	nearest   error
	put       func(d agent.KnowledgeDocument) error
}

func newStore(vectors bool) *memoryStore {
	return &memoryStore{vectors: vectors, documents: map[place]kept{}}
}

func (s *memoryStore) Vectors() bool { return s.vectors }

func (s *memoryStore) PutDocument(_ context.Context, d agent.KnowledgeDocument, chunks []agent.KnowledgeChunk) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.put != nil {
		if err := s.put(d); err != nil {
			return false, err
		}
	}
	at := place{d.Tenant, d.Collection, d.ID}
	if s.documents[at].document.Hash == d.Hash {
		return false, nil
	}
	s.puts++
	s.documents[at] = kept{d, slices.Clone(chunks)}
	return true, nil
}

func (s *memoryStore) KnowledgeDocument(_ context.Context, tenant, collection, id string) (agent.KnowledgeDocument, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.documents[place{tenant, collection, id}]
	if !ok {
		return agent.KnowledgeDocument{}, agent.Errorf(agent.CodeNotFound, "", "no document %q", id)
	}
	return k.document, nil
}

func (s *memoryStore) DeleteDocument(ctx context.Context, tenant, collection, id string) error {
	if _, err := s.KnowledgeDocument(ctx, tenant, collection, id); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.documents, place{tenant, collection, id})
	return nil
}

func (s *memoryStore) KnowledgeDocuments(_ context.Context, tenant, collection, after string, limit int) (agent.KnowledgePage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var page agent.KnowledgePage
	for at, k := range s.documents {
		if at.tenant == tenant && at.collection == collection && at.id > after {
			page.Documents = append(page.Documents, k.document)
		}
	}
	slices.SortFunc(page.Documents, func(a, b agent.KnowledgeDocument) int { return cmp.Compare(a.ID, b.ID) })
	if len(page.Documents) > limit {
		page.Documents = page.Documents[:limit]
		page.Next = page.Documents[limit-1].ID
	}
	return page, nil
}

// rank scores every chunk of a collection; those at or below floor are left out.
func (s *memoryStore) rank(tenant, collection string, limit int, floor float64, score func(d agent.KnowledgeDocument, c agent.KnowledgeChunk) float64) []agent.Passage {
	var found []agent.Passage
	for at, k := range s.documents {
		if at.tenant != tenant || at.collection != collection {
			continue
		}
		for _, c := range k.chunks {
			if n := score(k.document, c); n > floor {
				found = append(found, agent.Passage{
					ID: fmt.Sprintf("%s/%d", at.id, c.Position), Collection: collection, DocumentID: at.id, Title: k.document.Title, Source: k.document.Source,
					Text: c.Text, Position: c.Position, Page: c.Page, Score: n, Metadata: k.document.Metadata,
				})
			}
		}
	}
	slices.SortFunc(found, func(a, b agent.Passage) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID))
	})
	return found[:min(limit, len(found))]
}

func words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

func (s *memoryStore) FullText(_ context.Context, tenant, collection, query string, limit int) ([]agent.Passage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fullText != nil {
		return nil, s.fullText
	}
	asked := words(query)
	slices.Sort(asked)
	asked = slices.Compact(asked)
	frequency := map[string]int{}
	for _, k := range s.documents {
		for _, c := range k.chunks {
			for _, w := range words(c.Text) {
				frequency[w]++
			}
		}
	}
	return s.rank(tenant, collection, limit, 0, func(d agent.KnowledgeDocument, c agent.KnowledgeChunk) float64 {
		score := 0.0
		title, text := words(d.Title), words(c.Text)
		for _, w := range asked {
			for _, in := range [][]string{title, text} {
				if slices.Contains(in, w) {
					score += 1 / float64(1+frequency[w])
				}
			}
		}
		return score
	}), nil
}

func (s *memoryStore) Nearest(_ context.Context, tenant, collection string, embedding []float32, limit int) ([]agent.Passage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.vectors {
		return nil, agent.Errorf(agent.CodeUnavailable, "nearest", "no vectors")
	}
	if s.nearest != nil {
		return nil, s.nearest
	}
	return s.rank(tenant, collection, limit, -2, func(_ agent.KnowledgeDocument, c agent.KnowledgeChunk) float64 {
		if len(c.Embedding) == 0 {
			return -3
		}
		var dot, a, b float64
		for i := range embedding {
			x, y := float64(embedding[i]), float64(c.Embedding[i])
			dot, a, b = dot+x*y, a+x*x, b+y*y
		}
		return dot / math.Sqrt(a*b)
	}), nil
}
