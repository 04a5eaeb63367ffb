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
	storeTime = 10 * time.Second // of one write while a process leaves
	maxClaims = 32               // answers that are taken over at a time
)

// answers shows what turns say, at most MaxAnswers at once. What it cannot show now, because it is full or ends, is in the store, for itself
// or for another process.
type answers struct {
	channel *Channel

	mu      sync.Mutex
	ctx     context.Context // of Serve; nil: nobody serves
	inbox   agent.Inbox
	showing int
	holds   int64         // names given to holders
	freed   chan struct{} // one word when there is room again
	done    sync.WaitGroup
}

func newAnswers(c *Channel) *answers { return &answers{channel: c, freed: make(chan struct{}, 1)} }

func (a *answers) open(ctx context.Context, in agent.Inbox) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ctx, a.inbox = ctx, in
}

// serve shows answers until ctx, that of open, ends, and takes over those that nobody shows.
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

// claim takes over what nobody shows, as far as there is room.
func (a *answers) claim(ctx context.Context) {
	c := a.channel
	a.mu.Lock()
	room := min(c.cfg.MaxAnswers-a.showing, maxClaims)
	a.mu.Unlock()
	if room <= 0 {
		return
	}
	holder := a.holder()
	turns, err := c.cfg.Store.ClaimTurns(ctx, Name, c.account, holder, c.cfg.Lease, room)
	if err != nil {
		if ctx.Err() == nil {
			c.cfg.Logger.Warn("looking for answers that nobody shows", zap.Error(err))
		}
		return
	}
	for i := range turns {
		if !a.enter() {
			a.letGo(ctx, &turns[i], holder)
			continue
		}
		a.show(&turns[i], holder)
	}
}

// owe records that a chat is owed the answer of a turn, and shows it if there is room.
func (a *answers) owe(ctx context.Context, t agent.ChatTurn) error {
	c := a.channel
	room := a.enter()
	holder := ""
	if room {
		holder = a.holder()
	}
	fresh, err := c.cfg.Store.OweTurn(ctx, t, holder, c.cfg.Lease)
	switch {
	case err != nil || !fresh: // the same message again: it is shown already
		if room {
			a.leave()
		}
		return err
	case room:
		a.show(&t, holder)
	}
	return nil
}

// holder names whoever shows an answer. Each time is another: a process that was slow may claim what it shows itself, and then its first
// showing must notice.
func (a *answers) holder() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.holds++
	return a.channel.process + "/" + strconv.FormatInt(a.holds, 10)
}

// enter takes a place.
func (a *answers) enter() bool {
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

func (a *answers) leave() {
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

// show shows one answer in a goroutine of its own, which has a place already.
func (a *answers) show(t *agent.ChatTurn, holder string) {
	a.mu.Lock()
	ctx, in := a.ctx, a.inbox
	a.mu.Unlock()
	go func() {
		defer a.leave()
		if ctx == nil {
			return // its lease runs out
		}
		d := newDelivery(a.channel, in, *t, holder)
		outcome := d.run(ctx)
		a.channel.metrics.answers.WithLabelValues(outcome).Inc()
		if outcome == outcomeLeft {
			a.letGo(ctx, &d.turn, holder)
			return
		}
		a.settle(ctx, t.TurnID, holder)
	}()
}

// letGo gives an answer to whoever claims it next.
func (a *answers) letGo(ctx context.Context, t *agent.ChatTurn, holder string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
	defer cancel()
	if _, err := a.channel.cfg.Store.SaveTurn(ctx, t, holder, 0); err != nil {
		a.channel.cfg.Logger.Warn("answer is left to run out", zap.String("turn", string(t.TurnID)), zap.Error(err))
	}
}

func (a *answers) settle(ctx context.Context, id agent.TurnID, holder string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
	defer cancel()
	if err := a.channel.cfg.Store.SettleTurn(ctx, id, holder); err != nil {
		a.channel.cfg.Logger.Warn("answer may be shown again", zap.String("turn", string(id)), zap.Error(err))
	}
}
