package catalog

import (
	"context"
	"fmt"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/redis"
)

const (
	redisPrefix  = "turnstone:plan:" // of keys, before sha256:<hex>
	redisTTL     = 24 * time.Hour    // since the last write of a plan
	redisTimeout = 200 * time.Millisecond
)

// RedisPlans is a [SharedPlans] tier in a Redis database.
type RedisPlans struct {
	client *redis.Client
	ttl    time.Duration
}

// OpenRedisPlans returns a tier that connects on first use. The URL is redis://user:password@host:6379/0, rediss:// for TLS, or
// unix:///path/to/socket. The caller must close the tier.
func OpenRedisPlans(address string) (*RedisPlans, error) {
	return openRedisPlans(address, redisTTL, redisTimeout)
}

// openRedisPlans is [OpenRedisPlans] with a time to live of plans and a timeout of connects, reads and writes.
func openRedisPlans(address string, ttl, timeout time.Duration) (*RedisPlans, error) {
	options, err := redis.ParseURL(address)
	if err != nil {
		return nil, agent.Errorf(agent.CodeInvalid, "open Redis", "%w", err)
	}
	options.ConnectTimeout, options.ReadTimeout, options.WriteTimeout = timeout, timeout, timeout
	return &RedisPlans{client: redis.New(*options), ttl: ttl}, nil
}

// Get implements [SharedPlans]. It reads at most [maxStoredPlan]+1 bytes.
func (r *RedisPlans) Get(ctx context.Context, hash string) ([]byte, bool, error) {
	body, err := redis.Bytes(r.client.Do(ctx, "GETRANGE", redisPrefix+hash, 0, maxStoredPlan))
	switch {
	case redis.HasErrorPrefix(err, "WRONGTYPE"):
		return nil, true, nil // the key holds a value that is not a plan
	case err != nil:
		return nil, false, fmt.Errorf("get plan from Redis: %w", err)
	default:
		return body, len(body) > 0, nil
	}
}

// Set implements [SharedPlans].
func (r *RedisPlans) Set(ctx context.Context, hash string, body []byte) error {
	if _, err := r.client.Do(ctx, "SET", redisPrefix+hash, body, "PX", r.ttl.Milliseconds()); err != nil {
		return fmt.Errorf("set plan in Redis: %w", err)
	}
	return nil
}

// Drop implements [SharedPlans].
func (r *RedisPlans) Drop(ctx context.Context, hash string) error {
	if _, err := r.client.Do(ctx, "DEL", redisPrefix+hash); err != nil {
		return fmt.Errorf("drop plan from Redis: %w", err)
	}
	return nil
}

// Close ends the connections.
func (r *RedisPlans) Close() error { return r.client.Close() }
