package telegram

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

// caller calls a function, once or with retries.
type caller func(ctx context.Context, do func() error) error

// callOnce is the [caller] that does not retry.
func callOnce(_ context.Context, do func() error) error { return do() }

// writeMessages edits, sends and deletes messages of the answer until they show parts.
func (d *delivery) writeMessages(ctx context.Context, parts []piece, call caller) error {
	for i, p := range parts {
		if i < len(d.shown) && d.shown[i].equal(p) {
			continue
		}
		if err := d.writeMessage(ctx, i, p, call); err != nil {
			return err
		}
		for len(d.shown) <= i {
			d.shown = append(d.shown, piece{})
		}
		d.shown[i] = p
	}
	for n := len(d.turn.Messages); n > len(parts); n = len(d.turn.Messages) { // a reset has shortened the answer
		last := d.turn.Messages[n-1]
		if err := call(ctx, func() error { return d.c.api.deleteMessage(ctx, d.chat, last) }); err != nil && !isPermanent(err) {
			return err
		}
		d.turn.Messages = d.turn.Messages[:n-1]
		d.shown = d.shown[:min(len(d.shown), n-1)]
		if err := d.renewLease(ctx); err != nil {
			return err
		}
	}
	return nil
}

// writeMessage changes message i of the answer to p, or sends it if it is new or was deleted.
func (d *delivery) writeMessage(ctx context.Context, i int, p piece, call caller) error {
	if i < len(d.turn.Messages) {
		err := call(ctx, func() error { return d.c.api.edit(ctx, d.chat, d.turn.Messages[i], p, nil) })
		if agent.CodeOf(err) != agent.CodeNotFound {
			return err
		}
	}
	var id int64
	err := call(ctx, func() (err error) {
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
	return d.renewLease(ctx)
}

// renewLease stores which messages show the answer, and renews the lease. It does so even after ctx has ended, because every sent message must be
// recorded.
func (d *delivery) renewLease(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	isHeld, err := d.c.cfg.Store.SaveTurn(ctx, &d.turn, d.holder, d.c.cfg.Lease)
	switch {
	case err == nil && !isHeld:
		return errLeaseLost
	case err != nil:
		d.logger.Warn("lease of an answer not renewed", zap.Error(err))
	}
	return nil
}

// showTyping shows "typing" in the chat while the turn makes progress.
func (d *delivery) showTyping(ctx context.Context) {
	if d.answer.waiting || time.Since(d.lastEventAt) > maxTypingQuiet || time.Now().Before(d.pausedUntil) {
		return
	}
	if err := d.c.api.sendTyping(ctx, d.chat); retryAfter(err) > 0 {
		d.pausedUntil = time.Now().Add(retryAfter(err))
	}
}

// retry is [retry], but renews the lease while it waits.
func (d *delivery) retry(ctx context.Context, do func() error) error {
	return retryWith(ctx, d.waitUnderLease, do)
}

// waitUnderLease waits for a duration and keeps the lease renewed.
func (d *delivery) waitUnderLease(ctx context.Context, wait time.Duration) error {
	for end := time.Now().Add(wait); time.Now().Before(end); {
		if !pause(ctx, min(time.Until(end), d.c.cfg.Lease/3)) {
			return ctx.Err()
		}
		if err := d.renewLease(ctx); err != nil {
			return err
		}
	}
	return nil
}
