package source

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

// maxUnrest is how many settle times events may go on before the folder is read all the same.
const maxUnrest = 20

// folderWatch waits for changes in the folder. It makes a new watcher whenever the set of folders changes, because a watch stays with
// the folder that had the name once, not with the name.
type folderWatch struct {
	base   string
	create func() (*fsnotify.Watcher, error)
	logger *zap.Logger

	watcher    *fsnotify.Watcher // nil: none, or it was closed
	dirs       []directory       // the folders that it watches
	stale      bool              // one of them was removed or replaced, or events were lost
	lastLogged string            // the failure that was logged last
}

// watchFolders watches these folders from now on, and the parent of the first, which knows when that one is replaced. It reports whether
// changes may have gone unnoticed.
func (w *folderWatch) watchFolders(dirs []directory) bool {
	if w.watcher != nil && !w.stale && slices.EqualFunc(w.dirs, dirs, sameFolder) {
		return false
	}
	fresh, err := w.create()
	if err != nil {
		w.logOnce(err)
		return false
	}
	w.close()
	w.watcher, w.dirs, w.stale = fresh, dirs, false
	err = fresh.Add(filepath.Dir(w.base))
	for _, d := range dirs {
		// A folder that has gone by now was there a moment ago: the next read will tell.
		if e := fresh.Add(d.path); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = e
		}
	}
	w.logOnce(err)
	return true
}

func sameFolder(a, b directory) bool { return a.path == b.path && os.SameFile(a.info, b.info) }

// logOnce logs that part of the folder is not watched, unless it logged the same error last.
func (w *folderWatch) logOnce(err error) {
	if err == nil {
		w.lastLogged = ""
		return
	}
	if text := err.Error(); text != w.lastLogged {
		w.lastLogged = text
		w.logger.Warn("catalog folder is not watched in full; the rest is found by polling", zap.String("folder", w.base), zap.Error(err))
	}
}

func (w *folderWatch) close() {
	if w.watcher == nil {
		return
	}
	if err := w.watcher.Close(); err != nil {
		w.logger.Debug("close watcher of the catalog folder", zap.Error(err))
	}
	w.watcher = nil
}

// waitUntilQuiet waits for d, or after an event until the folder has been quiet for the settle time. It returns false if ctx has ended.
func (w *folderWatch) waitUntilQuiet(ctx context.Context, d, settle time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	var limit time.Time
	restartTimer := func() {
		if limit.IsZero() {
			limit = time.Now().Add(maxUnrest * settle)
		}
		timer.Reset(min(settle, time.Until(limit)))
	}
	for {
		var (
			events chan fsnotify.Event // nil without a watcher, so that only the timer counts
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
				w.watcher = nil // the next read makes another
			case w.isRelevant(e):
				restartTimer()
			}
		case err, ok := <-errs:
			if !ok {
				w.watcher = nil
				continue
			}
			w.stale = true // events were lost, and removals may be among them
			w.logger.Debug("watch the catalog folder", zap.Error(err))
			restartTimer()
		}
	}
}

// isRelevant reports whether an event is about the folder, and not about one beside it.
func (w *folderWatch) isRelevant(e fsnotify.Event) bool {
	if e.Name != w.base && !strings.HasPrefix(e.Name, strings.TrimSuffix(w.base, string(filepath.Separator))+string(filepath.Separator)) {
		return false
	}
	if !e.Op.Has(fsnotify.Write) && (e.Name == w.base || slices.ContainsFunc(w.dirs, func(d directory) bool { return d.path == e.Name })) {
		w.stale = true // a new folder may look like the old one: file systems reuse their numbers
	}
	return true
}
