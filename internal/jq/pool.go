package jq

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// The bounds of all programs of a process together.
const (
	timeSlice  = 10 * time.Millisecond // how long a program runs while others wait
	maxBegun   = 8                     // programs that have begun and not ended, one of each tenant
	maxWaiting = 32                    // programs of one tenant that wait to begin
	maxWait    = 30 * time.Second      // how long a program waits to begin
)

// processor is the pool of all programs of the process.
//
//nolint:gochecknoglobals // one per process is the purpose: the meter reads the heap of the process
var processor = newPool()

// pool lets one program run at a time. Tenants take turns: each has one program that has begun, and a program that has run for a slice
// while another waits is paused until the others have had theirs.
type pool struct {
	contended atomic.Bool   // a program that has begun waits to run
	idleHeap  atomic.Uint64 // bytes of the heap when the first of the programs began

	mu      sync.Mutex
	running *poolPlace
	begun   int
	ready   []*poolPlace // begun and paused, in the order in which they go on
	waiting []*poolPlace // not begun, in the order in which they came
	tenants map[string]*tenantShare
	round   int64 // counts the programs that have begun
}

// tenantShare counts the programs of a tenant in a pool.
type tenantShare struct {
	begun   bool
	waiting int
	round   int64 // when its last program began
}

// poolPlace is the place of one program in a pool.
type poolPlace struct {
	pool   *pool
	tenant string
	turn   chan struct{} // receives when the program may run
	since  time.Time     // when it was last allowed to run
	slice  time.Duration
	ended  bool // the context ended while the program was paused
}

func newPool() *pool { return &pool{tenants: map[string]*tenantShare{}} }

// enter waits until a program of a tenant may run. The caller calls release afterwards. The error is [agent.CodeRateLimited] when the
// tenant has too many programs or has to wait too long.
func (p *pool) enter(ctx context.Context, tenant string) (*poolPlace, error) {
	s := &poolPlace{pool: p, tenant: tenant, turn: make(chan struct{}, 1), slice: timeSlice}
	if err := p.queue(s); err != nil {
		return nil, err
	}
	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	select {
	case <-s.turn:
		s.since = time.Now()
		return s, nil
	case <-ctx.Done():
		s.release()
		return nil, agent.Interrupted(ctx, "run jq program")
	case <-timer.C:
		s.release()
		return nil, agent.FieldErrorf(agent.CodeRateLimited, field, "has waited %s for other jq programs to end; try again later", maxWait)
	}
}

func (p *pool) queue(s *poolPlace) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	share := p.tenants[s.tenant]
	if share == nil {
		share = &tenantShare{round: p.round}
		p.tenants[s.tenant] = share
	}
	if p.begun == 0 {
		p.idleHeap.Store(heapBytes(newHeapSample()))
	}
	if share.waiting == maxWaiting {
		return agent.FieldErrorf(agent.CodeRateLimited, field, "%d jq programs of the tenant wait already, at most %d; try again later", share.waiting, maxWaiting)
	}
	share.waiting++
	p.waiting = append(p.waiting, s)
	p.assign()
	return nil
}

// assign begins waiting programs while there is room, and lets one run if none does. The caller holds the lock.
func (p *pool) assign() {
	for p.begun < maxBegun {
		i := p.nextToBegin()
		if i < 0 {
			break
		}
		s := p.waiting[i]
		p.waiting = slices.Delete(p.waiting, i, i+1)
		p.round++
		share := p.tenants[s.tenant]
		share.begun, share.round = true, p.round
		share.waiting--
		p.begun++
		p.ready = append(p.ready, s)
	}
	if p.running == nil && len(p.ready) > 0 {
		p.running, p.ready = p.ready[0], p.ready[1:]
		p.running.turn <- struct{}{}
	}
	p.contended.Store(len(p.ready) > 0)
}

// nextToBegin returns the index of the waiting program whose tenant has waited longest, -1 if none may begin.
func (p *pool) nextToBegin() int {
	best := -1
	for i, s := range p.waiting {
		share := p.tenants[s.tenant]
		if !share.begun && (best < 0 || share.round < p.tenants[p.waiting[best].tenant].round) {
			best = i
		}
	}
	return best
}

// release takes the program out of the pool, whether it ran, was paused or had not begun.
func (s *poolPlace) release() {
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	share := p.tenants[s.tenant]
	if i := slices.Index(p.waiting, s); i >= 0 {
		p.waiting = slices.Delete(p.waiting, i, i+1)
		share.waiting--
	} else {
		p.ready = slices.DeleteFunc(p.ready, func(other *poolPlace) bool { return other == s })
		if p.running == s {
			p.running = nil
		}
		share.begun = false
		p.begun--
	}
	if !share.begun && share.waiting == 0 {
		delete(p.tenants, s.tenant)
	}
	p.assign()
}

// isSliceOver reports whether the program has had its time slice and another one waits.
func (s *poolPlace) isSliceOver() bool {
	return !s.ended && s.pool.contended.Load() && time.Since(s.since) >= s.slice
}

// pause lets the others run and returns when it is this program's turn again, or when the context ends.
func (s *poolPlace) pause(ctx context.Context) {
	p := s.pool
	p.mu.Lock()
	p.running = nil
	p.ready = append(p.ready, s)
	p.assign()
	p.mu.Unlock()
	select {
	case <-s.turn:
	case <-ctx.Done():
		s.ended = true
	}
	s.since = time.Now()
}
