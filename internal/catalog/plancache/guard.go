package plancache

import (
	"context"
	"time"

	"github.com/sony/gobreaker/v2"
	"go.uber.org/zap"
	"golang.org/x/time/rate"
)

const (
	failures    = 3               // in a row, after which the tier is not asked
	rest        = 5 * time.Second // for this long; then one call tries
	logInterval = 10 * time.Second
)

// guard keeps a shared tier that is slow or gone from being felt: no error leaves it.
type guard struct {
	shared  Shared
	timeout time.Duration
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
	logger  *zap.Logger
	log     rate.Sometimes
}

func newGuard(shared Shared, timeout time.Duration, logger *zap.Logger) *guard {
	return &guard{
		shared: shared, timeout: timeout, logger: logger, log: rate.Sometimes{First: 1, Interval: logInterval},
		breaker: gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
			MaxRequests: 1, Timeout: rest,
			ReadyToTrip: func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= failures },
		}),
	}
}

func (g *guard) get(ctx context.Context, hash string) (body []byte, found, answers bool) {
	answers = g.ask(ctx, "get", func(ctx context.Context) (err error) {
		body, found, err = g.shared.Get(ctx, hash)
		return err
	})
	return body, found && answers, answers
}

func (g *guard) set(ctx context.Context, hash string, body []byte) {
	g.ask(ctx, "set", func(ctx context.Context) error { return g.shared.Set(ctx, hash, body) })
}

func (g *guard) drop(ctx context.Context, hash string) (answers bool) {
	return g.ask(ctx, "drop", func(ctx context.Context) error { return g.shared.Drop(ctx, hash) })
}

// ask returns false when the tier failed, or is left alone because it did.
func (g *guard) ask(ctx context.Context, what string, call func(ctx context.Context) error) bool {
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
