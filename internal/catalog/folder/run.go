package folder

import (
	"context"
	"time"

	"go.uber.org/zap"
)

// maxReads is how often a folder that does not come to rest is read before it is judged as it is.
const maxReads = 20

// Run watches the folder and applies what changes, until ctx ends. It begins with a look, for what happened since [Folder.Load].
func (f *Folder) Run(ctx context.Context) {
	w := &watch{base: f.cfg.Dir, create: f.newWatcher, logger: f.cfg.Logger}
	defer w.close()
	wait := time.Duration(0)
	for w.rest(ctx, wait, f.cfg.Settle) {
		if wait = f.look(ctx, w); wait < 0 {
			return
		}
	}
}

// look judges the folder as it is now. It returns how long to wait for the next look when nothing moves; negative when ctx has ended.
func (f *Folder) look(ctx context.Context, w *watch) time.Duration {
	if f.enter(ctx) != nil {
		return -1
	}
	defer f.leave()
	s, ok := f.settled(ctx, w)
	if !ok {
		return -1
	}
	err := f.judge(ctx, s, false)
	if ctx.Err() != nil {
		return -1
	}
	if passes(err) {
		f.cfg.Logger.Debug("the catalog folder is tried again", zap.Time("at", f.retryAt))
		return min(f.cfg.Poll, max(0, time.Until(f.retryAt)))
	}
	return f.cfg.Poll
}

// settled reads the folder until two reads in a row agree and everything that was read is watched: a file may be truncated now and
// written later, and folders may be filled before they are watched. It returns false when ctx has ended.
func (f *Folder) settled(ctx context.Context, w *watch) (*snapshot, bool) {
	s := read(f.cfg.Dir, limits())
	unwatched := w.follow(s.dirs)
	if s.digest == f.seen && !unwatched {
		return s, true
	}
	for range maxReads {
		if !pause(ctx, f.cfg.Settle) {
			return nil, false
		}
		again := read(f.cfg.Dir, limits())
		unwatched = w.follow(again.dirs)
		agree := again.digest == s.digest
		if s = again; agree && !unwatched {
			break
		}
	}
	return s, true
}

// pause reports whether it waited to the end.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
