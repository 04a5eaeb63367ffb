// Package redistier keeps plans in Redis, for processes that share them: a [plancache.Shared]. The keys are
// turnstone:plan:sha256:<hex>, the values the bytes of the plans.
package redistier

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/catalog/plancache"
)

const (
	prefix         = "turnstone:plan:"
	defaultTTL     = 24 * time.Hour
	defaultTimeout = 200 * time.Millisecond
)

// Config says where Redis is.
type Config struct {
	URL     string        // redis://user:password@host:6379/0, rediss:// for TLS, unix:///path/to/socket
	TTL     time.Duration // of a plan, from when it was written last; 0: 24 h
	Timeout time.Duration // to connect, to read, to write; 0: 200 ms
}

// Tier is a Redis database.
type Tier struct {
	client *redis.Client
	ttl    time.Duration
}

var _ plancache.Shared = (*Tier)(nil)

// New returns a tier that connects when it is first asked. Close it.
func New(cfg Config) (*Tier, error) {
	if cfg.TTL < 0 || cfg.Timeout < 0 {
		return nil, agent.Errorf(agent.CodeInvalid, "open Redis", "TTL and Timeout must not be negative")
	}
	if cfg.TTL == 0 {
		cfg.TTL = defaultTTL
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	options, err := redis.ParseURL(cfg.URL)
	if err != nil {
		if _, ok := errors.AsType[*url.Error](err); ok {
			err = errors.New("malformed URL") // the parser's own words may hold the password
		}
		return nil, agent.Errorf(agent.CodeInvalid, "open Redis", "%w", err)
	}
	options.DialTimeout, options.ReadTimeout, options.WriteTimeout = cfg.Timeout, cfg.Timeout, cfg.Timeout
	options.PoolTimeout = cfg.Timeout
	options.ContextTimeoutEnabled = true
	options.MaxRetries, options.DialerRetries = -1, 1 // who asks has a store to go to
	options.DisableIdentity = true
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return &Tier{client: redis.NewClient(options), ttl: cfg.TTL}, nil
}

// Get implements [plancache.Shared]. It never reads more than one byte beyond [plancache.MaxPlan], whatever the key holds.
func (t *Tier) Get(ctx context.Context, hash string) ([]byte, bool, error) {
	body, err := t.client.GetRange(ctx, prefix+hash, 0, plancache.MaxPlan).Bytes()
	switch {
	case redis.HasErrorPrefix(err, "WRONGTYPE"):
		return nil, true, nil // something is there, and it is no plan
	case err != nil:
		return nil, false, fmt.Errorf("get plan from Redis: %w", err)
	default:
		return body, len(body) > 0, nil
	}
}

// Set implements [plancache.Shared].
func (t *Tier) Set(ctx context.Context, hash string, body []byte) error {
	if err := t.client.Set(ctx, prefix+hash, body, t.ttl).Err(); err != nil {
		return fmt.Errorf("set plan in Redis: %w", err)
	}
	return nil
}

// Drop implements [plancache.Shared].
func (t *Tier) Drop(ctx context.Context, hash string) error {
	if err := t.client.Del(ctx, prefix+hash).Err(); err != nil {
		return fmt.Errorf("drop plan from Redis: %w", err)
	}
	return nil
}

// Close ends the connections.
func (t *Tier) Close() error { return t.client.Close() }
