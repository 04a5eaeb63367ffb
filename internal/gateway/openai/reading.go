package openai

import (
	"context"
	"fmt"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

// reading is what the events of a turn have told so far.
type reading struct {
	held     bool // nothing is sent before the end
	text     answerText
	thoughts answerText

	pause gateway.PauseWatch

	paused bool                   // the turn waits for a person, or for results of the client's tools
	index  int64                  // of the last event
	usage  agent.Usage            // of the model calls that were read
	output *agent.AgentStepOutput // the turn has ended
}

// addition is what an event adds to what was sent.
type addition struct{ text, thought string }

// begin says behind which event reading begins. over is true when there is nothing to read: the first events of a turn that was asked
// before have expired, and it has ended. One that goes on is answered from its result then.
func (r *reading) begin(ctx context.Context, c *completion) (after int64, over bool, err error) {
	r.text.sent, r.thoughts.sent = !r.held, !r.held
	if c.after > 0 {
		return r.resumeFrom(ctx, c)
	}
	if !c.receipt.Joined {
		return 0, false, nil
	}
	v, err := c.call.SubmittedTurn(ctx, c.receipt)
	if err != nil {
		return 0, false, err
	}
	r.pause.Present = v.Tail.LastIndex
	if v.Tail.FirstIndex == 1 || (v.Tail.LastIndex == 0 && v.Output == nil) {
		return 0, false, nil
	}
	r.text.uncertain, r.thoughts.uncertain = true, true
	if r.output = v.Output; v.Tail.FirstIndex > 0 {
		return v.Tail.FirstIndex - 1, v.Output != nil, nil
	}
	return v.Tail.LastIndex, v.Output != nil, nil
}

// all reads until the turn has ended or waits for a person.
func (r *reading) all(ctx context.Context, c *completion) error {
	after, over, err := r.begin(ctx, c)
	if err != nil || over {
		return err
	}
	for e, err := range c.call.Follow(ctx, c.receipt.TurnID, after) {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		}
		r.see(&e)
		if r.paused {
			return nil
		}
		if e.Terminal() {
			return r.end(ctx, c, &e)
		}
	}
	return endedEarly(ctx, c)
}

// endedEarly returns the error of events that ended before their turn.
func endedEarly(ctx context.Context, c *completion) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return agent.Errorf(agent.CodeUnavailable, "", "the events of turn %s ended before the turn", c.receipt.TurnID)
}

// see takes the next event.
func (r *reading) see(e *agent.Event) (f addition) {
	switch e.Type {
	case agent.EventToken:
		f.text = r.text.add(e.Meta.Producer, e.Meta.EventIndex, e.Text)
	case agent.EventContent:
		for i := range e.ContentBlocks {
			f.thought += r.thoughts.add(e.Meta.Producer, e.Meta.EventIndex, e.ContentBlocks[i].Reasoning)
		}
	case agent.EventReset:
		r.text.reset(e.Producer, e.FromIndex)
		r.thoughts.reset(e.Producer, e.FromIndex)
	case agent.EventUsage:
		if e.Usage != nil {
			r.usage = r.usage.Add(*e.Usage)
		}
	default:
	}
	r.index = e.Meta.EventIndex
	r.paused = r.pause.See(e)
	return f
}

// end takes the result that a terminal event carries, or the stored one when the event has none.
func (r *reading) end(ctx context.Context, c *completion, e *agent.Event) error {
	if r.output = e.Result; r.output != nil {
		return nil
	}
	v, err := c.call.SubmittedTurn(ctx, c.receipt)
	if err != nil {
		return err
	}
	if r.output = v.Output; r.output == nil {
		return agent.Errorf(agent.CodeInternal, "", "turn %s ended without a result", c.receipt.TurnID)
	}
	return nil
}

// content is the answer of a turn of which nothing was sent yet. Its result is capped where its events are not, and has words for an
// answer without any.
func (r *reading) content(structured bool) string {
	o := r.output
	switch {
	case o == nil && (structured || r.text.uncertain):
		return ""
	case o == nil:
		return r.text.text()
	case structured && len(o.Structured) > 0 && string(o.Structured) != "null":
		return string(o.Structured)
	case r.text.uncertain:
		return o.Output
	case structured && r.text.last() != "":
		return r.text.last()
	case !structured && r.text.valid > 0:
		return r.text.text()
	default:
		return o.Output
	}
}

// used is what the model calls of the answer used: all of the turn, or those up to a pause or since one.
func (c *completion) used(r *reading) usage {
	if r.output == nil || (c.after > 0 && !r.text.uncertain) {
		return usageOf(r.usage)
	}
	return usageOf(r.output.Usage)
}

// finishReason is why an answer ended, in the words of the API.
func (r *reading) finishReason() string {
	o := r.output
	if o == nil {
		return "tool_calls"
	}
	switch o.StopReason {
	case agent.StopMaxTokens, agent.StopTokens:
		return "length"
	case agent.StopFiltered:
		return "content_filter"
	default:
		return "stop"
	}
}

// problem is why there is no answer; nil when there is one.
func (c *completion) problem(r *reading) *problem {
	switch {
	case r.callsClient():
		return nil
	case r.paused:
		return c.awaitingProblem(r.pause.Pending)
	case r.output.Status == agent.TurnCompleted, r.output.StopReason == agent.StopTokens:
		return nil
	default:
		return c.failedProblem(r.output)
	}
}

// stillRunning returns the problem of a client whose turn goes on after it waited long enough.
func (c *completion) stillRunning(err error) *problem {
	_, status, _ := gateway.FailureOf(err)
	id := c.receipt.TurnID
	return &problem{
		status: status, Type: typeServer, Code: codeTurnRunning, TurnID: id, open: true, again: true,
		Message: fmt.Sprintf("turn %s goes on; its result will be at GET /v1/turns/%s", id, id),
	}
}
