// Package gemini is an [agent.Model] for Google's Gemini, with an API key ("googleai") or in a project of Google Cloud ("vertex"). It uses the
// operation streamGenerateContent. docs/adr/0002 says why it uses neither langchaingo nor Google's SDK.
package gemini

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"cloud.google.com/go/auth"
	"cloud.google.com/go/auth/credentials"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// BaseURL is the address of the API that takes API keys of Google AI Studio.
const BaseURL = "https://generativelanguage.googleapis.com/v1beta"

// scope is the scope of tokens for Vertex AI.
const scope = "https://www.googleapis.com/auth/cloud-platform"

// Config is the configuration of the client. BaseURL is the part of URLs before "/models/".
type Config = wire.Config

type model struct {
	client      *wire.Client
	credentials *auth.Credentials // of the machine; nil: the key is used
	isVertex    bool
}

// New returns a model of "googleai". Its key is an API key. An error is [agent.CodeInvalid] with the field.
func New(cfg Config) (agent.Model, error) {
	client, err := wire.NewClient("googleai", BaseURL, cfg)
	if err != nil {
		return nil, err
	}
	if cfg.APIKey == "" {
		return nil, agent.Invalid("api_key", "is empty")
	}
	return &model{client: client}, nil
}

// NewVertex returns a model of "vertex". Its key is an access token. Without a key it uses the application default credentials of the machine, if
// cfg.Ambient allows it. BaseURL ends with /projects/PROJECT/locations/LOCATION/publishers/google. An error is [agent.CodeInvalid] with the field.
func NewVertex(cfg Config) (agent.Model, error) {
	if cfg.BaseURL == "" {
		return nil, agent.Invalid("base_url", "is empty: want https://LOCATION-aiplatform.googleapis.com/v1/projects/PROJECT/locations/LOCATION/publishers/google")
	}
	client, err := wire.NewClient("vertex", "", cfg)
	if err != nil {
		return nil, err
	}
	m := &model{client: client, isVertex: true}
	switch {
	case cfg.APIKey != "":
	case !cfg.Ambient:
		return nil, agent.Invalid("api_key", "is empty")
	default:
		m.credentials, err = credentials.DetectDefault(&credentials.DetectOptions{Scopes: []string{scope}})
		if err != nil {
			return nil, agent.Invalid("api_key", "is empty, and the machine has no application default credentials: %w", err)
		}
	}
	return m, nil
}

// Generate implements [agent.Model]. If it fails after the stream has begun, the reply has the text and usage that had arrived.
func (m *model) Generate(ctx context.Context, req agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
	body, err := newRequest(req, !m.isVertex)
	if err != nil {
		return agent.ModelReply{}, m.client.Refuse(err)
	}
	call := m.client.Begin(ctx, emit)
	defer call.End()
	res, err := m.send(call.Context(), req.Model, body) //nolint:bodyclose // events closes it
	if err != nil {
		return agent.ModelReply{}, call.Failure(err)
	}
	events := ssestream.NewDecoder(res)
	defer events.Close() //nolint:errcheck // nothing more is read
	r := reply{Reply: call.NewReply(req.Model), call: call}
	for events.Next() {
		if err := r.add(events.Event().Data); err != nil {
			return r.Partial(), call.Failure(err)
		}
	}
	return r.End(events.Err(), r.calls)
}

func (m *model) send(ctx context.Context, modelName string, body *request) (*http.Response, error) {
	cfg, header := m.client.Config(), http.Header{}
	switch {
	case m.credentials != nil:
		token, err := m.credentials.Token(ctx)
		if err != nil {
			return nil, agent.Errorf(agent.CodeDenied, "", "read the application default credentials: %w", err)
		}
		header.Set("Authorization", "Bearer "+token.Value)
	case m.isVertex:
		header.Set("Authorization", "Bearer "+cfg.APIKey)
	default:
		header.Set("X-Goog-Api-Key", cfg.APIKey)
	}
	address := strings.TrimSuffix(cfg.BaseURL, "/") + "/models/" + url.PathEscape(modelName) + ":streamGenerateContent?alt=sse"
	return wire.Post(ctx, m.client.HTTP(), address, header, body)
}
