package postgres_test

import (
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

func TestNearestRefuses(t *testing.T) {
	b := newBench(t, postgres.Config{})
	for name, v := range map[string][]float32{
		"empty": nil, "no direction": {0, 0}, "no number": {float32(math.NaN()), 1}, "too long": make([]float32, 16_001),
	} {
		_, err := b.Nearest(t.Context(), tenant, "docs", v, 3)
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err), name)
		requireField(t, "embedding", err)
	}
}

// Where the server has pgvector these are its tests; where not, they say that nothing is lost without it.
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
	requireCode(t, agent.CodeInvalid, mixed)
	requireField(t, "embedding", mixed)
	requireCode(t, agent.CodeInvalid, asked)
	requireField(t, "embedding", asked)
	require.NoError(t, b.DeleteDocument(t.Context(), tenant, "docs", "b"))
	changed, err = put("a", "2", 1, 0, 0)
	require.NoError(t, err, "it was the only one: the collection has a new length")
	require.True(t, changed)
	require.Equal(t, 1, b.count("knowledge_vectors"))
}

// Of writers of two lengths that begin together, those of one length succeed.
func TestVectorsOfOneLengthAtOnce(t *testing.T) {
	b := newBench(t, postgres.Config{})
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			d, chunks := knowledge(newID(), "text")
			chunks[0].Embedding = make([]float32, 2+i%2)
			chunks[0].Embedding[0] = 1
			_, errs[i] = b.PutDocument(t.Context(), d, chunks)
		})
	}
	wg.Wait()
	want := 8
	if b.Vectors() {
		want = 4
		require.Equal(t, 4, b.count("knowledge_vectors"))
	}
	require.Equal(t, want, b.count("knowledge_documents"))
}

// A document that was stored where there were no vectors is a change once there are.
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
