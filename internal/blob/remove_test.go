package blob_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/blob"
)

func TestRemove(t *testing.T) {
	each(t, func(t *testing.T, s *blob.Store) {
		for _, content := range [][]byte{[]byte("small"), noise(1<<20+9, 1)} {
			ref := put(t, s, "acme", content)
			put(t, s, "other", content)
			for range 2 {
				require.NoError(t, s.Remove(t.Context(), "acme", ref))
				_, err := get(t.Context(), s, "acme", ref)
				require.Equal(t, agent.CodeNotFound, agent.CodeOf(err), "%v", err)
			}
			_, err := get(t.Context(), s, "other", ref)
			require.NoError(t, err, "the content of another tenant stays")
			put(t, s, "acme", content)
			got, err := get(t.Context(), s, "acme", ref)
			require.NoError(t, err)
			require.True(t, bytes.Equal(content, got))
		}
		requireNoUploads(t, s)
	})
}

func TestRemoveRefuses(t *testing.T) {
	each(t, func(t *testing.T, s *blob.Store) {
		ref := put(t, s, "acme", []byte("kept"))
		for _, bad := range []string{"", "cas://sha256:", "artifact://x", ref + "0"} {
			require.Equal(t, agent.CodeInvalid, agent.CodeOf(s.Remove(t.Context(), "acme", bad)), "%q", bad)
		}
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(s.Remove(t.Context(), "../acme", ref)))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.Error(t, s.Remove(ctx, "acme", ref))
		_, err := get(t.Context(), s, "acme", ref)
		require.NoError(t, err)
		requireNoUploads(t, s)
	})
}

// writeMarker writes the marker of a removal by another process, which has not deleted the object yet.
func writeMarker(t *testing.T, dir, ref string) (marker string) {
	t.Helper()
	marker = filepath.Join(dir, "~gone", strings.TrimPrefix(ref, "cas://sha256:")+"-other")
	require.NoError(t, os.MkdirAll(filepath.Dir(marker), 0o700))
	require.NoError(t, os.WriteFile(marker, nil, 0o600))
	return marker
}

// A Put of content that is being removed waits for the removal and checks the content again.
func TestPutDuringRemoval(t *testing.T) {
	for name, content := range map[string][]byte{"small": []byte("small"), "large": noise(1<<20+9, 1)} {
		for _, exists := range []bool{true, false} {
			t.Run(fmt.Sprint(name, " ", exists), func(t *testing.T) {
				dir := t.TempDir()
				s := open(t, "file://"+dir)
				ref := put(t, s, "acme", content)
				marker := writeMarker(t, dir, ref)
				if !exists { // so that the Put writes the object during the removal
					require.NoError(t, os.Remove(objectPath(dir, ref)))
				}
				source := &notifyingReader{r: bytes.NewReader(content), end: make(chan struct{})}
				done := make(chan error, 1)
				go func() {
					_, err := s.Put(t.Context(), "acme", source)
					done <- err
				}()
				<-source.end
				require.Eventually(t, func() bool { _, err := os.Stat(objectPath(dir, ref)); return err == nil }, 10*time.Second, time.Millisecond)
				require.NoError(t, os.Remove(objectPath(dir, ref)))
				select {
				case err := <-done:
					require.FailNow(t, "Put did not wait for the removal", "%v", err)
				default:
				}
				require.NoError(t, os.Remove(marker))
				require.NoError(t, <-done)
				got, err := get(t.Context(), s, "acme", ref)
				require.NoError(t, err)
				require.True(t, bytes.Equal(content, got))
				requireNoUploads(t, s)
			})
		}
	}
}

// notifyingReader closes end when it has been read to its end.
type notifyingReader struct {
	r   io.Reader
	end chan struct{}
}

func (e *notifyingReader) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	if err == io.EOF {
		close(e.end)
	}
	return n, err
}

func TestPutDuringRemovalIsInterrupted(t *testing.T) {
	dir := t.TempDir()
	s := open(t, "file://"+dir)
	ref := put(t, s, "acme", []byte("x"))
	writeMarker(t, dir, ref)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := s.Put(ctx, "acme", strings.NewReader("x"))
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err), "%v", err)

	n, err := s.Sweep(t.Context(), time.Now().Add(time.Hour))
	require.NoError(t, err)
	require.Equal(t, 1, n, "a removal whose process died")
	put(t, s, "acme", []byte("x"))
}

// Puts, Removes and reads at the same time all succeed, and the last call determines whether the content exists. Two stores with one bucket stand for two
// processes.
func TestConcurrentPutAndRemove(t *testing.T) {
	url := "file://" + t.TempDir()
	stores := []*blob.Store{open(t, url), open(t, url)}
	contents := [][]byte{noise(100, 1), noise(1<<20+9, 2)}
	for _, content := range contents {
		ref := put(t, stores[0], "acme", content)
		for range 5 {
			var g errgroup.Group
			for i := range 4 {
				g.Go(func() error {
					_, err := stores[i%2].Put(t.Context(), "acme", bytes.NewReader(content))
					return err
				})
				g.Go(func() error { return stores[i%2].Remove(t.Context(), "acme", ref) })
				g.Go(func() error {
					_, err := get(t.Context(), stores[i%2], "acme", ref)
					if agent.CodeOf(err) == agent.CodeNotFound {
						return nil
					}
					return err
				})
			}
			require.NoError(t, g.Wait())
			put(t, stores[0], "acme", content)
			_, err := get(t.Context(), stores[1], "acme", ref)
			require.NoError(t, err)
			require.NoError(t, stores[1].Remove(t.Context(), "acme", ref))
			_, err = get(t.Context(), stores[0], "acme", ref)
			require.Equal(t, agent.CodeNotFound, agent.CodeOf(err), "%v", err)
		}
	}
	requireNoUploads(t, stores[0])
}
