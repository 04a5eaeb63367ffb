package turns

import (
	"context"
	"fmt"

	"github.com/turnstone-run/turnstone/agent"
)

// answerWithoutModel returns the reply of a middleware that ends the turn without a model call.
func (r *modelRun) answerWithoutModel(ctx context.Context, i int, m agent.Middleware, jump agent.Jump) (agent.ModelReply, error) {
	if jump != agent.JumpEnd {
		return agent.ModelReply{}, agent.Errorf(agent.CodeInternal, "", "%s jumps to %q before the model, where only %q is possible",
			r.middlewareName(i), jump, agent.JumpEnd)
	}
	if err := checkJump(m, jump, r.middlewareName(i)); err != nil {
		return agent.ModelReply{}, err
	}
	r.jump = jump
	reply := agent.ModelReply{Model: r.profile.Model, FinishReason: agent.FinishStop, Blocks: r.request.Answer}
	if text := agent.Normalize(reply.Blocks); text != "" {
		return reply, r.streamEvents(ctx, answerProducer, agent.Event{Type: agent.EventToken, Text: text})
	}
	return reply, r.streamEvents(ctx, answerProducer)
}

// The names of the producers of a step's reply: the model, or a middleware that answers without a model call.
const (
	modelProducer  = "model"
	answerProducer = "answer"
)

// restreamReply streams the reply again if middleware has changed its text, so that viewers see what is stored.
func (r *modelRun) restreamReply(ctx context.Context, reply *agent.ModelReply) error {
	text := agent.Normalize(reply.Blocks)
	if text == r.text.String() {
		return nil
	}
	var events []agent.Event
	for i := range reply.Blocks {
		switch b := &reply.Blocks[i]; b.Type {
		case agent.BlockText, agent.BlockToolCall, agent.BlockToolResult, agent.BlockInvalidToolCall:
		default:
			events = append(events, agent.Event{Type: agent.EventContent, ContentBlocks: []agent.Block{*b}})
		}
	}
	if text != "" {
		events = append(events, agent.Event{Type: agent.EventToken, Text: text})
	}
	return r.streamEvents(ctx, modelProducer, append(events, r.usages...)...)
}

// withdrawReply voids the events of a failed call, because its reply is not stored, and streams the usage of the call.
func (r *modelRun) withdrawReply(ctx context.Context) error {
	if len(r.usages) > 0 || r.text.Len() > 0 {
		if err := r.streamEvents(ctx, modelProducer, r.usages...); err != nil {
			return err
		}
	}
	if r.fence.StreamID == "" {
		return nil
	}
	return logError(r.ts.Log.Sync(ctx, r.fence))
}

// streamEvents writes events of the step in a new epoch, which voids the events of the epoch before.
func (r *modelRun) streamEvents(ctx context.Context, producer string, events ...agent.Event) error {
	p, work, err := r.ts.startProducer(ctx, r.turn.TurnRef, fmt.Sprintf("%s/%d", producer, r.in.Step), r.isStored)
	if err != nil {
		return r.noteRuntimeError(err)
	}
	r.fence = p.fence
	_ = p.emit(work, events...) // end returns the error
	if err := p.end(ctx); err != nil {
		return r.noteRuntimeError(err)
	}
	return nil
}

// emit streams a fragment of the reply. It is called after the middleware.
func (r *modelRun) emit(d agent.Delta) error {
	if r.isQuiet {
		return context.Cause(r.workCtx)
	}
	r.text.WriteString(d.Text)
	r.tokens.add(d.Text)
	return r.current.emit(r.workCtx, deltaEvents(d)...)
}

// endProducer ends the latest producer, if it is open. When it returns nil, the log has all events.
func (r *modelRun) endProducer() error {
	if r.current == nil {
		return nil
	}
	p := r.current
	r.current = nil
	return p.end(r.callerCtx)
}

func deltaEvents(d agent.Delta) []agent.Event {
	out := make([]agent.Event, 0, 1)
	if d.Text != "" {
		out = append(out, agent.Event{Type: agent.EventToken, Text: d.Text})
	}
	if d.Reasoning != "" {
		out = append(out, agent.Event{Type: agent.EventContent, ContentBlocks: []agent.Block{{Type: agent.BlockReasoning, Reasoning: d.Reasoning}}})
	}
	if d.Block != nil {
		out = append(out, agent.Event{Type: agent.EventContent, ContentBlocks: []agent.Block{*d.Block}})
	}
	return out
}
