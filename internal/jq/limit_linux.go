package jq

import (
	"fmt"
	"os"
	"syscall"
)

// dataSlack is what the process may map beyond what it may use: the runtime of Go maps ahead.
const dataSlack = 32 << 20

// mappedData returns the bytes of writable memory that the process has mapped.
func mappedData() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, resident, shared, code, library, data int64
	if _, err := fmt.Sscan(string(text), &size, &resident, &shared, &code, &library, &data); err != nil {
		return 0
	}
	return data * int64(os.Getpagesize())
}

// limitData makes the kernel refuse memory beyond what the process had at its start and a program may use. An instruction that asks for
// gigabytes at once then ends the process before the watch can.
func limitData(base, bytes int64) {
	var limit syscall.Rlimit
	if base == 0 || syscall.Getrlimit(syscall.RLIMIT_DATA, &limit) != nil {
		return
	}
	limit.Cur = min(uint64(base+bytes+spareMemory+dataSlack), limit.Max) //nolint:gosec // both are positive
	_ = syscall.Setrlimit(syscall.RLIMIT_DATA, &limit)                   // without it, the watch is left
}
