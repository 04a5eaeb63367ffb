package turnstone

import (
	"context"

	"github.com/turnstone-run/turnstone/internal/postgres"
	"github.com/turnstone-run/turnstone/internal/results"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// rows returns the reader of stored results.
func (s *Service) rows(store *postgres.Store) results.Reader {
	return results.Reader{Store: store.ResultStore, Blobs: s.blobs}
}

// ranking is the database's full-text search for tools.
type ranking struct{ store *postgres.KnowledgeStore }

// Rank implements [tool.Ranking].
func (r ranking) Rank(ctx context.Context, query string, docs []tool.RankedText, n int) ([]tool.Ranked, error) {
	titles, bodies := make([]string, len(docs)), make([]string, len(docs))
	for i := range docs {
		titles[i], bodies[i] = docs[i].Title, docs[i].Body
	}
	indexes, scores, err := r.store.RankTexts(ctx, query, titles, bodies, n)
	if err != nil {
		return nil, err
	}
	out := make([]tool.Ranked, len(indexes))
	for i := range indexes {
		out[i] = tool.Ranked{Index: indexes[i], Score: scores[i]}
	}
	return out, nil
}

// collect removes content that nothing refers to, at intervals, until ctx ends.
func (s *Service) collect(ctx context.Context, store *postgres.Store) {
	s.collector = results.NewCollector(results.CollectorConfig{Ledger: store.ContentStore, Bucket: s.blobs, Metrics: s.telemetry.registry, Logger: s.logger})
	if every := s.cfg.Settings.Storage.CollectEvery; every > 0 {
		s.goUpkeep(func() { s.collector.Run(ctx, every) })
	}
}
