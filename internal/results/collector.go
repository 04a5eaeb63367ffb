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

// Limits of one run. The next run continues.
const (
	maxRunTime       = 10 * time.Minute
	maxPages         = 20      // pages of the bucket that are searched for content that is not in the ledger
	objectsPerPage   = 1000    // in the bucket
	maxLooked        = 100_000 // rows of the ledger
	lookBatch        = 500
	parallelRemovals = 8 // each makes a few calls to the bucket
	maxExpired       = 10_000
	expireBatch      = 500
	sweepAge         = 24 * time.Hour // far longer than any upload or removal takes
	firstRunWithin   = time.Minute
)

// Ledger stores which content exists, and the references to it. postgres.ContentStore implements it.
type Ledger interface {
	Collect(ctx context.Context, work func(ctx context.Context, c postgres.Collection) error) (ran bool, err error)
	ExpireCached(ctx context.Context, limit int) (int, error)
	Adopt(ctx context.Context, found []postgres.StoredBlob) (int, error)
	SaveListing(ctx context.Context, token []byte) error
	Unreferenced(ctx context.Context, last postgres.StoredBlob, limit int) (unheld []postgres.StoredBlob, looked int, next postgres.StoredBlob, err error)
	SaveLedgerPosition(ctx context.Context, last postgres.StoredBlob) error
}

// Bucket stores the content. A blob.Store with the ledger implements it, and checks the ledger again before it removes anything.
type Bucket interface {
	Objects(ctx context.Context, token []byte, limit int) (page []blob.Object, next []byte, err error)
	Remove(ctx context.Context, tenant, ref string) error
	Sweep(ctx context.Context, before time.Time) (int, error)
}

// CollectorConfig is the configuration of [NewCollector].
type CollectorConfig struct {
	Ledger  Ledger
	Bucket  Bucket
	Metrics prometheus.Registerer // nil: no metrics
	Logger  *zap.Logger           // nil: no log
}

// Collector removes content without references. Several processes may run a collector, but only one collects at a time.
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

// Collected counts what one run has done.
type Collected struct {
	Ran     bool  // false if another process collects, or if it is too early after an update
	Expired int   // cached results that have expired
	Adopted int   // objects in the bucket that were not in the ledger
	Looked  int   // rows of the ledger that were read
	Removed int   // objects that were removed
	Bytes   int64 // their size, uncompressed
	Failed  int   // removals that failed; a later run tries again
	Swept   int   // remains of uploads and removals whose process has died
}

// Run collects at an interval, ± 20 %, until ctx ends. The first run is within a minute. Errors are logged and counted, and the next run tries again.
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

// Collect does one run of limited length. It continues where the last run of any process stopped.
func (c *Collector) Collect(ctx context.Context) (done Collected, err error) {
	ctx, cancel := context.WithTimeout(ctx, maxRunTime)
	defer cancel()
	start := time.Now()
	ran, err := c.cfg.Ledger.Collect(ctx, func(ctx context.Context, from postgres.Collection) error {
		if !from.Due {
			return nil
		}
		done.Ran = true
		var errs []error
		for _, stage := range []func(context.Context, postgres.Collection, *Collected) error{c.expire, c.adopt, c.remove, c.sweep} {
			if errs = append(errs, stage(ctx, from, &done)); ctx.Err() != nil {
				break
			}
		}
		return errors.Join(errs...)
	})
	if ran {
		c.metrics.addRun(&done, time.Since(start), err)
	}
	return done, err
}

// expire removes cached results that have expired.
func (c *Collector) expire(ctx context.Context, _ postgres.Collection, done *Collected) error {
	for done.Expired < maxExpired {
		n, err := c.cfg.Ledger.ExpireCached(ctx, expireBatch)
		done.Expired += n
		if err != nil || n < expireBatch {
			return err
		}
	}
	return nil
}

// adopt adds content to the ledger that is only in the bucket, because it is older than the ledger or its removal was interrupted.
func (c *Collector) adopt(ctx context.Context, from postgres.Collection, done *Collected) error {
	token := from.Listing
	for range maxPages {
		page, next, err := c.cfg.Bucket.Objects(ctx, token, objectsPerPage)
		if err != nil {
			if len(token) > 0 { // the token may have expired, or may be of another bucket
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

// remove removes content without references, in the order of the ledger, up to its end or until maxLooked rows were read.
func (c *Collector) remove(ctx context.Context, from postgres.Collection, done *Collected) error {
	last := from.Last
	for done.Looked < maxLooked {
		unreferenced, looked, next, err := c.cfg.Ledger.Unreferenced(ctx, last, lookBatch)
		if err != nil {
			return err
		}
		done.Looked += looked
		if err := c.removeAll(ctx, unreferenced, done); err != nil {
			return err
		}
		if looked < lookBatch {
			return c.cfg.Ledger.SaveLedgerPosition(ctx, postgres.StoredBlob{})
		}
		if err := c.cfg.Ledger.SaveLedgerPosition(ctx, next); err != nil {
			return err
		}
		last = next
	}
	return nil
}

// removeAll removes content. It returns an error only if nothing could be removed or ctx has ended, and logs other errors.
func (c *Collector) removeAll(ctx context.Context, unreferenced []postgres.StoredBlob, done *Collected) error {
	var (
		removed, failed, size atomic.Int64
		firstErr              atomic.Pointer[error]
		g                     errgroup.Group
	)
	g.SetLimit(parallelRemovals)
	for _, b := range unreferenced {
		g.Go(func() error {
			switch err := c.cfg.Bucket.Remove(ctx, b.Tenant, b.Ref); {
			case err == nil:
				removed.Add(1)
				size.Add(b.Bytes)
			case agent.CodeOf(err) == agent.CodeConflict: // it was stored again or referred to meanwhile
			default:
				failed.Add(1)
				firstErr.CompareAndSwap(nil, &err)
			}
			return nil
		})
	}
	_ = g.Wait() // no task returns an error
	done.Removed += int(removed.Load())
	done.Bytes += size.Load()
	done.Failed += int(failed.Load())
	if err := firstErr.Load(); err != nil {
		if ctx.Err() != nil || failed.Load() == int64(len(unreferenced)) {
			return *err
		}
		c.cfg.Logger.Warn("remove content without references", zap.Int64("failed", failed.Load()), zap.Error(*err))
	}
	return nil
}

// sweep removes the remains of old uploads and removals.
func (c *Collector) sweep(ctx context.Context, _ postgres.Collection, done *Collected) (err error) {
	done.Swept, err = c.cfg.Bucket.Sweep(ctx, time.Now().Add(-sweepAge))
	return err
}
