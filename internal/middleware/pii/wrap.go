package pii

import (
	"context"

	"github.com/turnstone-run/turnstone/agent"
)

// WrapModel applies the rule to what is streamed, before anybody reads it, and to the reply. Text is held back while it may still become
// a value; what is held when a call fails or is cancelled is dropped. Under block the call ends at the first value.
//
// The reply is changed here and not in AfterModel, so that a middleware around this one sees what readers saw.
func (m *Middleware) WrapModel(next agent.ModelFunc) agent.ModelFunc {
	if !m.output {
		return next
	}
	return func(ctx context.Context, inv agent.Invocation, req agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
		s := streams{emit: emit, text: NewStream(m.rule), reasoning: NewStream(m.rule), rule: m.rule}
		reply, err := next(ctx, inv, req, s.take)
		if err == nil {
			err = s.flush()
		}
		if err != nil {
			return agent.ModelReply{Usage: reply.Usage, Model: reply.Model}, err
		}
		e := editor{rule: m.rule}
		reply.Blocks = e.blocks(reply.Blocks)
		if e.err != nil {
			return agent.ModelReply{Usage: reply.Usage, Model: reply.Model}, wrap("check the reply", e.err)
		}
		return reply, nil
	}
}

// streams are the fragments of one model call on their way to readers.
type streams struct {
	emit            func(agent.Delta) error
	text, reasoning *Stream
	rule            *Rule
}

func (s *streams) take(d agent.Delta) error {
	out := agent.Delta{Text: s.text.Write(d.Text), Reasoning: s.reasoning.Write(d.Reasoning)}
	if d.Block != nil {
		e := editor{rule: s.rule}
		blocks := e.blocks([]agent.Block{*d.Block})
		if e.err != nil {
			return wrap("check the reply", e.err)
		}
		out.Block = &blocks[0]
	}
	return s.give(out)
}

func (s *streams) flush() error {
	return s.give(agent.Delta{Text: s.text.Flush(), Reasoning: s.reasoning.Flush()})
}

// give emits what a fragment has left, each field by itself.
func (s *streams) give(d agent.Delta) error {
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
			return wrap("check the reply", err)
		}
	}
	return nil
}
