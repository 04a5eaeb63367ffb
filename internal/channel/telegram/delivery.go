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
	typingEvery = 4 * time.Second // Telegram shows it for five
	quietAfter  = 5 * time.Minute // without an event nobody types
	finishTime  = 10 * time.Minute
)

// How a delivery came out.
const (
	outcomeShown   = "shown"
	outcomeBlocked = "blocked" // the person does not want to hear from the bot
	outcomeLeft    = "left"    // not complete: the next process goes on
)

// errLost says that another process shows the answer.
var errLost = errors.New("another process shows the answer")

// delivery shows one turn in its chat. It is two goroutines: one reads events, the other, its owner, speaks to Telegram; a Telegram that is
// slow makes the reader wait, and with it nobody else.
type delivery struct {
	c      *Channel
	inbox  agent.Inbox
	turn   agent.ChatTurn
	holder string
	chat   int64
	logger *zap.Logger

	answer answer
	shown  []piece // what the messages of the answer say, as far as known
	dirty  bool    // the answer has changed since
	quiet  time.Time

	questions map[string]*question // approvals that wait, by id
	asked     []string             // their ids, in the order in which they came
	heard     time.Time            // when the last event came
}

// question is an approval and the messages that put it.
type question struct {
	approval agent.Approval
	messages []agent.ChatQuestion
	put      bool
}

func newDelivery(c *Channel, in agent.Inbox, t agent.ChatTurn, holder string) *delivery {
	chat, _ := strconv.ParseInt(t.ChatID, 10, 64) // we wrote it
	return &delivery{
		c: c, inbox: in, turn: t, holder: holder, chat: chat, questions: map[string]*question{}, heard: time.Now(),
		logger: c.cfg.Logger.With(zap.String("turn", string(t.TurnID)), zap.Int64("chat", chat)),
	}
}

