package openai

import (
	"context"
	"fmt"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

// answerState is what the turn's events so far say about the answer.
type answerState struct {
	sendsAtEnd bool // whether the text is sent only when the turn has ended
	text       answerText
	reasoning  answerText

	pause    gateway.PauseWatch
	isPaused bool // whether the turn waits for a person, or for results of the client's tools

	lastIndex int64                  // of the last event
	modelUse  agent.Usage            // of the model calls so far
	output    *agent.AgentStepOutput // nil until the turn has ended
}

// addition is the text that an event adds to the text that was sent.
type addition struct{ text, reasoning string }

// begin prepares the state for following the turn, and returns the index after which to follow it. If the first events of the turn have expired,
// the answer comes from the turn's result; hasEnded is true if the result is known already and there is nothing to follow.
func (s *answerState) begin(ctx context.Context, c *completion) (after int64, hasEnded bool, err error) {
	s.text.isSent, s.reasoning.isSent = !s.sendsAtEnd, !s.sendsAtEnd
	if c.after > 0 {
		return s.beginAfterPause(ctx, c)
	}
	if !c.receipt.Joined {
		return 0, false, nil
	}
	v, err := c.call.SubmittedTurn(ctx, c.receipt)
	if err != nil {
		return 0, false, err
	}
	s.pause.Present = v.Tail.LastIndex
	if v.Tail.FirstIndex == 1 || (v.Tail.LastIndex == 0 && v.Output == nil) {
		return 0, false, nil
	}
	s.setUncertain()
	if s.output = v.Output; v.Tail.FirstIndex > 0 {
		return v.Tail.FirstIndex - 1, v.Output != nil, nil
	}
	return v.Tail.LastIndex, v.Output != nil, nil
}

// beginAfterPause is begin for a request that resumes a turn: its answer begins after the pause.
func (s *answerState) beginAfterPause(ctx context.Context, c *completion) (after int64, hasEnded bool, err error) {
	v, err := c.call.SubmittedTurn(ctx, c.receipt)
	if err != nil || v.Tail.FirstIndex <= c.after+1 && v.Tail.FirstIndex > 0 {
		return c.after, false, err
	}
	s.setUncertain()
	s.output = v.Output
	return max(v.Tail.FirstIndex-1, c.after, 0), v.Output != nil, nil
}

// setUncertain records that events have expired, so that the text is not known from the others.
func (s *answerState) setUncertain() { s.text.isUncertain, s.reasoning.isUncertain = true, true }

// readAll reads events until the turn has ended or pauses.
func (s *answerState) readAll(ctx context.Context, c *completion) error {
	after, hasEnded, err := s.begin(ctx, c)
	if err != nil || hasEnded {
		return err
	}
	for e, err := range c.call.Follow(ctx, c.receipt.TurnID, after) {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		}
		s.addEvent(&e)
		if s.isPaused {
			return nil
		}
		if e.Terminal() {
			return s.setOutput(ctx, c, &e)
		}
	}
	return truncatedError(ctx, c)
}

// truncatedError returns the error for events that ended before their turn.
func truncatedError(ctx context.Context, c *completion) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return agent.Errorf(agent.CodeUnavailable, "", "the events of turn %s ended before the turn", c.receipt.TurnID)
}

// addEvent updates the state with the next event, and returns the text that the event adds.
func (s *answerState) addEvent(e *agent.Event) (a addition) {
	switch e.Type {
	case agent.EventToken:
		a.text = s.text.add(e.Meta.Producer, e.Meta.EventIndex, e.Text)
	case agent.EventContent:
		for i := range e.ContentBlocks {
			a.reasoning += s.reasoning.add(e.Meta.Producer, e.Meta.EventIndex, e.ContentBlocks[i].Reasoning)
		}
	case agent.EventReset:
		s.text.reset(e.Producer, e.FromIndex)
		s.reasoning.reset(e.Producer, e.FromIndex)
	case agent.EventUsage:
		if e.Usage != nil {
			s.modelUse = s.modelUse.Add(*e.Usage)
		}
	default:
	}
	s.lastIndex = e.Meta.EventIndex
	s.isPaused = s.pause.See(e)
	return a
}

// setOutput sets the turn's result from its terminal event, or loads it if the event has none.
func (s *answerState) setOutput(ctx context.Context, c *completion, e *agent.Event) error {
	if s.output = e.Result; s.output != nil {
		return nil
	}
	v, err := c.call.SubmittedTurn(ctx, c.receipt)
	if err != nil {
		return err
	}
	if s.output = v.Output; s.output == nil {
		return agent.Errorf(agent.CodeInternal, "", "turn %s ended without a result", c.receipt.TurnID)
	}
	return nil
}

// content returns the whole content of an answer that was not streamed. It prefers the text of the events, because the turn's result is cut at a
// limit. The result has a text even if the events have none.
func (s *answerState) content(isStructured bool) string {
	o := s.output
	if o == nil { // the turn pauses
		if isStructured || s.text.isUncertain {
			return ""
		}
		return s.text.text()
	}
	text := s.text.text()
	if isStructured {
		if len(o.Structured) > 0 && string(o.Structured) != "null" {
			return string(o.Structured)
		}
		text = s.text.lastText()
	}
	if s.text.isUncertain || text == "" {
		return o.Output
	}
	return text
}

// usage returns the usage of the model calls that made the answer: all of the turn, or those before or after a pause.
func (c *completion) usage(s *answerState) usage {
	if s.output == nil || (c.after > 0 && !s.text.isUncertain) {
		return usageOf(s.modelUse)
	}
	return usageOf(s.output.Usage)
}

// finishReason returns why the answer ended, as the API names it.
func (s *answerState) finishReason() string {
	if s.output == nil {
		return "tool_calls"
	}
	switch s.output.StopReason {
	case agent.StopMaxTokens, agent.StopTokens:
		return "length"
	case agent.StopFiltered:
		return "content_filter"
	default:
		return "stop"
	}
}

// problem returns the error to send in place of an answer, or nil if there is an answer.
func (c *completion) problem(s *answerState) *problem {
	switch {
	case s.waitsForClient():
		return nil
	case s.isPaused:
		return c.awaitingProblem(s.pause.Pending)
	case s.output.Status == agent.TurnCompleted, s.output.StopReason == agent.StopTokens:
		return nil
	default:
		return c.failedProblem(s.output)
	}
}

// runningProblem returns the problem of a turn that goes on although the gateway stops waiting for it.
func (c *completion) runningProblem(err error) *problem {
	_, status, _ := gateway.FailureOf(err)
	id := c.receipt.TurnID
	return &problem{
		status: status, Type: typeServer, Code: codeTurnRunning, TurnID: id, isRunning: true, autoRetry: true,
		Message: fmt.Sprintf("turn %s goes on; its result will be at GET /v1/turns/%s", id, id),
	}
}
