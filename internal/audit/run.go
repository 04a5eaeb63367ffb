package audit

import (
	"context"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

// run stores batches until Close is called, and then the records that are still queued.
func (t *Trail) run(ctx context.Context) {
	defer close(t.done)
	tick := time.NewTicker(batchEvery)
	defer tick.Stop()
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	var batch []agent.AuditRecord
	for {
		select {
		case r := <-t.queue:
			if batch = append(batch, r); len(batch) >= t.cfg.Batch {
				batch = t.store(ctx, batch)
			}
		case <-tick.C:
			batch = t.store(ctx, batch)
			t.logDropped()
		case <-sweep.C:
			t.expire(ctx)
		case <-t.stop:
			t.drain(ctx, batch)
			return
		}
	}
}

// drain stores a batch and the queued records.
func (t *Trail) drain(ctx context.Context, batch []agent.AuditRecord) {
	for {
		select {
		case r := <-t.queue: // Record no longer adds to it
			if batch = append(batch, r); len(batch) < t.cfg.Batch {
				continue
			}
		default:
			if len(batch) == 0 {
				return
			}
		}
		if batch = t.store(ctx, batch); len(batch) > 0 {
			t.drop(len(batch) + len(t.queue))
			return
		}
	}
}

// store stores a batch and retries while the store is unavailable. It returns the records that were not stored before ctx ended, or an empty batch.
func (t *Trail) store(ctx context.Context, batch []agent.AuditRecord) []agent.AuditRecord {
	if len(batch) == 0 {
		return nil
	}
	for wait := minRetry; ; wait = min(2*wait, maxRetry) {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		err := t.cfg.Store.AppendAudit(call, batch)
		cancel()
		if err == nil {
			return batch[:0]
		}
		if ctx.Err() != nil {
			return batch
		}
		t.cfg.Logger.Error("store audit records", zap.Int("records", len(batch)), zap.Error(err))
		if agent.CodeOf(err) == agent.CodeInvalid { // the store will never accept them
			t.drop(len(batch))
			return batch[:0]
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return batch
		}
	}
}

// logDropped logs the number of records that were dropped.
func (t *Trail) logDropped() {
	if n := t.takeDropped(); n > 0 {
		t.cfg.Logger.Error("audit records were dropped: the store is unavailable or too slow", zap.Int64("records", n))
	}
}

// expire removes records that are older than Keep.
func (t *Trail) expire(ctx context.Context) {
	if t.cfg.Keep <= 0 {
		return
	}
	before := time.Now().Add(-t.cfg.Keep)
	for range sweepCalls {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		n, err := t.cfg.Store.ExpireAudit(call, before, sweepBatch)
		cancel()
		if err != nil && ctx.Err() == nil {
			t.cfg.Logger.Warn("remove old audit records", zap.Error(err))
		}
		if err != nil || n < sweepBatch {
			return
		}
	}
}

// cleanText returns text that a store accepts: valid UTF-8 without NUL, cut to maxText bytes.
func cleanText(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text[:min(len(text), maxText)], "�"), "\x00", "�")
}
