package pii

import (
	"context"

	"github.com/turnstone-run/turnstone/agent"
)

// WrapModel applies the rule to streamed text, before anybody reads it, and to the reply. It holds text back while that may become a value,
// and drops held text if the call fails or is cancelled. Under block the call ends at the first value.
//
// The reply is changed here and not in AfterModel, so that a middleware around this one sees what readers saw.
func (m *Middleware) WrapModel(next agent.ModelFunc) agent.ModelFunc {
	if !m.output {
		return next
	}
	return func(ctx context.Context, inv agent.Invocation, req agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
		s := deltaFilter{emit: emit, text: NewStream(m.rule), reasoning: NewStream(m.rule)}
		reply, err := next(ctx, inv, req, s.filter)
		if err == nil {
			err = s.flush()
		}
		if err != nil {
			return agent.ModelReply{Usage: reply.Usage, Model: reply.Model}, err
		}
		e := editor{rule: m.rule}
		reply.Blocks = e.editBlocks(reply.Blocks)
		if e.err != nil {
			return agent.ModelReply{Usage: reply.Usage, Model: reply.Model}, withOp("check the reply", e.err)
		}
		return reply, nil
	}
}

// deltaFilter filters the fragments of one model call.
type deltaFilter struct {
	emit            func(agent.Delta) error
	text, reasoning *Stream
}

func (s *deltaFilter) filter(d agent.Delta) error {
	out := agent.Delta{Text: s.text.Write(d.Text), Reasoning: s.reasoning.Write(d.Reasoning)}
	if d.Block != nil {
		e := editor{rule: s.text.rule}
		blocks := e.editBlocks([]agent.Block{*d.Block})
		if e.err != nil {
			return withOp("check the reply", e.err)
		}
		out.Block = &blocks[0]
	}
	return s.emitEach(out)
}

func (s *deltaFilter) flush() error {
	return s.emitEach(agent.Delta{Text: s.text.Flush(), Reasoning: s.reasoning.Flush()})
}

// emitEach emits the fields of a fragment one by one.
func (s *deltaFilter) emitEach(d agent.Delta) error {
	for _, one := range []agent.Delta{{Text: d.Text}, {Reasoning: d.Reasoning}, {Block: d.Block}} {
		if one == (agent.Delta{}) {
			continue
		}
		if err := s.emit(one); err != nil {
			return err
		}
	}
	for _, stream := range []*Stream{s.text, s.reasoning} {
		if err := stream.Err(); err != nil {
			return withOp("check the reply", err)
		}
	}
	return nil
}
