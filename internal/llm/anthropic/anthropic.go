// Package anthropic is an [agent.Model] for Anthropic's messages API. docs/adr/0002 says why it uses neither langchaingo nor Anthropic's SDK.
//
// Thinking is kept with its signature (Block.Signature) and sent back unchanged. Redacted thinking is kept as a non_standard block. The calls and
// results of tools that the API runs itself, such as web search, are sent back too, with their citations. Reasoning of other providers has no
// signature and is not sent. Other blocks that the API does not take become notes (docs/reference/models.md).
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

// BaseURL is the address of Anthropic's API.
const BaseURL = "https://api.anthropic.com"

// DefaultMaxTokens is the bound of tokens for a request without one, because the API requires one. All current models allow it.
const DefaultMaxTokens = 8192

// Config is the configuration of the client. BaseURL needs no version; /v1 at its end is ignored.
type Config = wire.Config

// version is the version of the API.
const version = "2023-06-01"

type model struct {
	client *wire.Client
	url    string // of the messages endpoint
}

// New returns a model. Only Anthropic's own base URL needs a key. An error is [agent.CodeInvalid] with the field.
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

// Capabilities implements [agent.Capable]. A schema is for the final text only, so that the model still calls tools.
func (m *model) Capabilities() agent.Capabilities {
	return agent.Capabilities{OutputSchema: true, PromptCache: true}
}

// Generate implements [agent.Model]. If it fails after the stream has begun, the reply has the text and usage that had arrived.
func (m *model) Generate(ctx context.Context, req agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
	body, err := requestBody(req)
	if err != nil {
		return agent.ModelReply{}, m.client.Refuse(err)
	}
	call := m.client.Begin(ctx, emit)
	defer call.End()
	r := reply{call: call, model: req.Model}
	res, err := wire.Post(call.Context(), m.client.HTTP(), m.url, m.header(), body) //nolint:bodyclose // events closes it
	if err != nil {
		return r.partial(), call.Failure(err)
	}
	events := ssestream.NewDecoder(res)
	defer events.Close() //nolint:errcheck // nothing more is read
	for !r.hasEnded && events.Next() {
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
