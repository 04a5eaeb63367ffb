package plancache

import (
	"context"
	"time"

	"github.com/sony/gobreaker/v2"
	"go.uber.org/zap"
	"golang.org/x/time/rate"
)

const (
	maxFailures = 3               // in a row, after which the tier is not called
	pause       = 5 * time.Second // until one call tries again
	logInterval = 10 * time.Second
)

// guard calls a shared tier for as long as it answers. It logs errors and returns none, so that a lookup goes on without the tier.
type guard struct {
	shared  Shared
	timeout time.Duration
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
	logger  *zap.Logger
	log     rate.Sometimes
}

func newGuard(shared Shared, logger *zap.Logger) *guard {
	return &guard{
		shared: shared, timeout: sharedTimeout, logger: logger, log: rate.Sometimes{First: 1, Interval: logInterval},
		breaker: gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
			MaxRequests: 1, Timeout: pause,
			ReadyToTrip: func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= maxFailures },
		}),
	}
}

func (g *guard) get(ctx context.Context, hash string) (body []byte, found, answers bool) {
	answers = g.do(ctx, "get", func(ctx context.Context) (err error) {
		body, found, err = g.shared.Get(ctx, hash)
		return err
	})
	return body, found && answers, answers
}

func (g *guard) set(ctx context.Context, hash string, body []byte) {
	g.do(ctx, "set", func(ctx context.Context) error { return g.shared.Set(ctx, hash, body) })
}

func (g *guard) drop(ctx context.Context, hash string) (answers bool) {
	return g.do(ctx, "drop", func(ctx context.Context) error { return g.shared.Drop(ctx, hash) })
}

// do calls the tier and reports whether it answered. It does not call a tier that failed a moment ago.
func (g *guard) do(ctx context.Context, what string, call func(ctx context.Context) error) bool {
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
			g.logger.Warn("the shared tier of plans fails; plans come from the store", zap.String("call", what), zap.Error(err))
		})
	}
	return err == nil
}
