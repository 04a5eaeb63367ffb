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

// ledger is a [blob.Ledger] in memory. Content stays young until age is called.
type ledger struct {
	mu         sync.Mutex
	young      map[string]int64 // bytes by tenant and reference
	referenced map[string]bool
	onPutting  func() error // if not nil, called first by RecordPut
	onRelease  func() error // if not nil, called last by Release
}

func newLedger() *ledger { return &ledger{young: map[string]int64{}, referenced: map[string]bool{}} }

func (l *ledger) RecordPut(_ context.Context, tenant, ref string, size int64) error {
	if l.onPutting != nil {
		if err := l.onPutting(); err != nil {
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
	if young || l.referenced[tenant+" "+ref] {
		return false, nil
	}
	if l.onRelease != nil {
		return true, l.onRelease()
	}
	return true, nil
}

// age ends the grace period of all content.
func (l *ledger) age() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.young)
}

func TestPutRecordsInLedgerFirst(t *testing.T) {
	for name, content := range map[string][]byte{"small": []byte("small"), "large": noise(1<<20+9, 1)} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l := newLedger()
			s := open(t, "file://"+dir, blob.WithLedger(l))
			ref := put(t, open(t, "file://"+t.TempDir()), "acme", content) // the reference that it will have
			l.onPutting = func() error {
				_, err := os.Stat(objectPath(dir, ref))
				require.ErrorIs(t, err, os.ErrNotExist, "the object is not written yet")
				return nil
			}
			require.Equal(t, ref, put(t, s, "acme", content))
			require.Equal(t, map[string]int64{"acme " + ref: int64(len(content))}, l.young)

			l.age()
			l.onPutting = nil
			put(t, s, "acme", content)
			require.Len(t, l.young, 1, "existing content is recorded again")

			ledgerErr := errors.New("the ledger is unavailable")
			l.onPutting = func() error { return ledgerErr }
			other := slices.Concat(content, []byte("other"))
			_, err := s.Put(t.Context(), "acme", bytes.NewReader(other))
			require.ErrorIs(t, err, ledgerErr)
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
	requireConflict := func(reason string) {
		t.Helper()
		err := s.Remove(t.Context(), "acme", ref)
		require.Equal(t, agent.CodeConflict, agent.CodeOf(err), "%s: %v", reason, err)
		_, err = get(t.Context(), s, "acme", ref)
		require.NoError(t, err, reason)
		requireNoUploads(t, s)
	}
	requireConflict("just stored")
	l.age()
	l.referenced["acme "+ref] = true
	requireConflict("referenced")
	delete(l.referenced, "acme "+ref)
	require.NoError(t, s.Remove(t.Context(), "acme", ref))
	_, err := get(t.Context(), s, "acme", ref)
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err), "%v", err)

	put(t, s, "acme", []byte("x"))
	l.age()
	releaseErr := errors.New("the database's reply was lost")
	l.onRelease = func() error { return releaseErr }
	require.ErrorIs(t, s.Remove(t.Context(), "acme", ref), releaseErr)
	_, err = get(t.Context(), s, "acme", ref)
	require.NoError(t, err)
	requireNoUploads(t, s)
}

// A removal whose time is over after the ledger's answer does not delete the object, because a Put may have considered the removal dead.
func TestRemoveTimeout(t *testing.T) {
	l := newLedger()
	s := open(t, "mem://", blob.WithLedger(l))
	ref := put(t, s, "acme", []byte("x"))
	l.age()
	ctx, cancel := context.WithCancel(t.Context())
	l.onRelease = func() error { cancel(); return nil }
	require.ErrorIs(t, s.Remove(ctx, "acme", ref), context.Canceled)
	_, err := get(t.Context(), s, "acme", ref)
	require.NoError(t, err)
}

// The content exists after a Put that ran between the ledger's permission for a removal and the deletion.
func TestPutAfterRelease(t *testing.T) {
	for name, content := range map[string][]byte{"small": []byte("small"), "large": noise(1<<20+9, 1)} {
		t.Run(name, func(t *testing.T) {
			l := newLedger()
			url := "file://" + t.TempDir()
			s, other := open(t, url, blob.WithLedger(l)), open(t, url, blob.WithLedger(l))
			ref := put(t, s, "acme", content)
			l.age()
			hasRead, done := make(chan struct{}), make(chan error, 1)
			l.onRelease = func() error { // the ledger has permitted the removal
				go func() {
					_, err := other.Put(t.Context(), "acme", &notifyingReader{r: bytes.NewReader(content), end: hasRead})
					done <- err
				}()
				<-hasRead
				return nil
			}
			require.NoError(t, s.Remove(t.Context(), "acme", ref))
			require.NoError(t, <-done)
			got, err := get(t.Context(), s, "acme", ref)
			require.NoError(t, err)
			require.True(t, bytes.Equal(content, got))
			err = s.Remove(t.Context(), "acme", ref)
			require.Equal(t, agent.CodeConflict, agent.CodeOf(err), "it was just stored: %v", err)
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
				require.NotContains(t, got, o.Tenant+" "+o.Ref, "listed twice")
				got[o.Tenant+" "+o.Ref] = true
			}
			if token = next; len(next) == 0 {
				break
			}
		}
		require.Equal(t, want, got)
	})
}

// Other objects in the bucket are not listed.
func TestObjectsSkipsOthers(t *testing.T) {
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
