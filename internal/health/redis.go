package health

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/turnstone-run/turnstone/agent"
)

// RedisProbe checks the Redis of jobs: whether it answers and accepts writes, and how many jobs wait. Everything but jobs runs without it. The
// client connects at the first call and stays.
func RedisProbe(redisURL, queue string) (Probe, error) {
	options, err := redis.ParseURL(redisURL)
	if err != nil { // whose text may quote the URL
		return Probe{}, agent.Invalid("jobs.redis_url", "is no URL of Redis")
	}
	options.PoolSize, options.MaxRetries, options.ConnMaxIdleTime = 1, -1, time.Minute
	c := redis.NewClient(options)
	return Probe{Name: Redis, Late: Degraded, Ask: func(ctx context.Context) (Finding, error) {
		waiting, err := c.LLen(ctx, queue).Result()
		if err != nil {
			return Finding{}, err
		}
		detail := fmt.Sprintf("%d jobs waiting in %q", waiting, queue)
		info, err := c.Info(ctx, "replication").Result()
		if err == nil && strings.Contains(info, "role:slave") {
			return Finding{Degraded, detail + "; it is a replica", hintReplica}, nil
		}
		return Finding{State: OK, Detail: detail}, nil // INFO may be forbidden
	}}, nil
}
