package telegram

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"
	lru "github.com/hashicorp/golang-lru/v2"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

// Bounds of incoming updates.
const (
	maxPending     = 128 // updates in progress; Telegram sends at most 100 at a time
	maxActiveChats = 16  // whose updates are handled at the same time
	maxLane        = 30  // waiting updates of one chat
	maxUpdateBytes = 1 << 20
	webhookConns   = 40
	webhookTimeout = 25 * time.Second // Telegram waits about a minute
	readTimeout    = 10 * time.Second
	maxTries       = 5                                 // at an update whose error is not that something is unavailable
	maxHandled     = 4096                              // ids of handled updates that are kept
	secretHeader   = "X-Telegram-Bot-Api-Secret-Token" //nolint:gosec // the header's name
)

// errNotServing means that the bot accepts no updates, because Serve does not run.
var errNotServing = errors.New("the bot is not serving")

// intake handles updates: those of one chat in order, those of different chats concurrently.
type intake struct {
	channel        *Channel
	active         chan struct{} // has a value for each chat whose updates are handled
	loggedConflict atomic.Bool   // whether the log says that another process polls
	// handled has the ids of the newest handled updates, which are not handled again. An older update that comes again does no harm: its turn has the
	// same id as before.
	handled *lru.Cache[int64, struct{}]

	mu       sync.Mutex
	ctx      context.Context // of Serve; nil unless Serve runs
	lanes    map[int64]*lane
	pending  int           // updates in progress
	expected int           // updates that a poll brought and the library has not passed on yet
	progress chan struct{} // closed and replaced whenever pending or expected changes
	done     sync.WaitGroup
}

// lane is the queue of one chat.
type lane struct{ waiting []task }

// task is one update.
type task struct {
	ctx     context.Context // nil: that of Serve
	update  *models.Update
	outcome chan<- error // receives the outcome and has room for it; nil: nobody waits
}

func newIntake(c *Channel) *intake {
	handled, _ := lru.New[int64, struct{}](maxHandled) // it fails only for a size below 1
	return &intake{
		channel: c, active: make(chan struct{}, maxActiveChats), lanes: map[int64]*lane{}, progress: make(chan struct{}), handled: handled,
	}
}

func (i *intake) open(ctx context.Context) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ctx, i.pending, i.expected = ctx, 0, 0
}

// serveContext returns the context of Serve, or nil unless Serve runs.
func (i *intake) serveContext() context.Context {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.ctx
}

// close refuses further updates and waits until none is in progress. Serve's context has ended, so failing updates are not retried.
func (i *intake) close() {
	i.mu.Lock()
	i.ctx = nil
	i.mu.Unlock()
	i.done.Wait()
}

