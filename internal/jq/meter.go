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

// meter is the context that a program runs under: gojq asks it before each instruction whether it is done.
type meter struct {
	context.Context // lives exactly as long as the run

	bounds   Bounds
	seat     *seat
	deadline time.Time
	memory   int64 // bounds.Memory
	base     int64 // the heap when the program began or went on after a pause, in bytes
	held     int64 // what it held already when it was paused, in bytes
	soft     int64 // above this heap the garbage is collected before anything is said
	steps    uint64
	due      atomic.Bool // look with the next instruction
	over     atomic.Bool
	why      error // once over
	closed   chan struct{}
	sample   []metrics.Sample
	patterns *patternCache
}

const (
	// lookEvery is how many instructions pass between two looks, some 50 µs.
	lookEvery = 2048
	// watchEvery is how often a second goroutine has a look asked for: some instructions take long.
	watchEvery = 2 * time.Millisecond

	heapMetric = "/memory/classes/heap/objects:bytes"
)

func newMeter(ctx context.Context, b Bounds, s *seat) *meter {
	m := &meter{
		Context: ctx, bounds: b, seat: s, deadline: time.Now().Add(b.Time), closed: make(chan struct{}), memory: b.Memory, sample: newHeapSample(),
	}
	close(m.closed)
	m.patterns, _ = simplelru.NewLRU[string, *pattern](patterns, nil) // fails for a size below 1 alone
	m.rebase()
	return m
}

// rebase begins to count memory from what there is.
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

// Done is called before each instruction.
func (m *meter) Done() <-chan struct{} {
	if m.steps++; m.steps%lookEvery == 0 || m.due.Load() {
		m.look()
	}
	if m.over.Load() {
		return m.closed
	}
	return nil
}

// Err says why the meter is done.
func (m *meter) Err() error {
	if m.over.Load() {
		return m.why
	}
	return nil
}

func (m *meter) tripped() bool { return m.over.Load() }

// look checks the bounds. It runs on the program's goroutine alone, so that nothing is allocated meanwhile.
func (m *meter) look() {
	m.due.Store(false)
	m.rest()
	switch {
	case m.over.Load():
	case m.Context.Err() != nil:
		m.trip(agent.Interrupted(m.Context, "run jq program"))
	case time.Now().After(m.deadline):
		m.trip(tooMuch("takes longer than %s; filter the rows first, or do less with each", rounded(m.bounds.Time)))
	case m.heap() > m.soft:
		m.measure()
	}
}

// rest pauses the program when it has had its slice and another one waits. The pause takes nothing of its time.
//
// Only one program runs at a time, so the heap grows by what the running one makes. While the programs together hold less than one of
// them may, nobody counts; from then on the garbage is collected around each pause, so that each program answers for its own growth.
func (m *meter) rest() {
	if !m.seat.due() {
		return
	}
	begun := time.Now()
	if m.crowded() {
		runtime.GC()
		m.held = max(0, m.held+m.heap()-m.base)
		m.seat.slice = max(slice, 2*time.Since(begun))
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

// rounded is a time as messages say it.
func rounded(d time.Duration) time.Duration {
	if d < time.Second {
		return d
	}
	return d.Round(100 * time.Millisecond)
}

// measure tells garbage from what the program holds.
func (m *meter) measure() {
	runtime.GC()
	live := m.heap()
	if m.held+live-m.base > m.memory {
		m.trip(tooMuch("takes more than %d MiB of memory; begin the program with .[] | to have the rows one by one, or filter them first",
			m.bounds.Memory>>20))
		return
	}
	m.soft = live + m.memory
}

func (m *meter) trip(why error) {
	m.why = why
	m.over.Store(true)
}

// watch asks for looks until stop is called, which waits for it.
func (m *meter) watch() (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				m.due.Store(true)
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
