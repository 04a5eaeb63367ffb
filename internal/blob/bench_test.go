package blob_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// rows yields n bytes of JSON-like rows that compress about as well as real ones, no two streams of different seeds alike.
type rows struct {
	left int64
	page []byte
	r    *rand.Rand
}

func newRows(n int64, seed uint64) *rows {
	return &rows{left: n, r: rand.New(rand.NewPCG(seed, 1))}
}

func (s *rows) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	if len(s.page) == 0 {
		s.page = append(s.page[:0], `{"airline":"Delta","origin":"NYC","dest":"LAX","price":`...)
		for range 12 {
			s.page = append(s.page, byte('0'+s.r.IntN(10)))
		}
		s.page = append(s.page, "},"...)
	}
	n := copy(p[:min(int64(len(p)), s.left)], s.page)
	s.page = s.page[n:]
	s.left -= int64(n)
	return n, nil
}

// peak returns how much the live heap grew at most while work ran.
func peak(work func()) uint64 {
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	var most atomic.Uint64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			if now.HeapInuse > before.HeapInuse {
				most.Store(max(most.Load(), now.HeapInuse-before.HeapInuse))
			}
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	work()
	close(stop)
	<-stopped
	return most.Load()
}

// BenchmarkStream puts and reads a gigabyte; peak-MB is the most that the heap grew.
func BenchmarkStream(b *testing.B) {
	const size = 1 << 30
	s := open(b, "file://"+b.TempDir())
	var ref string
	seed := uint64(0)
	b.Run("put", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			seed++
			most := peak(func() {
				var err error
				ref, err = s.Put(b.Context(), "acme", newRows(size, seed))
				require.NoError(b, err)
			})
			b.ReportMetric(float64(most)/1e6, "peak-MB")
		}
	})
	b.Run("open", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			most := peak(func() {
				r, err := s.Open(b.Context(), "acme", ref)
				require.NoError(b, err)
				_, err = io.Copy(io.Discard, r)
				require.NoError(b, err)
				require.NoError(b, r.Close())
			})
			b.ReportMetric(float64(most)/1e6, "peak-MB")
		}
	})
}

// BenchmarkSmall puts and reads 64 KiB, new content each time.
func BenchmarkSmall(b *testing.B) {
	const size = 64 << 10
	s := open(b, "file://"+b.TempDir())
	content, err := io.ReadAll(newRows(size, 1))
	require.NoError(b, err)
	var ref string
	n := byte(0)
	b.Run("put", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			n++
			for i := range 8 {
				content[i] += n
			}
			ref = put(b, s, "acme", content)
		}
	})
	b.Run("open", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r, err := s.Open(b.Context(), "acme", ref)
			require.NoError(b, err)
			_, err = io.Copy(&bytes.Buffer{}, r)
			require.NoError(b, err)
			require.NoError(b, r.Close())
		}
	})
}
