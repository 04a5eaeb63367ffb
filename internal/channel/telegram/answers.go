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
	storeTimeout = 10 * time.Second // of a write that goes on after Serve's context has ended
	maxClaims    = 32               // answers that one claim takes over
)

// answers shows the answers of turns, at most MaxAnswers at once. Others stay in the store until this process or another one claims them.
type answers struct {
	channel *Channel

	mu         sync.Mutex
	ctx        context.Context // of Serve; nil unless Serve runs
	inbox      agent.Inbox
	showing    int           // answers that are shown now
	lastHolder int64         // number of the last name from newHolder
	freed      chan struct{} // receives a value when there is room again
	done       sync.WaitGroup
}

func newAnswers(c *Channel) *answers { return &answers{channel: c, freed: make(chan struct{}, 1)} }

func (a *answers) open(ctx context.Context, in agent.Inbox) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ctx, a.inbox = ctx, in
}

// serve claims and shows answers until ctx, the context of open, ends. Then it waits until no answer is shown.
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

// claim takes over answers that no process shows, as many as there is room for.
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
	isNew, err := c.cfg.Store.OweTurn(ctx, t, holder, c.cfg.Lease)
	switch {
	case !room:
		return err
	case err != nil || !isNew: // not new: Telegram sent the message again, and its answer is shown already
		a.freeSlot()
		return err
	}
	a.show(&t, holder)
	return nil
}

// newHolder returns a new name for the holder of a lease. Each delivery has its own, so that it notices when this same process has claimed its
// answer again after the lease expired.
func (a *answers) newHolder() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lastHolder++
	return a.channel.processID + "/" + strconv.FormatInt(a.lastHolder, 10)
}

// takeSlot reserves room for one answer, and reports whether there was room.
func (a *answers) takeSlot() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ctx == nil || a.ctx.Err() != nil || a.showing >= a.channel.cfg.MaxAnswers {
		return false
	}
	a.showing++
	a.done.Add(1)
	a.channel.metrics.showing.Inc()
	return true
}

func (a *answers) freeSlot() {
	a.mu.Lock()
	wasFull := a.showing >= a.channel.cfg.MaxAnswers
	a.showing--
	a.mu.Unlock()
	a.channel.metrics.showing.Dec()
	a.done.Done()
	if !wasFull {
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
			return // another process shows the answer after the lease
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
		a.channel.cfg.Logger.Warn("answer not released: others can claim it when its lease has expired", zap.String("turn", string(t.TurnID)), zap.Error(err))
	}
}

// settleTurn records that an answer was shown completely, or cannot be shown.
func (a *answers) settleTurn(ctx context.Context, id agent.TurnID, holder string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err := a.channel.cfg.Store.SettleTurn(ctx, id, holder); err != nil {
		a.channel.cfg.Logger.Warn("answer may be shown again", zap.String("turn", string(id)), zap.Error(err))
	}
}
