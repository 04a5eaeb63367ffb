package catalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/catalog/manifest"
)

// refreshTimeout bounds one refresh from the store.
const refreshTimeout = 30 * time.Second

// Config is what [New] needs.
type Config struct {
	Store   Store
	Plans   Plans
	Cache   PlanCacheConfig
	Routes  Routes
	Parts   *Parts
	Shipped []agent.ManifestFile // the documents that come with the product; may be empty
	Folder  bool                 // this process watches a folder; its documents can be edited only there
	Follow  bool                 // this process follows another installation; its documents can be edited only there
	Metrics prometheus.Registerer
	Logger  *zap.Logger
}

// Registry is the catalog of one process: activities resolve agents and routes; the API lists, watches and changes them. It is safe for
// concurrent use.
type Registry struct {
	cfg     Config
	base    map[agent.DocumentKey]*entry
	metrics *metrics
	cache   *planCache

	current    atomic.Pointer[snapshot]
	refreshing lock // while the next snapshot is built
	applying   lock // while the store is changed

	mu      sync.Mutex
	changed chan struct{} // closed and replaced whenever current is replaced
	status  agent.SourceStatus
	sources []func() agent.SourceStatus
}

// New returns a registry that serves the base layer; [Registry.Start] adds the stored documents.
func New(cfg Config) (*Registry, error) {
	if cfg.Store == nil || cfg.Plans == nil || cfg.Routes == nil || cfg.Parts == nil {
		return nil, errors.New("catalog: a port is missing")
	}
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	cfg.Parts.prepare()
	base, err := cfg.Parts.baseLayer(cfg.Shipped)
	if err != nil {
		return nil, err
	}
	counts := newMetrics(cfg.Metrics)
	cache, err := newPlanCache(cfg.Cache, cfg.Plans, cfg.Logger, counts.countLookup)
	if err != nil {
		return nil, err
	}
	r := &Registry{
		cfg: cfg, base: base, metrics: counts, cache: cache, refreshing: make(lock, 1), applying: make(lock, 1),
		changed: make(chan struct{}), status: agent.SourceStatus{Name: "store", Detail: "not read yet"},
	}
	s := r.baseSnapshot()
	if err := r.check(nil, s, slices.Collect(maps.Keys(base))).Err(); err != nil {
		return nil, fmt.Errorf("shipped catalog: %w", err)
	}
	r.current.Store(s)
	r.metrics.setGauges(s)
	return r, nil
}

// baseSnapshot returns a snapshot of the base layer.
func (r *Registry) baseSnapshot() *snapshot {
	s := &snapshot{docs: map[agent.DocumentKey]*entry{}, deleted: map[agent.DocumentKey]int64{}, artifacts: map[agentKey]agent.Artifact{}, loadedAt: time.Now()}
	for k, e := range r.base { // compiled plans belong to one snapshot
		s.set(k, e.clone())
	}
	s.routers = newRouters(s)
	return s
}

// WatchSource adds the status of a folder or a followed installation to [Registry.Status].
func (r *Registry) WatchSource(status func() agent.SourceStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sources = append(r.sources, status)
}

// Start loads the stored documents.
func (r *Registry) Start(ctx context.Context) error { return r.refresh(ctx) }

// Run keeps the catalog up to date until ctx ends. While the store is unavailable, it serves the last snapshot.
func (r *Registry) Run(ctx context.Context) {
	r.cfg.Store.ListenCatalog(ctx, func() {
		bounded, cancel := context.WithTimeout(ctx, refreshTimeout)
		defer cancel()
		if err := r.refresh(bounded); err != nil && ctx.Err() == nil {
			r.cfg.Logger.Warn("refresh catalog; serving what was loaded before", zap.Int64("revision", r.current.Load().revision), zap.Error(err))
		}
	})
}

// Follow calls changed after every change until ctx ends. Changes during a call cause one more call.
func (r *Registry) Follow(ctx context.Context, changed func()) {
	for {
		_, next := r.currentAndNext()
		select {
		case <-next:
			changed()
		case <-ctx.Done():
			return
		}
	}
}

