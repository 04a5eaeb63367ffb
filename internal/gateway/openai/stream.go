package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

// stream sends the answer in chunks as it is made.
func (c *completion) stream(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := c.call.StreamContext(r.Context())
	defer cancel()
	s := streaming{
		completion: c, read: reading{held: c.q.structured},
		w: w, out: gateway.NewEventStream(w, c.call.Limits()),
	}
	err := s.run(ctx)
	switch {
	case gateway.IgnoreClientGone(err) == nil, r.Context().Err() != nil:
		return nil
	case gateway.TurnGoesOn(err):
		return gateway.IgnoreClientGone(s.fail(c.stillRunning(err)))
	default:
		p := s.internalProblem(err)
		return errors.Join(p.err, gateway.IgnoreClientGone(s.fail(p)))
	}
}

// streaming is an answer on its way.
type streaming struct {
	*completion

	read  reading
	w     http.ResponseWriter
	out   *gateway.EventStream
	event bytes.Buffer // the one being written
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
	events := func(ctx context.Context) iter.Seq2[agent.Event, error] {
		return s.call.Follow(ctx, s.receipt.TurnID, after)
	}
	over, err = s.out.Follow(ctx, s.call.Limits().Heartbeat, events, func(e *agent.Event) (bool, error) { return s.take(ctx, e) })
	if over || err != nil {
		return err
	}
	return endedEarly(ctx, s.completion)
}

// begin sends the header and the role at once, so that a client knows its stream stands before the first word.
func (s *streaming) begin() error {
	s.out.Begin("text/event-stream; charset=utf-8")
	s.begun = true
	none := ""
	if err := s.send(s.chunk(chunkChoice{Delta: delta{Role: "assistant", Content: &none}})); err != nil {
		return err
	}
	return s.out.Flush()
}

// take sends what one event adds.
func (s *streaming) take(ctx context.Context, e *agent.Event) (over bool, err error) {
	f := s.read.see(e)
	if s.read.text.uncertain && len(s.read.text.collected) > 0 && !s.read.held {
		return true, s.fail(s.restartedProblem())
	}
	if f != (addition{}) && !s.read.held {
		if err := s.send(s.additionChunk(f)); err != nil {
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
	if !s.read.held && len(s.read.text.collected) > 0 {
		if !s.read.text.isValid() {
			return s.fail(s.restartedProblem())
		}
	} else if err := s.send(s.additionChunk(addition{text: s.read.content(s.q.structured)})); err != nil {
		return err
	}
	if s.read.callsClient() {
		calls := s.toolCalls(&s.read)
		for i := range calls {
			calls[i].Index = &i
		}
		if err := s.send(s.chunk(chunkChoice{Delta: delta{ToolCalls: calls}})); err != nil {
			return err
		}
	}
	why := s.read.finishReason()
	if err := s.send(s.chunk(chunkChoice{FinishReason: &why})); err != nil {
		return err
	}
	if s.q.usage {
		last, used := s.chunk(), s.used(&s.read)
		last.Usage = &used
		if err := s.send(last); err != nil {
			return err
		}
	}
	_, _ = s.out.Write([]byte("data: [DONE]\n\n")) // Flush says what an error would
	return s.delivered(s.out.Flush())
}

// delivered notes that the client has all there will be, unless it could not be sent.
func (s *streaming) delivered(err error) error {
	if err == nil {
		s.outcome = answered
	}
	return err
}

// fail ends the stream with an error. It is not followed by [DONE]: nobody shall take the answer for whole.
func (s *streaming) fail(p *problem) error {
	if !s.begun {
		return s.failed(s.w, p)
	}
	if err := s.send(problemBody{p}); err != nil {
		return err
	}
	if p.open {
		return s.out.Flush()
	}
	return s.delivered(s.out.Flush())
}

// send gathers one event. They have data alone.
func (s *streaming) send(v any) error {
	s.event.Reset()
	s.event.WriteString("data: ")
	e := json.NewEncoder(&s.event)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil { // ends in a newline
		return fmt.Errorf("encode chunk: %w", err)
	}
	s.event.WriteByte('\n')
	_, err := s.out.Write(s.event.Bytes())
	return err
}
