package results_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/blob"
	"github.com/turnstone-run/turnstone/internal/postgres"
	"github.com/turnstone-run/turnstone/internal/results"
	"github.com/turnstone-run/turnstone/internal/tool"
)

func (w *world) collect() results.Collected {
	w.t.Helper()
	done, err := w.collector(w.blobs).Collect(w.t.Context())
	require.NoError(w.t, err)
	require.True(w.t, done.Ran)
	return done
}

func TestCollect(t *testing.T) {
	w := newWorld(t)
	unreferenced, referenced := w.put("nobody wants it"), w.put("a turn has it")
	require.NoError(t, beginReferring(t.Context(), w.Store, "t1", referenced))
	plan, err := w.blobs.SavePlan(t.Context(), []byte("{}"))
	require.NoError(t, err)
	require.Equal(t, results.Collected{Ran: true, Looked: 2}, w.collect())
	w.age()
	young := w.put("just put")
	require.Equal(t, results.Collected{Ran: true, Looked: 3, Removed: 1, Bytes: 15}, w.collect())
	for ref, want := range map[string]bool{unreferenced: false, referenced: true, young: true} {
		require.Equal(t, want, w.has(ref), ref)
	}
	require.NoError(t, endAndDelete(t.Context(), w.Store, "t1"))
	w.age()
	require.Equal(t, results.Collected{Ran: true, Looked: 2, Removed: 2, Bytes: 21}, w.collect())
	require.Equal(t, results.Collected{Ran: true}, w.collect())
	require.Zero(t, w.objects())
	_, err = w.blobs.PlanBytes(t.Context(), strings.TrimPrefix(plan, "cas://"))
	require.NoError(t, err)
}

// Content that is only in the bucket, and the remains of processes that have died, are removed too.
func TestCollectAdoptsAndSweeps(t *testing.T) {
	w := newWorld(t)
	bare, err := blob.Open(t.Context(), w.url) // a release without a ledger
	require.NoError(t, err)
	defer bare.Close()
	var refs []string
	for _, content := range []string{"a", "b", "c"} {
		ref, err := bare.Put(t.Context(), tenant, strings.NewReader(content))
		require.NoError(t, err)
		refs = append(refs, ref)
	}
	require.NoError(t, beginReferring(t.Context(), w.Store, "t1", refs[1]))
	for _, left := range []string{"~tmp/upload", "~gone/" + refs[0][13:] + "-x"} {
		path := filepath.Join(w.dir, left)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		require.NoError(t, os.Chtimes(path, time.Time{}, time.Now().Add(-25*time.Hour)))
	}
	done := w.collect()
	require.Equal(t, results.Collected{Ran: true, Adopted: 3, Looked: 3, Swept: 2}, done, "adopted content counts as just stored")
	w.age()
	done = w.collect()
	require.Equal(t, 2, done.Removed)
	require.Positive(t, done.Bytes)
	require.True(t, w.has(refs[1]))
}

// A cached dataset stays until a grace period after it has expired.
func TestCollectExpiredCache(t *testing.T) {
	w := newWorld(t)
	cache := results.Cache{Memory: w.Store}
	r := tool.CachedResult{Dataset: agent.Dataset{Ref: w.put("rows"), RowCount: 1}, Preview: []byte(`{"row_count":1}`), Report: []byte(`{"steps":[]}`)}
	require.NoError(t, cache.Remember(t.Context(), tenant, "k", r, time.Hour))
	w.age()
	require.Zero(t, w.collect().Removed)
	got, ok, err := cache.Recall(t.Context(), tenant, "k")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, r, got)
	w.exec(`UPDATE result_cache SET expires_at = clock_timestamp() - interval '1 s'`)
	_, ok, err = cache.Recall(t.Context(), tenant, "k")
	require.NoError(t, err)
	require.False(t, ok)
	require.Zero(t, w.collect().Removed)
	w.exec(`UPDATE result_cache SET expires_at = clock_timestamp() - interval '2 h'`)
	require.Equal(t, 1, w.collect().Expired)
	w.age()
	require.Equal(t, 1, w.collect().Removed)
	require.Zero(t, w.count("result_cache")+w.count("blobs")+w.count("blob_refs")+w.objects())
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(cache.Remember(t.Context(), tenant, "k", tool.CachedResult{}, time.Hour)))
}

// One run reads the whole ledger in batches. After a run that failed, the next one continues where it stopped.
func TestCollectContinues(t *testing.T) {
	w := newWorld(t)
	w.exec(`INSERT INTO blobs SELECT 'acme', encode(sha256(i::text::bytea), 'hex'), 1, now() - interval '2 h' FROM generate_series(1, 1100) i`)
	w.exec(`INSERT INTO blob_refs SELECT tenant, 'turn/x', digest FROM blobs`)
	require.Equal(t, 1100, w.collect().Looked)
	failing := &failingLedger{Store: w.Store, calls: 1}
	done, err := results.NewCollector(results.CollectorConfig{Ledger: failing, Bucket: w.blobs}).Collect(t.Context())
	require.Error(t, err)
	require.Equal(t, 500, done.Looked)
	require.Equal(t, 600, w.collect().Looked)
	require.Equal(t, 1100, w.collect().Looked)
}

