//go:build unix

package jq

import (
	"syscall"
	"time"
)

// processorTime returns how long the process has used processors.
func processorTime() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used) // it fails for wrong arguments alone
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
