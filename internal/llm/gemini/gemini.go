// Package gemini is an [agent.Model] for Google's Gemini: with an API key at generativelanguage.googleapis.com ("googleai"), or in a project
// of Google Cloud ("vertex"). It speaks streamGenerateContent by itself; docs/adr/0002 says why it uses neither langchaingo nor an SDK.
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

// BaseURL is the API that takes API keys of Google AI Studio.
const BaseURL = "https://generativelanguage.googleapis.com/v1beta"

// scope is what a token for Vertex AI must allow.
const scope = "https://www.googleapis.com/auth/cloud-platform"

// Config is the configuration of the client; BaseURL is the part of URLs before "/models/".
type Config = wire.Config

type model struct {
	client *wire.Client
	token  *auth.Credentials // of the machine; nil: the key is used
	vertex bool
}

// New makes the model of "googleai", whose key is an API key. An error is [agent.CodeInvalid] with the field.
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

// NewVertex makes the model of "vertex", whose key is an access token. Without a key it uses the application default credentials of the
// machine if cfg.Ambient allows them. BaseURL ends in /projects/PROJECT/locations/LOCATION/publishers/google.
func NewVertex(cfg Config) (agent.Model, error) {
	if cfg.BaseURL == "" {
		return nil, agent.Invalid("base_url", "is empty: want https://LOCATION-aiplatform.googleapis.com/v1/projects/PROJECT/locations/LOCATION/publishers/google")
	}
	client, err := wire.NewClient("vertex", "", cfg)
	if err != nil {
		return nil, err
	}
	m := &model{client: client, vertex: true}
	switch {
	case cfg.APIKey != "":
	case !cfg.Ambient:
		return nil, agent.Invalid("api_key", "is empty")
	default:
		m.token, err = credentials.DetectDefault(&credentials.DetectOptions{Scopes: []string{scope}})
		if err != nil {
			return nil, agent.Invalid("api_key", "is empty, and the machine has no application default credentials: %w", err)
		}
	}
	return m, nil
}

// Generate streams one reply. When it fails after the stream began, the reply holds the text and usage that had arrived.
func (m *model) Generate(ctx context.Context, req agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
	body, err := requestOf(req, !m.vertex)
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
	defer events.Close() //nolint:errcheck // read to its end, or given up
	r := reply{Reply: call.NewReply(req.Model), call: call}
	for events.Next() {
		if err := r.add(events.Event().Data); err != nil {
			return r.Partial(), call.Failure(err)
		}
	}
	return r.End(events.Err(), r.calls)
}

func (m *model) send(ctx context.Context, name string, body *request) (*http.Response, error) {
	cfg, header := m.client.Config(), http.Header{}
	switch {
	case m.token != nil:
		token, err := m.token.Token(ctx)
		if err != nil {
			return nil, agent.Errorf(agent.CodeDenied, "", "read the application default credentials: %w", err)
		}
		header.Set("Authorization", "Bearer "+token.Value)
	case m.vertex:
		header.Set("Authorization", "Bearer "+cfg.APIKey)
	default:
		header.Set("X-Goog-Api-Key", cfg.APIKey)
	}
	address := strings.TrimSuffix(cfg.BaseURL, "/") + "/models/" + url.PathEscape(name) + ":streamGenerateContent?alt=sse"
	return wire.Post(ctx, m.client.HTTP(), address, header, body)
}