// waitUntilIdle waits until no update is in progress or expected.
func (i *intake) waitUntilIdle(ctx context.Context) error {
	for {
		i.mu.Lock()
		unfinished, progress := i.pending+i.expected, i.progress
		i.mu.Unlock()
		if unfinished == 0 {
			return ctx.Err()
		}
		select {
		case <-progress:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// setExpected sets how many updates the library will pass on.
func (i *intake) setExpected(n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.expected = n
	i.signalProgress()
}

// signalProgress wakes the goroutines in waitUntilIdle. The mutex is held.
func (i *intake) signalProgress() {
	close(i.progress)
	i.progress = make(chan struct{})
}

// handlePolled enqueues an update that the library polled. The next poll waits until the update is handled; see [transport.poll].
func (i *intake) handlePolled(_ context.Context, _ *bot.Bot, u *models.Update) {
	i.loggedConflict.Store(false)
	err := i.enqueue(task{update: u})
	i.mu.Lock()
	i.expected = max(0, i.expected-1)
	i.signalProgress()
	i.mu.Unlock()
	if err != nil && !errors.Is(err, errNotServing) {
		i.channel.cfg.Logger.Warn("update dropped", zap.Int64("update", u.ID), zap.Error(err))
	}
}

// enqueue adds an update to the lane of its chat, in which a goroutine handles it.
func (i *intake) enqueue(t task) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	chat := chatOfUpdate(t.update)
	l := i.lanes[chat]
	switch {
	case i.ctx == nil:
		return errNotServing
	case i.pending >= maxPending:
		return agent.Errorf(agent.CodeRateLimited, "", "%d updates are in progress", i.pending)
	case l != nil && len(l.waiting) >= maxLane:
		return agent.Errorf(agent.CodeRateLimited, "", "%d updates of the chat are waiting", len(l.waiting))
	}
	if t.ctx == nil {
		t.ctx = i.ctx
	}
	i.pending++
	if l != nil {
		l.waiting = append(l.waiting, t)
		return nil
	}
	l = &lane{waiting: []task{t}}
	i.lanes[chat] = l
	i.done.Go(func() { i.runLane(chat, l) })
	return nil
}

// runLane handles the updates of a lane until it is empty, and removes it.
func (i *intake) runLane(chat int64, l *lane) {
	i.active <- struct{}{}
	defer func() { <-i.active }()
	for {
		i.mu.Lock()
		if len(l.waiting) == 0 {
			delete(i.lanes, chat)
			i.mu.Unlock()
			return
		}
		t := l.waiting[0]
		l.waiting = l.waiting[1:]
		i.mu.Unlock()

		var err error
		if !i.handled.Contains(t.update.ID) {
			err = i.process(t)
		}
		if t.outcome != nil {
			t.outcome <- err
		}
		if err == nil {
			i.handled.Add(t.update.ID, struct{}{})
		}
		i.mu.Lock()
		// A polled update that failed because Serve ends stays in progress, so that the next poll does not confirm it.
		if t.ctx.Err() == nil || t.outcome != nil {
			i.pending--
			i.signalProgress()
		}
		i.mu.Unlock()
	}
}

// process handles one update. It retries until t's context ends while something is unavailable, and a few times after other errors.
func (i *intake) process(t task) error {
	wait := newBackoff()
	for tries := 0; ; {
		if err := t.ctx.Err(); err != nil {
			return err
		}
		err := i.channel.handleUpdate(t.ctx, t.update)
		switch {
		case err == nil:
			return nil
		case t.ctx.Err() != nil:
			return err
		case agent.CodeOf(err) != agent.CodeUnavailable && agent.CodeOf(err) != agent.CodeRateLimited:
			if tries++; tries >= maxTries {
				i.channel.cfg.Logger.Error("update given up", zap.Int64("update", t.update.ID), zap.Error(err))
				i.channel.sendApology(t.ctx, t.update)
				return nil
			}
		}
		i.channel.cfg.Logger.Warn("update is retried", zap.Int64("update", t.update.ID), zap.Error(err))
		pause(t.ctx, max(wait.NextBackOff(), retryAfter(err)))
	}
}

// ServeHTTP is the webhook, POST /channels/telegram. It answers 200 after an update was handled, and 503 if Telegram shall send it again.
func (c *Channel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if c.cfg.Updates != Webhook {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if !equalSecrets(r.Header.Get(secretHeader), c.cfg.WebhookSecret) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readTimeout)) // if the server supports it
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxUpdateBytes))
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	var u models.Update
	if err != nil || json.Unmarshal(data, &u) != nil || u.ID <= 0 {
		w.WriteHeader(http.StatusBadRequest) // not from Telegram
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), webhookTimeout)
	defer cancel()
	if serveCtx := c.intake.serveContext(); serveCtx != nil {
		defer context.AfterFunc(serveCtx, cancel)()
	}
	outcome := make(chan error, 1)
	if err := c.intake.enqueue(task{ctx: ctx, update: &u, outcome: outcome}); err != nil {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	select {
	case err = <-outcome:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusOK)
}

// equalSecrets reports whether two texts are equal. The time it takes does not depend on where they differ.
func equalSecrets(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// chatOfUpdate returns the chat whose lane an update belongs to, or 0 if it has none.
func chatOfUpdate(u *models.Update) int64 {
	switch {
	case u.Message != nil:
		return u.Message.Chat.ID
	case u.CallbackQuery != nil:
		return u.CallbackQuery.From.ID
	default:
		return 0
	}
}
