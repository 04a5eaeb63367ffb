package blob

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A process that died during a removal has left its marker. A Put waits for twice the time of a removal and then ignores the marker.
func TestPutIgnoresDeadRemoval(t *testing.T) {
	s, err := Open(t.Context(), "mem://")
	require.NoError(t, err)
	defer s.Close()
	ref, err := s.Put(t.Context(), "acme", strings.NewReader("x"))
	require.NoError(t, err)
	s.removalTime = 50 * time.Millisecond
	require.NoError(t, s.bucket.WriteAll(t.Context(), gonePrefix+strings.TrimPrefix(ref, scheme)+"-dead", nil, nil))
	start := time.Now()
	_, err = s.Put(t.Context(), "acme", strings.NewReader("x"))
	require.NoError(t, err)
	require.Greater(t, time.Since(start), s.removalTime)
	n, err := s.Sweep(t.Context(), time.Now().Add(time.Hour))
	require.NoError(t, err)
	require.Zero(t, n, "the Put has deleted the marker")
}
