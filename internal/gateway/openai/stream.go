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

// stream sends the answer in chunks as the turn writes it.
func (c *completion) stream(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := c.call.StreamContext(r.Context())
	defer cancel()
	s := answerStream{
		completion: c, state: answerState{sendsAtEnd: c.q.structured},
		w: w, out: gateway.NewEventStream(w, c.call.Limits()),
	}
	err := s.run(ctx)
	switch {
	case gateway.IgnoreClientGone(err) == nil, r.Context().Err() != nil:
		return nil
	case gateway.TurnGoesOn(err):
		return gateway.IgnoreClientGone(s.fail(c.runningProblem(err)))
	default:
		p := s.internalProblem(err)
		return errors.Join(p.logged, gateway.IgnoreClientGone(s.fail(p)))
	}
}

// answerStream is the stream of one answer.
type answerStream struct {
	*completion

	state    answerState
	w        http.ResponseWriter
	out      *gateway.EventStream
	event    bytes.Buffer // reused for each event
	hasBegun bool         // whether the header was sent, so that an error can no longer be a status
}

// run sends chunks until the turn has ended or pauses.
func (s *answerStream) run(ctx context.Context) error {
	after, hasEnded, err := s.state.begin(ctx, s.completion)
	if err != nil {
		return err
	}
	if err := s.begin(); err != nil {
		return err
	}
	if hasEnded {
		return s.end()
	}
	events := func(ctx context.Context) iter.Seq2[agent.Event, error] {
		return s.call.Follow(ctx, s.receipt.TurnID, after)
	}
	hasEnded, err = s.out.Follow(ctx, s.call.Limits().Heartbeat, events, func(e *agent.Event) (bool, error) { return s.sendEvent(ctx, e) })
	if hasEnded || err != nil {
		return err
	}
	return truncatedError(ctx, s.completion)
}

// begin sends the header and the role, so that the client knows that the request was accepted before there is any text.
func (s *answerStream) begin() error {
	s.out.Begin("text/event-stream; charset=utf-8")
	s.hasBegun = true
	empty := ""
	if err := s.send(s.chunk(chunkChoice{Delta: delta{Role: "assistant", Content: &empty}})); err != nil {
		return err
	}
	return s.out.Flush()
}

// sendEvent sends the text that an event adds. hasEnded is true if the stream was ended.
func (s *answerStream) sendEvent(ctx context.Context, e *agent.Event) (hasEnded bool, err error) {
	added := s.state.addEvent(e)
	if s.state.text.isUncertain && len(s.state.text.collected) > 0 && !s.state.sendsAtEnd {
		return true, s.fail(s.restartedProblem())
	}
	if added != (addition{}) && !s.state.sendsAtEnd {
		if err := s.send(s.additionChunk(added)); err != nil {
			return false, err
		}
	}
	if e.Terminal() {
		if err := s.state.setOutput(ctx, s.completion, e); err != nil {
			return false, err
		}
	}
	if s.state.isPaused || s.state.output != nil {
		return true, s.end()
	}
	return false, nil
}

// end ends the stream with the text that was not sent yet, the finish reason and the usage, or with an error.
func (s *answerStream) end() error {
	if p := s.problem(&s.state); p != nil {
		return s.fail(p)
	}
	if !s.state.sendsAtEnd && len(s.state.text.collected) > 0 {
		if !s.state.text.isComplete() {
			return s.fail(s.restartedProblem())
		}
	} else if err := s.send(s.additionChunk(addition{text: s.state.content(s.q.structured)})); err != nil {
		return err
	}
	if s.state.waitsForClient() {
		calls := s.toolCalls(&s.state)
		for i := range calls {
			calls[i].Index = &i
		}
		if err := s.send(s.chunk(chunkChoice{Delta: delta{ToolCalls: calls}})); err != nil {
			return err
		}
	}
	reason := s.state.finishReason()
	if err := s.send(s.chunk(chunkChoice{FinishReason: &reason})); err != nil {
		return err
	}
	if s.q.includeUsage {
		last, used := s.chunk(), s.usage(&s.state)
		last.Usage = &used
		if err := s.send(last); err != nil {
			return err
		}
	}
	_, _ = s.out.Write([]byte("data: [DONE]\n\n")) // Flush returns the error of Write
	return s.flushLast()
}

// flushLast flushes the stream. If that succeeds, the client has its answer.
func (s *answerStream) flushLast() error {
	err := s.out.Flush()
	if err == nil {
		s.outcome = answered
	}
	return err
}

// fail ends the stream with an error. [DONE] does not follow it, so that no client takes the answer for complete.
func (s *answerStream) fail(p *problem) error {
	if !s.hasBegun {
		return s.writeProblem(s.w, p)
	}
	if err := s.send(problemBody{p}); err != nil {
		return err
	}
	if p.isRunning {
		return s.out.Flush()
	}
	return s.flushLast()
}

// send writes one event, which has only data, to the stream's buffer.
func (s *answerStream) send(v any) error {
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
