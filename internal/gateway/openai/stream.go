package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

// errGone marks that the client stopped taking what we write; nobody is left to tell.
var errGone = errors.New("the client is gone")

// flushBytes is how much is gathered at most before it is written.
const flushBytes = 64 << 10

// stream sends the answer in chunks as it is made.
func (c *completion) stream(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := c.visit.UntilClosing(r.Context())
	defer cancel()
	s := streaming{
		completion: c, read: reading{held: c.q.structured},
		out: writer{w: w, control: http.NewResponseController(w), timeout: c.visit.Limits().WriteTimeout},
	}
	err := s.run(ctx)
	switch {
	case err == nil, errors.Is(err, errGone), r.Context().Err() != nil:
		return nil
	case gateway.IsOver(err):
		return quietly(s.fail(c.goesOn(err)))
	default:
		p := s.brokenBy(err)
		return errors.Join(p.err, quietly(s.fail(p)))
	}
}

func quietly(err error) error {
	if errors.Is(err, errGone) {
		return nil
	}
	return err
}

// streaming is an answer on its way.
type streaming struct {
	*completion

	read  reading
	out   writer
	begun bool
}

// run sends chunks until the turn has ended or waits for a person. Before the first byte an error can still be a status.
func (s *streaming) run(ctx context.Context) error {
	after, over, err := s.read.begin(ctx, s.completion)
	if err != nil {
		return err
	}
	if err := s.begin(); err != nil {
		return err
	}
	if over {
		return s.end()
	}
	ctx, cancel := context.WithCancel(ctx)
	limits := s.visit.Limits()
	reads := readAhead(ctx, s.visit.Follow(ctx, s.receipt.TurnID, after), limits.StreamBuffer)
	defer func() {
		cancel()
		for range reads {
		}
	}()
	idle := time.NewTicker(limits.Heartbeat)
	defer idle.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-idle.C:
			s.out.buf.WriteString(":\n\n")
			if err := s.out.flush(); err != nil {
				return err
			}
		case next, ok := <-reads:
			if !ok {
				return cutShort(ctx, s.completion)
			}
			over, err := s.batch(ctx, next, reads)
			if over || err != nil {
				return err
			}
			idle.Reset(limits.Heartbeat)
		}
	}
}

// begin sends the header and the role at once, so that a client knows its stream stands before the first word.
func (s *streaming) begin() error {
	h := s.out.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // tells nginx not to gather
	s.out.w.WriteHeader(http.StatusOK)
	s.begun = true
	none := ""
	if err := s.send(s.chunk(chunkChoice{Delta: delta{Role: "assistant", Content: &none}})); err != nil {
		return err
	}
	return s.out.flush()
}

// batch sends what an event and all that are ready behind it add; over is true when nothing follows.
func (s *streaming) batch(ctx context.Context, next read, reads <-chan read) (over bool, err error) {
	for ok := true; ok; {
		switch {
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case next.err != nil:
			return false, next.err
		}
		if over, err := s.take(ctx, &next.event); over || err != nil {
			return over, err
		}
		if s.out.buf.Len() >= flushBytes {
			break
		}
		select {
		case next, ok = <-reads:
			if !ok {
				return false, cutShort(ctx, s.completion)
			}
		default:
			ok = false
		}
	}
	return false, s.out.flush()
}

// take sends what one event adds.
func (s *streaming) take(ctx context.Context, e *agent.Event) (over bool, err error) {
	f := s.read.see(e)
	if s.read.text.lost && len(s.read.text.shown) > 0 && !s.read.held {
		return true, s.fail(s.contradicted())
	}
	if f != (fresh{}) && !s.read.held {
		if err := s.send(s.said(f)); err != nil {
			return false, err
		}
	}
	if e.Terminal() {
		if err := s.read.end(ctx, s.completion, e); err != nil {
			return false, err
		}
	}
	if s.read.paused || s.read.output != nil {
		return true, s.end()
	}
	return false, nil
}

// end sends what is left, why it ended, and the usage; or an error in place of all this.
func (s *streaming) end() error {
	if p := s.problem(&s.read); p != nil {
		return s.fail(p)
	}
	if !s.read.held && len(s.read.text.shown) > 0 {
		if !s.read.text.settled() {
			return s.fail(s.contradicted())
		}
	} else if err := s.send(s.said(fresh{text: s.read.content(s.q.structured)})); err != nil {
		return err
	}
	why := finishReason(s.read.output)
	if err := s.send(s.chunk(chunkChoice{FinishReason: &why})); err != nil {
		return err
	}
	if s.q.usage {
		last, used := s.chunk(), usageOf(s.read.output.Usage)
		last.Usage = &used
		if err := s.send(last); err != nil {
			return err
		}
	}
	s.out.buf.WriteString("data: [DONE]\n\n")
	return s.out.flush()
}

// fail ends the stream with an error. It is not followed by [DONE]: nobody shall take the answer for whole.
func (s *streaming) fail(p *problem) error {
	if !s.begun {
		return s.failed(s.out.w, p)
	}
	if err := s.send(problemBody{p}); err != nil {
		return err
	}
	return s.out.flush()
}

func (s *streaming) send(v any) error {
	if err := s.out.add(v); err != nil {
		return fmt.Errorf("encode chunk: %w", err)
	}
	return nil
}

// writer writes server-sent events that have data alone.
type writer struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	buf     bytes.Buffer
}

func (o *writer) add(v any) error {
	o.buf.WriteString("data: ")
	e := json.NewEncoder(&o.buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil { // ends in a newline
		return err
	}
	o.buf.WriteByte('\n')
	return nil
}

// flush sends what was gathered. A client that does not take it in time is gone.
func (o *writer) flush() error {
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

// read is what a follow loop hands over: an event, or why there are no more.
type read struct {
	event agent.Event
	err   error
}

// readAhead runs the follow loop, at most ahead events before its consumer; it ends with ctx or the events.
func readAhead(ctx context.Context, events iter.Seq2[agent.Event, error], ahead int) <-chan read {
	out := make(chan read, ahead)
	go func() {
		defer close(out)
		for e, err := range events {
			select {
			case out <- read{e, err}:
			case <-ctx.Done():
				return
			}
			if err != nil || e.Terminal() {
				return
			}
		}
	}()
	return out
}
