//go:build !unix

package jq

import "time"

//nolint:gochecknoglobals // when the process began
var processStart = time.Now()

// processorTime returns how long the process has run, because its processor time is not available.
func processorTime() time.Duration { return time.Since(processStart) }
