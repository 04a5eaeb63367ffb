package jobs

import (
	"context"
	"sync"
)

// slots counts the jobs of a bridge, their bytes, and how many of them run.
type slots struct {
	mu      sync.Mutex
	running int
	held    int
	bytes   int
	freed   chan struct{} // receives a value when a count has gone down

	maxRunning, maxHeld, maxBytes int
}

func newSlots(running, held, size int) *slots {
	return &slots{freed: make(chan struct{}, 1), maxRunning: running, maxHeld: held, maxBytes: size}
}

// waitForRoom waits until another job may be taken. One goroutine at a time may wait.
func (s *slots) waitForRoom(ctx context.Context) error {
	for {
		s.mu.Lock()
		free := s.running < s.maxRunning && s.held < s.maxHeld && s.bytes < s.maxBytes
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

// waitUntilIdle waits until no job runs. One goroutine at a time may wait, and none for room.
func (s *slots) waitUntilIdle(ctx context.Context) {
	for ctx.Err() == nil && s.runningCount() > 0 {
		select {
		case <-s.freed:
		case <-ctx.Done():
		}
	}
}

func (s *slots) runningCount() int {
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

// place is the place of one job. A job that waits gives up its share of running jobs, and takes it again, full or not, when it continues.
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
	p.setRunning(running)
	return p
}

// setRunning sets whether the job runs.
func (p *place) setRunning(running bool) {
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
	p.setRunning(false)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = true
	p.slots.add(0, -1, -p.size)
}
