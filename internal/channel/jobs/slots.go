package jobs

import (
	"context"
	"sync"
)

// slots limits how many jobs run, how many run or wait, and how many bytes they have together.
type slots struct {
	mu      sync.Mutex
	running int
	held    int
	bytes   int
	freed   chan struct{} // receives a value when a count has gone down

	maxRunning, maxHeld, maxBytes int
}

func newSlots(maxRunning, maxHeld, maxBytes int) *slots {
	return &slots{freed: make(chan struct{}, 1), maxRunning: maxRunning, maxHeld: maxHeld, maxBytes: maxBytes}
}

// waitForRoom waits until another job may be taken. Only one goroutine may call it or waitUntilIdle at a time.
func (s *slots) waitForRoom(ctx context.Context) error {
	for {
		s.mu.Lock()
		hasRoom := s.running < s.maxRunning && s.held < s.maxHeld && s.bytes < s.maxBytes
		s.mu.Unlock()
		if hasRoom {
			return ctx.Err()
		}
		select {
		case <-s.freed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// waitUntilIdle waits until no job runs.
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

// add changes the counts and signals if one has gone down.
func (s *slots) add(running, held, bytes int) {
	s.mu.Lock()
	s.running += running
	s.held += held
	s.bytes += bytes
	s.mu.Unlock()
	if running < 0 || held < 0 || bytes < 0 {
		select {
		case s.freed <- struct{}{}:
		default:
		}
	}
}

// jobSlot is one job in [slots]. While it waits it does not count as running. When it goes on it counts again, even if that exceeds the limit.
type jobSlot struct {
	slots *slots
	bytes int

	mu         sync.Mutex
	isRunning  bool
	isReleased bool
}

// acquire adds a job. It does not wait for room.
func (s *slots) acquire(bytes int, isRunning bool) *jobSlot {
	s.add(0, 1, bytes)
	slot := &jobSlot{slots: s, bytes: bytes}
	slot.setRunning(isRunning)
	return slot
}

// setRunning sets whether the job runs. After release it does nothing.
func (j *jobSlot) setRunning(isRunning bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.isReleased || j.isRunning == isRunning {
		return
	}
	j.isRunning = isRunning
	if isRunning {
		j.slots.add(1, 0, 0)
	} else {
		j.slots.add(-1, 0, 0)
	}
}

// release removes the job.
func (j *jobSlot) release() {
	j.setRunning(false)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.isReleased = true
	j.slots.add(0, -1, -j.bytes)
}
