package gateway

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// IgnoreClientGone returns err, or nil if err only says that the client has stopped reading.
func IgnoreClientGone(err error) error {
	if errors.Is(err, errClientGone) {
		return nil
	}
	return err
}

// Begin sets the header, which is sent with the first batch.
func (o *EventStream) Begin(mediaType string) {
	h := o.w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // for nginx
	o.w.WriteHeader(http.StatusOK)
}

// Write adds one event, in the format of the caller, to the batch, and sends the batch if it is large.
func (o *EventStream) Write(event []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf.Write(event)
	if o.buf.Len() < flushBytes {
		return len(event), nil
	}
	return len(event), o.flush()
}

// Flush sends the batch unless it is empty.
func (o *EventStream) Flush() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.buf.Len() == 0 {
		return nil
	}
	return o.flush()
}

// Follow calls handle with each event of a source until handle returns true, and reports whether it did. Each time before the source waits (see
// [agent.OnWait]), it sends the batch that handle has written. While nothing is sent, it sends heartbeats.
func (o *EventStream) Follow(
	ctx context.Context, heartbeat time.Duration, source func(context.Context) iter.Seq2[agent.Event, error],
	handle func(*agent.Event) (isOver bool, err error),
) (isOver bool, err error) {
	ctx, stop := o.sendWhenReady(ctx, heartbeat)
	defer stop()
	for e, err := range source(ctx) {
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return false, err
		}
		if isOver, err := handle(&e); isOver || err != nil {
			return isOver, err
		}
	}
	return false, context.Cause(ctx)
}
