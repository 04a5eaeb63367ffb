package telegram

import (
	"context"
	"errors"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	typingEvery = 4 * time.Second  // Telegram shows it for five
	quietAfter  = 5 * time.Minute  // without an event, after which typing is no longer shown
	finishTime  = 10 * time.Minute // to show the end of a turn
)

// The outcomes of a delivery.
const (
	outcomeShown   = "shown"
	outcomeBlocked = "blocked" // the person has blocked the bot
	outcomeLeft    = "left"    // not complete: the next process continues
)

// errLeaseLost says that another process shows the answer.
var errLeaseLost = errors.New("another process shows the answer")

// delivery shows one turn in its chat. One goroutine reads events, the other one calls Telegram. So a slow Telegram delays only the reader of this
// turn.
type delivery struct {
	c      *Channel
	inbox  agent.Inbox
	turn   agent.ChatTurn
	holder string
	chat   int64
	logger *zap.Logger

	answer      answer
	shown       []piece   // the content of the answer's messages, as far as known
	changed     bool      // the answer has changed since it was shown
	pausedUntil time.Time // no edits before

	questions   map[string]*question // approvals that wait, by id
	order       []string             // their ids, oldest first
	lastEventAt time.Time            // when the last event arrived
}

// question is an approval and the messages that ask for it.
type question struct {
	approval agent.Approval
	messages []agent.ChatQuestion
	isAsked  bool
}

func newDelivery(c *Channel, in agent.Inbox, t agent.ChatTurn, holder string) *delivery {
	chat, _ := strconv.ParseInt(t.ChatID, 10, 64) // we wrote it
	return &delivery{
		c: c, inbox: in, turn: t, holder: holder, chat: chat, questions: map[string]*question{}, lastEventAt: time.Now(),
		logger: c.cfg.Logger.With(zap.String("turn", string(t.TurnID)), zap.Int64("chat", chat)),
	}
}

// run shows the turn until it is complete, or ctx ends.
func (d *delivery) run(ctx context.Context) (outcome string) {
	err := d.loadQuestions(ctx)
	if err == nil {
		err = d.showEvents(ctx)
	}
	switch {
	case err == nil:
		return outcomeShown
	case agent.CodeOf(err) == agent.CodeDenied:
		d.logger.Info("answer not wanted", zap.Error(err))
		return outcomeBlocked
	case ctx.Err() == nil:
		d.logger.Warn("answer not complete", zap.Error(err))
	}
	return outcomeLeft
}

// loadQuestions reads which questions were asked before.
func (d *delivery) loadQuestions(ctx context.Context) error {
	asked, err := d.c.cfg.Store.TurnQuestions(ctx, d.turn.TurnID)
	for i := range asked {
		q := d.questionOf(asked[i].ApprovalID)
		q.isAsked, q.messages = true, append(q.messages, asked[i])
	}
	return err
}

func (d *delivery) questionOf(id string) *question {
	q := d.questions[id]
	if q == nil {
		q = &question{}
		d.questions[id] = q
		d.order = append(d.order, id)
	}
	return q
}

// nextEvent is an event, or the error that ends them.
type nextEvent struct {
	event agent.Event
	err   error
}

