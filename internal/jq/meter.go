package jq

import (
	"context"
	"runtime"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/turnstone-run/turnstone/agent"
)

// meter is the context of a run. gojq asks it before each instruction whether it is done.
type meter struct {
	context.Context // lives exactly as long as the run

	bounds   Bounds
	seat     *poolPlace
	deadline time.Time
	memory   int64 // bounds.Memory
	base     int64 // bytes of the heap when the program began or went on after a pause
	held     int64 // bytes that the program held when it was last paused
	soft     int64 // bytes of the heap above which garbage is collected to learn what the program holds
	steps    uint64
	checkDue atomic.Bool // check the bounds before the next instruction
	stopped  atomic.Bool
	reason   error // why it was stopped
	closed   chan struct{}
	sample   []metrics.Sample
	patterns *patternCache
}

const (
	// checkEvery is how many instructions pass between two checks of the bounds, some 50 µs.
	checkEvery = 2048
	// watchEvery is how often a second goroutine asks for a check, because some instructions take long.
	watchEvery = 2 * time.Millisecond

	heapMetric = "/memory/classes/heap/objects:bytes"
)

func newMeter(ctx context.Context, b Bounds, s *poolPlace) *meter {
	m := &meter{
		Context: ctx, bounds: b, seat: s, deadline: time.Now().Add(b.Time), closed: make(chan struct{}), memory: b.Memory, sample: newHeapSample(),
	}
	close(m.closed)
	m.patterns, _ = simplelru.NewLRU[string, *pattern](keptPatterns, nil) // fails only for a size below 1
	m.rebase()
	return m
}

// rebase counts the memory of the program from the present heap.
func (m *meter) rebase() {
	m.held, m.base = 0, m.heap()
	m.soft = m.base + m.memory
}

func (m *meter) heap() int64 { return int64(heapBytes(m.sample)) } //nolint:gosec // no heap is that large

func newHeapSample() []metrics.Sample { return []metrics.Sample{{Name: heapMetric}} }

func heapBytes(sample []metrics.Sample) uint64 {
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// Done returns a closed channel once the run is stopped, else nil. gojq calls it before each instruction.
func (m *meter) Done() <-chan struct{} {
	if m.steps++; m.steps%checkEvery == 0 || m.checkDue.Load() {
		m.checkBounds()
	}
	if m.stopped.Load() {
		return m.closed
	}
	return nil
}

// Err returns why the run was stopped, nil while it goes on.
func (m *meter) Err() error {
	if m.stopped.Load() {
		return m.reason
	}
	return nil
}

// checkBounds stops the run at the end of its context or time, or above its memory. Only the goroutine of the program calls it, so that
// nothing is allocated meanwhile.
func (m *meter) checkBounds() {
	m.checkDue.Store(false)
	m.giveWay()
	switch {
	case m.stopped.Load():
	case m.Context.Err() != nil:
		m.stop(agent.Interrupted(m.Context, "run jq program"))
	case time.Now().After(m.deadline):
		m.stop(tooMuch("takes longer than %s; filter the rows first, or do less with each", roundTime(m.bounds.Time)))
	case m.heap() > m.soft:
		m.checkMemory()
	}
}

// giveWay pauses the program if it has had its time slice and another one waits. The pause does not count as its time.
//
// Only one program runs at a time, so the heap grows by what the running one makes. Above the memory of one program for all together,
// garbage is collected around each pause, so that a program is charged with its own growth only.
func (m *meter) giveWay() {
	if !m.seat.isSliceOver() {
		return
	}
	begun := time.Now()
	if m.crowded() {
		runtime.GC()
		m.held = max(0, m.held+m.heap()-m.base)
		m.seat.slice = max(timeSlice, 2*time.Since(begun))
	}
	m.seat.pause(m.Context)
	if m.crowded() {
		runtime.GC()
	}
	m.base = m.heap()
	m.soft = m.base + max(m.memory-m.held, m.memory/8)
	m.deadline = m.deadline.Add(time.Since(begun))
}

// crowded reports whether the programs together hold more than one of them may.
func (m *meter) crowded() bool {
	return m.heap() > int64(m.seat.pool.idleHeap.Load())+m.memory //nolint:gosec // no heap is that large
}

// roundTime returns a time as messages show it.
func roundTime(d time.Duration) time.Duration {
	if d < time.Second {
		return d
	}
	return d.Round(100 * time.Millisecond)
}

// checkMemory collects the garbage and stops the program if it holds too much.
func (m *meter) checkMemory() {
	runtime.GC()
	live := m.heap()
	if m.held+live-m.base > m.memory {
		m.stop(tooMuch("takes more than %d MiB of memory; begin the program with .[] | to have the rows one by one, or filter them first",
			m.bounds.Memory>>20))
		return
	}
	m.soft = live + m.memory
}

func (m *meter) stop(reason error) {
	m.reason = reason
	m.stopped.Store(true)
}

// watch asks for checks until the function that it returns is called.
func (m *meter) watch() (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				m.checkDue.Store(true)
			case <-done:
				return
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}
