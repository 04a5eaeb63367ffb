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
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

// Bounds of what comes in.
const (
	maxTaken     = 128 // updates that are being dealt with; Telegram gives at most 100 at a time
	maxWorking   = 16  // chats whose updates are being dealt with at a moment
	maxLane      = 30  // updates of one chat that wait for each other
	maxUpdate    = 1 << 20
	webhookConns = 40
	webhookTime  = 25 * time.Second // Telegram waits about a minute
	readTime     = 10 * time.Second
	maxTries     = 5 // at an update whose failure is nobody's absence
	maxRecent    = 4096
	secretHeader = "X-Telegram-Bot-Api-Secret-Token" //nolint:gosec // the header's name
)

// errClosed says that the bot does not take updates now.
var errClosed = errors.New("the bot is not serving")

// intake deals with updates: those of one chat in order, those of several at once. Its goroutines end with their lanes.
type intake struct {
	channel *Channel
	working chan struct{}
	rival   atomic.Bool // another process polls

	mu     sync.Mutex
	ctx    context.Context // of Serve; nil: closed
	lanes  map[int64]*lane
	taken  int           // updates that are being dealt with
	coming int           // those that a poll brought and the library has yet to hand over
	freed  chan struct{} // closed and replaced whenever taken becomes less
	recent map[int64]bool
	order  []int64
	done   sync.WaitGroup
}

// lane is the line of one chat.
type lane struct{ waiting []task }

// task is one update. answer, where somebody waits, has room for the outcome.
type task struct {
	ctx    context.Context // nil: that of Serve
	update *models.Update
	answer chan<- error
}

func newIntake(c *Channel) *intake {
	return &intake{
		channel: c, working: make(chan struct{}, maxWorking), lanes: map[int64]*lane{}, freed: make(chan struct{}), recent: map[int64]bool{},
	}
}

func (i *intake) open(ctx context.Context) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ctx, i.taken, i.coming = ctx, 0, 0
}

// serving is the context of Serve; nil when nobody serves.
func (i *intake) serving() context.Context {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.ctx
}

// close takes no more and waits until what was taken has been dealt with, or given up because Serve's context ended.
func (i *intake) close() {
	i.mu.Lock()
	i.ctx = nil
	i.mu.Unlock()
	i.done.Wait()
}

// settle waits until everything that was taken has been dealt with.
func (i *intake) settle(ctx context.Context) error {
	for {
		i.mu.Lock()
		left, freed := i.taken+i.coming, i.freed
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

// expect is how many updates the library is about to hand over.
func (i *intake) expect(n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.coming = n
	i.less()
}

// less tells who waits in settle that there is less to wait for. The mutex is held.
func (i *intake) less() {
	close(i.freed)
	i.freed = make(chan struct{})
}

// polled takes an update that the library polled. The library waits for it; Telegram is asked for more only after [intake.settle].
func (i *intake) polled(_ context.Context, _ *bot.Bot, u *models.Update) {
	i.rival.Store(false)
	err := i.take(task{update: u})
	i.mu.Lock()
	i.coming = max(0, i.coming-1)
	i.less()
	i.mu.Unlock()
	if err != nil && !errors.Is(err, errClosed) {
		i.channel.cfg.Logger.Warn("update dropped", zap.Int64("update", u.ID), zap.Error(err))
	}
}

// take puts an update into the line of its chat.
func (i *intake) take(t task) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	chat := chatOfUpdate(t.update)
	l := i.lanes[chat]
	switch {
	case i.ctx == nil:
		return errClosed
	case i.taken >= maxTaken:
		return agent.Errorf(agent.CodeRateLimited, "", "%d updates are being dealt with", i.taken)
	case l != nil && len(l.waiting) >= maxLane:
		return agent.Errorf(agent.CodeRateLimited, "", "%d updates of the chat are waiting", len(l.waiting))
	}
	if t.ctx == nil {
		t.ctx = i.ctx
	}
	i.taken++
	if l != nil {
		l.waiting = append(l.waiting, t)
		return nil
	}
	l = &lane{waiting: []task{t}}
	i.lanes[chat] = l
	i.done.Go(func() { i.run(chat, l) })
	return nil
}

// run works a lane off and ends with it.
func (i *intake) run(chat int64, l *lane) {
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
		known := i.recent[t.update.ID]
		i.mu.Unlock()

		var err error
		if !known {
			err = i.deal(t)
		}
		if t.answer != nil {
			t.answer <- err
		}
		i.mu.Lock()
		if err == nil && !known {
			i.remember(t.update.ID)
		}
		// What was not dealt with because the bot stops stays taken: it must not be confirmed.
		if t.ctx.Err() == nil || t.answer != nil {
			i.taken--
			i.less()
		}
		i.mu.Unlock()
	}
}

// remember keeps the newest updates that were dealt with: one that comes again is nothing new. Those that are not known any more are
// harmless, for turns are named after them.
func (i *intake) remember(update int64) {
	if len(i.order) == maxRecent {
		delete(i.recent, i.order[0])
		i.order = i.order[1:]
	}
	i.recent[update] = true
	i.order = append(i.order, update)
}

// deal deals with one update: again and again while something is away, a few times when something is broken.
func (i *intake) deal(t task) error {
	wait := patience()
	for tries := 0; ; {
		if err := t.ctx.Err(); err != nil {
			return err
		}
		err := i.channel.update(t.ctx, t.update)
		switch {
		case err == nil:
			return nil
		case t.ctx.Err() != nil:
			return err
		case agent.CodeOf(err) != agent.CodeUnavailable && agent.CodeOf(err) != agent.CodeRateLimited:
			if tries++; tries >= maxTries {
				i.channel.cfg.Logger.Error("update given up", zap.Int64("update", t.update.ID), zap.Error(err))
				i.channel.apologise(t.ctx, t.update)
				return nil
			}
		}
		i.channel.cfg.Logger.Warn("update waits", zap.Int64("update", t.update.ID), zap.Error(err))
		pause(t.ctx, max(wait.NextBackOff(), asked(err)))
	}
}

// ServeHTTP is the webhook, POST /channels/telegram. It answers 200 when the update has been dealt with, and 503 when Telegram must bring it
// again.
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
	if !same(r.Header.Get(secretHeader), c.cfg.WebhookSecret) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readTime)) // where there is one
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxUpdate))
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	var u models.Update
	if err != nil || json.Unmarshal(data, &u) != nil || u.ID <= 0 {
		w.WriteHeader(http.StatusBadRequest) // whoever knows the secret and sends this is not Telegram
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), webhookTime)
	defer cancel()
	if serving := c.intake.serving(); serving != nil {
		defer context.AfterFunc(serving, cancel)()
	}
	outcome := make(chan error, 1)
	if err := c.intake.take(task{ctx: ctx, update: &u, answer: outcome}); err != nil {
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

// same compares in a time that says nothing of either, its length included.
func same(a, b string) bool {
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
