package app

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// goPercent is Go's own GOGC: the heap may grow to twice what is live.
const goPercent = 100

// SetMinHeap keeps the garbage collector from running before the heap has size bytes. A larger heap is collected when it is twice what is
// live, as Go does by itself. A worker has some 30 MB of live heap, and without a minimum it spent a ninth of its processor time on
// collecting it. SetMinHeap does nothing if size is 0 or GOGC is set. The returned function restores Go's own rule.
func SetMinHeap(size Size) (restore func()) {
	if os.Getenv("GOGC") != "" || size <= 0 {
		return func() {}
	}
	var (
		mu       sync.Mutex
		restored bool
	)
	afterEachCollection(func() (again bool) {
		mu.Lock()
		defer mu.Unlock()
		if !restored {
			debug.SetGCPercent(gcPercent(int(size)))
		}
		return !restored
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		restored = true
		debug.SetGCPercent(goPercent)
	}
}

// gcPercent returns by how many per cent the live heap, stacks and global variables may grow until the heap has minimum bytes, but at least
// [goPercent].
func gcPercent(minimum int) int {
	m := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	metrics.Read(m)
	live, stacks, globals := int(m[0].Value.Uint64()), int(m[1].Value.Uint64()), int(m[2].Value.Uint64()) //nolint:gosec // bytes of memory
	return max(goPercent, (minimum-live)*100/max(1, live+stacks+globals))
}

// afterEachCollection calls do now and after each garbage collection, until do returns false.
func afterEachCollection(do func() (again bool)) {
	if do() {
		runtime.AddCleanup(new([32]byte), afterEachCollection, do) // nothing refers to the object: the next collection frees it
	}
}
