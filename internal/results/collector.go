package results

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/blob"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

// Bounds of one run of the collection. The next run continues.
const (
	maxRunTime     = 10 * time.Minute
	maxPages       = 20      // of the bucket, searched for content that is not in the ledger
	pageObjects    = 1000    // of a page
	maxLooked      = 100_000 // rows of the ledger
	lookedAtOnce   = 500
	removedAtOnce  = 8 // a removal is a few calls to the bucket
	maxExpired     = 10_000
	expiredAtOnce  = 500
	sweepAge       = 24 * time.Hour // far longer than any upload or removal takes
	firstRunWithin = time.Minute
)

// Ledger has the stored content and who refers to it. postgres.ContentStore is one.
type Ledger interface {
	Collect(ctx context.Context, work func(ctx context.Context, c postgres.Collection) error) (ran bool, err error)
	ExpireCached(ctx context.Context, limit int) (int, error)
	Adopt(ctx context.Context, found []postgres.StoredBlob) (int, error)
	SaveListing(ctx context.Context, token []byte) error
	Unreferenced(ctx context.Context, last postgres.StoredBlob, limit int) (unheld []postgres.StoredBlob, looked int, next postgres.StoredBlob, err error)
	SaveLedgerPosition(ctx context.Context, last postgres.StoredBlob) error
}

// Bucket has the content. A blob.Store with the ledger is one; it asks the ledger again before it removes anything.
type Bucket interface {
	Objects(ctx context.Context, token []byte, limit int) (page []blob.Object, next []byte, err error)
	Remove(ctx context.Context, tenant, ref string) error
	Sweep(ctx context.Context, before time.Time) (int, error)
}

// CollectorConfig is what [NewCollector] needs.
type CollectorConfig struct {
	Ledger  Ledger
	Bucket  Bucket
	Metrics prometheus.Registerer // nil: no metrics
	Logger  *zap.Logger           // nil discards
}

// Collector removes content that nobody refers to. Any number of processes may run one; one at a time collects.
type Collector struct {
	cfg     CollectorConfig
	metrics *metrics
}

// NewCollector returns a collector.
func NewCollector(c CollectorConfig) *Collector {
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	return &Collector{cfg: c, metrics: newMetrics(c.Metrics)}
}

// Collected is what one run has done.
type Collected struct {
	Ran     bool  // false: another process collects, or it is too early after an update
	Expired int   // cached results
	Adopted int   // content in the bucket that was not in the ledger
	Looked  int   // rows of the ledger that were read
	Removed int   // content
	Bytes   int64 // of it, uncompressed
	Failed  int   // removals; a later run tries again
	Swept   int   // remains of uploads and removals whose process died
}

// Run collects at an interval, ± 20 %, until ctx ends; the first time within a minute. It logs and counts errors, and the next run tries
// again.
func (c *Collector) Run(ctx context.Context, every time.Duration) {
	wait := time.Duration(rand.Float64() * float64(min(every, firstRunWithin)))
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		done, err := c.Collect(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			c.cfg.Logger.Warn("collecting content", zap.Error(err), zap.Any("done", done))
		case done.Ran:
			c.cfg.Logger.Debug("collected content", zap.Any("done", done))
		}
		wait = time.Duration((0.8 + 0.4*rand.Float64()) * float64(every))
	}
}

// Collect does one bounded run. It continues where the last run of any process stopped.
func (c *Collector) Collect(ctx context.Context) (done Collected, err error) {
	ctx, cancel := context.WithTimeout(ctx, maxRunTime)
	defer cancel()
	started := time.Now()
	ran, err := c.cfg.Ledger.Collect(ctx, func(ctx context.Context, at postgres.Collection) error {
		if !at.Due {
			return nil
		}
		done.Ran = true
		var faults []error
		for _, stage := range []func(context.Context, postgres.Collection, *Collected) error{c.expire, c.adopt, c.remove, c.sweep} {
			if faults = append(faults, stage(ctx, at, &done)); ctx.Err() != nil {
				break
			}
		}
		return errors.Join(faults...)
	})
	if ran {
		c.metrics.ran(&done, time.Since(started), err)
	}
	return done, err
}

