package devstack

import (
	"fmt"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// RedisConfig is the configuration of the Redis for jobs.
type RedisConfig struct {
	Port int // 0: any free port
}

// Redis is a small Redis server in this process, for trying out jobs. It keeps its data in memory.
type Redis struct {
	server *miniredis.Miniredis
	addr   string
	stop   func()
	done   sync.WaitGroup
}

// redisTick is the interval at which the time of the server advances, because miniredis has no clock.
const redisTick = 100 * time.Millisecond

// startRedis starts a Redis server. If the port is in use, it takes a free one, because many machines have a Redis already.
func startRedis(port int) (*Redis, error) {
	ports, err := ChoosePorts(true, Port{"Redis", port})
	if err != nil {
		return nil, err
	}
	r := &Redis{server: miniredis.NewMiniRedis()}
	if err := r.server.StartAddr(HostPort(ports[0])); err != nil {
		return nil, fmt.Errorf("start Redis: %w", err)
	}
	r.addr = r.server.Addr()
	ticker, stopped := time.NewTicker(redisTick), make(chan struct{})
	r.stop = sync.OnceFunc(func() {
		ticker.Stop()
		close(stopped)
		r.done.Wait()
		r.server.Close()
	})
	r.done.Go(func() {
		for {
			select {
			case <-stopped:
				return
			case <-ticker.C:
				r.server.FastForward(redisTick)
			}
		}
	})
	return r, nil
}

// URL returns the URL for clients, redis://127.0.0.1:port/0.
func (r *Redis) URL() string { return "redis://" + r.addr + "/0" }

// Close stops the server. Closing again does nothing.
func (r *Redis) Close() { r.stop() }
