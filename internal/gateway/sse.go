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

// flushBytes is the size at which an EventStream sends a batch.
const flushBytes = 64 << 10

// errClientGone means that the client has left or reads too slowly.
var errClientGone = errors.New("the client is gone")

// EventStream sends server-sent events in batches. The gateway sends frames; the id of a frame is the index at which to resume, and its data is JSON on
// one line. A [Door] writes events in the format of its own API.
type EventStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration

	mu       sync.Mutex // guards the fields below: another goroutine sends heartbeats
	deadline time.Time  // of the connection, for writing
	flushed  time.Time  // when a batch was last sent
	buf      bytes.Buffer
	json     *json.Encoder // writes to buf
	isEnded  bool          // the last frame was added
}

// NewEventStream returns a stream whose client has the limits' WriteTimeout to read each batch.
func NewEventStream(w http.ResponseWriter, l Limits) *EventStream {
	o := &EventStream{w: w, control: http.NewResponseController(w), timeout: l.WriteTimeout}
	o.json = newEncoder(&o.buf)
	return o
}

// streamFrames responds with an event stream of the frames of a source; see followFrames. It sends the header at once, so that the client knows that
// the stream is open.
func (s *httpServer) streamFrames(ctx context.Context, c *Call, source func(context.Context) iter.Seq2[frame, error]) error {
	out := NewEventStream(c.w, s.cfg.Limits)
	out.Begin("text/event-stream")
	out.buf.WriteString("retry: 1000\n\n")
	if err := out.flush(); err != nil || c.r.Method == http.MethodHead {
		return IgnoreClientGone(err)
	}
	return IgnoreClientGone(out.followFrames(ctx, s.cfg.Limits.Heartbeat, source))
}

// frame is one server-sent event.
type frame struct {
	id     int64 // the index at which to resume; 0 for a frame that is not in the log and gets no id
	name   string
	data   any // encoded as JSON
	isLast bool
}

// eventFrame returns the frame of an event of a turn.
func eventFrame(e *agent.Event) frame {
	return frame{id: e.Meta.EventIndex, name: string(e.Type), data: e, isLast: e.Terminal()}
}

// framesOf yields a frame for each event. All frames share the memory of their data, so each is valid until the next.
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

// oneByOne yields frames and sends each at once. It is for sources that do not call [agent.Waiting].
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

// appendFrame adds a frame to the batch.
func (o *EventStream) appendFrame(f *frame) error {
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
	o.isEnded = f.isLast
	return nil
}

// flush sends the batch. Its error is errClientGone if the client does not read it within the timeout. To save calls, the deadline moves only after an
// eighth of the timeout.
func (o *EventStream) flush() error {
	o.flushed = time.Now()
	if o.deadline.Sub(o.flushed) < o.timeout-o.timeout/8 {
		o.deadline = o.flushed.Add(o.timeout)
		if err := o.control.SetWriteDeadline(o.deadline); err != nil {
			return fmt.Errorf("%w: set write deadline: %w", errClientGone, err)
		}
	}
	_, err := o.w.Write(o.buf.Bytes()) //nolint:gosec // an event stream, which no browser renders
	o.buf.Reset()
	if err == nil {
		err = o.control.Flush()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errClientGone, err)
	}
	return nil
}

func (o *EventStream) sendHeartbeat() error {
	o.buf.WriteString(":\n\n")
	return o.flush()
}

// followFrames sends the frames of a source until the source ends, the client leaves, or ctx ends. It sends a batch each time before the source waits (see
// [agent.OnWait]), or when the batch is large. If the credential has ended it sends an error event.
func (o *EventStream) followFrames(ctx context.Context, heartbeat time.Duration, source func(context.Context) iter.Seq2[frame, error]) error {
	ctx, stop := o.sendWhenReady(ctx, heartbeat)
	err := o.copyFrames(ctx, source(ctx))
	cause := context.Cause(ctx)
	stop()
	switch {
	case errors.Is(cause, errClientGone):
		return cause
	case err == nil && !o.isEnded && errors.Is(cause, errCredentialEnded):
		return o.sendError(cause)
	}
	return err
}

// sendWhenReady returns a context for a source of events. Until stop is called, it sends the batch each time before the source waits, and heartbeats
// while nothing is sent. The context ends when the client has left.
func (o *EventStream) sendWhenReady(ctx context.Context, heartbeat time.Duration) (followed context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stopHeartbeats := o.startHeartbeats(heartbeat, cancel)
	followed = agent.OnWait(ctx, func() {
		if err := o.Flush(); err != nil {
			cancel(err)
		}
	})
	return followed, func() {
		stopHeartbeats()
		cancel(nil)
	}
}

// copyFrames sends the frames of a source. It returns nil when the source or ctx ends: the client can then resume the stream.
func (o *EventStream) copyFrames(ctx context.Context, frames iter.Seq2[frame, error]) error {
	for f, err := range frames {
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return o.endWithError(err)
		}
		if err := o.writeFrame(&f); err != nil || f.isLast {
			return err
		}
	}
	return o.Flush()
}

// writeFrame adds a frame to the batch, and sends the batch if it is large or the frame is the last.
func (o *EventStream) writeFrame(f *frame) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.appendFrame(f); err != nil {
		return errors.Join(err, o.flush())
	}
	if f.isLast || o.buf.Len() >= flushBytes {
		return o.flush()
	}
	return nil
}

// startHeartbeats sends a heartbeat whenever nothing was sent for an interval, until stop is called. It calls cancel if the client has left.
func (o *EventStream) startHeartbeats(interval time.Duration, cancel context.CancelCauseFunc) (stop func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	isStopped := false
	var timer *time.Timer
	timer = time.AfterFunc(interval, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if isStopped {
			return
		}
		wait := interval - time.Since(o.flushed)
		if wait <= 0 {
			if err := o.sendHeartbeat(); err != nil {
				cancel(err)
				return
			}
			wait = interval
		}
		timer.Reset(wait)
	})
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		isStopped = true
		timer.Stop()
	}
}

// endWithError sends an error event, which ends the stream, and returns err for the log. [agent.ErrGap] is not logged.
func (o *EventStream) endWithError(err error) error {
	sendErr := o.sendError(err)
	if errors.Is(err, agent.ErrGap) {
		return sendErr
	}
	return errors.Join(err, sendErr)
}

// sendError sends an error event, which ends the stream.
func (o *EventStream) sendError(err error) error {
	last := eventFrame(&agent.Event{Type: agent.EventError, Error: failureOf(err)})
	last.isLast = true
	return o.writeFrame(&last)
}
