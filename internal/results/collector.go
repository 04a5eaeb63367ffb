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

// Bounds of one run of the collection; what is left is for the next.
const (
	maxRunTime     = 10 * time.Minute
	maxPages       = 20      // of the bucket, looked through for content that the ledger does not know
	pageObjects    = 1000    // of a page
	maxLooked      = 100_000 // rows of the ledger
	lookedAtOnce   = 500
	removedAtOnce  = 8 // a removal is a few calls to the bucket
	maxExpired     = 10_000
	expiredAtOnce  = 500
	sweepAge       = 24 * time.Hour // far longer than any upload or removal takes
	firstRunWithin = time.Minute
)

// Ledger knows what content there is and who refers to it; postgres.Store does.
type Ledger interface {
	Collect(ctx context.Context, work func(ctx context.Context, c postgres.Collection) error) (ran bool, err error)
	ExpireCached(ctx context.Context, limit int) (int, error)
	Adopt(ctx context.Context, found []postgres.StoredBlob) (int, error)
	Listed(ctx context.Context, token []byte) error
	Unheld(ctx context.Context, last postgres.StoredBlob, limit int) (unheld []postgres.StoredBlob, looked int, next postgres.StoredBlob, err error)
	Looked(ctx context.Context, last postgres.StoredBlob) error
}

// Bucket is where the content is; a blob.Store with the ledger is, which asks that again before it removes anything.
type Bucket interface {
	Objects(ctx context.Context, token []byte, limit int) (page []blob.Object, next []byte, err error)
	Remove(ctx context.Context, tenant, ref string) error
	Sweep(ctx context.Context, before time.Time) (int, error)
}

// CollectorConfig is what [NewCollector] needs.
type CollectorConfig struct {
	Ledger  Ledger
	Bucket  Bucket
	Metrics prometheus.Registerer // nil: none are kept
	Logger  *zap.Logger           // nil discards
}

// Collector removes content that nobody refers to. Any number of processes may run one: they take turns.
type Collector struct {
	cfg     CollectorConfig
	metrics *metrics
}

// NewCollector returns a collector that does nothing yet.
func NewCollector(c CollectorConfig) *Collector {
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	return &Collector{cfg: c, metrics: newMetrics(c.Metrics)}
}

// Collected says what one run has done.
type Collected struct {
	Ran     bool  // false: another process collects, or it is too early after an update
	Expired int   // remembered results
	Adopted int   // content in the bucket that the ledger did not know
	Looked  int   // content that was looked at
	Removed int   // content
	Bytes   int64 // of it, uncompressed
	Failed  int   // removals; they come round again
	Swept   int   // left-overs of uploads and removals whose process died
}

// Run collects every so often, give or take a fifth, until ctx is done; the first time within a minute. What goes wrong is logged and
// counted, and the next run tries again.
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

// Collect is one bounded run. It goes on where the last one of any process stopped.
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

// expire lets go of what the cache held.
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

// adopt tells the ledger of content that it does not know: from before there was one, or left by a removal that died half-way.
func (c *Collector) adopt(ctx context.Context, at postgres.Collection, done *Collected) error {
	token := at.Listing
	for range maxPages {
		page, next, err := c.cfg.Bucket.Objects(ctx, token, pageObjects)
		if err != nil {
			if len(token) > 0 { // perhaps the bucket has forgotten the token, or is another one
				_ = c.cfg.Ledger.Listed(ctx, nil)
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
		if err := c.cfg.Ledger.Listed(ctx, next); err != nil || len(next) == 0 {
			return err
		}
		token = next
	}
	return nil
}

// remove looks through the ledger, to its end at most.
func (c *Collector) remove(ctx context.Context, at postgres.Collection, done *Collected) error {
	last := at.Last
	for done.Looked < maxLooked {
		unheld, looked, next, err := c.cfg.Ledger.Unheld(ctx, last, lookedAtOnce)
		if err != nil {
			return err
		}
		done.Looked += looked
		if err := c.removeAll(ctx, unheld, done); err != nil {
			return err
		}
		if looked < lookedAtOnce {
			return c.cfg.Ledger.Looked(ctx, postgres.StoredBlob{})
		}
		if err := c.cfg.Ledger.Looked(ctx, next); err != nil {
			return err
		}
		last = next
	}
	return nil
}

// removeAll removes what it can. One object that cannot be removed holds nobody up; when none can be, there is no point in going on.
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
			case agent.CodeOf(err) == agent.CodeConflict: // somebody has put it or refers to it since
			default:
				failed.Add(1)
				first.CompareAndSwap(nil, &err)
			}
			return nil
		})
	}
	_ = g.Wait() // none of them returns one
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
