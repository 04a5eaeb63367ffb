package blob_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/blob"
)

func TestMaxBytes(t *testing.T) {
	const limit = 3 << 20
	each(t, func(t *testing.T, s *blob.Store) {
		for _, n := range []int{limit, limit + 1, 2 * limit} {
			ref, err := s.Put(t.Context(), "acme", io.LimitReader(endless{}, int64(n)))
			if n == limit {
				require.NoError(t, err)
				_, err = get(t.Context(), s, "acme", ref)
				require.NoError(t, err)
				continue
			}
			require.Equal(t, agent.CodeOverflow, agent.CodeOf(err), "%v", err)
		}
		_, err := s.Put(t.Context(), "acme", endless{})
		require.Equal(t, agent.CodeOverflow, agent.CodeOf(err), "%v", err)
		requireNoUploads(t, s)
	}, blob.MaxBytes(limit))
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// requireNoUploads fails if a temporary object or a marker is left.
func requireNoUploads(t *testing.T, s *blob.Store) {
	t.Helper()
	n, err := s.Sweep(t.Context(), time.Now().Add(time.Hour))
	require.NoError(t, err)
	require.Zero(t, n)
}

func TestBrokenSource(t *testing.T) {
	broken := errors.New("the connection was lost")
	each(t, func(t *testing.T, s *blob.Store) {
		for _, n := range []int{0, 100, 2 << 20} {
			content := noise(n, 9)
			_, err := s.Put(t.Context(), "acme", io.MultiReader(bytes.NewReader(content), iotest.ErrReader(broken)))
			require.ErrorIs(t, err, broken)
			_, err = get(t.Context(), s, "acme", fmt.Sprintf("cas://sha256:%x", sha256.Sum256(content)))
			require.Equal(t, agent.CodeNotFound, agent.CodeOf(err), "%v", err)
		}
		requireNoUploads(t, s)
	})
}

func TestCancelledUpload(t *testing.T) {
	each(t, func(t *testing.T, s *blob.Store) {
		for _, n := range []int64{0, 3 << 20} {
			ctx, cancel := context.WithCancel(t.Context())
			_, err := s.Put(ctx, "acme", io.MultiReader(io.LimitReader(endless{}, n), cancelling{cancel}, endless{}))
			require.ErrorIs(t, err, context.Canceled)
		}
		requireNoUploads(t, s)
	})
}

type cancelling struct{ cancel func() }

func (c cancelling) Read([]byte) (int, error) {
	c.cancel()
	return 0, io.EOF
}

func TestSweepKeepsRunningUploads(t *testing.T) {
	dir := t.TempDir()
	s := open(t, "file://"+dir)
	ref := put(t, s, "acme", []byte("kept"))
	hasBegun, resume := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		_, err := s.Put(t.Context(), "acme", io.MultiReader(bytes.NewReader(noise(1<<20+9, 1)), waiting{hasBegun, resume}))
		done <- err
	}()
	<-hasBegun
	n, err := s.Sweep(t.Context(), time.Now().Add(-time.Hour))
	require.NoError(t, err)
	require.Zero(t, n)
	close(resume)
	require.NoError(t, <-done)

	orphan := filepath.Join(dir, "~tmp", "orphan")
	require.NoError(t, os.MkdirAll(filepath.Dir(orphan), 0o700))
	require.NoError(t, os.WriteFile(orphan, []byte("x"), 0o600))
	n, err = s.Sweep(t.Context(), time.Now().Add(time.Hour))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	_, err = get(t.Context(), s, "acme", ref)
	require.NoError(t, err)
}

// waiting is a reader that blocks until resume is closed.
type waiting struct{ hasBegun, resume chan struct{} }

func (w waiting) Read([]byte) (int, error) {
	close(w.hasBegun)
	<-w.resume
	return 0, io.EOF
}
