package jq

import (
	"fmt"
	"os"
	"syscall"
)

// mappingSlack is added to the limit of the address space, because the runtime of Go maps 64 MiB at a time and threads need stacks.
const mappingSlack = 128 << 20

// mappedBytes returns the bytes of addresses that the process has mapped.
func mappedBytes() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var pages int64
	if _, err := fmt.Sscan(string(text), &pages); err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// limitMapping makes the kernel refuse addresses beyond what the process had at its start and a program may use. An instruction that asks for
// gigabytes at once then ends the process before the watch can. RLIMIT_DATA would not do: the kernel does not count what replaces a reservation, and
// the runtime of Go reserves addresses before it uses them.
func limitMapping(base, bytes int64) {
	var limit syscall.Rlimit
	if base == 0 || syscall.Getrlimit(syscall.RLIMIT_AS, &limit) != nil {
		return
	}
	limit.Cur = min(uint64(base+bytes+spareMemory+mappingSlack), limit.Max) //nolint:gosec // both are positive
	_ = syscall.Setrlimit(syscall.RLIMIT_AS, &limit)                        // without it, the watch is left
}
