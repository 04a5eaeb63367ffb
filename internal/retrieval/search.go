package retrieval

import (
	"context"
	"errors"
	"strings"
	"unicode/utf8"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	defaultTopK = 4
	maxTopK     = 100
	maxQuery    = 8_000 // runes of a query that are searched for

	// Each ranking returns more than the result needs, so that passages in the middle of both can win.
	depthFactor = 4
	minDepth    = 20
)

// Search returns the passages that answer a query best, at most TopK (0: 4, at most 100). It searches full text and, with an embedding
// model, the nearest vectors at once, and fuses them by rank. MinScore drops passages that are not near enough, unless full text found
// them. If one search fails, the other answers and the failure is logged. If all fail, the error has the code of the full text search. A
// query without words finds nothing.
func (l *Library) Search(ctx context.Context, q agent.KnowledgeQuery) ([]agent.Passage, error) {
	if err := checkQuery(&q); err != nil {
		return nil, err
	}
	if q.Text == "" {
		return nil, nil
	}
	depth := max(minDepth, depthFactor*q.TopK)
	var words, near []agent.Passage
	var wordsErr, nearErr error
	hybrid := l.canEmbed(q.Embedding)
	var group errgroup.Group // without a context of its own: neither side's failure ends the other
	group.Go(func() error {
		words, wordsErr = l.store.FullText(ctx, q.Tenant, q.Collection, q.Text, depth)
		return nil
	})
	if hybrid {
		group.Go(func() error {
			near, nearErr = l.searchNearest(ctx, &q, depth)
			return nil
		})
	}
	_ = group.Wait() // the errors are in their own variables
	if err := agent.Interrupted(ctx, "search"); err != nil {
		return nil, err
	}
	if wordsErr != nil && (!hybrid || nearErr != nil) {
		return nil, agent.Errorf(agent.CodeOf(wordsErr), "search", "collection %q: %w", q.Collection, errors.Join(wordsErr, nearErr))
	}
	l.warnIfFailed(&q, "search by vectors failed: full text answers alone", nearErr)
	l.warnIfFailed(&q, "full text search failed: vectors answer alone", wordsErr)
	passages := fuse(words, near)
	return passages[:min(len(passages), q.TopK)], nil
}

func (l *Library) warnIfFailed(q *agent.KnowledgeQuery, message string, err error) {
	if err != nil {
		l.logger.Warn(message, zap.String("tenant", q.Tenant), zap.String("collection", q.Collection), zap.Error(err))
	}
}

func checkQuery(q *agent.KnowledgeQuery) error {
	if err := checkNames(q.Tenant, q.Collection); err != nil {
		return err
	}
	if q.TopK < 0 {
		return agent.Invalid("top_k", "is negative")
	}
	if !(q.MinScore >= 0 && q.MinScore <= 1) {
		return agent.Invalid("min_score", "want 0 to 1, got %g", q.MinScore)
	}
	if q.TopK == 0 {
		q.TopK = defaultTopK
	}
	q.TopK = min(q.TopK, maxTopK)
	q.Text = strings.TrimSpace(strings.ReplaceAll(strings.ToValidUTF8(q.Text, " "), "\x00", ""))
	if utf8.RuneCountInString(q.Text) > maxQuery {
		q.Text = string([]rune(q.Text)[:maxQuery])
	}
	return nil
}

// searchNearest embeds the query and returns the chunks that are near enough.
func (l *Library) searchNearest(ctx context.Context, q *agent.KnowledgeQuery, depth int) ([]agent.Passage, error) {
	vector, err := l.embedQuery(ctx, q)
	if err != nil {
		return nil, err
	}
	found, err := l.store.Nearest(ctx, q.Tenant, q.Collection, vector, depth)
	if err != nil {
		return nil, err
	}
	for i := range found {
		if found[i].Score < q.MinScore {
			return found[:i], nil // the rest is farther away
		}
	}
	return found, nil
}

func (l *Library) embedQuery(ctx context.Context, q *agent.KnowledgeQuery) ([]float32, error) {
	ctx, cancel := context.WithTimeout(ctx, l.embedTimeout)
	defer cancel()
	e, err := l.embedder(ctx, *q.Embedding)
	if err != nil {
		return nil, err
	}
	vectors, err := e.Embed(ctx, []string{q.Text})
	if err != nil {
		return nil, err
	}
	return vectors[0], nil
}
