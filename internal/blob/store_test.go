package blob_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/blob"
)

// drivers has the URLs of the buckets for tests that run on each driver.
var drivers = map[string]func(t *testing.T) string{
	"mem":  func(*testing.T) string { return "mem://" },
	"file": func(t *testing.T) string { return "file://" + filepath.Join(t.TempDir(), "new", "folder") },
}

func each(t *testing.T, run func(t *testing.T, s *blob.Store), opts ...blob.Option) {
	for name, url := range drivers {
		t.Run(name, func(t *testing.T) { run(t, open(t, url(t), opts...)) })
	}
}

func open(t testing.TB, url string, opts ...blob.Option) *blob.Store {
	t.Helper()
	s, err := blob.Open(t.Context(), url, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func put(t testing.TB, s *blob.Store, tenant string, content []byte) string {
	t.Helper()
	ref, err := s.Put(t.Context(), tenant, bytes.NewReader(content))
	require.NoError(t, err)
	return ref
}

func get(ctx context.Context, s *blob.Store, tenant, ref string) ([]byte, error) {
	r, err := s.Open(ctx, tenant, ref)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(r)
	return content, errors.Join(err, r.Close())
}

// noise returns random bytes for a seed, which do not compress.
func noise(n int, seed byte) []byte {
	content := make([]byte, n)
	_, err := rand.NewChaCha8([32]byte{seed}).Read(content)
	if err != nil {
		panic(err) // ChaCha8 never fails
	}
	return content
}

func TestRoundTrip(t *testing.T) {
	const spool = 1 << 20
	contents := map[string][]byte{
		"empty": {}, "text": []byte(strings.Repeat("a row, ", 1000)), "just below the spool": noise(spool-1, 1),
		"the spool": noise(spool, 2), "just above": noise(spool+1, 3), "large": noise(2*spool+7, 4), "zeros": make([]byte, 2*spool),
	}
	each(t, func(t *testing.T, s *blob.Store) {
		for name, content := range contents {
			ref := put(t, s, "acme", content)
			require.Equal(t, fmt.Sprintf("cas://sha256:%x", sha256.Sum256(content)), ref, name)
			require.Equal(t, ref, put(t, s, "acme", content), name)
			got, err := get(t.Context(), s, "acme", ref)
			require.NoError(t, err, name)
			require.True(t, bytes.Equal(content, got), name)
		}
	})
}

func TestForeignAndMissing(t *testing.T) {
	each(t, func(t *testing.T, s *blob.Store) {
		content := noise(1<<20+9, 1)
		ref := put(t, s, "acme", content)
		_, err := get(t.Context(), s, "other", ref)
		require.Equal(t, agent.CodeNotFound, agent.CodeOf(err), "%v", err)
		_, err = get(t.Context(), s, "acme", "cas://sha256:"+strings.Repeat("0", 64))
		require.Equal(t, agent.CodeNotFound, agent.CodeOf(err), "%v", err)
		require.Equal(t, ref, put(t, s, "other", content), "the same content of two tenants has one name")
		_, err = get(t.Context(), s, "other", ref)
		require.NoError(t, err)

		for _, bad := range []string{
			"", "cas://", "cas://sha256:", "artifact://x", ref[:len(ref)-1], ref + "0", strings.ToUpper(ref),
			strings.Replace(ref, "cas://sha256:", "cas://sha256:../", 1)[:77],
		} {
			_, err = get(t.Context(), s, "acme", bad)
			require.Equal(t, agent.CodeInvalid, agent.CodeOf(err), "%q: %v", bad, err)
		}
		for _, tenant := range []string{"", ".", "..", "a/b", "../acme", "~tmp", "a\x00", strings.Repeat("a", 129)} {
			_, err = get(t.Context(), s, tenant, ref)
			require.Equal(t, agent.CodeInvalid, agent.CodeOf(err), "%q: %v", tenant, err)
			_, err = s.Put(t.Context(), tenant, strings.NewReader("x"))
			require.Equal(t, agent.CodeInvalid, agent.CodeOf(err), "%q: %v", tenant, err)
		}
	})
}

func TestManyWriters(t *testing.T) {
	each(t, func(t *testing.T, s *blob.Store) {
		contents := [][]byte{noise(100, 1), noise(1<<20+9, 2)}
		var g errgroup.Group
		for i := range 8 {
			g.Go(func() error {
				ref, err := s.Put(t.Context(), "acme", bytes.NewReader(contents[i%2]))
				if err != nil {
					return err
				}
				got, err := get(t.Context(), s, "acme", ref)
				if err == nil && !bytes.Equal(contents[i%2], got) {
					err = errors.New("other content")
				}
				return err
			})
		}
		require.NoError(t, g.Wait())
		requireNoUploads(t, s)
	})
}

// Damaged objects are reported as corrupted.
func TestCorruption(t *testing.T) {
	for name, damage := range map[string]func(object []byte, other []byte) []byte{
		"emptied":        func([]byte, []byte) []byte { return nil },
		"cut off":        func(o, _ []byte) []byte { return o[:len(o)/2] },
		"last byte gone": func(o, _ []byte) []byte { return o[:len(o)-1] },
		"a bit flipped":  func(o, _ []byte) []byte { o[len(o)/2] ^= 4; return o },
		"a tail":         func(o, _ []byte) []byte { return append(o, "tail"...) },
		"twice":          func(o, _ []byte) []byte { return append(o, o...) },
		"other content":  func(_, other []byte) []byte { return other },
		"not compressed": func([]byte, []byte) []byte { return []byte("plain text") },
	} {
		for _, size := range []int{1000, 1<<20 + 999} {
			t.Run(fmt.Sprint(name, " ", size), func(t *testing.T) {
				dir := t.TempDir()
				s := open(t, "file://"+dir)
				ref, other := put(t, s, "acme", noise(size, 1)), put(t, s, "acme", noise(size, 2))
				path := objectPath(dir, ref)
				object, err := os.ReadFile(path)
				require.NoError(t, err)
				foreign, err := os.ReadFile(objectPath(dir, other))
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(path, damage(object, foreign), 0o600))

				_, err = get(t.Context(), s, "acme", ref)
				require.Equal(t, agent.CodeInternal, agent.CodeOf(err), "%v", err)
				require.ErrorContains(t, err, ref+" is corrupted")
			})
		}
	}
}

func objectPath(dir, ref string) string {
	digest := strings.TrimPrefix(ref, "cas://sha256:")
	return filepath.Join(dir, "acme", "sha256", digest[:2], digest[2:])
}

func TestExpandingObjectIsBounded(t *testing.T) {
	dir := t.TempDir()
	ref := put(t, open(t, "file://"+dir), "acme", make([]byte, 4<<20))
	_, err := get(t.Context(), open(t, "file://"+dir, blob.MaxBytes(1<<20)), "acme", ref)
	require.ErrorContains(t, err, "larger than any blob")
}

func TestFilesOnDisk(t *testing.T) {
	for name, n := range map[string]int{"small": 1 << 16, "large": 1 << 18} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, "file://"+dir)
			text := []byte(strings.Repeat("compress me ", n))
			ref := put(t, s, "acme", text)
			before, err := os.Stat(objectPath(dir, ref))
			require.NoError(t, err)
			require.Less(t, before.Size(), int64(len(text)/20), "compressed")
			put(t, s, "acme", text)
			after, err := os.Stat(objectPath(dir, ref))
			require.NoError(t, err)
			require.True(t, os.SameFile(before, after) && before.ModTime().Equal(after.ModTime()), "written once")
			files := 0
			require.NoError(t, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
				if err == nil && !d.IsDir() {
					files++
				}
				return err
			}))
			require.Equal(t, 1, files, "only the object")
		})
	}
}

