package retrieval

import (
	"context"
	"math"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

const defaultEmbedTimeout = 10 * time.Second

// Config configures a [Library].
type Config struct {
	Store Store
	// Embedders returns the embedder of a model. Nil: there is none, and searches are full text alone.
	Embedders func(ctx context.Context, m agent.PlanModel) (agent.Embedder, error)
	Logger    *zap.Logger // nil: silent
	// EmbedTimeout bounds the embedding of a query; a search that waits longer uses full text only. 0: 10 s.
	EmbedTimeout time.Duration
	Now          func() time.Time // nil: time.Now
}

// Library adds to collections and searches them. It is safe for concurrent use.
type Library struct {
	store        Store
	embedders    func(ctx context.Context, m agent.PlanModel) (agent.Embedder, error)
	logger       *zap.Logger
	embedTimeout time.Duration
	now          func() time.Time
}

// New returns a library.
func New(c Config) (*Library, error) {
	if c.Store == nil {
		return nil, agent.Invalid("store", "is missing")
	}
	if c.EmbedTimeout < 0 {
		return nil, agent.Invalid("embed_timeout", "is negative")
	}
	l := &Library{store: c.Store, embedders: c.Embedders, logger: c.Logger, embedTimeout: c.EmbedTimeout, now: c.Now}
	if l.logger == nil {
		l.logger = zap.NewNop()
	}
	if l.embedTimeout == 0 {
		l.embedTimeout = defaultEmbedTimeout
	}
	if l.now == nil {
		l.now = time.Now
	}
	return l, nil
}

// canEmbed reports whether a model's embeddings can be made and stored.
func (l *Library) canEmbed(m *agent.PlanModel) bool {
	return m != nil && l.embedders != nil && l.store.Vectors()
}

// embedder returns a model's embedder with checks of its answers.
func (l *Library) embedder(ctx context.Context, m agent.PlanModel) (agent.Embedder, error) {
	e, err := l.embedders(ctx, m)
	if err != nil {
		return nil, err
	}
	return checkedEmbedder{e, m.Profile}, nil
}

// checkedEmbedder refuses embeddings that would spoil a collection: too few, or without a direction.
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