// run shows the turn until it is complete, or ctx ends.
func (d *delivery) run(ctx context.Context) (outcome string) {
	err := d.remember(ctx)
	if err == nil {
		err = d.watch(ctx)
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

// remember reads which questions were put before.
func (d *delivery) remember(ctx context.Context) error {
	put, err := d.c.cfg.Store.TurnQuestions(ctx, d.turn.TurnID)
	for i := range put {
		q := d.question(put[i].ApprovalID)
		q.put, q.messages = true, append(q.messages, put[i])
	}
	return err
}

func (d *delivery) question(id string) *question {
	q := d.questions[id]
	if q == nil {
		q = &question{}
		d.questions[id] = q
		d.asked = append(d.asked, id)
	}
	return q
}

// news is an event, or why there are no more.
type news struct {
	event agent.Event
	err   error
}

func (d *delivery) watch(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	events, ended := make(chan news), make(chan struct{})
	defer func() { stop(); <-ended }()
	go func() {
		defer close(ended)
		d.follow(ctx, events)
	}()
	edit, lease, typing := time.NewTicker(d.c.cfg.EditEvery), time.NewTicker(d.c.cfg.Lease/3), time.NewTicker(typingEvery)
	defer edit.Stop()
	defer lease.Stop()
	defer typing.Stop()
	d.typing(ctx)
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case n := <-events:
			if n.err != nil {
				return d.gone(ctx, n.err)
			}
			d.take(&n.event)
			if d.answer.terminal != nil {
				return d.finish(ctx)
			}
		case <-edit.C:
			err = d.grow(ctx)
		case <-lease.C:
			err = d.hold(ctx)
		case <-typing.C:
			d.typing(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// follow reads the turn's events from the beginning, or, where that has expired, from where the last reader was, until the last one.
func (d *delivery) follow(ctx context.Context, to chan<- news) {
	tell := func(n news) bool {
		select {
		case to <- n:
			return true
		case <-ctx.Done():
			return false
		}
	}
	after, resume := int64(0), d.turn.After
	wait := patience()
	for tries := 0; ctx.Err() == nil; {
		err := error(agent.Errorf(agent.CodeUnavailable, "follow turn", "the events of turn %s ended before the turn", d.turn.TurnID))
		for e, failed := range d.inbox.Follow(ctx, d.turn.TurnID, after) {
			if failed != nil {
				err = failed
				break
			}
			after, tries = e.Meta.EventIndex, 0
			wait.Reset()
			if !tell(news{event: e}) || e.Terminal() {
				return
			}
		}
		switch code := agent.CodeOf(err); {
		case errors.Is(err, agent.ErrGap) && after < resume:
			after = resume
			continue
		case errors.Is(err, agent.ErrGap), code != agent.CodeUnavailable && code != agent.CodeCancelled && code != agent.CodeRateLimited:
			if tries++; errors.Is(err, agent.ErrGap) || tries >= maxTries {
				tell(news{err: err})
				return
			}
		}
		pause(ctx, max(wait.NextBackOff(), min(asked(err), 15*time.Second)))
	}
}

// take takes the next event.
func (d *delivery) take(e *agent.Event) {
	d.heard = time.Now()
	d.turn.After = max(d.turn.After, e.Meta.EventIndex)
	d.answer.take(e)
	d.dirty = d.dirty || e.Type == agent.EventToken || e.Type == agent.EventReset
	if a := e.Approval; a != nil {
		switch e.Type {
		case agent.EventApprovalRequested, agent.EventApprovalResolved:
			q := d.question(a.ApprovalID)
			if q.approval.ApprovalID == "" {
				q.approval = *a
			}
			q.approval.Decision, q.approval.By = a.Decision, a.By
		default:
		}
	}
}

// grow shows what has changed. It is best effort: the next edit is soon, and the last one insists.
func (d *delivery) grow(ctx context.Context) error {
	if time.Now().Before(d.quiet) {
		return nil
	}
	err := d.ask(ctx)
	if err == nil && d.dirty {
		if err = d.paint(ctx, d.answer.parts(len(d.turn.Messages)), once); err == nil {
			d.dirty = false
		}
	}
	if errors.Is(err, errLost) || agent.CodeOf(err) == agent.CodeDenied {
		return err
	}
	if err != nil && ctx.Err() == nil {
		d.quiet = time.Now().Add(max(asked(err), d.c.cfg.EditEvery))
		d.logger.Debug("answer not edited", zap.Error(err))
	}
	return nil
}

// once tries once; [insist] is the other way.
func once(_ context.Context, do func() error) error { return do() }

// paint makes the messages of the answer say parts.
func (d *delivery) paint(ctx context.Context, parts []piece, try func(context.Context, func() error) error) error {
	for i, p := range parts {
		if i < len(d.shown) && d.shown[i].equal(p) {
			continue
		}
		if err := d.put(ctx, i, p, try); err != nil {
			return err
		}
		for len(d.shown) <= i {
			d.shown = append(d.shown, piece{})
		}
		d.shown[i] = p
	}
	for n := len(d.turn.Messages); n > len(parts); n = len(d.turn.Messages) { // text was taken back
		last := d.turn.Messages[n-1]
		if err := try(ctx, func() error { return d.c.api.remove(ctx, d.chat, last) }); err != nil && !rejected(err) {
			return err
		}
		d.turn.Messages = d.turn.Messages[:n-1]
		d.shown = d.shown[:min(len(d.shown), n-1)]
		if err := d.hold(ctx); err != nil {
			return err
		}
	}
	return nil
}

// put makes message i of the answer say p. One that the person has deleted is sent again.
func (d *delivery) put(ctx context.Context, i int, p piece, try func(context.Context, func() error) error) error {
	if i < len(d.turn.Messages) {
		err := try(ctx, func() error { return d.c.api.edit(ctx, d.chat, d.turn.Messages[i], p, nil) })
		if agent.CodeOf(err) != agent.CodeNotFound {
			return err
		}
	}
	var id int64
	err := try(ctx, func() (err error) {
		id, err = d.c.api.send(ctx, d.chat, p, nil)
		return err
	})
	if err != nil {
		return err
	}
	if i < len(d.turn.Messages) {
		d.turn.Messages[i] = id
	} else {
		d.turn.Messages = append(d.turn.Messages, id)
	}
	return d.hold(ctx)
}

// hold writes down which messages hold the answer, and renews the lease. It does so even while the process ends: a message that was sent
// stands there.
func (d *delivery) hold(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
	defer cancel()
	held, err := d.c.cfg.Store.SaveTurn(ctx, &d.turn, d.holder, d.c.cfg.Lease)
	switch {
	case err == nil && !held:
		return errLost
	case err != nil:
		d.logger.Warn("lease of an answer not renewed", zap.Error(err))
	}
	return nil
}

func (d *delivery) typing(ctx context.Context) {
	if d.answer.waiting || time.Since(d.heard) > quietAfter || time.Now().Before(d.quiet) {
		return
	}
	if err := d.c.api.typing(ctx, d.chat); asked(err) > 0 {
		d.quiet = time.Now().Add(asked(err))
	}
}

// finish shows how the turn ended, and insists.
func (d *delivery) finish(ctx context.Context) error {
	return d.last(ctx, d.answer.final(d.turn.TurnID))
}

// gone is for a turn whose events cannot be read any more.
func (d *delivery) gone(ctx context.Context, why error) error {
	if ctx.Err() != nil {
		return why
	}
	d.logger.Warn("turn cannot be followed", zap.Error(why))
	return d.last(ctx, []piece{plain("Sorry, I have lost sight of this. (turn " + clipUnits(string(d.turn.TurnID), 128) + ")")})
}

func (d *delivery) last(ctx context.Context, parts []piece) error {
	ctx, cancel := context.WithTimeout(ctx, finishTime)
	defer cancel()
	if err := d.wait(ctx, time.Until(d.quiet)); err != nil {
		return err
	}
	if err := d.closeQuestions(ctx); err != nil {
		return err
	}
	return d.paint(ctx, parts, d.insist)
}

// insist is [insist] under the lease.
func (d *delivery) insist(ctx context.Context, do func() error) error {
	wait := patience()
	for {
		err := do()
		if err == nil || rejected(err) || ctx.Err() != nil {
			return err
		}
		if lost := d.wait(ctx, max(wait.NextBackOff(), asked(err))); lost != nil {
			return errors.Join(lost, err)
		}
	}
}

// wait waits, and renews the lease meanwhile.
func (d *delivery) wait(ctx context.Context, long time.Duration) error {
	for end := time.Now().Add(long); time.Now().Before(end); {
		if !pause(ctx, min(time.Until(end), d.c.cfg.Lease/3)) {
			return ctx.Err()
		}
		if err := d.hold(ctx); err != nil {
			return err
		}
	}
	return nil
}
