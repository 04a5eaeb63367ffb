package catalog

import (
	"context"
	"time"

	"github.com/sony/gobreaker/v2"
	"go.uber.org/zap"
	"golang.org/x/time/rate"
)

const (
	maxGuardFailures = 3               // consecutive failures after which the tier is not called
	guardPause       = 5 * time.Second // until one call tries the tier again
	guardLogInterval = 10 * time.Second
)

// sharedGuard calls a shared tier while it works. It logs errors instead of returning them, because lookups can do without the tier.
type sharedGuard struct {
	shared  SharedPlans
	timeout time.Duration
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
	logger  *zap.Logger
	log     rate.Sometimes
}

func newSharedGuard(shared SharedPlans, logger *zap.Logger) *sharedGuard {
	return &sharedGuard{
		shared: shared, timeout: sharedTimeout, logger: logger, log: rate.Sometimes{First: 1, Interval: guardLogInterval},
		breaker: gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
			MaxRequests: 1, Timeout: guardPause,
			ReadyToTrip: func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= maxGuardFailures },
		}),
	}
}

// get returns the bytes of a hash, whether they were found, and whether the tier works.
func (g *sharedGuard) get(ctx context.Context, hash string) (body []byte, found, works bool) {
	works = g.do(ctx, "get", func(ctx context.Context) (err error) {
		body, found, err = g.shared.Get(ctx, hash)
		return err
	})
	return body, found && works, works
}

func (g *sharedGuard) set(ctx context.Context, hash string, body []byte) {
	g.do(ctx, "set", func(ctx context.Context) error { return g.shared.Set(ctx, hash, body) })
}

// drop deletes the bytes of a hash and reports whether the tier works.
func (g *sharedGuard) drop(ctx context.Context, hash string) (works bool) {
	return g.do(ctx, "drop", func(ctx context.Context) error { return g.shared.Drop(ctx, hash) })
}

// do calls the tier and reports whether the call succeeded. It does not call a tier that has just failed repeatedly.
func (g *sharedGuard) do(ctx context.Context, method string, call func(ctx context.Context) error) bool {
	done, err := g.breaker.Allow()
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	err = call(ctx)
	done(err)
	if err != nil {
		g.log.Do(func() {
			g.logger.Warn("the shared tier of plans fails; plans come from the store", zap.String("call", method), zap.Error(err))
		})
	}
	return err == nil
}
