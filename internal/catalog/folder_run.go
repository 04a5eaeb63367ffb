package catalog

import (
	"context"
	"time"
)

const (
	maxReads   = 20 // how often a folder that keeps changing is read before it is applied
	pauseRatio = 20 // the pause after a read is at least this many times its duration
)

// Run polls the folder and applies its changes until ctx ends. It does not use events of the file system, because network mounts do not
// send them.
func (f *Folder) Run(ctx context.Context) {
	var pause time.Duration
	for sleepFor(ctx, pause) {
		pause = f.applyChanges(ctx)
	}
}

// applyChanges applies the folder if it has changed. It returns the pause before the next call.
func (f *Folder) applyChanges(ctx context.Context) time.Duration {
	release, err := f.reading.acquire(ctx, "poll catalog folder")
	if err != nil {
		return 0 // ctx has ended
	}
	defer release()
	s, ok := f.readUntilStable(ctx)
	if !ok {
		return 0
	}
	_ = f.applyIfNew(ctx, s, false) // the status and the log have the error
	return max(f.cfg.poll, pauseRatio*s.readDuration)
}

// readUntilStable reads the folder until two reads are equal, because an editor may truncate a file before it writes it. It returns false if
// ctx has ended.
func (f *Folder) readUntilStable(ctx context.Context) (*folderState, bool) {
	s := f.read()
	if s.digest == f.lastDigest {
		return s, true
	}
	for range maxReads - 1 {
		if !sleepFor(ctx, f.cfg.settle) {
			return nil, false
		}
		previous := s.digest
		s = f.read()
		if s.digest == previous {
			break
		}
	}
	return s, true
}

// sleepFor waits for d. It returns false if ctx has ended.
func sleepFor(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
