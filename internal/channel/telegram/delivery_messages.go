package telegram

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

// callOnce calls do once. It is the alternative to [retry].
func callOnce(_ context.Context, do func() error) error { return do() }

// writeMessages changes the messages of the answer to parts.
func (d *delivery) writeMessages(ctx context.Context, parts []piece, try func(context.Context, func() error) error) error {
	for i, p := range parts {
		if i < len(d.shown) && d.shown[i].equal(p) {
			continue
		}
		if err := d.writeMessage(ctx, i, p, try); err != nil {
			return err
		}
		for len(d.shown) <= i {
			d.shown = append(d.shown, piece{})
		}
		d.shown[i] = p
	}
	for n := len(d.turn.Messages); n > len(parts); n = len(d.turn.Messages) { // text was taken back
		last := d.turn.Messages[n-1]
		if err := try(ctx, func() error { return d.c.api.deleteMessage(ctx, d.chat, last) }); err != nil && !isPermanent(err) {
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
func (d *delivery) writeMessage(ctx context.Context, i int, p piece, try func(context.Context, func() error) error) error {
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
	return d.renewLease(ctx)
}

// renewLease stores which messages hold the answer, and renews the lease. It does so even while the process ends, because a sent message must be
// on record.
func (d *delivery) renewLease(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	held, err := d.c.cfg.Store.SaveTurn(ctx, &d.turn, d.holder, d.c.cfg.Lease)
	switch {
	case err == nil && !held:
		return errLeaseLost
	case err != nil:
		d.logger.Warn("lease of an answer not renewed", zap.Error(err))
	}
	return nil
}

func (d *delivery) showTyping(ctx context.Context) {
	if d.answer.waiting || time.Since(d.lastEventAt) > quietAfter || time.Now().Before(d.pausedUntil) {
		return
	}
	if err := d.c.api.sendTyping(ctx, d.chat); retryAfter(err) > 0 {
		d.pausedUntil = time.Now().Add(retryAfter(err))
	}
}

// retry is [retry] that renews the lease meanwhile.
func (d *delivery) retry(ctx context.Context, do func() error) error {
	return retryWith(ctx, d.waitUnderLease, do)
}

// waitUnderLease waits for a duration and renews the lease meanwhile.
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
