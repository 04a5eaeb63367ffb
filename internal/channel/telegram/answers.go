package telegram

import (
	"context"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	storeTimeout = 10 * time.Second // of one write while the process ends
	maxClaims    = 32               // answers taken over at a time
)

// answers shows the answers of turns, at most MaxAnswers at once. Those that it cannot show now stay in the store, for itself or for another
// process.
type answers struct {
	channel *Channel

	mu      sync.Mutex
	ctx     context.Context // of Serve; nil: not serving
	inbox   agent.Inbox
	showing int
	holders int64         // number of the newest holder
	freed   chan struct{} // receives a value when there is room again
	done    sync.WaitGroup
}

func newAnswers(c *Channel) *answers { return &answers{channel: c, freed: make(chan struct{}, 1)} }

func (a *answers) open(ctx context.Context, in agent.Inbox) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ctx, a.inbox = ctx, in
}

// serve shows answers until ctx, which is that of open, ends. It takes over the answers that no process shows.
func (a *answers) serve(ctx context.Context) {
	every := time.NewTicker(a.channel.cfg.Lease / 3)
	defer every.Stop()
	for ctx.Err() == nil {
		a.claim(ctx)
		select {
		case <-ctx.Done():
		case <-every.C:
		case <-a.freed:
		}
	}
	a.mu.Lock()
	a.ctx = nil
	a.mu.Unlock()
	a.done.Wait()
}

// claim takes over answers that no process shows, as far as there is room.
func (a *answers) claim(ctx context.Context) {
	c := a.channel
	a.mu.Lock()
	room := min(c.cfg.MaxAnswers-a.showing, maxClaims)
	a.mu.Unlock()
	if room <= 0 {
		return
	}
	holder := a.newHolder()
	turns, err := c.cfg.Store.ClaimTurns(ctx, Name, c.account, holder, c.cfg.Lease, room)
	if err != nil {
		if ctx.Err() == nil {
			c.cfg.Logger.Warn("claim answers that no process shows", zap.Error(err))
		}
		return
	}
	for i := range turns {
		if !a.takeSlot() {
			a.releaseTurn(ctx, &turns[i], holder)
			continue
		}
		a.show(&turns[i], holder)
	}
}

// owe records that a chat is owed the answer of a turn, and shows it if there is room.
func (a *answers) owe(ctx context.Context, t agent.ChatTurn) error {
	c := a.channel
	room := a.takeSlot()
	holder := ""
	if room {
		holder = a.newHolder()
	}
	fresh, err := c.cfg.Store.OweTurn(ctx, t, holder, c.cfg.Lease)
	switch {
	case err != nil || !fresh: // not fresh: the same message came again, and its answer is shown already
		if room {
			a.freeSlot()
		}
		return err
	case room:
		a.show(&t, holder)
	}
	return nil
}

// newHolder returns a new name for the holder of an answer. Each delivery has its own: a slow process may claim an answer that it shows already,
// and then the first delivery must notice.
func (a *answers) newHolder() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.holders++
	return a.channel.process + "/" + strconv.FormatInt(a.holders, 10)
}

// takeSlot reserves room for one answer and reports whether there was any.
func (a *answers) takeSlot() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ctx == nil || a.ctx.Err() != nil || a.showing >= a.channel.cfg.MaxAnswers {
		return false
	}
	a.showing++
	a.done.Add(1)
	a.channel.metrics.shown.Inc()
	return true
}

func (a *answers) freeSlot() {
	a.mu.Lock()
	full := a.showing >= a.channel.cfg.MaxAnswers
	a.showing--
	a.mu.Unlock()
	a.channel.metrics.shown.Dec()
	a.done.Done()
	if !full {
		return
	}
	select {
	case a.freed <- struct{}{}:
	default:
	}
}

// show shows one answer in a new goroutine. The caller has taken a slot, which show frees.
func (a *answers) show(t *agent.ChatTurn, holder string) {
	a.mu.Lock()
	ctx, in := a.ctx, a.inbox
	a.mu.Unlock()
	go func() {
		defer a.freeSlot()
		if ctx == nil {
			return // its lease runs out
		}
		d := newDelivery(a.channel, in, *t, holder)
		outcome := d.run(ctx)
		a.channel.metrics.answers.WithLabelValues(outcome).Inc()
		if outcome == outcomeLeft {
			a.releaseTurn(ctx, &d.turn, holder)
			return
		}
		a.settleTurn(ctx, t.TurnID, holder)
	}()
}

// releaseTurn lets another process claim an answer.
func (a *answers) releaseTurn(ctx context.Context, t *agent.ChatTurn, holder string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if _, err := a.channel.cfg.Store.SaveTurn(ctx, t, holder, 0); err != nil {
		a.channel.cfg.Logger.Warn("answer not released before its lease runs out", zap.String("turn", string(t.TurnID)), zap.Error(err))
	}
}

func (a *answers) settleTurn(ctx context.Context, id agent.TurnID, holder string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err := a.channel.cfg.Store.SettleTurn(ctx, id, holder); err != nil {
		a.channel.cfg.Logger.Warn("answer may be shown again", zap.String("turn", string(id)), zap.Error(err))
	}
}
