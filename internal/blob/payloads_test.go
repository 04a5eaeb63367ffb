package blob_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/blob"
)

func TestPayloads(t *testing.T) {
	s, err := blob.Open(t.Context(), "file://"+t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	p := s.Payloads()
	content := bytes.Repeat([]byte("x"), 1<<20)
	for _, key := range []string{"2026-08-01/a", "2026-08-02/b", "2026-08-03/c"} {
		require.NoError(t, p.Put(t.Context(), key, content))
		require.NoError(t, p.Put(t.Context(), key, content), "again")
		got, err := p.Get(t.Context(), key, 1<<20)
		require.NoError(t, err)
		require.Equal(t, content, got)
	}
	_, err = p.Get(t.Context(), "2026-08-01/a", 1<<20-1)
	require.Equal(t, agent.CodeOverflow, agent.CodeOf(err))
	_, err = p.Get(t.Context(), "2026-08-01/none", 1)
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
	for _, key := range []string{"", "a", "2026-08-01/", "2026-08-01/../a", "../2026-08-01/a", "2026-08-01/a/b", "acme/sha256"} {
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(p.Put(t.Context(), key, nil)), key)
		_, err := p.Get(t.Context(), key, 1)
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err), key)
	}
	ref, err := s.Put(t.Context(), "acme", bytes.NewReader(content))
	require.NoError(t, err)
	objects, _, err := s.Objects(t.Context(), nil, 100)
	require.NoError(t, err)
	require.Len(t, objects, 1, "payloads are not content of tenants")

	n, err := p.Sweep(t.Context(), time.Date(2026, 8, 3, 23, 59, 0, 0, time.UTC))
	require.NoError(t, err)
	require.Equal(t, 2, n)
	_, err = p.Get(t.Context(), "2026-08-02/b", 1<<20)
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
	_, err = p.Get(t.Context(), "2026-08-03/c", 1<<20)
	require.NoError(t, err)
	r, err := s.Open(t.Context(), "acme", ref)
	require.NoError(t, err)
	require.NoError(t, r.Close())
}
