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

// TestCollectModel runs random operations in random order. Content that somebody holds, or that was put within the grace period, is never
// removed; at the end no other content is left.
func TestCollectModel(t *testing.T) {
	w := newWorld(t)
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		content := func() string { return fmt.Sprint("content ", n, " ", rapid.IntRange(0, 4).Draw(r, "content")) }
		var (
			turns = map[string]string{} // id to the content that it names
			cache = map[string]string{}
			young = map[string]bool{}
			all   = map[string]string{} // content to its reference
			last  int
			ids   = func() []string {
				var all []string
				for id := range turns {
					all = append(all, id)
				}
				slices.Sort(all)
				return all
			}
		)
		need := func(err error) { require.NoError(r, err) }
		put := func(c string) string {
			ref, err := w.blobs.Put(t.Context(), tenant, strings.NewReader(c))
			need(err)
			all[c], young[c] = ref, true
			return ref
		}
		collect := func() {
			_, err := w.collector(w.blobs).Collect(t.Context())
			need(err)
		}
		check := func() {
			held := map[string]bool{}
			for _, c := range turns {
				held[c] = true
			}
			for _, c := range cache {
				held[c] = true
			}
			for c, ref := range all {
				require.True(r, w.has(ref) || !held[c] && !young[c], "%s is gone; held %v, young %v", c, held[c], young[c])
			}
		}
		r.Repeat(map[string]func(*rapid.T){
			"put": func(*rapid.T) { put(content()) },
			"put and name": func(*rapid.T) {
				c := content()
				ref := put(c)
				last++
				id := fmt.Sprint("m", n, "-", last)
				need(name(t.Context(), w.Store, id, ref))
				turns[id] = c
			},
			"put and remember": func(*rapid.T) {
				c, key := content(), fmt.Sprint("k", rapid.IntRange(0, 1).Draw(r, "key"))
				ref := put(c)
				if was, ok := cache[key]; ok && was != c {
					young[was] = true // it may have been recalled a moment ago
				}
				need(results.Cache{Memory: w.Store}.Remember(t.Context(), tenant, key, tool.CachedResult{Dataset: agent.Dataset{Ref: ref}}, time.Hour))
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
				need(forget(t.Context(), w.Store, id))
				delete(turns, id)
			},
			"remove by hand": func(*rapid.T) {
				ref := all[content()]
				if ref == "" {
					return
				}
				if err := w.blobs.Remove(t.Context(), tenant, ref); agent.CodeOf(err) != agent.CodeConflict {
					need(err)
				}
			},
			"time passes": func(*rapid.T) {
				w.age()
				clear(young)
			},
			"collect": func(*rapid.T) { collect() },
			"lose the ledger's row": func(*rapid.T) { // a removal that died after it was allowed
				ref := all[content()]
				if ref == "" {
					return
				}
				_, err := w.Release(t.Context(), tenant, ref)
				need(err)
			},
			"": func(*rapid.T) { check() },
		})
		for _, id := range ids() {
			need(forget(t.Context(), w.Store, id))
		}
		w.exec(`UPDATE result_cache SET expires_at = clock_timestamp() - interval '2 h'`)
		collect()
		w.age()
		collect()
		require.Zero(r, w.objects()+w.count("blobs")+w.count("blob_refs")+w.count("result_cache"))
	})
}

// TestCollectWhileTurnsRun: several processes put and name content, delete sessions and collect, all at once, and read what they named. The
// grace of a Put that is not yet followed by its reference never ends (time passes only between such), everything else may be old at any
// time.
func TestCollectWhileTurnsRun(t *testing.T) {
	const (
		workers = 4
		rounds  = 25
		kinds   = 3
	)
	w := newWorld(t)
	contents := make([][]byte, kinds)
	for i := range contents {
		contents[i] = bytes.Repeat([]byte(fmt.Sprint("content ", i, " ")), 1+i*120_000) // the last is uploaded first, then copied
	}
	var (
		grace   sync.RWMutex // held while somebody has put and not yet named
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
					err = name(ctx, w.Store, id, ref)
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
				if err := forget(ctx, w.Store, id); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for range 2 {
		collector := w.collector(w.bucket())
		g.Go(func() error { // one at a time by their lock
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
		g.Go(func() error { // and others who remove without it
			for working.Load() > 0 {
				unheld, _, _, err := w.Unreferenced(ctx, postgres.StoredBlob{}, 10)
				if err != nil {
					return err
				}
				for _, b := range unheld {
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
