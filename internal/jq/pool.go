package jq

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

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
// while another waits is paused until the others have had theirs. Semaphores serve in the order in which they were asked.
type pool struct {
	begun    *semaphore.Weighted // programs that have begun and not ended
	running  *semaphore.Weighted // the program that runs
	ready    atomic.Int32        // how many programs that have begun wait to run
	idleHeap atomic.Uint64       // bytes of the heap when the first of the programs came

	mu      sync.Mutex
	tenants map[string]*tenantShare
}

// tenantShare counts the programs of a tenant in a pool.
type tenantShare struct {
	turn           *semaphore.Weighted // of the tenant's programs, one has begun
	waiting, begun int
}

// poolPlace is the place of one program in a pool.
type poolPlace struct {
	pool   *pool
	tenant string
	share  *tenantShare
	since  time.Time // when it was last allowed to run
	slice  time.Duration
	ended  bool // the context ended while the program waited to run
}

func newPool() *pool {
	return &pool{begun: semaphore.NewWeighted(maxBegun), running: semaphore.NewWeighted(1), tenants: map[string]*tenantShare{}}
}

// enter waits until a program of a tenant may run. The caller calls release afterwards. The error is [agent.CodeRateLimited] when the
// tenant has too many programs or has to wait too long.
func (p *pool) enter(ctx context.Context, tenant string) (*poolPlace, error) {
	s := &poolPlace{pool: p, tenant: tenant, slice: timeSlice}
	if err := s.join(); err != nil {
		return nil, err
	}
	wait, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	if s.begin(wait) == nil {
		return s, nil
	}
	if err := agent.Interrupted(ctx, "run jq program"); err != nil {
		return nil, err
	}
	return nil, agent.FieldErrorf(agent.CodeRateLimited, field, "has waited %s for other jq programs to end; try again later", maxWait)
}

// join counts the program as waiting.
func (s *poolPlace) join() error {
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.tenants) == 0 {
		p.idleHeap.Store(heapBytes(newHeapSample()))
	}
	if s.share = p.tenants[s.tenant]; s.share == nil {
		s.share = &tenantShare{turn: semaphore.NewWeighted(1)}
		p.tenants[s.tenant] = s.share
	}
	if n := s.share.waiting; n == maxWaiting {
		return agent.FieldErrorf(agent.CodeRateLimited, field, "%d jq programs of the tenant wait already, at most %d; try again later", n, maxWaiting)
	}
	s.share.waiting++
	return nil
}

// begin waits until the program may run. If ctx ends before, the program is out of the pool.
func (s *poolPlace) begin(ctx context.Context) error {
	if err := s.share.turn.Acquire(ctx, 1); err != nil {
		s.count(-1, 0)
		return err
	}
	if err := s.pool.begun.Acquire(ctx, 1); err != nil {
		s.share.turn.Release(1)
		s.count(-1, 0)
		return err
	}
	s.count(-1, 1)
	if err := s.run(ctx); err != nil {
		s.release()
		return err
	}
	return nil
}

// run waits until no other program runs.
func (s *poolPlace) run(ctx context.Context) error {
	s.pool.ready.Add(1)
	defer s.pool.ready.Add(-1)
	err := s.pool.running.Acquire(ctx, 1)
	s.since, s.ended = time.Now(), err != nil
	return err
}

// release takes a program that has begun out of the pool.
func (s *poolPlace) release() {
	if !s.ended {
		s.pool.running.Release(1)
	}
	s.pool.begun.Release(1)
	s.share.turn.Release(1)
	s.count(0, -1)
}

// count adds to the numbers of the tenant's programs, and forgets a tenant without any.
func (s *poolPlace) count(waiting, begun int) {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	s.share.waiting += waiting
	s.share.begun += begun
	if s.share.waiting == 0 && s.share.begun == 0 {
		delete(s.pool.tenants, s.tenant)
	}
}

// isSliceOver reports whether the program has had its time slice and another one waits.
func (s *poolPlace) isSliceOver() bool {
	return !s.ended && s.pool.ready.Load() > 0 && time.Since(s.since) >= s.slice
}

// pause lets the others run and returns when it is this program's turn again, or when the context ends.
func (s *poolPlace) pause(ctx context.Context) {
	s.pool.running.Release(1)
	_ = s.run(ctx) // the meter sees that the context has ended
}
