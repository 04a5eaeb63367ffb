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
	minStarting   = 8
	maxStarting   = 1024
	firstWaiting  = 256             // turns that may wait for a place before anything is measured
	paceWeight    = 0.1             // of the newest measurement in the pace
	lowering      = 0.7             // factor of the bound after a turn that began late
	raising       = 2               // how much the bound rises while as many turns as it allows begin in time
	minRetry      = time.Second     // of the time that a refused caller is asked to wait
	retrySpread   = 4 * time.Second // random part of that time, so that callers do not come back together
)

var errOverloaded = errors.New("the server has as many turns to start as it can: nothing was started, try again later")

// Capacity bounds the turns that this process has accepted and that have not begun. The bound rises while turns begin in time, and falls
// when one does not; the time of a turn counts from its arrival. As many turns more may wait for a place as the bound allows, or as get one
// within half the time in which a turn must begin, at the pace of the last ones. All others are refused at once.
type Capacity struct {
	within time.Duration

	mu       sync.Mutex
	starting int
	waiting  []chan struct{} // in order of arrival; closed when its turn has a place
	bound    float64
	lowered  time.Time     // when the bound fell last; zero: it never did
	pace     time.Duration // between two places that were freed while turns waited; 0: not measured
	freed    time.Time     // when a place was freed last while turns waited; zero: none waited then
}

// NewCapacity returns a Capacity for turns that must begin within a time. For 0 it returns nil, which accepts all turns.
func NewCapacity(within time.Duration) *Capacity {
	if within <= 0 {
		return nil
	}
	return &Capacity{within: within, bound: firstStarting}
}

// Enter takes a place for a turn. It waits at most half the time in which a turn must begin, and refuses the turn with [agent.CodeUnavailable]
// and a RetryAfter if no place is free by then, or if too many turns wait already. leave frees the place and must be called once; begun
// reports whether the turn has begun, so that its time counts.
func (c *Capacity) Enter(ctx context.Context) (leave func(begun bool), err error) {
	if c == nil {
		return func(bool) {}, nil
	}
	arrived, place := time.Now(), make(chan struct{})
	c.mu.Lock()
	full := !c.hasRoomToWait()
	if !full {
		c.waiting = append(c.waiting, place)
		c.grant()
	}
	c.mu.Unlock()
	if full || !c.await(ctx, place) {
		return nil, &agent.Error{Code: agent.CodeUnavailable, RetryAfter: minRetry + rand.N(retrySpread), Err: errOverloaded}
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

// hasRoomToWait reports whether one more turn may wait for a place. The caller holds the lock.
func (c *Capacity) hasRoomToWait() bool {
	n := len(c.waiting)
	switch {
	case float64(n) < c.bound:
		return true
	case c.pace == 0:
		return n < firstWaiting
	default:
		return time.Duration(n+1)*c.pace <= c.within/2
	}
}

// measurePace takes note of a place that was freed. The caller holds the lock.
func (c *Capacity) measurePace(now time.Time) {
	last := c.freed
	c.freed = time.Time{}
	if len(c.waiting) == 0 {
		return
	}
	c.freed = now
	switch took := now.Sub(last); {
	case last.IsZero():
	case c.pace == 0:
		c.pace = took
	default:
		c.pace += time.Duration(paceWeight * float64(took-c.pace))
	}
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
	c.measurePace(time.Now())
	starting := c.starting
	c.starting--
	switch late := time.Since(arrived) > c.within; {
	case !begun:
	case late && entered.After(c.lowered): // those that entered before say nothing of the bound as it is now
		c.bound, c.lowered = max(c.bound*lowering, minStarting), time.Now()
	case late, float64(starting) < c.bound/2: // fewer turns came than the bound allows: it was not tried
	case c.lowered.IsZero():
		c.bound = min(c.bound+1, maxStarting)
	default:
		c.bound = min(c.bound+raising/c.bound, maxStarting)
	}
}