// refresh replaces the snapshot with one of the store's newest revision.
func (r *Registry) refresh(ctx context.Context) (err error) {
	release, err := r.refreshing.acquire(ctx, "refresh catalog")
	if err != nil {
		return err
	}
	defer release()
	defer func(started time.Time) { r.recordRefresh(started, err) }(time.Now())
	s := r.current.Load()
	state, err := r.cfg.Store.CatalogSince(ctx, s.revision)
	if err != nil {
		return err
	}
	switch {
	case state.Revision == s.revision:
		return nil
	case state.Revision < s.revision || state.Oldest > s.revision: // another database, or this process has missed tombstones
		if state, err = r.cfg.Store.LoadCatalog(ctx); err != nil {
			return err
		}
		s = r.baseSnapshot()
	}
	started := time.Now()
	next := s.next(r.base, r.decodeChange(&state))
	r.swap(next)
	r.metrics.reload.Observe(time.Since(started).Seconds())
	r.metrics.setGauges(next)
	r.cfg.Logger.Info("catalog loaded", zap.Int64("revision", next.revision), zap.Int("documents", len(state.Documents)),
		zap.Duration("took", time.Since(started)))
	return nil
}

// decodeChange decodes documents of the store. A document that this process cannot read, for example one of a newer release, is a fault
// and leaves the previous document in place.
func (r *Registry) decodeChange(state *agent.CatalogState) *change {
	c := &change{
		revision: state.Revision, oldest: state.Oldest, deleted: map[agent.DocumentKey]int64{}, artifacts: state.Artifacts,
		faults: map[agent.DocumentKey]agent.Fault{},
	}
	for i := range state.Documents {
		d := &state.Documents[i]
		if d.Deleted {
			c.deleted[d.DocumentKey] = d.Revision
			continue
		}
		parsed, err := manifest.Decode(*d)
		if err != nil {
			_, message := fieldOf(err)
			c.faults[d.DocumentKey] = agent.Fault{Document: d.String(), Message: message}
			continue
		}
		c.put = append(c.put, &entry{doc: *d, parsed: parsed})
	}
	return c
}

func (r *Registry) swap(next *snapshot) {
	r.current.Store(next)
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.changed)
	r.changed = make(chan struct{})
}

// currentAndNext returns the snapshot and a channel that is closed when a newer snapshot replaces it.
func (r *Registry) currentAndNext() (*snapshot, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current.Load(), r.changed
}

// recordRefresh sets the status of the store after a refresh.
func (r *Registry) recordRefresh(started time.Time, err error) {
	s := r.current.Load()
	status := agent.SourceStatus{Name: "store", OK: true, At: started, Detail: fmt.Sprintf("revision %d", s.revision)}
	for _, k := range slices.SortedFunc(maps.Keys(s.faults), compareKeys) {
		status.Faults = append(status.Faults, s.faults[k])
	}
	switch {
	case err != nil:
		r.metrics.failures.Inc()
		status.OK, status.Detail = false, fmt.Sprintf("serving revision %d: %s", s.revision, err)
	case len(s.faults) > 0:
		status.OK, status.Detail = false, fmt.Sprintf("revision %d without %d documents that this build cannot read", s.revision, len(s.faults))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

// Status returns the served revision, the state of each source, and the faults that keep newer documents from being served.
func (r *Registry) Status(context.Context) agent.CatalogStatus {
	s := r.current.Load()
	out := agent.CatalogStatus{Revision: s.revision, LoadedAt: s.loadedAt, Counts: map[agent.Kind]int{}}
	for k := range s.docs {
		out.Counts[k.Kind]++
	}
	r.mu.Lock()
	store, sources := r.status, slices.Clone(r.sources)
	r.mu.Unlock()
	out.Sources = []agent.SourceStatus{store}
	for _, status := range sources {
		out.Sources = append(out.Sources, status())
	}
	for i := range out.Sources {
		if out.Sources[i].Faults == nil {
			out.Sources[i].Faults = agent.Faults{}
		}
	}
	return out
}
