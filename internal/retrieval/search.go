package retrieval

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	defaultTopK = 4
	maxTopK     = 100
	maxQuery    = 8_000 // runes of a query; the rest is ignored

	// Each ranking has more passages than the result, because a passage in the middle of both rankings may be the best one.
	depthFactor = 4
	minDepth    = 20
)

// Search returns the passages that answer a query best, at most TopK (default 4, at most 100). It searches by full text and, with an embedding model, by
// vectors at the same time, and combines the results by rank. MinScore removes passages that are less similar, unless full text found them too. If
// one search fails, Search logs the failure and returns the results of the other. If both fail, the error has the code of the full text search. A
// query without words has no results.
func (l *Library) Search(ctx context.Context, q agent.KnowledgeQuery) ([]agent.Passage, error) {
	if err := checkQuery(&q); err != nil {
		return nil, err
	}
	if q.Text == "" {
		return nil, nil
	}
	depth := max(minDepth, depthFactor*q.TopK)
	var matching, nearest []agent.Passage
	var textErr, vectorErr error
	hasVectors := l.canEmbed(q.Embedding)
	var searches sync.WaitGroup
	searches.Go(func() { matching, textErr = l.store.FullText(ctx, q.Tenant, q.Collection, q.Text, depth) })
	if hasVectors {
		searches.Go(func() { nearest, vectorErr = l.searchNearest(ctx, &q, depth) })
	}
	searches.Wait()
	if err := agent.Interrupted(ctx, "search"); err != nil {
		return nil, err
	}
	if textErr != nil && (!hasVectors || vectorErr != nil) {
		return nil, agent.Errorf(agent.CodeOf(textErr), "search", "collection %q: %w", q.Collection, errors.Join(textErr, vectorErr))
	}
	l.warnIfFailed(&q, "search by vectors failed: full text answers alone", vectorErr)
	l.warnIfFailed(&q, "full text search failed: vectors answer alone", textErr)
	passages := fuse(matching, nearest)
	return passages[:min(len(passages), q.TopK)], nil
}

func (l *Library) warnIfFailed(q *agent.KnowledgeQuery, message string, err error) {
	if err != nil {
		l.logger.Warn(message, zap.String("tenant", q.Tenant), zap.String("collection", q.Collection), zap.Error(err))
	}
}

// checkQuery checks a query and sets its defaults.
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
	q.TopK = min(cmp.Or(q.TopK, defaultTopK), maxTopK)
	q.Text = strings.TrimSpace(strings.ReplaceAll(strings.ToValidUTF8(q.Text, " "), "\x00", ""))
	q.Text = firstRunes(q.Text, maxQuery)
	return nil
}

// searchNearest embeds the query and returns the chunks with at least MinScore.
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
			return found[:i], nil // the others have lower scores
		}
	}
	return found, nil
}

func (l *Library) embedQuery(ctx context.Context, q *agent.KnowledgeQuery) ([]float32, error) {
	ctx, cancel := context.WithTimeout(ctx, embedTimeout)
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
