package blob_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/blob"
)

// ledger is the simplest one that keeps the promises.
type ledger struct {
	mu      sync.Mutex
	young   map[string]int64 // tenant and reference to bytes
	held    map[string]bool
	putting func() error // asked first, when it is set
	release func() error // asked last
}

func newLedger() *ledger { return &ledger{young: map[string]int64{}, held: map[string]bool{}} }

func (l *ledger) RecordPut(_ context.Context, tenant, ref string, size int64) error {
	if l.putting != nil {
		if err := l.putting(); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.young[tenant+" "+ref] = size
	return nil
}

func (l *ledger) Release(_ context.Context, tenant, ref string) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, young := l.young[tenant+" "+ref]
	if young || l.held[tenant+" "+ref] {
		return false, nil
	}
	if l.release != nil {
		return true, l.release()
	}
	return true, nil
}

// age lets the grace of everything pass.
func (l *ledger) age() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.young)
}

func TestPutTellsTheLedgerFirst(t *testing.T) {
	for name, content := range map[string][]byte{"small": []byte("small"), "large": noise(1<<20+9, 1)} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l := newLedger()
			s := open(t, "file://"+dir, blob.WithLedger(l))
			ref := put(t, open(t, "file://"+t.TempDir()), "acme", content) // its name
			l.putting = func() error {
				_, err := os.Stat(objectPath(dir, ref))
				require.ErrorIs(t, err, os.ErrNotExist, "nothing is there yet")
				return nil
			}
			require.Equal(t, ref, put(t, s, "acme", content))
			require.Equal(t, map[string]int64{"acme " + ref: int64(len(content))}, l.young)

			l.age()
			l.putting = nil
			put(t, s, "acme", content)
			require.Len(t, l.young, 1, "content that is there is put as well")

			away := errors.New("the ledger is away")
			l.putting = func() error { return away }
			other := slices.Concat(content, []byte("other"))
			_, err := s.Put(t.Context(), "acme", bytes.NewReader(other))
			require.ErrorIs(t, err, away)
			_, err = get(t.Context(), s, "acme", put(t, open(t, "file://"+t.TempDir()), "acme", other))
			require.Equal(t, agent.CodeNotFound, agent.CodeOf(err), "nothing was stored: %v", err)
			requireNoUploads(t, s)
		})
	}
}

func TestRemoveAsksTheLedger(t *testing.T) {
	l := newLedger()
	s := open(t, "mem://", blob.WithLedger(l))
	ref := put(t, s, "acme", []byte("x"))
	refused := func(why string) {
		t.Helper()
		err := s.Remove(t.Context(), "acme", ref)
		require.Equal(t, agent.CodeConflict, agent.CodeOf(err), "%s: %v", why, err)
		_, err = get(t.Context(), s, "acme", ref)
		require.NoError(t, err, why)
		requireNoUploads(t, s)
	}
	refused("just put")
	l.age()
	l.held["acme "+ref] = true
	refused("held")
	delete(l.held, "acme "+ref)
	require.NoError(t, s.Remove(t.Context(), "acme", ref))
	_, err := get(t.Context(), s, "acme", ref)
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err), "%v", err)

	put(t, s, "acme", []byte("x"))
	l.age()
	lost := errors.New("the answer was lost")
	l.release = func() error { return lost }
	require.ErrorIs(t, s.Remove(t.Context(), "acme", ref), lost)
	_, err = get(t.Context(), s, "acme", ref)
	require.NoError(t, err)
	requireNoUploads(t, s)
}

// A removal whose time is over while the ledger is asked does not delete any more: a Put may have taken it for dead.
func TestRemoveGivesUpInTime(t *testing.T) {
	l := newLedger()
	s := open(t, "mem://", blob.WithLedger(l))
	ref := put(t, s, "acme", []byte("x"))
	l.age()
	ctx, cancel := context.WithCancel(t.Context())
	l.release = func() error { cancel(); return nil }
	require.ErrorIs(t, s.Remove(ctx, "acme", ref), context.Canceled)
	_, err := get(t.Context(), s, "acme", ref)
	require.NoError(t, err)
}

