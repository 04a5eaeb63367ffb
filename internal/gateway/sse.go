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

// eventWriter writes events in the wire format of server-sent events: id is where to resume, event the type, data the event's JSON
// on one line. What one write carries is one batch: everything that was ready.
type eventWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	buf     bytes.Buffer
}

// begin sends the header at once, so that a client knows its stream stands before the first event.
func (o *eventWriter) begin() error {
	h := o.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // tells nginx not to gather
	o.w.WriteHeader(http.StatusOK)
	o.buf.WriteString("retry: 1000\n\n")
	return o.flush()
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
	return nil
}

// flush sends the batch. A client that does not take it in time is gone.
func (o *eventWriter) flush() error {
	if err := o.control.SetWriteDeadline(time.Now().Add(o.timeout)); err != nil {
		return fmt.Errorf("%w: set write deadline: %w", errGone, err)
	}
	_, err := o.w.Write(o.buf.Bytes())
	o.buf.Reset()
	if err == nil {
		err = o.control.Flush()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	return nil
}

// read is what a follow loop hands over: a frame, or why there are no more.
type read struct {
	frame frame
	err   error
}

// follow copies frames until their source ends, the client goes, or ctx ends. It reads at most ahead frames that the client has not
// taken, and one more.
func (o *eventWriter) follow(ctx context.Context, frames iter.Seq2[frame, error], ahead int, heartbeat time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	reads := readAhead(ctx, frames, ahead)
	defer func() {
		cancel()
		for range reads {
		}
	}()
	idle := time.NewTicker(heartbeat)
	defer idle.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil // the client went, or the gateway closes: in both cases the stream just ends and can be resumed
		case <-idle.C:
			o.buf.WriteString(":\n\n")
			if err := o.flush(); err != nil {
				return err
			}
		case next, ok := <-reads:
			if !ok {
				return nil
			}
			more, err := o.batch(ctx, next, reads)
			if err != nil || !more {
				return err
			}
			idle.Reset(heartbeat)
		}
	}
}

// batch writes an event and all that are ready behind it; more is false when the stream is over.
func (o *eventWriter) batch(ctx context.Context, next read, reads <-chan read) (more bool, err error) {
	for ok := true; ok; {
		if next.err != nil {
			return false, o.fail(ctx, next.err)
		}
		if err := o.add(&next.frame); err != nil {
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
	end := eventFrame(&agent.Event{Type: agent.EventError, Error: failureOf(err)})
	if aerr := o.add(&end); aerr != nil {
		return aerr
	}
	if errors.Is(err, agent.ErrGap) {
		return o.flush()
	}
	return errors.Join(err, o.flush())
}

// readAhead runs the follow loop, at most ahead frames before its consumer; it ends with ctx or the frames.
func readAhead(ctx context.Context, frames iter.Seq2[frame, error], ahead int) <-chan read {
	out := make(chan read, ahead)
	go func() {
		defer close(out)
		for f, err := range frames {
			select {
			case out <- read{frame: f, err: err}:
			case <-ctx.Done():
				return
			}
			if err != nil || f.last {
				return
			}
		}
	}()
	return out
}
