// Package langchain makes [agent.Model] values of three clients of langchaingo. The transport of package wire detects what langchaingo does not report:
// status, Retry-After, broken connections and silence.
//
// With every provider, langchaingo loses:
//
//   - output schemas, strict tools and prompt caching
//   - audio, files and, with most providers, images by URL; they become notes
//   - citations, media in a reply, tools that the provider runs, and encrypted reasoning; its Anthropic client fails on the last two
//   - reasoning and its signatures in the history, and the status of a failed tool result, which becomes a text prefix
//   - the order of text and tool calls in a reply, and the model's name from the provider
//   - the difference between no temperature and temperature 0
//
// With some providers, fragments of tool calls are emitted as text. docs/adr/0002 lists the cases of the model suite that each client fails.
package langchain

import (
	"context"
	"slices"
	"sync"

	"github.com/tmc/langchaingo/llms"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// Config is the configuration of a client.
type Config = wire.Config

// traits are the differences between langchaingo's clients.
type traits struct {
	onePart       bool // it reads only the first part of an assistant's message
	oneText       bool // it takes one text per message
	hasStopReason bool // a complete reply always has a stop reason
	losesText     bool // an incomplete reply lacks the text that was streamed
	noImageURL    bool // it refuses images by URL
}

type model struct {
	client *wire.Client
	llm    llms.Model
	traits traits
}

// Generate implements [agent.Model]. If it fails, the reply is empty, because langchaingo returns no partial replies.
func (m *model) Generate(ctx context.Context, req agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
	messages, err := m.traits.messages(req)
	if err != nil {
		return agent.ModelReply{}, m.client.Refuse(err)
	}
	options, err := callOptions(req)
	if err != nil {
		return agent.ModelReply{}, m.client.Refuse(err)
	}
	call := m.client.Begin(ctx, emit)
	defer call.End()
	e := &emitter{call: call}
	options = append(options,
		llms.WithStreamingFunc(func(_ context.Context, text []byte) error { return e.emit(agent.Delta{Text: string(text)}) }),
		llms.WithStreamingReasoningFunc(func(_ context.Context, reasoning, _ []byte) error {
			return e.emit(agent.Delta{Reasoning: string(reasoning)})
		}))
	res, err := m.llm.GenerateContent(call.Context(), messages, options...)
	e.close()
	if err := call.Failure(err); err != nil {
		return agent.ModelReply{}, err
	}
	if res == nil || len(res.Choices) == 0 || !m.isComplete(res, e.hasText) {
		return agent.ModelReply{}, call.Incomplete()
	}
	reply := newReply(res)
	reply.Model = req.Model
	return reply, nil
}

// isComplete reports whether a reply is complete, as far as the client shows it. streamedText says whether text was streamed.
func (m *model) isComplete(res *llms.ContentResponse, streamedText bool) bool {
	reason := res.Choices[0].StopReason
	if m.traits.hasStopReason && (reason == "" || reason == "null") {
		return false
	}
	hasText := slices.ContainsFunc(res.Choices, func(c *llms.ContentChoice) bool { return c.Content != "" })
	return !m.traits.losesText || hasText || !streamedText
}

// emitter emits the deltas of a call until it is closed. Some clients of langchaingo call back from a goroutine that outlives the call.
type emitter struct {
	mu       sync.Mutex
	call     *wire.Call
	hasText  bool // some text was emitted
	isClosed bool
}

func (e *emitter) emit(d agent.Delta) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.isClosed {
		return context.Canceled
	}
	if d.Text == "" && d.Reasoning == "" {
		return nil
	}
	e.hasText = e.hasText || d.Text != ""
	return e.call.Emit(d)
}

func (e *emitter) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.isClosed = true
}
