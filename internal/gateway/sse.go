package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// flushBytes is how much an eventWriter gathers at most before it writes.
const flushBytes = 64 << 10

// errGone marks that the client stopped taking what we write; nobody is left to tell.
var errGone = errors.New("the client is gone")

// Quietly returns err, or nil if it only says that the client stopped reading: nobody is left to tell.
func Quietly(err error) error {
	if errors.Is(err, errGone) {
		return nil
	}
	return err
}

// EventStream sends server-sent events in the format of a [Door]'s own API. What is written to it is gathered until Flush.
type EventStream struct{ out eventWriter }

// NewEventStream returns a stream whose client has the write timeout of the limits to take each batch.
func NewEventStream(w http.ResponseWriter, l Limits) *EventStream {
	return &EventStream{*newEventWriter(w, l.WriteTimeout)}
}

// Begin sets the header; it goes out with the first batch.
func (s *EventStream) Begin(mediaType string) { s.out.head(mediaType) }

// Write implements [io.Writer] and never fails.
func (s *EventStream) Write(p []byte) (int, error) { return s.out.buf.Write(p) }

// Full reports whether so much was gathered that it should go out.
func (s *EventStream) Full() bool { return s.out.buf.Len() >= flushBytes }

// Flush sends what was gathered. A client that does not take it in time is gone, see [Quietly].
func (s *EventStream) Flush() error { return s.out.flush() }

// Beat sends what was gathered and a comment, which tells both sides that the other is there.
func (s *EventStream) Beat() error { return s.out.beat() }

// eventWriter writes events in the wire format of server-sent events: id is where to resume, event the type, data the event's JSON
// on one line. What one write carries is one batch: everything that was ready.
type eventWriter struct {
	w        http.ResponseWriter
	control  *http.ResponseController
	timeout  time.Duration
	deadline time.Time // by when the connection has to take what is written
	flushed  time.Time // when a batch was last sent
	buf      bytes.Buffer
	ended    bool // the last frame is in the batch, or was sent
}

func newEventWriter(w http.ResponseWriter, timeout time.Duration) *eventWriter {
	return &eventWriter{w: w, control: http.NewResponseController(w), timeout: timeout}
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

// framesOf turns what is followed into frames.
func framesOf[T any](events iter.Seq2[T, error], wrap func(*T) frame) iter.Seq2[frame, error] {
	return func(yield func(frame, error) bool) {
		for e, err := range events {
			if !yield(wrap(&e), err) {
				return
			}
		}
	}
}

// add appends one frame to the batch.
func (o *eventWriter) add(f *frame) error {
	data, err := encode(f.data)
	if err != nil {
		return fmt.Errorf("encode event %d: %w", f.id, err)
	}
	if f.id > 0 {
		o.buf.WriteString("id: ")
		o.buf.WriteString(strconv.FormatInt(f.id, 10))
		o.buf.WriteByte('\n')
	}
	o.buf.WriteString("event: ")
	o.buf.WriteString(f.name)
	o.buf.WriteString("\ndata: ")
	o.buf.Write(data) // ends in a newline
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

// Read is what a follow loop hands over: an event, or why there are no more.
type Read[T any] struct {
	Event T
	Err   error
}

// follow copies frames until their source ends, the client goes, or ctx ends. It reads at most ahead frames that the client has not
// taken, and one more. A client whose credential has ended is told by an error event.
func (o *eventWriter) follow(ctx context.Context, frames iter.Seq2[frame, error], ahead int, heartbeat time.Duration) error {
	err := o.copyFrames(ctx, frames, ahead, heartbeat)
	if cause := context.Cause(ctx); err == nil && !o.ended && errors.Is(cause, errCredentialEnded) {
		return o.sendError(cause)
	}
	return err
}

func (o *eventWriter) copyFrames(ctx context.Context, frames iter.Seq2[frame, error], ahead int, heartbeat time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	reads := ReadAhead(ctx, frames, ahead, func(f *frame) bool { return f.last })
	defer func() {
		cancel()
		for range reads {
		}
	}()
	idle := time.NewTimer(heartbeat)
	defer idle.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil // the client went, or the gateway closes: in both cases the stream just ends and can be resumed
		case <-idle.C:
			rest := heartbeat - time.Since(o.flushed)
			if rest <= 0 {
				rest = heartbeat
				if err := o.beat(); err != nil {
					return err
				}
			}
			idle.Reset(rest)
		case next, ok := <-reads:
			if !ok {
				return nil
			}
			more, err := o.batch(ctx, next, reads)
			if err != nil || !more {
				return err
			}
		}
	}
}

// batch writes an event and all that are ready behind it; more is false when the stream is over.
func (o *eventWriter) batch(ctx context.Context, next Read[frame], reads <-chan Read[frame]) (more bool, err error) {
	for ok := true; ok; {
		if next.Err != nil {
			return false, o.fail(ctx, next.Err)
		}
		if err := o.add(&next.Event); err != nil {
			return false, errors.Join(err, o.flush())
		}
		if o.buf.Len() >= flushBytes {
			break
		}
		select {
		case next, ok = <-reads:
			if !ok {
				return false, o.flush()
			}
		default:
			ok = false
		}
	}
	return true, o.flush()
}

// fail ends the stream with an error event, unless the end is the reader's own.
func (o *eventWriter) fail(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return o.flush()
	}
	ferr := o.sendError(err)
	if errors.Is(err, agent.ErrGap) {
		return ferr
	}
	return errors.Join(err, ferr)
}

// sendError sends an error event, which ends the stream.
func (o *eventWriter) sendError(err error) error {
	end := eventFrame(&agent.Event{Type: agent.EventError, Error: failureOf(err)})
	end.last = true
	if err := o.add(&end); err != nil {
		return err
	}
	return o.flush()
}

// ReadAhead runs a follow loop, at most ahead events before its consumer. It ends behind the last event or an error, or with ctx; only then
// is the channel closed, so that a consumer who leaves ends ctx and drains it.
func ReadAhead[T any](ctx context.Context, events iter.Seq2[T, error], ahead int, last func(*T) bool) <-chan Read[T] {
	out := make(chan Read[T], ahead)
	go func() {
		defer close(out)
		for e, err := range events {
			select {
			case out <- Read[T]{e, err}:
			case <-ctx.Done():
				return
			}
			if err != nil || last(&e) {
				return
			}
		}
	}()
	return out
}
