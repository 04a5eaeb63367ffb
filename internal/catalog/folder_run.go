package catalog

import (
	"context"
	"time"
)

const (
	maxReads = 20 // how often a folder that keeps changing is read before it is applied as it is
	maxShare = 20 // a folder is read for at most this part (1/20) of the time
)

// Run polls the folder and applies its changes until ctx ends. It reads the folder first, for changes since [Folder.Load]. It does not
// rely on events of the file system, which network mounts do not send.
func (f *Folder) Run(ctx context.Context) {
	for wait := time.Duration(0); wait >= 0 && sleepFor(ctx, wait); {
		wait = f.checkOnce(ctx)
	}
}

// checkOnce applies the folder as it is now. It returns how long to wait before the next call; negative if ctx has ended.
func (f *Folder) checkOnce(ctx context.Context) time.Duration {
	if f.lock(ctx) != nil {
		return -1
	}
	defer f.unlock()
	s, ok := f.readUntilStable(ctx)
	if !ok {
		return -1
	}
	_ = f.applyIfNew(ctx, s, false) // the status and the log have the error
	return max(f.cfg.poll, maxShare*s.took)
}

// readUntilStable reads the folder until two reads agree: a file may be truncated now and written later. It returns false if ctx has ended.
func (f *Folder) readUntilStable(ctx context.Context) (*folderState, bool) {
	s := f.read()
	if s.digest == f.lastDigest {
		return s, true
	}
	for range maxReads - 1 {
		if !sleepFor(ctx, f.cfg.settle) {
			return nil, false
		}
		before := s.digest
		if s = f.read(); s.digest == before {
			break
		}
	}
	return s, true
}

// sleepFor waits for d and reports whether ctx lasted that long.
func sleepFor(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
