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
	maxTaken     = 128 // updates in progress; Telegram gives at most 100 at a time
	maxWorking   = 16  // chats whose updates are handled at a time
	maxLane      = 30  // updates of one chat that wait
	maxUpdate    = 1 << 20
	webhookConns = 40
	webhookTime  = 25 * time.Second // Telegram waits about a minute
	readTime     = 10 * time.Second
	maxTries     = 5                                 // at an update that fails although everything is available
	maxHandled   = 4096                              // updates that are remembered
	secretHeader = "X-Telegram-Bot-Api-Secret-Token" //nolint:gosec // the header's name
)

// errClosed means that the bot does not accept updates now.
var errClosed = errors.New("the bot is not serving")

// intake handles updates: those of one chat in order, those of several chats at the same time.
type intake struct {
	channel  *Channel
	working  chan struct{}
	hasRival atomic.Bool // another process polls
	// handled has the newest handled updates, which are not handled again. Forgetting an older one does no harm: turns are named after updates.
	handled *lru.Cache[int64, struct{}]

	mu       sync.Mutex
	ctx      context.Context // of Serve; nil: closed
	lanes    map[int64]*lane
	pending  int           // updates in progress
	expected int           // updates that a poll brought and the library has yet to pass on
	freed    chan struct{} // closed and replaced whenever an update is finished
	done     sync.WaitGroup
}

// lane is the queue of one chat.
type lane struct{ waiting []task }

// task is one update. The outcome goes to answer, unless that is nil; it has room.
type task struct {
	ctx    context.Context // nil: that of Serve
	update *models.Update
	answer chan<- error
}

func newIntake(c *Channel) *intake {
	handled, _ := lru.New[int64, struct{}](maxHandled) // it fails only for a size below 1
	return &intake{
		channel: c, working: make(chan struct{}, maxWorking), lanes: map[int64]*lane{}, freed: make(chan struct{}), handled: handled,
	}
}

func (i *intake) open(ctx context.Context) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ctx, i.pending, i.expected = ctx, 0, 0
}

// serving returns the context of Serve, or nil.
func (i *intake) serving() context.Context {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.ctx
}

// close accepts no more updates and waits until those in progress are finished, or given up because Serve's context has ended.
func (i *intake) close() {
	i.mu.Lock()
	i.ctx = nil
	i.mu.Unlock()
	i.done.Wait()
}

// waitUntilIdle waits until no update is in progress.
func (i *intake) waitUntilIdle(ctx context.Context) error {
	for {
		i.mu.Lock()
		left, freed := i.pending+i.expected, i.freed
		i.mu.Unlock()
		if left == 0 {
			return ctx.Err()
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// setExpected sets how many updates the library is about to pass on.
func (i *intake) setExpected(n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.expected = n
	i.signalProgress()
}

// signalProgress wakes the goroutines in waitUntilIdle. The mutex is held.
func (i *intake) signalProgress() {
	close(i.freed)
	i.freed = make(chan struct{})
}

// handlePolled handles an update that the library polled. The library polls again only after [intake.waitUntilIdle].
func (i *intake) handlePolled(_ context.Context, _ *bot.Bot, u *models.Update) {
	i.hasRival.Store(false)
	err := i.enqueue(task{update: u})
	i.mu.Lock()
	i.expected = max(0, i.expected-1)
	i.signalProgress()
	i.mu.Unlock()
	if err != nil && !errors.Is(err, errClosed) {
		i.channel.cfg.Logger.Warn("update dropped", zap.Int64("update", u.ID), zap.Error(err))
	}
}

// enqueue puts an update into the lane of its chat.
func (i *intake) enqueue(t task) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	chat := chatOfUpdate(t.update)
	l := i.lanes[chat]
	switch {
	case i.ctx == nil:
		return errClosed
	case i.pending >= maxTaken:
		return agent.Errorf(agent.CodeRateLimited, "", "%d updates are being dealt with", i.pending)
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

// runLane handles the updates of a lane and ends when there are no more.
func (i *intake) runLane(chat int64, l *lane) {
	i.working <- struct{}{}
	defer func() { <-i.working }()
	for {
		i.mu.Lock()
		if len(l.waiting) == 0 {
			delete(i.lanes, chat)
			i.mu.Unlock()
			return
		}
		t := l.waiting[0]
		l.waiting = l.waiting[1:]
		isKnown := i.handled.Contains(t.update.ID)
		i.mu.Unlock()

		var err error
		if !isKnown {
			err = i.process(t)
		}
		if t.answer != nil {
			t.answer <- err
		}
		i.mu.Lock()
		if err == nil && !isKnown {
			i.handled.Add(t.update.ID, struct{}{})
		}
		// An update that failed because the bot stops stays in progress: it must not be confirmed.
		if t.ctx.Err() == nil || t.answer != nil {
			i.pending--
			i.signalProgress()
		}
		i.mu.Unlock()
	}
}

// process handles one update. It retries without end while something is unavailable, and a few times after other errors.
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

// ServeHTTP is the webhook, POST /channels/telegram. It answers 200 when the update was handled, and 503 when Telegram must send it again.
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
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readTime)) // if the server supports it
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxUpdate))
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	var u models.Update
	if err != nil || json.Unmarshal(data, &u) != nil || u.ID <= 0 {
		w.WriteHeader(http.StatusBadRequest) // Telegram does not send this
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), webhookTime)
	defer cancel()
	if serving := c.intake.serving(); serving != nil {
		defer context.AfterFunc(serving, cancel)()
	}
	outcome := make(chan error, 1)
	if err := c.intake.enqueue(task{ctx: ctx, update: &u, answer: outcome}); err != nil {
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

// equalSecrets compares two texts in constant time, whatever their lengths.
func equalSecrets(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

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
