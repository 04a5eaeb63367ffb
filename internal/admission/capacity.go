package admission

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// Bounds of the turns that one process lets start at the same time.
const (
	firstStarting = 32 // before anything is measured
	leastStarting = 8
	mostStarting  = 1024
	lowering      = 0.7             // of the bound, after a turn that began late
	raising       = 2               // of the bound, by as many turns in time as it is
	shortestRetry = time.Second     // of the times that refused callers are asked to wait;
	retrySpread   = 4 * time.Second // they differ by as much, so that not all come back together
)

var errOverloaded = errors.New("the server has as many turns to start as it can: nothing was started, try again later")

// Capacity bounds the turns that this process has accepted and that have not begun, by how long turns take to begin: the bound rises
// while they begin in time and falls when one does not. As many more wait for a place; all others are refused at once. The time of a turn
// counts from its arrival, its wait included.
type Capacity struct {
	within time.Duration

	mu       sync.Mutex
	starting int
	waiting  []chan struct{} // in order of arrival; closed when its turn has a place
	bound    float64
	lowered  time.Time // when the bound fell last; zero: it never did
}

// NewCapacity returns a Capacity that has turns begin within a time, nil (which accepts all) where that is 0.
func NewCapacity(within time.Duration) *Capacity {
	if within <= 0 {
		return nil
	}
	return &Capacity{within: within, bound: firstStarting}
}

// Enter takes a place for a turn that is to start. It waits for one for half the time in which a turn must begin, or until ctx ends, and refuses
// the turn with [agent.CodeUnavailable] and a RetryAfter if there is none by then, or if too many wait already. leave gives the place
// back, once; begun says that the turn has begun by now, so that the time which that took counts.
func (c *Capacity) Enter(ctx context.Context) (leave func(begun bool), err error) {
	if c == nil {
		return func(bool) {}, nil
	}
	arrived, place := time.Now(), make(chan struct{})
	c.mu.Lock()
	full := float64(len(c.waiting)) >= c.bound
	if !full {
		c.waiting = append(c.waiting, place)
		c.grant()
	}
	c.mu.Unlock()
	if full || !c.await(ctx, place) {
		return nil, &agent.Error{Code: agent.CodeUnavailable, RetryAfter: shortestRetry + rand.N(retrySpread), Err: errOverloaded}
	}
	entered := time.Now()
	return func(begun bool) { c.release(arrived, entered, begun) }, nil
}

// await reports whether a turn got its place in time.
func (c *Capacity) await(ctx context.Context, place chan struct{}) bool {
	patience := time.NewTimer(c.within / 2)
	defer patience.Stop()
	select {
	case <-place:
		return true
	case <-ctx.Done():
	case <-patience.C:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.waiting, place)
	if i >= 0 {
		c.waiting = slices.Delete(c.waiting, i, i+1)
	}
	return i < 0 // it was granted at the last moment
}

// grant gives free places to those that wait longest. The caller holds the lock.
func (c *Capacity) grant() {
	for len(c.waiting) > 0 && float64(c.starting+1) <= c.bound {
		close(c.waiting[0])
		c.waiting = c.waiting[1:]
		c.starting++
	}
}

func (c *Capacity) release(arrived, entered time.Time, begun bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.grant()
	starting := c.starting
	c.starting--
	switch late := time.Since(arrived) > c.within; {
	case !begun:
	case late && entered.After(c.lowered): // those that entered before say nothing of the bound as it is now
		c.bound, c.lowered = max(c.bound*lowering, leastStarting), time.Now()
	case late, float64(starting) < c.bound/2: // fewer turns came than the bound allows: it was not tried
	case c.lowered.IsZero():
		c.bound = min(c.bound+1, mostStarting)
	default:
		c.bound = min(c.bound+raising/c.bound, mostStarting)
	}
}
