// Package langchain makes an [agent.Model] of three of langchaingo's clients. The transport of package wire gives back what langchaingo loses:
// status, Retry-After, cut connections, silence.
//
// What langchaingo cannot carry, whatever the provider:
//
//   - an output schema, strict tools, prompt caching; audio, files, and images by URL with most providers, which become notes
//   - citations, media in a reply, tools that the provider runs, encrypted reasoning: its Anthropic client fails on the latter two
//   - reasoning and its signatures in the history, the mark of a failed tool result (it becomes a text prefix)
//   - the order of text and tool calls in a reply, the model's name as the provider reports it
//   - temperature: nil and 0 are the same to it
//
// Its tool-call fragments reach the streaming callback as text with some providers; docs/adr/0002 lists what each client fails of
// the model suite.
package langchain

import (
	"context"
	"strings"
	"sync"

	"github.com/tmc/langchaingo/llms"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// Config is the configuration of a client.
type Config = wire.Config

// traits are the differences between langchaingo's clients.
type traits struct {
	onePart    bool // of a message it reads the first part only: send one message per part
	oneText    bool // it takes one text per message: join them
	saysWhy    bool // a whole reply always has a stop reason: one without was cut
	forgets    bool // a cut reply comes back without the text that was streamed
	noImageURL bool // it refuses images by URL
}

type model struct {
	client *wire.Client
	llm    llms.Model
	traits traits
}

// Generate makes one call. When it fails the reply is empty: langchaingo gives no partial ones.
func (m *model) Generate(ctx context.Context, req agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
	messages, err := m.traits.messages(req)
	if err != nil {
		return agent.ModelReply{}, m.client.Refuse(err)
	}
	options, err := options(req)
	if err != nil {
		return agent.ModelReply{}, m.client.Refuse(err)
	}
	call := m.client.Begin(ctx, emit)
	defer call.End()
	g := &gate{call: call}
	options = append(options,
		llms.WithStreamingFunc(func(_ context.Context, text []byte) error { return g.emit(agent.Delta{Text: string(text)}) }),
		llms.WithStreamingReasoningFunc(func(_ context.Context, reasoning, _ []byte) error {
			return g.emit(agent.Delta{Reasoning: string(reasoning)})
		}))
	res, err := m.llm.GenerateContent(call.Context(), messages, options...)
	g.close()
	if err := call.Failure(err); err != nil {
		return agent.ModelReply{}, err
	}
	if res == nil || len(res.Choices) == 0 || (m.traits.saysWhy && !hasFinished(res)) || (m.traits.forgets && g.lost(res)) {
		return agent.ModelReply{}, call.Cut()
	}
	reply := replyOf(res)
	reply.Model = req.Model
	return reply, nil
}

func hasFinished(res *llms.ContentResponse) bool {
	return res.Choices[0].StopReason != "" && res.Choices[0].StopReason != "null"
}

// lost reports text that was streamed but is not in the answer.
func (g *gate) lost(res *llms.ContentResponse) bool {
	var text strings.Builder
	for _, c := range res.Choices {
		text.WriteString(c.Content)
	}
	return g.text && text.String() == ""
}

// gate stands between langchaingo's callbacks and the exchange: some of its clients read on in a goroutine that outlives the call.
type gate struct {
	mu     sync.Mutex
	call   *wire.Call
	text   bool // some text went through
	closed bool
}

func (g *gate) emit(d agent.Delta) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return context.Canceled
	}
	if d.Text == "" && d.Reasoning == "" {
		return nil
	}
	g.text = g.text || d.Text != ""
	return g.call.Emit(d)
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}