func TestInvalidURL(t *testing.T) {
	for _, url := range []string{"", "nothing", "file://", "file:///", "ftp://x/y", "://", "file:///tmp/x?unknown=1"} {
		_, err := blob.Open(t.Context(), url)
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err), "%q: %v", url, err)
	}
	_, err := blob.Open(t.Context(), "mem://", blob.MaxBytes(0))
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	s, err := blob.Open(t.Context(), "s3://bucket?region=us-east-1&endpoint=http://127.0.0.1:1&hostname_immutable=true")
	require.NoError(t, err, "the driver is built in")
	require.NoError(t, s.Close())
}

func TestClosedStore(t *testing.T) {
	s, err := blob.Open(t.Context(), "mem://")
	require.NoError(t, err)
	require.NoError(t, s.Close())
	_, err = s.Put(t.Context(), "acme", strings.NewReader("x"))
	require.Error(t, err)
}

func FuzzParseRef(f *testing.F) {
	for _, seed := range []string{
		"", "cas://sha256:", "cas://sha256:" + strings.Repeat("a", 64), "cas://sha256:" + strings.Repeat("A", 64),
		"cas://md5:00", "cas://sha256:../../etc/passwd",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, ref string) {
		digest, err := blob.ParseRef(ref)
		if err != nil {
			require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
			return
		}
		require.Equal(t, "cas://sha256:"+digest, ref)
		require.Regexp(t, `^[0-9a-f]{64}$`, digest)
	})
}