// A Put between the sign and the deletion of a removal that has been allowed ends with the content there.
func TestPutBehindARelease(t *testing.T) {
	for name, content := range map[string][]byte{"small": []byte("small"), "large": noise(1<<20+9, 1)} {
		t.Run(name, func(t *testing.T) {
			l := newLedger()
			url := "file://" + t.TempDir()
			s, other := open(t, url, blob.WithLedger(l)), open(t, url, blob.WithLedger(l))
			ref := put(t, s, "acme", content)
			l.age()
			noted, done := make(chan struct{}), make(chan error, 1)
			l.release = func() error { // the ledger has said yes
				go func() {
					_, err := other.Put(t.Context(), "acme", &ended{r: bytes.NewReader(content), end: noted})
					done <- err
				}()
				<-noted
				return nil
			}
			require.NoError(t, s.Remove(t.Context(), "acme", ref))
			require.NoError(t, <-done)
			got, err := get(t.Context(), s, "acme", ref)
			require.NoError(t, err)
			require.True(t, bytes.Equal(content, got))
			err = s.Remove(t.Context(), "acme", ref)
			require.Equal(t, agent.CodeConflict, agent.CodeOf(err), "it was just put: %v", err)
		})
	}
}

func TestPlansAreNotCounted(t *testing.T) {
	l := newLedger()
	s := open(t, "mem://", blob.WithLedger(l))
	ref, err := s.SavePlan(t.Context(), []byte("{}"))
	require.NoError(t, err)
	require.Empty(t, l.young)
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(s.Remove(t.Context(), ".plans", ref)))
	_, err = s.PlanBytes(t.Context(), strings.TrimPrefix(ref, "cas://"))
	require.NoError(t, err)
}

func TestObjects(t *testing.T) {
	each(t, func(t *testing.T, s *blob.Store) {
		want := map[string]bool{}
		for i := range byte(7) {
			for _, tenant := range []string{"acme", "b.c-d_E"} {
				want[tenant+" "+put(t, s, tenant, noise(100, i))] = true
			}
		}
		_, err := s.SavePlan(t.Context(), []byte("{}"))
		require.NoError(t, err)
		got := map[string]bool{}
		var token []byte
		for pages := 0; ; pages++ {
			require.Less(t, pages, 20)
			page, next, err := s.Objects(t.Context(), token, 3)
			require.NoError(t, err)
			require.LessOrEqual(t, len(page), 3)
			for _, o := range page {
				require.Positive(t, o.Bytes)
				require.NotContains(t, got, o.Tenant+" "+o.Ref, "once")
				got[o.Tenant+" "+o.Ref] = true
			}
			if token = next; len(next) == 0 {
				break
			}
		}
		require.Equal(t, want, got)
	})
}

// What else may lie in a bucket is nobody's content.
func TestObjectsLeavesOutWhatIsNone(t *testing.T) {
	dir := t.TempDir()
	s := open(t, "file://"+dir)
	ref := put(t, s, "acme", []byte("x"))
	digest := strings.TrimPrefix(ref, "cas://sha256:")
	for _, key := range []string{
		"~tmp/x", "~gone/" + digest + "-x", "acme/other", "acme/sha256/" + digest, "acme/sha256/ab/" + digest, "acme/sha256/zz/" + digest[2:],
		"sha256/" + digest[:2] + "/" + digest[2:], "a b/sha256/" + digest[:2] + "/" + digest[2:], "loose",
	} {
		path := dir + "/" + key
		require.NoError(t, os.MkdirAll(path[:strings.LastIndex(path, "/")], 0o700))
		require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
	}
	page, next, err := s.Objects(t.Context(), nil, 100)
	require.NoError(t, err)
	require.Empty(t, next)
	require.Len(t, page, 1)
	require.Equal(t, ref, page[0].Ref)
}
