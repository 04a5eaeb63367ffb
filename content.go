package turnstone

import (
	"context"

	"github.com/turnstone-run/turnstone/internal/postgres"
	"github.com/turnstone-run/turnstone/internal/results"
)

// rows opens what references name.
func (s *Service) rows(store *postgres.Store) results.Reader {
	return results.Reader{Store: store, Blobs: s.blobs}
}

// collect removes content that nobody refers to, now and then, until ctx ends.
func (s *Service) collect(ctx context.Context, store *postgres.Store) {
	every := s.cfg.Settings.Storage.CollectEvery
	if every <= 0 {
		return
	}
	collector := results.NewCollector(results.CollectorConfig{Ledger: store, Bucket: s.blobs, Metrics: s.metrics, Logger: s.logger})
	s.tasks.Go(func() { collector.Run(ctx, every) })
}
