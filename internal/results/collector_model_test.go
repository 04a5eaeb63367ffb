package results_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
	"github.com/turnstone-run/turnstone/internal/results"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// TestCollectModel runs random operations in random order. Content that is referenced or was stored within the grace period is never removed. At the end,
// no other content is left.
func TestCollectModel(t *testing.T) {
	w := newWorld(t)
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		content := func() string { return fmt.Sprint("content ", n, " ", rapid.IntRange(0, 4).Draw(r, "content")) }
		var (
			turns = map[string]string{} // content by id of the turn that refers to it
			cache = map[string]string{} // content by key
			young = map[string]bool{}   // content that was stored within the grace period
			all   = map[string]string{} // reference by content
			last  int                   // number of the last turn
			ids   = func() []string {
				var all []string
				for id := range turns {
					all = append(all, id)
				}
				slices.Sort(all)
				return all
			}
		)
		noError := func(err error) { require.NoError(r, err) }
		put := func(c string) string {
			ref, err := w.blobs.Put(t.Context(), tenant, strings.NewReader(c))
			noError(err)
			all[c], young[c] = ref, true
			return ref
		}
		collect := func() {
			_, err := w.collector(w.blobs).Collect(t.Context())
			noError(err)
		}
		check := func() {
			isReferenced := map[string]bool{}
			for _, c := range turns {
				isReferenced[c] = true
			}
			for _, c := range cache {
				isReferenced[c] = true
			}
			for c, ref := range all {
				require.True(r, w.has(ref) || !isReferenced[c] && !young[c], "%s was removed; referenced %v, young %v", c, isReferenced[c], young[c])
			}
		}
		r.Repeat(map[string]func(*rapid.T){
			"put": func(*rapid.T) { put(content()) },
			"put and name": func(*rapid.T) {
				c := content()
				ref := put(c)
				last++
				id := fmt.Sprint("m", n, "-", last)
				noError(beginReferring(t.Context(), w.Store, id, ref))
				turns[id] = c
			},
			"put and remember": func(*rapid.T) {
				c, key := content(), fmt.Sprint("k", rapid.IntRange(0, 1).Draw(r, "key"))
				ref := put(c)
				if previous, ok := cache[key]; ok && previous != c {
					young[previous] = true // it may just have been recalled
				}
				noError(results.Cache{Memory: w.Store}.Remember(t.Context(), tenant, key, tool.CachedResult{Dataset: agent.Dataset{Ref: ref}}, time.Hour))
				cache[key] = c
			},
			"let the cache expire": func(*rapid.T) {
				w.exec(`UPDATE result_cache SET expires_at = clock_timestamp() - interval '2 h'`)
				clear(cache)
			},
			"delete a session": func(*rapid.T) {
				if len(turns) == 0 {
					return
				}
				id := rapid.SampledFrom(ids()).Draw(r, "id")
				noError(endAndDelete(t.Context(), w.Store, id))
				delete(turns, id)
			},
			"remove by hand": func(*rapid.T) {
				ref := all[content()]
				if ref == "" {
					return
				}
				if err := w.blobs.Remove(t.Context(), tenant, ref); agent.CodeOf(err) != agent.CodeConflict {
					noError(err)
				}
			},
			"time passes": func(*rapid.T) {
				w.age()
				clear(young)
			},
			"collect": func(*rapid.T) { collect() },
			"lose the ledger's row": func(*rapid.T) { // as if a removal died after the ledger had permitted it
				ref := all[content()]
				if ref == "" {
					return
				}
				_, err := w.Release(t.Context(), tenant, ref)
				noError(err)
			},
			"": func(*rapid.T) { check() },
		})
		for _, id := range ids() {
			noError(endAndDelete(t.Context(), w.Store, id))
		}
		w.exec(`UPDATE result_cache SET expires_at = clock_timestamp() - interval '2 h'`)
		collect()
		w.age()
		collect()
		require.Zero(r, w.objects()+w.count("blobs")+w.count("blob_refs")+w.count("result_cache"))
	})
}

// Several processes store, refer to and read content, delete sessions and collect at the same time. The lock grace prevents that the grace period ends
// between a Put and its reference. All other content may become old at any time.
func TestCollectWhileTurnsRun(t *testing.T) {
	const (
		workers = 4
		rounds  = 25
		kinds   = 3
	)
	w := newWorld(t)
	contents := make([][]byte, kinds)
	for i := range contents {
		contents[i] = bytes.Repeat([]byte(fmt.Sprint("content ", i, " ")), 1+i*120_000) // the last one is large enough for a temporary object
	}
	var (
		grace   sync.RWMutex // held between a Put and its reference
		removed atomic.Int64
		working atomic.Int64
	)
	working.Store(workers)
	g, ctx := errgroup.WithContext(t.Context())
	for i := range workers {
		blobs := w.bucket()
		g.Go(func() error {
			defer working.Add(-1)
			random := rand.New(rand.NewPCG(uint64(i), 7))
			for round := range rounds {
				id, content := fmt.Sprint("w", i, "-", round), contents[random.IntN(kinds)]
				grace.RLock()
				ref, err := blobs.Put(ctx, tenant, bytes.NewReader(content))
				if err == nil {
					err = beginReferring(ctx, w.Store, id, ref)
				}
				grace.RUnlock()
				if err != nil {
					return err
				}
				for range 1 + random.IntN(3) {
					body, err := read(blobs.Open(ctx, tenant, ref))
					if err != nil || body != string(content) {
						return fmt.Errorf("%s lost %s: %w", id, ref, err)
					}
				}
				if err := endAndDelete(ctx, w.Store, id); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for range 2 {
		collector := w.collector(w.bucket())
		g.Go(func() error { // the collectors' lock lets one at a time collect
			for working.Load() > 0 {
				done, err := collector.Collect(ctx)
				if err != nil {
					return err
				}
				removed.Add(int64(done.Removed))
			}
			return nil
		})
		blobs := w.bucket()
		g.Go(func() error { // removes content without that lock
			for working.Load() > 0 {
				unreferenced, _, _, err := w.Unreferenced(ctx, postgres.StoredBlob{}, 10)
				if err != nil {
					return err
				}
				for _, b := range unreferenced {
					if err := blobs.Remove(ctx, b.Tenant, b.Ref); err == nil {
						removed.Add(1)
					} else if agent.CodeOf(err) != agent.CodeConflict {
						return err
					}
				}
			}
			return nil
		})
	}
	g.Go(func() error {
		for working.Load() > 0 {
			grace.Lock()
			_, err := w.pool.Exec(ctx, `UPDATE blobs SET put_at = put_at - interval '2 hours'`)
			grace.Unlock()
			if err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, g.Wait())
	t.Log("removed while they worked:", removed.Load())
	require.Positive(t, removed.Load())
	w.age()
	w.collect()
	w.age()
	w.collect()
	require.Zero(t, w.objects()+w.count("blobs")+w.count("blob_refs"))
}
