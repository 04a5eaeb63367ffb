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
	typingEvery    = 4 * time.Second  // Telegram shows "typing" for five seconds
	maxTypingQuiet = 5 * time.Minute  // time since the last event after which "typing" is no longer shown
	finishTimeout  = 10 * time.Minute // for showing the end of a turn
)

// The outcomes of a delivery.
const (
	outcomeShown   = "shown"
	outcomeBlocked = "blocked" // the person has blocked the bot
	outcomeLeft    = "left"    // not complete: another process continues
)

// errLeaseLost is the error of a delivery whose answer another process shows.
var errLeaseLost = errors.New("another process shows the answer")

// delivery shows one turn in its chat. One goroutine reads the turn's events and another one calls Telegram, so a slow Telegram delays only this turn.
type delivery struct {
	c      *Channel
	inbox  agent.Inbox
	turn   agent.ChatTurn
	holder string
	chat   int64
	logger *zap.Logger

	answer      answer
	shown       []piece   // the content of the answer's messages that this process has written
	changed     bool      // whether the answer has changed since it was shown
	pausedUntil time.Time // Telegram asked for no edits before this time

	questions     map[string]*question // approvals that wait, by id
	questionOrder []string             // their ids, oldest first
	lastEventAt   time.Time            // when the last event arrived
}

// question is an approval and the messages that ask for it.
type question struct {
	approval agent.Approval
	messages []agent.ChatQuestion
	isAsked  bool
}

func newDelivery(c *Channel, in agent.Inbox, t agent.ChatTurn, holder string) *delivery {
	chat, _ := strconv.ParseInt(t.ChatID, 10, 64) // chatOf formatted it
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
		d.logger.Info("answer not delivered: the chat has blocked the bot", zap.Error(err))
		return outcomeBlocked
	case ctx.Err() == nil:
		d.logger.Warn("answer not complete", zap.Error(err))
	}
	return outcomeLeft
}

// loadQuestions loads the questions that an earlier process has asked.
func (d *delivery) loadQuestions(ctx context.Context) error {
	asked, err := d.c.cfg.Store.TurnQuestions(ctx, d.turn.TurnID)
	for i := range asked {
		q := d.questionOf(asked[i].ApprovalID)
		q.isAsked, q.messages = true, append(q.messages, asked[i])
	}
	return err
}

// questionOf returns the question for an approval, which it adds if there is none.
func (d *delivery) questionOf(approvalID string) *question {
	q := d.questions[approvalID]
	if q == nil {
		q = &question{}
		d.questions[approvalID] = q
		d.questionOrder = append(d.questionOrder, approvalID)
	}
	return q
}

// eventOrError is the turn's next event, or the error after which no event follows.
type eventOrError struct {
	event agent.Event
	err   error
}

// showEvents shows the turn's events as they arrive, until the end of the turn is shown.
func (d *delivery) showEvents(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	events, ended := make(chan eventOrError), make(chan struct{})
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
				return d.showReadError(ctx, n.err)
			}
			d.addEvent(&n.event)
			if d.answer.terminal != nil {
				return d.showEnd(ctx, d.answer.finalMessages(d.turn.TurnID))
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

// readEvents sends the turn's events to a chan, up to the last one or an error that lasts. It begins with the first event or, if that has expired,
// where the last delivery stopped.
func (d *delivery) readEvents(ctx context.Context, to chan<- eventOrError) {
	resumeAfter := d.turn.After // read now: the other goroutine advances it
	wait := newBackoff()
	after, failures := int64(0), 0
	for ctx.Err() == nil {
		last, err := d.followTurn(ctx, after, to)
		if err == nil {
			return
		}
		if last > after {
			after, failures = last, 0
			wait.Reset()
		}
		isGap := errors.Is(err, agent.ErrGap)
		if isGap && after < resumeAfter {
			after = resumeAfter
			continue
		}
		switch agent.CodeOf(err) {
		case agent.CodeUnavailable, agent.CodeCancelled, agent.CodeRateLimited:
		default:
			failures++
		}
		if isGap || failures >= maxTries {
			select {
			case to <- eventOrError{err: err}:
			case <-ctx.Done():
			}
			return
		}
		pause(ctx, max(wait.NextBackOff(), min(retryAfter(err), 15*time.Second)))
	}
}

// followTurn sends the turn's events after an index to a chan, and returns the index of the last one that it sent. err is nil after the turn's last
// event, or if ctx has ended.
func (d *delivery) followTurn(ctx context.Context, after int64, to chan<- eventOrError) (last int64, err error) {
	last = after
	for e, err := range d.inbox.Follow(ctx, d.turn.TurnID, after) {
		if err != nil {
			return last, err
		}
		select {
		case to <- eventOrError{event: e}:
		case <-ctx.Done():
			return last, nil
		}
		last = e.Meta.EventIndex
		if e.Terminal() {
			return last, nil
		}
	}
	return last, agent.Errorf(agent.CodeUnavailable, "follow turn", "the events of turn %s ended before the turn", d.turn.TurnID)
}

// addEvent updates the delivery with the turn's next event. It calls neither Telegram nor the store.
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

// showProgress asks new questions and edits the answer if it has changed. It does not retry, because the next edit follows soon.
func (d *delivery) showProgress(ctx context.Context) error {
	if time.Now().Before(d.pausedUntil) {
		return nil
	}
	err := d.askQuestions(ctx)
	if err == nil && d.changed {
		if err = d.writeMessages(ctx, d.answer.progressMessages(len(d.turn.Messages)), callOnce); err == nil {
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

// showReadError tells the person that the turn's events can no longer be read.
func (d *delivery) showReadError(ctx context.Context, cause error) error {
	if ctx.Err() != nil {
		return cause
	}
	d.logger.Warn("turn cannot be followed", zap.Error(cause))
	return d.showEnd(ctx, []piece{plainText("Sorry, I have lost sight of this. (turn " + clipUnits(string(d.turn.TurnID), 128) + ")")})
}

// showEnd closes the questions and shows the final messages of the answer, with retries.
func (d *delivery) showEnd(ctx context.Context, parts []piece) error {
	ctx, cancel := context.WithTimeout(ctx, finishTimeout)
	defer cancel()
	if err := d.waitUnderLease(ctx, time.Until(d.pausedUntil)); err != nil {
		return err
	}
	if err := d.closeQuestions(ctx); err != nil {
		return err
	}
	return d.writeMessages(ctx, parts, d.retry)
}
