package jq

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// Limits of all programs of a process.
const (
	maxRunning = 4                // programs that run at a time, each of another tenant; each may use half a gigabyte
	maxWaiting = 32               // programs of one tenant that wait to run
	maxWait    = 30 * time.Second // how long a program waits to run
)

// programs is the pool of all programs of this process.
//
//nolint:gochecknoglobals // the limits apply to the process
var programs = newPool()

// pool limits how many programs run at a time. The tenant whose last program began longest ago runs next.
type pool struct {
	mu      sync.Mutex
	running int
	waiting []*poolPlace // in the order of arrival
	tenants map[string]*tenantShare
	round   int64 // number of programs that have begun
}

// tenantShare counts the programs of a tenant in a pool.
type tenantShare struct {
	isRunning bool
	waiting   int
	round     int64 // the pool's round when the tenant's last program began
}

// poolPlace is one program in a pool, which waits or runs.
type poolPlace struct {
	pool   *pool
	tenant string
	mayRun chan struct{} // receives a value when the program may run
}

func newPool() *pool { return &pool{tenants: map[string]*tenantShare{}} }

// enter waits until a program of a tenant may run. The caller must call release afterwards. The error is [agent.CodeRateLimited] if too many programs of
// the tenant wait, or if the wait takes too long.
func (p *pool) enter(ctx context.Context, tenant string) (*poolPlace, error) {
	s := &poolPlace{pool: p, tenant: tenant, mayRun: make(chan struct{}, 1)}
	if err := p.queue(s); err != nil {
		return nil, err
	}
	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	select {
	case <-s.mayRun:
		return s, nil
	case <-ctx.Done():
		s.release()
		return nil, agent.Interrupted(ctx, "run jq program")
	case <-timer.C:
		s.release()
		return nil, agent.FieldErrorf(agent.CodeRateLimited, field, "has waited %s for other jq programs to end; try again later", maxWait)
	}
}

// queue adds a program that waits.
func (p *pool) queue(s *poolPlace) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	share := p.tenants[s.tenant]
	if share == nil {
		share = &tenantShare{round: p.round}
		p.tenants[s.tenant] = share
	}
	if share.waiting == maxWaiting {
		return agent.FieldErrorf(agent.CodeRateLimited, field, "%d jq programs of the tenant wait already, at most %d; try again later", share.waiting, maxWaiting)
	}
	share.waiting++
	p.waiting = append(p.waiting, s)
	p.assign()
	return nil
}

// assign lets waiting programs run while there is room. The caller holds the lock.
func (p *pool) assign() {
	for p.running < maxRunning {
		i := p.nextToRun()
		if i < 0 {
			return
		}
		s := p.waiting[i]
		p.waiting = slices.Delete(p.waiting, i, i+1)
		p.round++
		share := p.tenants[s.tenant]
		share.isRunning, share.round = true, p.round
		share.waiting--
		p.running++
		s.mayRun <- struct{}{}
	}
}

// nextToRun returns the index of the waiting program that may run next, or -1 if none may run.
func (p *pool) nextToRun() int {
	best := -1
	for i, s := range p.waiting {
		share := p.tenants[s.tenant]
		if !share.isRunning && (best < 0 || share.round < p.tenants[p.waiting[best].tenant].round) {
			best = i
		}
	}
	return best
}

// release removes the program from the pool, whether it waits or runs.
func (s *poolPlace) release() {
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	share := p.tenants[s.tenant]
	if i := slices.Index(p.waiting, s); i >= 0 {
		p.waiting = slices.Delete(p.waiting, i, i+1)
		share.waiting--
	} else {
		share.isRunning = false
		p.running--
	}
	if !share.isRunning && share.waiting == 0 {
		delete(p.tenants, s.tenant)
	}
	p.assign()
}
