//go:build !linux

package jq

func mappedBytes() int64 { return 0 }

// limitMapping does nothing: the watch ends a process that takes too much.
func limitMapping(_, _ int64) {}
