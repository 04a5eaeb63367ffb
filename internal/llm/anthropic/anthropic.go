// Package anthropic is an [agent.Model] over the official Anthropic SDK: messages, streamed. docs/adr/0002 says why it is not
// langchaingo's client.
//
// Thinking travels with its signature (Block.Signature) and goes back verbatim; redacted thinking travels as a non_standard block. Tools
// that the API runs by itself, such as web search, travel as server tool calls and results and go back with their citations. Reasoning of
// another provider, which has no signature, is not sent; other blocks that the API does not know become notes (docs/reference/models.md).
package anthropic

import (
	"context"
	"errors"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

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

type model struct {
	client   *wire.Client
	messages sdk.MessageService
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
	// The service without the SDK's client: that one reads the environment and profiles on disk.
	opts := []option.RequestOption{option.WithBaseURL(cfg.BaseURL), option.WithHTTPClient(client.HTTP()), option.WithMaxRetries(0)}
	if cfg.APIKey != "" {
		opts = append(opts, option.WithAPIKey(cfg.APIKey))
	}
	return &model{client: client, messages: sdk.NewMessageService(opts...)}, nil
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
	stream := m.messages.NewStreaming(call.Context(), params)
	defer func() { _ = stream.Close() }()

	r := reply{call: call, model: req.Model}
	for !r.stopped && stream.Next() {
		event := stream.Current()
		if err := r.add(&event); err != nil {
			return r.partial(), call.Failure(err)
		}
	}
	if err := call.Failure(streamError(call, stream.Err())); err != nil {
		return r.partial(), err
	}
	if r.finish == "" {
		return r.partial(), call.Cut()
	}
	if err := r.emitRest(); err != nil {
		return r.partial(), call.Failure(err)
	}
	return r.complete(), nil
}

// streamError tells the SDK's errors apart: what the provider reported within the stream, and what did not parse.
func streamError(call *wire.Call, err error) error {
	if err == nil {
		return nil
	}
	if reported, ok := errors.AsType[*sdk.Error](err); ok {
		return call.StreamError([]byte(reported.RawJSON()))
	}
	return call.Malformed(err)
}