// expire removes cached results whose time is over.
func (c *Collector) expire(ctx context.Context, _ postgres.Collection, done *Collected) error {
	for done.Expired < maxExpired {
		n, err := c.cfg.Ledger.ExpireCached(ctx, expiredAtOnce)
		done.Expired += n
		if err != nil || n < expiredAtOnce {
			return err
		}
	}
	return nil
}

// adopt adds content to the ledger that is only in the bucket: it is older than the ledger, or its removal was interrupted.
func (c *Collector) adopt(ctx context.Context, at postgres.Collection, done *Collected) error {
	token := at.Listing
	for range maxPages {
		page, next, err := c.cfg.Bucket.Objects(ctx, token, pageObjects)
		if err != nil {
			if len(token) > 0 { // the token may have expired, or the bucket may be another one
				_ = c.cfg.Ledger.SaveListing(ctx, nil)
			}
			return err
		}
		found := make([]postgres.StoredBlob, len(page))
		for i, o := range page {
			found[i] = postgres.StoredBlob(o)
		}
		n, err := c.cfg.Ledger.Adopt(ctx, found)
		done.Adopted += n
		if err != nil {
			return err
		}
		if err := c.cfg.Ledger.SaveListing(ctx, next); err != nil || len(next) == 0 {
			return err
		}
		token = next
	}
	return nil
}

// remove removes content without references, in the order of the ledger, until the ledger ends or maxLooked rows were read.
func (c *Collector) remove(ctx context.Context, at postgres.Collection, done *Collected) error {
	last := at.Last
	for done.Looked < maxLooked {
		unheld, looked, next, err := c.cfg.Ledger.Unreferenced(ctx, last, lookedAtOnce)
		if err != nil {
			return err
		}
		done.Looked += looked
		if err := c.removeAll(ctx, unheld, done); err != nil {
			return err
		}
		if looked < lookedAtOnce {
			return c.cfg.Ledger.SaveLedgerPosition(ctx, postgres.StoredBlob{})
		}
		if err := c.cfg.Ledger.SaveLedgerPosition(ctx, next); err != nil {
			return err
		}
		last = next
	}
	return nil
}

// removeAll removes content. It continues if some objects cannot be removed, and fails if none can.
func (c *Collector) removeAll(ctx context.Context, unheld []postgres.StoredBlob, done *Collected) error {
	var (
		removed, failed, size atomic.Int64
		first                 atomic.Pointer[error]
		g                     errgroup.Group
	)
	g.SetLimit(removedAtOnce)
	for _, b := range unheld {
		g.Go(func() error {
			switch err := c.cfg.Bucket.Remove(ctx, b.Tenant, b.Ref); {
			case err == nil:
				removed.Add(1)
				size.Add(b.Bytes)
			case agent.CodeOf(err) == agent.CodeConflict: // somebody has stored it or referred to it since
			default:
				failed.Add(1)
				first.CompareAndSwap(nil, &err)
			}
			return nil
		})
	}
	_ = g.Wait() // no task returns an error
	done.Removed += int(removed.Load())
	done.Bytes += size.Load()
	done.Failed += int(failed.Load())
	if err := first.Load(); err != nil {
		if ctx.Err() != nil || failed.Load() == int64(len(unheld)) {
			return *err
		}
		c.cfg.Logger.Warn("removing content that nobody refers to", zap.Int64("failed", failed.Load()), zap.Error(*err))
	}
	return nil
}

func (c *Collector) sweep(ctx context.Context, _ postgres.Collection, done *Collected) (err error) {
	done.Swept, err = c.cfg.Bucket.Sweep(ctx, time.Now().Add(-sweepAge))
	return err
}
