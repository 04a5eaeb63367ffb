package openai

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

type embedder struct {
	client *wire.Client
	model  string
}

// NewEmbedder returns an embedder by a model, such as text-embedding-3-small, of a provider that speaks OpenAI's protocol. An error is
// [agent.CodeInvalid] with the field.
func NewEmbedder(provider string, cfg Config, model string) (agent.Embedder, error) {
	client, err := open(provider, cfg)
	if err != nil {
		return nil, err
	}
	return &embedder{client: client, model: model}, nil
}

// Embed implements [agent.Embedder].
func (e *embedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	return e.client.Embed(ctx, texts, e.ask)
}

func (e *embedder) ask(ctx context.Context, batch []string) ([][]float32, error) {
	body := map[string]any{"model": e.model, "input": batch, "encoding_format": "float"}
	res, err := post(ctx, e.client, endpoint(e.client, "/embeddings"), body)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close() //nolint:errcheck // nothing more is read
	var answer struct {
		Data []struct {
			Index     int       `json:"index"`
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return nil, fmt.Errorf("malformed embeddings: %w", err)
	}
	vectors := make([][]float32, len(batch))
	for _, d := range answer.Data { // in any order
		if d.Index < 0 || d.Index >= len(vectors) || vectors[d.Index] != nil {
			return nil, fmt.Errorf("malformed embeddings: index %d of %d", d.Index, len(vectors))
		}
		vectors[d.Index] = d.Embedding
	}
	return vectors, nil
}
