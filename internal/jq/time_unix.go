//go:build unix

package jq

import (
	"syscall"
	"time"
)

// processorTime returns the processor time that the process has used.
func processorTime() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used) // it fails only for invalid arguments
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
