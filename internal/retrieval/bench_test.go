package retrieval_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/retrieval"
)

func BenchmarkAdd(b *testing.B) {
	l := newLibrary(b)
	text := strings.Repeat("A sentence of an ordinary length, as people write them.\n", 20_000)
	b.SetBytes(int64(len(text)))
	for i := 0; b.Loop(); i++ {
		r := request(fmt.Sprintf("%d.txt", i), text)
		r.Embedding = nil
		_, err := l.Add(b.Context(), r)
		require.NoError(b, err)
	}
}

// BenchmarkFusion is what a search costs beside the store and the embedder.
func BenchmarkFusion(b *testing.B) {
	passages := make([]agent.Passage, 200)
	for i := range passages {
		passages[i] = agent.Passage{ID: fmt.Sprint(i), DocumentID: fmt.Sprint(i % 40), Position: i / 40, Score: 1 - float64(i)/200}
	}
	store := &rankings{memoryStore: newStore(true), words: passages[:150], near: passages[50:]}
	l, err := retrieval.New(retrieval.Config{Store: store, Embedders: func(context.Context, agent.PlanModel) (agent.Embedder, error) {
		return &letters{answer: func(context.Context, []string) ([][]float32, error) { return [][]float32{{1}}, nil }}, nil
	}})
	require.NoError(b, err)
	for b.Loop() {
		_, err := l.Search(b.Context(), query("x"))
		require.NoError(b, err)
	}
}