func (d *delivery) showEvents(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	events, ended := make(chan nextEvent), make(chan struct{})
	defer func() { stop(); <-ended }()
	go func() {
		defer close(ended)
		d.readEvents(ctx, events)
	}()
	edit, lease, typing := time.NewTicker(d.c.cfg.EditEvery), time.NewTicker(d.c.cfg.Lease/3), time.NewTicker(typingEvery)
	defer edit.Stop()
	defer lease.Stop()
	defer typing.Stop()
	d.showTyping(ctx)
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case n := <-events:
			if n.err != nil {
				return d.showLoss(ctx, n.err)
			}
			d.addEvent(&n.event)
			if d.answer.terminal != nil {
				return d.showEnd(ctx, d.answer.final(d.turn.TurnID))
			}
		case <-edit.C:
			err = d.showProgress(ctx)
		case <-lease.C:
			err = d.renewLease(ctx)
		case <-typing.C:
			d.showTyping(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// readEvents reads the turn's events to the last: from the beginning or, if that has expired, from where the last reader stopped.
func (d *delivery) readEvents(ctx context.Context, to chan<- nextEvent) {
	send := func(n nextEvent) bool {
		select {
		case to <- n:
			return true
		case <-ctx.Done():
			return false
		}
	}
	after, resume := int64(0), d.turn.After
	wait := newBackoff()
	for tries := 0; ctx.Err() == nil; {
		err := error(agent.Errorf(agent.CodeUnavailable, "follow turn", "the events of turn %s ended before the turn", d.turn.TurnID))
		for e, failed := range d.inbox.Follow(ctx, d.turn.TurnID, after) {
			if failed != nil {
				err = failed
				break
			}
			after, tries = e.Meta.EventIndex, 0
			wait.Reset()
			if !send(nextEvent{event: e}) || e.Terminal() {
				return
			}
		}
		switch code := agent.CodeOf(err); {
		case errors.Is(err, agent.ErrGap) && after < resume:
			after = resume
			continue
		case errors.Is(err, agent.ErrGap), code != agent.CodeUnavailable && code != agent.CodeCancelled && code != agent.CodeRateLimited:
			if tries++; errors.Is(err, agent.ErrGap) || tries >= maxTries {
				send(nextEvent{err: err})
				return
			}
		}
		pause(ctx, max(wait.NextBackOff(), min(retryAfter(err), 15*time.Second)))
	}
}

// addEvent adds the next event.
func (d *delivery) addEvent(e *agent.Event) {
	d.lastEventAt = time.Now()
	d.turn.After = max(d.turn.After, e.Meta.EventIndex)
	d.answer.addEvent(e)
	d.changed = d.changed || e.Type == agent.EventToken || e.Type == agent.EventReset
	if a := e.Approval; a != nil {
		switch e.Type {
		case agent.EventApprovalRequested, agent.EventApprovalResolved:
			q := d.questionOf(a.ApprovalID)
			if q.approval.ApprovalID == "" {
				q.approval = *a
			}
			q.approval.Decision, q.approval.By = a.Decision, a.By
		default:
		}
	}
}

// showProgress shows what has changed. It does not retry: the next edit follows soon, and the last one retries.
func (d *delivery) showProgress(ctx context.Context) error {
	if time.Now().Before(d.pausedUntil) {
		return nil
	}
	err := d.askQuestions(ctx)
	if err == nil && d.changed {
		if err = d.writeMessages(ctx, d.answer.growing(len(d.turn.Messages)), callOnce); err == nil {
			d.changed = false
		}
	}
	if errors.Is(err, errLeaseLost) || agent.CodeOf(err) == agent.CodeDenied {
		return err
	}
	if err != nil && ctx.Err() == nil {
		d.pausedUntil = time.Now().Add(max(retryAfter(err), d.c.cfg.EditEvery))
		d.logger.Debug("answer not edited", zap.Error(err))
	}
	return nil
}

// showLoss tells the person that the turn's events can no longer be read.
func (d *delivery) showLoss(ctx context.Context, cause error) error {
	if ctx.Err() != nil {
		return cause
	}
	d.logger.Warn("turn cannot be followed", zap.Error(cause))
	return d.showEnd(ctx, []piece{plainText("Sorry, I have lost sight of this. (turn " + clipUnits(string(d.turn.TurnID), 128) + ")")})
}

// showEnd closes the questions and shows the last messages, with retries.
func (d *delivery) showEnd(ctx context.Context, parts []piece) error {
	ctx, cancel := context.WithTimeout(ctx, finishTime)
	defer cancel()
	if err := d.waitUnderLease(ctx, time.Until(d.pausedUntil)); err != nil {
		return err
	}
	if err := d.closeQuestions(ctx); err != nil {
		return err
	}
	return d.writeMessages(ctx, parts, d.retry)
}
