// Package anthropic is an [agent.Model] over Anthropic's messages API, streamed. docs/adr/0002 says why it is neither langchaingo's
// client nor the SDK.
//
// Thinking travels with its signature (Block.Signature) and goes back verbatim; redacted thinking travels as a non_standard block. Tools
// that the API runs by itself, such as web search, travel as server tool calls and results and go back with their citations. Reasoning of
// another provider, which has no signature, is not sent; other blocks that the API does not know become notes (docs/reference/models.md).
package anthropic

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// BaseURL is Anthropic's own.
const BaseURL = "https://api.anthropic.com"

// DefaultMaxTokens is what a request asks for that names no bound, because the API insists on one: the most that every model in
// service grants.
const DefaultMaxTokens = 8192

// Config is the configuration of the client. BaseURL is without the version; a trailing /v1 is tolerated.
type Config = wire.Config

// version is the version of the API whose types these are.
const version = "2023-06-01"

type model struct {
	client *wire.Client
	url    string // of the messages
}

// New makes the model. A key is needed for Anthropic's own base URL only. An error is [agent.CodeInvalid] with the field.
func New(cfg Config) (agent.Model, error) {
	cfg.BaseURL = strings.TrimSuffix(strings.TrimSuffix(cfg.BaseURL, "/"), "/v1")
	client, err := wire.NewClient("anthropic", BaseURL, cfg)
	if err != nil {
		return nil, err
	}
	cfg = client.Config()
	if cfg.APIKey == "" && cfg.BaseURL == BaseURL {
		return nil, agent.Invalid("api_key", "is empty")
	}
	u, err := url.Parse(cfg.BaseURL)
	if err != nil {
		return nil, agent.Invalid("base_url", "is no URL")
	}
	u.RawQuery, u.Fragment = "", ""
	return &model{client: client, url: strings.TrimSuffix(u.String(), "/") + "/v1/messages"}, nil
}

// Capabilities implements [agent.Capable]: a schema constrains the final text alone, so that tools are called beside it.
func (m *model) Capabilities() agent.Capabilities {
	return agent.Capabilities{OutputSchema: true, PromptCache: true}
}

// Generate streams one message. When it fails after the stream began, the reply holds the text and usage that had arrived.
func (m *model) Generate(ctx context.Context, req agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
	params, err := params(req)
	if err != nil {
		return agent.ModelReply{}, m.client.Refuse(err)
	}
	call := m.client.Begin(ctx, emit)
	defer call.End()
	r := reply{call: call, model: req.Model}
	res, err := wire.Post(call.Context(), m.client.HTTP(), m.url, m.header(), params) //nolint:bodyclose // events closes it
	if err != nil {
		return r.partial(), call.Failure(err)
	}
	events := ssestream.NewDecoder(res)
	defer events.Close() //nolint:errcheck // read to its end, or given up
	for !r.stopped && events.Next() {
		if err := r.add(events.Event()); err != nil {
			return r.partial(), call.Failure(err)
		}
	}
	return r.end(events.Err())
}

func (m *model) header() http.Header {
	h := http.Header{"Accept": {"application/json"}, "Anthropic-Version": {version}}
	if key := m.client.Config().APIKey; key != "" {
		h.Set("X-Api-Key", key)
	}
	return h
}
