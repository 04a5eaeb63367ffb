package jobs

import (
	"context"
	"sync"
)

// slots counts what a bridge holds: all jobs and their bytes, and those of them that run.
type slots struct {
	mu      sync.Mutex
	running int
	held    int
	bytes   int
	freed   chan struct{} // one word when something became less

	mostRunning, mostHeld, mostBytes int
}

func newSlots(running, held, size int) *slots {
	return &slots{freed: make(chan struct{}, 1), mostRunning: running, mostHeld: held, mostBytes: size}
}

// room waits until another job may be taken. There is one who waits.
func (s *slots) room(ctx context.Context) error {
	for {
		s.mu.Lock()
		free := s.running < s.mostRunning && s.held < s.mostHeld && s.bytes < s.mostBytes
		s.mu.Unlock()
		if free {
			return ctx.Err()
		}
		select {
		case <-s.freed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// idle waits until no job runs. There is one who waits, when nobody waits for room any more.
func (s *slots) idle(ctx context.Context) {
	for ctx.Err() == nil && s.count() > 0 {
		select {
		case <-s.freed:
		case <-ctx.Done():
		}
	}
}

func (s *slots) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running
}

func (s *slots) add(running, held, size int) {
	s.mu.Lock()
	s.running += running
	s.held += held
	s.bytes += size
	s.mu.Unlock()
	if running < 0 || held < 0 || size < 0 {
		select {
		case s.freed <- struct{}{}:
		default:
		}
	}
}

// place is one job's place. It is taken when the job begins to run; a job that waits has none, and gets one, full or not, when it runs on.
type place struct {
	slots *slots
	size  int

	mu      sync.Mutex
	running bool
	left    bool
}

func (s *slots) enter(size int, running bool) *place {
	s.add(0, 1, size)
	p := &place{slots: s, size: size}
	p.run(running)
	return p
}

// run says whether the job runs.
func (p *place) run(running bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.left || p.running == running:
	case running:
		p.slots.add(1, 0, 0)
	default:
		p.slots.add(-1, 0, 0)
	}
	if !p.left {
		p.running = running
	}
}

func (p *place) leave() {
	p.run(false)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = true
	p.slots.add(0, -1, -p.size)
}
