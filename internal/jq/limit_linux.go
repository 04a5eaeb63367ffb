package jq

import (
	"fmt"
	"os"
	"syscall"
)

// mappingSlack is added to the limit of the address space, because the Go runtime maps 64 MiB at a time and threads need stacks.
const mappingSlack = 128 << 20

// mappedBytes returns the size of the process's address space, or 0 if it is not known.
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

// limitMapping limits the process's address space to base plus the bytes that a program may use. So an instruction that allocates gigabytes at once ends
// the process before the watch does. RLIMIT_DATA does not help, because it does not count memory in reserved addresses, and the Go runtime reserves
// addresses before it uses them.
func limitMapping(base, bytes int64) {
	var limit syscall.Rlimit
	if base == 0 || syscall.Getrlimit(syscall.RLIMIT_AS, &limit) != nil {
		return
	}
	limit.Cur = min(uint64(base+bytes+spareMemory+mappingSlack), limit.Max) //nolint:gosec // both are positive
	_ = syscall.Setrlimit(syscall.RLIMIT_AS, &limit)                        // if this fails, the watch still works
}