// failingLedger fails after a number of calls of Unreferenced.
type failingLedger struct {
	*postgres.Store
	calls int
}

func (l *failingLedger) Unreferenced(ctx context.Context, last postgres.StoredBlob, n int) ([]postgres.StoredBlob, int, postgres.StoredBlob, error) {
	if l.calls--; l.calls < 0 {
		return nil, 0, last, agent.Errorf(agent.CodeUnavailable, "", "the database is unavailable")
	}
	return l.Store.Unreferenced(ctx, last, n)
}

// dyingLedger is a ledger whose process dies before or after a release.
type dyingLedger struct {
	*postgres.Store
	before, after func()
}

func (l *dyingLedger) Release(ctx context.Context, tenant, ref string) (bool, error) {
	if l.before != nil {
		l.before()
	}
	ok, err := l.Store.Release(ctx, tenant, ref)
	if l.after != nil {
		l.after()
		return false, errors.Join(err, errors.New("the process has died"))
	}
	return ok, err
}

// If a collector dies, content that is stored afterwards exists, and content without references is removed later.
func TestCollectorDies(t *testing.T) {
	for name, setDeath := range map[string]func(l *dyingLedger, die func()){
		"before the release":    func(l *dyingLedger, die func()) { l.before = die },
		"after the row is gone": func(l *dyingLedger, die func()) { l.after = die },
	} {
		for _, storesAgain := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t)
				ref := w.put("x")
				w.age()
				ctx, die := context.WithCancel(t.Context())
				ledger := &dyingLedger{Store: w.Store}
				setDeath(ledger, die)
				bucket, err := blob.Open(t.Context(), w.url, blob.WithLedger(ledger))
				require.NoError(t, err)
				defer bucket.Close()
				_, err = w.collector(bucket).Collect(ctx)
				require.Error(t, err)
				require.True(t, w.has(ref), "the object is not deleted yet")
				if storesAgain {
					require.Equal(t, ref, w.put("x"))
					w.collect()
					require.True(t, w.has(ref), "it was just stored")
				}
				w.collect()
				w.age()
				w.collect()
				require.Zero(t, w.objects()+w.count("blobs"))
			})
		}
	}
}

// failingBucket cannot remove some content.
type failingBucket struct {
	results.Bucket
	failing map[string]bool // by reference
}

func (b *failingBucket) Remove(ctx context.Context, tenant, ref string) error {
	if b.failing[ref] {
		return agent.Errorf(agent.CodeUnavailable, "", "try again")
	}
	return b.Bucket.Remove(ctx, tenant, ref)
}

func TestCollectContinuesAfterFailedRemovals(t *testing.T) {
	w := newWorld(t)
	bad, good := w.put("bad"), w.put("good")
	w.age()
	metrics := prometheus.NewRegistry()
	bucket := &failingBucket{Bucket: w.blobs, failing: map[string]bool{bad: true}}
	c := results.NewCollector(results.CollectorConfig{Ledger: w.Store, Bucket: bucket, Metrics: metrics})
	done, err := c.Collect(t.Context())
	require.NoError(t, err)
	require.Equal(t, results.Collected{Ran: true, Looked: 2, Removed: 1, Bytes: 4, Failed: 1}, done)
	require.False(t, w.has(good))
	_, err = c.Collect(t.Context())
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err), "nothing could be removed: %v", err)
	clear(bucket.failing)
	_, err = c.Collect(t.Context())
	require.NoError(t, err)
	require.NoError(t, testutil.GatherAndCompare(metrics, strings.NewReader(`
		# HELP blob_bytes_collected_total Uncompressed bytes of stored content that this process removed.
		# TYPE blob_bytes_collected_total counter
		blob_bytes_collected_total 7
		# HELP blob_collection_failures_total Removals and runs of the collection that failed in this process.
		# TYPE blob_collection_failures_total counter
		blob_collection_failures_total 3
		# HELP blobs_collected_total Stored content that this process removed because nothing referred to it.
		# TYPE blobs_collected_total counter
		blobs_collected_total 2
	`), "blob_bytes_collected_total", "blob_collection_failures_total", "blobs_collected_total"))
	n, err := testutil.GatherAndCount(metrics, "blob_collection_duration_seconds", "blobs_adopted_total")
	require.NoError(t, err)
	require.Equal(t, 2, n)
}

func TestRun(t *testing.T) {
	w := newWorld(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.collector(w.blobs).Run(ctx, 20*time.Millisecond)
	}()
	for range 2 { // it comes round again
		w.put("x")
		w.age()
		require.Eventually(t, func() bool { return w.objects() == 0 }, 20*time.Second, 10*time.Millisecond)
	}
	stop()
	<-ended
}
