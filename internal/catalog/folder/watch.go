package folder

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/zap"
)

// unrest is how many settle times events may go on before the folder is looked at all the same.
const unrest = 20

// watch tells when something in the folder moves. A watcher is made anew whenever the set of folders is another one: a watch stays with
// the folder that had the name once, not with the name.
type watch struct {
	base   string
	create func() (*fsnotify.Watcher, error)
	logger *zap.Logger

	watcher *fsnotify.Watcher // nil: none, or lost
	dirs    []directory       // that it watches
	stale   bool              // one of them was removed or replaced, or events were lost
	logged  string            // what was said last about a folder that cannot be watched
}

// follow watches these folders from now on, and the parent of the first: it knows when that one is replaced. It returns whether
// something may have happened in them unseen.
func (w *watch) follow(dirs []directory) bool {
	if w.watcher != nil && !w.stale && slices.EqualFunc(w.dirs, dirs, same) {
		return false
	}
	fresh, err := w.create()
	if err != nil {
		w.complain(err)
		return false
	}
	w.close()
	w.watcher, w.dirs, w.stale = fresh, dirs, false
	err = fresh.Add(filepath.Dir(w.base))
	for _, d := range dirs {
		// One that is gone by now was there a moment ago, so the next look will find out.
		if e := fresh.Add(d.path); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = e
		}
	}
	w.complain(err)
	return true
}

func same(a, b directory) bool { return a.path == b.path && os.SameFile(a.info, b.info) }

// complain logs once that the folder is not watched, or not all of it.
func (w *watch) complain(err error) {
	if err == nil {
		w.logged = ""
		return
	}
	if text := err.Error(); text != w.logged {
		w.logged = text
		w.logger.Warn("catalog folder is not watched in full; the rest is found by polling", zap.String("folder", w.base), zap.Error(err))
	}
}

func (w *watch) close() {
	if w.watcher == nil {
		return
	}
	if err := w.watcher.Close(); err != nil {
		w.logger.Debug("close watcher of the catalog folder", zap.Error(err))
	}
	w.watcher = nil
}

// rest waits for d, or after an event until the folder is quiet for the settle time. It returns false when ctx has ended.
func (w *watch) rest(ctx context.Context, d, settle time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	var limit time.Time
	stir := func() {
		if limit.IsZero() {
			limit = time.Now().Add(unrest * settle)
		}
		timer.Reset(min(settle, time.Until(limit)))
	}
	for {
		var (
			events chan fsnotify.Event // nil without a watcher: then there is only the timer
			errs   chan error
		)
		if w.watcher != nil {
			events, errs = w.watcher.Events, w.watcher.Errors
		}
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return true
		case e, ok := <-events:
			switch {
			case !ok:
				w.watcher = nil // the next look makes another
			case w.concerns(e):
				stir()
			}
		case err, ok := <-errs:
			if !ok {
				w.watcher = nil
				continue
			}
			w.stale = true // events were lost, and removals may be among them
			w.logger.Debug("watch the catalog folder", zap.Error(err))
			stir()
		}
	}
}

// concerns tells events of the folder from those of its siblings.
func (w *watch) concerns(e fsnotify.Event) bool {
	if e.Name != w.base && !strings.HasPrefix(e.Name, strings.TrimSuffix(w.base, string(filepath.Separator))+string(filepath.Separator)) {
		return false
	}
	if !e.Op.Has(fsnotify.Write) && (e.Name == w.base || slices.ContainsFunc(w.dirs, func(d directory) bool { return d.path == e.Name })) {
		w.stale = true // a folder that takes the place of another may look the same: file systems use numbers again
	}
	return true
}
