package wire

import (
	"context"
	"math"

	"github.com/turnstone-run/turnstone/agent"
)

// Bounds of one request for embeddings. Providers take at most 2,048 texts and 300,000 tokens; a token has at least one byte.
const (
	maxBatchTexts = 128
	maxBatchBytes = 256 << 10
)

// Embed returns the vectors of texts, in their order. It calls ask for one batch of texts after the other, each in an exchange of its own, and checks
// the vectors: as many as texts, all of one length, all numbers finite. Errors are those of a model call. An empty text is [agent.CodeInvalid] with
// Field texts, because providers refuse it or answer with nonsense.
func (c *Client) Embed(ctx context.Context, texts []string, ask func(ctx context.Context, batch []string) ([][]float32, error)) ([][]float32, error) {
	for i, text := range texts {
		if text == "" {
			return nil, c.Refuse(agent.Invalid("texts", "text %d is empty", i))
		}
	}
	vectors := make([][]float32, 0, len(texts))
	for len(texts) > 0 {
		n := batchSize(texts)
		batch, err := c.embedBatch(ctx, texts[:n], ask)
		if err != nil {
			return nil, err
		}
		vectors = append(vectors, batch...)
		if reason := checkVectors(vectors); reason != "" {
			return nil, c.errorf(agent.CodeUnavailable, "malformed embeddings: %s", reason)
		}
		texts = texts[n:]
	}
	return vectors, nil
}

// batchSize returns how many of the texts go into one request, at least one.
func batchSize(texts []string) int {
	size := 0
	for i, text := range texts {
		size += len(text)
		if i == maxBatchTexts || (i > 0 && size > maxBatchBytes) {
			return i
		}
	}
	return len(texts)
}

func (c *Client) embedBatch(ctx context.Context, batch []string, ask func(ctx context.Context, batch []string) ([][]float32, error)) ([][]float32, error) {
	call := c.Begin(ctx, nil)
	defer call.End()
	vectors, err := ask(call.Context(), batch)
	if err := call.Failure(err); err != nil {
		return nil, err
	}
	if len(vectors) != len(batch) {
		return nil, c.errorf(agent.CodeUnavailable, "malformed embeddings: %d vectors for %d texts", len(vectors), len(batch))
	}
	return vectors, nil
}

// checkVectors returns what is wrong with vectors, empty if nothing is.
func checkVectors(vectors [][]float32) string {
	for _, v := range vectors {
		if len(v) == 0 {
			return "a vector is empty"
		}
		if len(v) != len(vectors[0]) {
			return "the vectors differ in length"
		}
		for _, x := range v {
			if f := float64(x); math.IsNaN(f) || math.IsInf(f, 0) {
				return "a number is not finite"
			}
		}
	}
	return ""
}
