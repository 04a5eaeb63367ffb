package app_test

import (
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/app"
)

// heapGoal returns the size of the heap at which the next collection begins.
func heapGoal() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

func TestSetMinHeap(t *testing.T) { //nolint:paralleltest // sets a rule of the whole process
	t.Setenv("GOGC", "")
	const size = 300 << 20
	restore := app.SetMinHeap(size)
	for range 3 { // it holds beyond the first collection
		runtime.GC()
		require.Eventually(t, func() bool { return heapGoal() > size*9/10 && heapGoal() < size*11/10 }, 5*time.Second, time.Millisecond)
	}

	live := make([]byte, size) // more than half of it is live: Go's rule
	runtime.GC()
	require.Eventually(t, func() bool { return heapGoal() > 2*size && heapGoal() < 3*size }, 5*time.Second, time.Millisecond)
	runtime.KeepAlive(live)

	restore()
	runtime.GC()
	require.Less(t, heapGoal(), uint64(size/2))
}

func TestMinHeapLeavesGOGCAlone(t *testing.T) {
	t.Setenv("GOGC", "100")
	runtime.GC()
	before := heapGoal()
	app.SetMinHeap(10 << 30)
	runtime.GC()
	require.Less(t, heapGoal(), 10*before)
}
