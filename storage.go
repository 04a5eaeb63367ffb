package turnstone

import (
	"context"
	"fmt"

	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/blob"
	"github.com/turnstone-run/turnstone/internal/postgres"
	"github.com/turnstone-run/turnstone/internal/results"
	"github.com/turnstone-run/turnstone/internal/stream"
	"github.com/turnstone-run/turnstone/internal/stream/pgstream"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// openStorage connects to PostgreSQL, brings its schema up to date and opens the event log and the blob store.
func (s *Service) openStorage(ctx, _ context.Context) (err error) {
	set := s.cfg.Settings
	pg := postgres.Config{URL: set.Database.URL.Reveal(), MaxConns: int32(set.Database.MaxConns), Logger: s.logger} //nolint:gosec // validated
	if s.pool, err = postgres.Open(ctx, pg); err != nil {
		return err
	}
	if err := postgres.Migrate(ctx, s.pool); err != nil {
		return err
	}
	if err := s.openLog(ctx); err != nil {
		return err
	}
	pg.SeparateLog = set.Events.Log == app.LogMemory
	pg.CatalogPoll = set.Catalog.Poll
	pg.BlobGrace = set.Storage.CollectAfter
	s.store = postgres.NewStore(s.pool, pg)
	if s.blobs, err = blob.Open(ctx, set.Storage.BlobURL.Reveal(), blob.WithLedger(s.store.ContentStore)); err != nil {
		return fmt.Errorf("open blob store: %w", err)
	}
	return nil
}

// openLog opens the event log: in the database, or in this process for one that has no other.
func (s *Service) openLog(ctx context.Context) error {
	set := s.cfg.Settings.Events
	if set.Log == app.LogMemory {
		s.log = stream.NewMemoryLog()
		return nil
	}
	var relay *pgstream.Relay
	if set.Relay.Enabled {
		relay = &pgstream.Relay{Address: set.Relay.Address, Advertise: set.Relay.Advertise}
	}
	log, err := pgstream.New(ctx, pgstream.Config{
		Pool: s.pool, Logger: s.logger, Watch: s.telemetry.counts, Retention: s.keepHere(set.Retention), Flush: set.FlushInterval, Relay: relay,
	})
	if err != nil {
		return err
	}
	s.log, s.closeLog = log, log.Stop
	return nil
}

// rows returns the reader of stored results.
func (s *Service) rows() results.Reader {
	return results.Reader{Store: s.store.ResultStore, Blobs: s.blobs}
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
