// Package audit stores the audit trail. It queues records without blocking the caller, stores them in batches, and removes old ones.
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
	// ExpireAudit removes at most limit records from before a time, and returns how many.
	ExpireAudit(ctx context.Context, before time.Time, limit int) (int, error)
}

// Config is the configuration of [New].
type Config struct {
	Store  Store // required
	Logger *zap.Logger
	Keep   time.Duration // how long records are kept; 0: without end

	// Only tests set these.
	Queue int // maximum of queued records; 0: 10,000
	Batch int // records in a batch; 0: 200
}

// When the trail writes and removes records.
const (
	batchEvery = 500 * time.Millisecond
	sweepEvery = time.Hour
	minRetry   = time.Second // pause before a failed batch is tried again, which doubles each time
	maxRetry   = 30 * time.Second
)

// Bounds of one record and of one call of the store.
const (
	maxText     = 512
	maxDetail   = 4 << 10
	callTimeout = 10 * time.Second
	sweepBatch  = 5000
	sweepCalls  = 200 // calls of one sweep; the next sweep continues
)

// Trail is the audit trail. The caller must close it.
type Trail struct {
	cfg Config

	queue chan agent.AuditRecord

	mu       sync.Mutex
	isClosed bool
	dropped  int64 // since the last call of takeDropped

	stop   chan struct{}
	cancel context.CancelFunc // cancels calls of the store
	done   chan struct{}
}

// New returns a trail, which runs until Close.
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

// Record queues a record. It never blocks: if the queue is full, it drops the record, and the number of dropped records is logged.
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
	if t.isClosed {
		t.dropped++
		return
	}
	select {
	case t.queue <- r:
	default:
		t.dropped++
	}
}

// List returns a page of the stored records, newest first. Records of the last second may not be stored yet.
func (t *Trail) List(ctx context.Context, q agent.AuditQuery) (agent.AuditPage, error) {
	return t.cfg.Store.ListAudit(ctx, q)
}

// Close stores the queued records until ctx ends. It returns an error if some were not stored. Later records are dropped.
func (t *Trail) Close(ctx context.Context) error {
	t.mu.Lock()
	if !t.isClosed {
		t.isClosed = true
		close(t.stop)
	}
	t.mu.Unlock()
	defer context.AfterFunc(ctx, t.cancel)()
	<-t.done
	t.cancel()
	if n := t.takeDropped(); n > 0 {
		return fmt.Errorf("%d audit records were not stored", n)
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
