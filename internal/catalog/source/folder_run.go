package source

import (
	"context"
	"time"

	"go.uber.org/zap"
)

// maxReads is how often a folder that keeps changing is read before it is applied as it is.
const maxReads = 20

// Run watches the folder and applies its changes until ctx ends. It reads the folder first, for changes since [Folder.Load].
func (f *Folder) Run(ctx context.Context) {
	w := &folderWatch{base: f.cfg.Dir, create: f.newWatcher, logger: f.cfg.Logger}
	defer w.close()
	wait := time.Duration(0)
	for w.waitUntilQuiet(ctx, wait, f.cfg.settle) {
		if wait = f.checkOnce(ctx, w); wait < 0 {
			return
		}
	}
}

// checkOnce applies the folder as it is now. It returns how long to wait without an event before the next call; negative if ctx has ended.
func (f *Folder) checkOnce(ctx context.Context, w *folderWatch) time.Duration {
	if f.lock(ctx) != nil {
		return -1
	}
	defer f.unlock()
	s, ok := f.readUntilStable(ctx, w)
	if !ok {
		return -1
	}
	err := f.applyIfNew(ctx, s, false)
	if ctx.Err() != nil {
		return -1
	}
	if isTemporary(err) {
		f.cfg.Logger.Debug("the catalog folder is tried again", zap.Time("at", f.retryAt))
		return min(f.cfg.poll, max(0, time.Until(f.retryAt)))
	}
	return f.cfg.poll
}

// readUntilStable reads the folder until two reads agree and all its folders are watched: a file may be truncated now and written later,
// and a folder may be filled before it is watched. It returns false if ctx has ended.
func (f *Folder) readUntilStable(ctx context.Context, w *folderWatch) (*snapshot, bool) {
	s := readAll(f.cfg.Dir, defaultBounds())
	unwatched := w.watchFolders(s.dirs)
	if s.digest == f.lastDigest && !unwatched {
		return s, true
	}
	for range maxReads {
		if !sleep(ctx, f.cfg.settle) {
			return nil, false
		}
		again := readAll(f.cfg.Dir, defaultBounds())
		unwatched = w.watchFolders(again.dirs)
		agree := again.digest == s.digest
		if s = again; agree && !unwatched {
			break
		}
	}
	return s, true
}

// sleep waits for d and reports whether ctx lasted that long.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
