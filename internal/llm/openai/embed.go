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

// NewEmbedder makes the embedder of a model, e.g. text-embedding-3-small, of a provider that speaks OpenAI's protocol. An error is
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
	res, err := post(ctx, e.client, addressOf(e.client, "/embeddings"), body)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close() //nolint:errcheck // it was read
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
	for i := range answer.Data {
		at := answer.Data[i].Index // the order of the list is not promised
		if at < 0 || at >= len(vectors) || vectors[at] != nil {
			return nil, fmt.Errorf("malformed embeddings: index %d of %d", at, len(vectors))
		}
		vectors[at] = answer.Data[i].Embedding
	}
	return vectors, nil
}
