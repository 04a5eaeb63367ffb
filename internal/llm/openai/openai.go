// Package openai is an [agent.Model] and an [agent.Embedder] for OpenAI and for servers with a compatible API. docs/adr/0002 says why it does not use
// langchaingo.
//
// Reasoning and annotations are not sent back, because the API does not take them. Media and blocks that the server does not take become notes. The
// tables are in docs/reference/models.md.
package openai

import (
	"context"

	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// BaseURL is the address of OpenAI's API.
const BaseURL = "https://api.openai.com/v1"

// Config is the configuration of the client. BaseURL includes the version, as in http://127.0.0.1:11434/v1.
type Config = wire.Config

type model struct {
	client     *wire.Client
	media      Media
	isOfficial bool // the server is OpenAI's or Azure's
	asksUsage  bool // requests ask for usage in the stream
}

// Options are the properties of a server that differ from OpenAI's.
type Options struct {
	Media           *Media // what it takes; nil: the same as OpenAI
	NoStreamOptions bool   // it refuses stream_options; it reports usage unasked, or not at all
}

// New returns a model. Only OpenAI's own base URL needs a key. An error is [agent.CodeInvalid] with the field.
func New(cfg Config) (agent.Model, error) { return NewWith("openai", cfg, Options{}) }

// NewWith returns a model of a provider that speaks OpenAI's protocol. Errors contain its name.
func NewWith(provider string, cfg Config, options Options) (agent.Model, error) {
	client, err := open(provider, cfg)
	if err != nil {
		return nil, err
	}
	m := &model{client: client, isOfficial: isOfficial(client.Config().BaseURL), asksUsage: !options.NoStreamOptions}
	m.media = defaultMedia(m.isOfficial)
	if options.Media != nil {
		m.media = *options.Media
	}
	return m, nil
}

// open returns the client of a provider. It refuses to call OpenAI without a key.
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

// Capabilities implements [agent.Capable]. OpenAI and Azure enforce a schema, also beside tools, and cache prompts unasked. Other servers may do
// neither: with a schema, vLLM, llama.cpp and Ollama call no tools.
func (m *model) Capabilities() agent.Capabilities {
	return agent.Capabilities{OutputSchema: m.isOfficial, PromptCache: m.isOfficial}
}

// Generate implements [agent.Model]. If it fails after the stream has begun, the reply has the text and usage that had arrived.
func (m *model) Generate(ctx context.Context, req agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
	body, err := m.requestBody(req)
	if err != nil {
		return agent.ModelReply{}, m.client.Refuse(err)
	}
	call := m.client.Begin(ctx, emit)
	defer call.End()
	res, err := post(call.Context(), m.client, endpoint(m.client, "/chat/completions"), body) //nolint:bodyclose // events closes it
	if err != nil {
		return agent.ModelReply{Model: req.Model}, call.Failure(err)
	}
	events := ssestream.NewDecoder(res)
	defer events.Close() //nolint:errcheck // nothing more is read
	r := reply{Reply: call.NewReply(req.Model), call: call}
	for done := false; !done && events.Next(); {
		if done, err = r.add(events.Event().Data); err != nil {
			return r.Partial(), call.Failure(err)
		}
	}
	return r.end(events.Err())
}
