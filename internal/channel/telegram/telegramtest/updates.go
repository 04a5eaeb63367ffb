package telegramtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/go-telegram/bot/models"
	"github.com/stretchr/testify/require"
)

var errOtherPoll = errors.New("another request polls")

// getUpdates waits for updates and returns them. A second request ends the first, as it does in Telegram.
func (a *API) getUpdates(ctx context.Context, form map[string]string) reply {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a.mu.Lock()
	if a.webhook != "" {
		a.mu.Unlock()
		return refuse(http.StatusConflict, "can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first")
	}
	if a.stopPoll != nil {
		a.stopPoll(errOtherPoll)
	}
	a.stopPoll = cancel
	a.updates = slices.DeleteFunc(a.updates, func(u models.Update) bool { return u.ID < parseInt(form["offset"]) })
	a.notify()
	a.mu.Unlock()

	timeout := time.After(time.Duration(parseInt(form["timeout"])) * time.Second)
	for {
		a.mu.Lock()
		found, changed := slices.Clone(a.updates[:min(len(a.updates), 100)]), a.changed
		a.mu.Unlock()
		switch {
		case errors.Is(context.Cause(ctx), errOtherPoll):
			return refuse(http.StatusConflict, "terminated by other getUpdates request; make sure that only one bot instance is running")
		case len(found) > 0 || ctx.Err() != nil:
			return reply{Result: append([]models.Update{}, found...)}
		}
		select {
		case <-changed:
		case <-ctx.Done():
		case <-timeout:
			return reply{Result: []models.Update{}}
		}
	}
}

// await waits until isDone, which reads the server under its lock, returns true.
func (a *API) await(what string, isDone func() bool) {
	a.t.Helper()
	deadline := time.After(maxWait)
	for {
		a.mu.Lock()
		ok, changed := isDone(), a.changed
		a.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			a.mu.Lock()
			defer a.mu.Unlock()
			var calls strings.Builder
			for _, c := range a.calls {
				fmt.Fprintf(&calls, "%s %v: %d\n", c.Method, c.Form, c.Status)
			}
			require.FailNow(a.t, "timed out waiting for "+what, "%s", calls.String())
		}
	}
}

// units returns the length of a text as Telegram counts it.
func units(s string) int { return len(utf16.Encode([]rune(s))) }

func parseInt(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}
