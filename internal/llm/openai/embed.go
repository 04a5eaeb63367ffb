package openai

import (
	"context"
	"fmt"

	sdk "github.com/openai/openai-go/v3"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

type embedder struct {
	client     *wire.Client
	embeddings sdk.EmbeddingService
	model      string
}

// NewEmbedder makes the embedder of a model, e.g. text-embedding-3-small, of a provider that speaks OpenAI's protocol. An error is
// [agent.CodeInvalid] with the field.
func NewEmbedder(provider string, cfg Config, model string) (agent.Embedder, error) {
	client, opts, err := service(provider, cfg)
	if err != nil {
		return nil, err
	}
	return &embedder{client: client, embeddings: sdk.NewEmbeddingService(opts...), model: model}, nil
}

// Embed implements [agent.Embedder].
func (e *embedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	return e.client.Embed(ctx, texts, e.ask)
}

func (e *embedder) ask(ctx context.Context, batch []string) ([][]float32, error) {
	res, err := e.embeddings.New(ctx, sdk.EmbeddingNewParams{
		Model: e.model, Input: sdk.EmbeddingNewParamsInputUnion{OfArrayOfStrings: batch}, EncodingFormat: sdk.EmbeddingNewParamsEncodingFormatFloat,
	})
	if err != nil {
		return nil, err
	}
	vectors := make([][]float32, len(batch))
	for i := range res.Data {
		at := res.Data[i].Index // the order of the list is not promised
		if at < 0 || at >= int64(len(vectors)) || vectors[at] != nil {
			return nil, fmt.Errorf("malformed embeddings: index %d of %d", at, len(vectors))
		}
		vectors[at] = toFloat32(res.Data[i].Embedding)
	}
	return vectors, nil
}

func toFloat32(vector []float64) []float32 {
	out := make([]float32, len(vector))
	for i, x := range vector {
		out[i] = float32(x)
	}
	return out
}
