package blob

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A process that dies while it removes leaves its sign: a Put waits for as long as a removal may take, and no longer.
func TestPutOutlivesADeadRemoval(t *testing.T) {
	s, err := Open(t.Context(), "mem://")
	require.NoError(t, err)
	defer s.Close()
	ref, err := s.Put(t.Context(), "acme", strings.NewReader("x"))
	require.NoError(t, err)
	s.removal = 50 * time.Millisecond
	require.NoError(t, s.bucket.WriteAll(t.Context(), gonePrefix+strings.TrimPrefix(ref, scheme)+"-dead", nil, nil))
	started := time.Now()
	_, err = s.Put(t.Context(), "acme", strings.NewReader("x"))
	require.NoError(t, err)
	require.Greater(t, time.Since(started), s.removal)
	n, err := s.Sweep(t.Context(), time.Now().Add(time.Hour))
	require.NoError(t, err)
	require.Zero(t, n, "it was removed with the first Put that waited")
}
