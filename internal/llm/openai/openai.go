// Package openai is an [agent.Model] for OpenAI: chat completions, streamed, with usage. It also speaks to
// everything that calls itself OpenAI-compatible, by base URL. docs/adr/0002 says why it is not langchaingo's client.
//
// What a conversation loses here is in docs/reference/models.md: reasoning and annotations are not sent back (the API takes none); media and blocks
// that the server cannot take become notes.
package openai

import (
	"context"

	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// BaseURL is OpenAI's own.
const BaseURL = "https://api.openai.com/v1"

// Config is the configuration of the client; BaseURL includes the version, e.g. http://127.0.0.1:11434/v1.
type Config = wire.Config

type model struct {
	client   *wire.Client
	media    Media
	official bool // of OpenAI or Azure: knows max_completion_tokens, which others do not
	usage    bool // ask for usage in the stream
}

// Options describe a server beyond its protocol.
type Options struct {
	Media           *Media // what it takes; nil: as OpenAI does
	NoStreamOptions bool   // it refuses stream_options and reports usage by itself, or not at all
}

// New returns the model. A key is needed for OpenAI's own base URL only. An error is [agent.CodeInvalid] with the field.
func New(cfg Config) (agent.Model, error) { return NewWith("openai", cfg, Options{}) }

// NewWith is [New] for another provider that speaks the same protocol. Errors contain its name.
func NewWith(provider string, cfg Config, options Options) (agent.Model, error) {
	client, err := open(provider, cfg)
	if err != nil {
		return nil, err
	}
	m := &model{
		client: client, official: isOfficial(client.Config().BaseURL), usage: !options.NoStreamOptions,
	}
	m.media = mediaOf(m.official)
	if options.Media != nil {
		m.media = *options.Media
	}
	return m, nil
}

// open returns the client of a provider, which has a key where the server is OpenAI's own.
func open(provider string, cfg Config) (*wire.Client, error) {
	client, err := wire.NewClient(provider, BaseURL, cfg)
	if err != nil {
		return nil, err
	}
	if cfg = client.Config(); cfg.APIKey == "" && cfg.BaseURL == BaseURL {
		return nil, agent.Invalid("api_key", "is empty")
	}
	return client, nil
}

// Capabilities are those of OpenAI and Azure: a schema is enforced, also beside tools, and prompts are cached without being asked. Of
// other servers neither is known, and the widespread ones let a schema suppress tool calls (vLLM, llama.cpp, Ollama).
func (m *model) Capabilities() agent.Capabilities {
	return agent.Capabilities{OutputSchema: m.official, PromptCache: m.official}
}

// Generate streams one chat completion. When it fails after the stream began, the reply holds the text and usage that had arrived.
func (m *model) Generate(ctx context.Context, req agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
	params, err := m.params(req)
	if err != nil {
		return agent.ModelReply{}, m.client.Refuse(err)
	}
	call := m.client.Begin(ctx, emit)
	defer call.End()
	res, err := post(call.Context(), m.client, addressOf(m.client, "/chat/completions"), params) //nolint:bodyclose // events closes it
	if err != nil {
		return agent.ModelReply{Model: req.Model}, call.Failure(err)
	}
	events := ssestream.NewDecoder(res)
	defer events.Close() //nolint:errcheck // read to its end, or given up
	r := reply{Reply: call.NewReply(req.Model), call: call}
	for done := false; !done && events.Next(); {
		if done, err = r.add(events.Event().Data); err != nil {
			return r.Partial(), call.Failure(err)
		}
	}
	return r.end(events.Err())
}
