// Package audit keeps the audit trail: records are taken without waiting, stored in batches, and removed when they are old.
package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

// Store keeps the records.
type Store interface {
	// AppendAudit stores records, all or none.
	AppendAudit(ctx context.Context, records []agent.AuditRecord) error
	// ListAudit returns a page, newest first.
	ListAudit(ctx context.Context, q agent.AuditQuery) (agent.AuditPage, error)
	// ExpireAudit removes at most limit records from before a time, and says how many.
	ExpireAudit(ctx context.Context, before time.Time, limit int) (int, error)
}

// Config is what [New] needs.
type Config struct {
	Store  Store // required
	Logger *zap.Logger
	Keep   time.Duration // records older than that are removed; 0: none is

	// For tests; 0 is the default.
	Queue int // records that wait: 10,000
	Batch int // records in a batch: 200
}

// When the trail writes and removes records.
const (
	batchEvery = 500 * time.Millisecond
	sweepEvery = time.Hour
	minRetry   = time.Second // until a failed batch is tried again; twice as long each time
	maxRetry   = 30 * time.Second
)

// Bounds of one record and of one call of the store.
const (
	maxText     = 512
	maxDetail   = 4 << 10
	callTimeout = 10 * time.Second
	sweepBatch  = 5000
	sweepCalls  = 200 // of one sweep: the rest is for the next
)

// Trail takes records. Close it.
type Trail struct {
	cfg Config

	queue chan agent.AuditRecord

	mu      sync.Mutex
	closed  bool
	dropped int64 // since it was last said

	stop   chan struct{}
	cancel context.CancelFunc // of the calls under way
	done   chan struct{}
}

// New makes a trail; it runs until Close.
func New(cfg Config) (*Trail, error) {
	if cfg.Store == nil {
		return nil, errors.New("configure audit: the store is missing")
	}
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	cfg.Queue, cfg.Batch = cmp.Or(cfg.Queue, 10_000), cmp.Or(cfg.Batch, 200)
	ctx, cancel := context.WithCancel(context.Background())
	t := &Trail{
		cfg: cfg, queue: make(chan agent.AuditRecord, cfg.Queue), stop: make(chan struct{}), cancel: cancel, done: make(chan struct{}),
	}
	go t.run(ctx)
	return t, nil
}

// Record takes a record and never waits. If the queue is full, the record is dropped, counted and logged.
func (t *Trail) Record(r agent.AuditRecord) {
	if r.At.IsZero() {
		r.At = time.Now()
	}
	r.At = r.At.UTC()
	for _, text := range []*string{&r.Tenant, &r.Subject, &r.Method, &r.Credential, &r.Resource, &r.Channel, &r.RequestID, &r.Remote} {
		*text = cleanText(*text)
	}
	if len(r.Detail) > maxDetail {
		r.Detail = []byte(`{"truncated":true}`)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		t.dropped++
		return
	}
	select {
	case t.queue <- r:
	default:
		t.dropped++
	}
}

// List returns a page of what is stored, newest first; what came within the last second may be missing.
func (t *Trail) List(ctx context.Context, q agent.AuditQuery) (agent.AuditPage, error) {
	return t.cfg.Store.ListAudit(ctx, q)
}

// Close stores what is queued, as long as ctx lasts. Records behind it are dropped.
func (t *Trail) Close(ctx context.Context) error {
	t.mu.Lock()
	if !t.closed {
		t.closed = true
		close(t.stop)
	}
	t.mu.Unlock()
	cut := context.AfterFunc(ctx, t.cancel)
	defer cut()
	<-t.done
	t.cancel()
	if left := t.takeDropped(); left > 0 {
		return fmt.Errorf("%d audit records were not stored", left)
	}
	return nil
}

// takeDropped returns the number of records that were dropped since its last call.
func (t *Trail) takeDropped() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.dropped
	t.dropped = 0
	return n
}

func (t *Trail) drop(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dropped += int64(n)
}
