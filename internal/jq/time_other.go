//go:build !unix

package jq

import "time"

//nolint:gochecknoglobals // when the process began
var processBegun = time.Now()

// processorTime returns how long the process has run: there is no cheap way to learn how long it was paused.
func processorTime() time.Duration { return time.Since(processBegun) }
