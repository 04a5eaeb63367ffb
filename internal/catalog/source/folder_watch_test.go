package source

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

func TestRelevantEvents(t *testing.T) {
	for base, cases := range map[string]map[string]bool{
		"/x/catalog": {"/x/catalog": true, "/x/catalog/a": true, "/x/catalog2": false, "/x": false, "/x/catalog.tmp/a": false},
		"/":          {"/": true, "/a": true},
	} {
		for name, want := range cases {
			w := &folderWatch{base: base}
			require.Equal(t, want, w.isRelevant(fsnotify.Event{Name: name, Op: fsnotify.Create}), name)
		}
	}
}

// The clock is synctest's: it moves when everybody waits.
func TestWaitUntilQuiet(t *testing.T) {
	const settle, long = 100 * time.Millisecond, time.Hour
	every := func(interval time.Duration, times int, name string) func(ctx context.Context, w *fsnotify.Watcher) {
		return func(ctx context.Context, w *fsnotify.Watcher) {
			for range times {
				if !sleep(ctx, interval) {
					return
				}
				select {
				case w.Events <- fsnotify.Event{Name: name, Op: fsnotify.Write}:
				case <-ctx.Done():
					return
				}
			}
		}
	}
	cases := map[string]struct {
		events func(ctx context.Context, w *fsnotify.Watcher)
		want   time.Duration
		stale  bool
		lost   bool
	}{
		"nothing happens":      {events: func(context.Context, *fsnotify.Watcher) {}, want: long},
		"one event":            {events: every(time.Second, 1, "/x/a"), want: time.Second + settle},
		"an event of others":   {events: every(time.Second, 1, "/y/a"), want: long},
		"a burst":              {events: every(settle/2, 10, "/x/a"), want: 10*settle/2 + settle},
		"events for ever":      {events: every(settle/2, 1e6, "/x/a"), want: settle/2 + maxUnrest*settle},
		"the watcher is ended": {events: func(_ context.Context, w *fsnotify.Watcher) { close(w.Events) }, want: long, lost: true},
		"its errors ended":     {events: func(_ context.Context, w *fsnotify.Watcher) { close(w.Errors) }, want: long, lost: true},
		"events were lost": {
			events: func(_ context.Context, w *fsnotify.Watcher) { w.Errors <- fsnotify.ErrEventOverflow },
			want:   settle, stale: true,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				fs := &fsnotify.Watcher{Events: make(chan fsnotify.Event), Errors: make(chan error)}
				w := &folderWatch{base: "/x", logger: zap.NewNop(), watcher: fs}
				began := time.Now()
				go c.events(ctx, fs)
				require.True(t, w.waitUntilQuiet(ctx, long, settle))
				require.Equal(t, c.want, time.Since(began))
				require.Equal(t, c.stale, w.stale)
				require.Equal(t, c.lost, w.watcher == nil)
				cancel()
				require.False(t, w.waitUntilQuiet(ctx, long, settle))
			})
		})
	}
}
