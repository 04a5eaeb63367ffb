package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

type ollamaEmbedder struct {
	client *wire.Client
	url    string
	model  string
}

// NewOllamaEmbedder returns an embedder by a model, such as nomic-embed-text. It uses Ollama's native endpoint. A text beyond the model's context is
// [agent.CodeOverflow] and not cut, because part of a text would be found for the wrong queries. An error is [agent.CodeInvalid] with the field.
func NewOllamaEmbedder(cfg Config, model string) (agent.Embedder, error) {
	client, err := wire.NewClient("ollama", OllamaURL, cfg)
	if err != nil {
		return nil, err
	}
	base := strings.TrimSuffix(strings.TrimSuffix(client.Config().BaseURL, "/"), "/v1")
	return &ollamaEmbedder{client: client, url: base + "/api/embed", model: model}, nil
}

// Embed implements [agent.Embedder].
func (e *ollamaEmbedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	return e.client.Embed(ctx, texts, e.ask)
}

func (e *ollamaEmbedder) ask(ctx context.Context, batch []string) ([][]float32, error) {
	res, err := post(ctx, e.client, e.url, map[string]any{"model": e.model, "input": batch, "truncate": false})
	if err != nil {
		return nil, err
	}
	defer res.Body.Close() //nolint:errcheck // nothing more is read
	var answer struct {
		Embeddings [][]float32 `json:"embeddings"`
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil { // the transport bounds what is read
		return nil, fmt.Errorf("malformed embeddings: %w", err)
	}
	return answer.Embeddings, nil
}
