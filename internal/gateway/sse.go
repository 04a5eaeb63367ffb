package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// flushBytes is how much an eventWriter gathers at most before it writes.
const flushBytes = 64 << 10

// errGone marks that the client stopped taking what we write; nobody is left to tell.
var errGone = errors.New("the client is gone")

// eventWriter writes events in the wire format of server-sent events: id is where to resume, event the type, data the event's JSON
// on one line. What one write carries is one batch: everything that was ready.
type eventWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration

	mu       sync.Mutex // guards what follows while a stream is followed: heartbeats come between
	deadline time.Time  // by when the connection has to take what is written
	flushed  time.Time  // when a batch was last sent
	buf      bytes.Buffer
	json     *json.Encoder // to buf
	ended    bool          // the last frame is in the batch, or was sent
}

func newEventWriter(w http.ResponseWriter, timeout time.Duration) *eventWriter {
	o := &eventWriter{w: w, control: http.NewResponseController(w), timeout: timeout}
	o.json = newEncoder(&o.buf)
	return o
}

// begin sends the header at once, so that a client knows its stream stands before the first event.
func (o *eventWriter) begin() error {
	o.head("text/event-stream")
	o.buf.WriteString("retry: 1000\n\n")
	return o.flush()
}

func (o *eventWriter) head(mediaType string) {
	h := o.w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // tells nginx not to gather
	o.w.WriteHeader(http.StatusOK)
}

// frame is one event on its way to a client.
type frame struct {
	id   int64 // where to resume behind it; 0: it gets none, so that a client which resumes repeats the last true one
	name string
	data any  // encoded as JSON
	last bool // nothing follows
}

// eventFrame makes a frame of an event of a turn. One without an index is not one of the log.
func eventFrame(e *agent.Event) frame {
	return frame{id: e.Meta.EventIndex, name: string(e.Type), data: e, last: e.Terminal()}
}

// framesOf turns what is followed into frames. The memory of a frame's data is used again for the next one.
func framesOf[T any](events iter.Seq2[T, error], wrap func(*T) frame) iter.Seq2[frame, error] {
	return func(yield func(frame, error) bool) {
		var e T
		var err error
		for e, err = range events {
			if !yield(wrap(&e), err) {
				return
			}
		}
	}
}

// oneByOne lets each frame go out at once, for a source that does not say when it waits.
func oneByOne(ctx context.Context, frames iter.Seq2[frame, error]) iter.Seq2[frame, error] {
	return func(yield func(frame, error) bool) {
		for f, err := range frames {
			if !yield(f, err) {
				return
			}
			agent.Waiting(ctx)
		}
	}
}

// add appends one frame to the batch.
func (o *eventWriter) add(f *frame) error {
	before := o.buf.Len()
	if f.id > 0 {
		o.buf.WriteString("id: ")
		o.buf.Write(strconv.AppendInt(o.buf.AvailableBuffer(), f.id, 10))
		o.buf.WriteByte('\n')
	}
	o.buf.WriteString("event: ")
	o.buf.WriteString(f.name)
	o.buf.WriteString("\ndata: ")
	if err := o.json.Encode(f.data); err != nil { // ends in a newline
		o.buf.Truncate(before)
		return fmt.Errorf("encode event %d: %w", f.id, err)
	}
	o.buf.WriteByte('\n')
	o.ended = f.last
	return nil
}

// flush sends the batch. A client that does not take it in time is gone. The deadline of one batch serves the next ones for an eighth of the timeout.
func (o *eventWriter) flush() error {
	o.flushed = time.Now()
	if o.deadline.Sub(o.flushed) < o.timeout-o.timeout/8 {
		o.deadline = o.flushed.Add(o.timeout)
		if err := o.control.SetWriteDeadline(o.deadline); err != nil {
			return fmt.Errorf("%w: set write deadline: %w", errGone, err)
		}
	}
	_, err := o.w.Write(o.buf.Bytes()) //nolint:gosec // an event stream, which no browser renders
	o.buf.Reset()
	if err == nil {
		err = o.control.Flush()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	return nil
}

func (o *eventWriter) beat() error {
	o.buf.WriteString(":\n\n")
	return o.flush()
}

// follow copies the frames of a source until it ends, the client goes, or ctx ends. They go out each time before the source waits, as [agent.OnWait]
// has it, or when they are many. A client whose credential has ended is told by an error event.
func (o *eventWriter) follow(ctx context.Context, heartbeat time.Duration, source func(context.Context) iter.Seq2[frame, error]) error {
	ctx, stop := o.sendWhenReady(ctx, heartbeat)
	err := o.copyFrames(ctx, source(ctx))
	cause := context.Cause(ctx)
	stop()
	switch {
	case errors.Is(cause, errGone):
		return cause
	case err == nil && !o.ended && errors.Is(cause, errCredentialEnded):
		return o.sendError(cause)
	}
	return err
}

// sendWhenReady sends what is gathered whenever a source that has the context returned waits, and heartbeats in its silences, until stop is
// called. Its context ends when the client is gone.
func (o *eventWriter) sendWhenReady(ctx context.Context, heartbeat time.Duration) (followed context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	end := o.keepAlive(heartbeat, cancel)
	followed = agent.OnWait(ctx, func() {
		if err := o.flushReady(); err != nil {
			cancel(err)
		}
	})
	return followed, func() {
		end()
		cancel(nil)
	}
}

// copyFrames returns nil when the source has ended, or ctx: the client went, or the gateway closes. Then the stream just ends and can be resumed.
func (o *eventWriter) copyFrames(ctx context.Context, frames iter.Seq2[frame, error]) error {
	for f, err := range frames {
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return o.fail(err)
		}
		if err := o.take(&f); err != nil || f.last {
			return err
		}
	}
	return o.flushReady()
}

// take adds a frame, and sends the batch if it is large or the last.
func (o *eventWriter) take(f *frame) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.add(f); err != nil {
		return errors.Join(err, o.flush())
	}
	if f.last || o.buf.Len() >= flushBytes {
		return o.flush()
	}
	return nil
}

// flushReady sends what was gathered, if anything was.
func (o *eventWriter) flushReady() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.buf.Len() == 0 {
		return nil
	}
	return o.flush()
}

// keepAlive sends a heartbeat in every silence until stop is called. A client that does not take it is gone, which is told by cancel.
func (o *eventWriter) keepAlive(heartbeat time.Duration, cancel context.CancelCauseFunc) (stop func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	stopped := false
	var timer *time.Timer
	timer = time.AfterFunc(heartbeat, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if stopped {
			return
		}
		rest := heartbeat - time.Since(o.flushed)
		if rest <= 0 {
			if err := o.beat(); err != nil {
				cancel(err)
				return
			}
			rest = heartbeat
		}
		timer.Reset(rest)
	})
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		stopped = true
		timer.Stop()
	}
}

// fail ends the stream with an error event.
func (o *eventWriter) fail(err error) error {
	failed := o.sendError(err)
	if errors.Is(err, agent.ErrGap) {
		return failed
	}
	return errors.Join(err, failed)
}

// sendError sends an error event, which ends the stream.
func (o *eventWriter) sendError(err error) error {
	end := eventFrame(&agent.Event{Type: agent.EventError, Error: failureOf(err)})
	end.last = true
	return o.take(&end)
}
