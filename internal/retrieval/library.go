package retrieval

import (
	"cmp"
	"context"
	"math"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

// embedTimeout bounds the embedding of a query. If it takes longer, a search uses full text only.
const embedTimeout = 10 * time.Second

// Config configures a [Library].
type Config struct {
	Store Store
	// Embedders returns the embedder of a model. If it is nil, the library makes no vectors.
	Embedders func(ctx context.Context, m agent.PlanModel) (agent.Embedder, error)
	Logger    *zap.Logger // nil: silent
}

// Library adds documents to collections and searches them. It is safe for concurrent use.
type Library struct {
	store     Store
	embedders func(ctx context.Context, m agent.PlanModel) (agent.Embedder, error)
	logger    *zap.Logger
}

// New returns a library. An error is [agent.CodeInvalid] with the field.
func New(c Config) (*Library, error) {
	if c.Store == nil {
		return nil, agent.Invalid("store", "is missing")
	}
	return &Library{store: c.Store, embedders: c.Embedders, logger: cmp.Or(c.Logger, zap.NewNop())}, nil
}

// canEmbed reports whether vectors of a model can be made and stored.
func (l *Library) canEmbed(m *agent.PlanModel) bool {
	return m != nil && l.embedders != nil && l.store.Vectors()
}

// embedder returns the embedder of a model. It checks the vectors.
func (l *Library) embedder(ctx context.Context, m agent.PlanModel) (agent.Embedder, error) {
	e, err := l.embedders(ctx, m)
	if err != nil {
		return nil, err
	}
	return checkedEmbedder{e, m.Profile}, nil
}

// checkedEmbedder is an embedder that refuses vectors without a direction, or of another number than the texts.
type checkedEmbedder struct {
	agent.Embedder

	profile string
}

func (c checkedEmbedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	vectors, err := c.Embedder.Embed(ctx, texts)
	if err != nil {
		return nil, err
	}
	const op = "embed"
	if len(vectors) != len(texts) {
		return nil, agent.Errorf(agent.CodeInternal, op, "%s answered %d texts with %d vectors", c.profile, len(texts), len(vectors))
	}
	for _, v := range vectors {
		var sum float64
		for _, x := range v {
			sum += float64(x) * float64(x)
		}
		if sum == 0 || math.IsNaN(sum) || math.IsInf(sum, 0) {
			return nil, agent.Errorf(agent.CodeInternal, op, "%s answered with a vector that is none: length %d, norm %g", c.profile, len(v), math.Sqrt(sum))
		}
	}
	return vectors, nil
}
