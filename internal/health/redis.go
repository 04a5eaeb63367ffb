package health

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/redis"
)

// RedisProbe checks the Redis of jobs: whether it answers and accepts writes, and how many jobs wait. Everything but jobs runs without it. The
// client connects at the first call and stays.
func RedisProbe(redisURL, queue string) (Probe, error) {
	options, err := redis.ParseURL(redisURL)
	if err != nil { // whose text may quote the URL
		return Probe{}, agent.Invalid("jobs.redis_url", "is no URL of Redis")
	}
	options.PoolSize, options.IdleTimeout = 1, time.Minute
	c := redis.New(*options)
	return Probe{Name: Redis, Late: Degraded, Ask: func(ctx context.Context) (Finding, error) {
		waiting, err := redis.Int(c.Do(ctx, "LLEN", queue))
		if err != nil {
			return Finding{}, err
		}
		detail := fmt.Sprintf("%d jobs waiting in %q", waiting, queue)
		info, err := redis.String(c.Do(ctx, "INFO", "replication"))
		if err == nil && strings.Contains(info, "role:slave") {
			return Finding{Degraded, detail + "; it is a replica", hintReplica}, nil
		}
		return Finding{State: OK, Detail: detail}, nil // INFO may be forbidden
	}}, nil
}
