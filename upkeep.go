package turnstone

import (
	"context"
	"time"

	"github.com/turnstone-run/turnstone/activities"
	"github.com/turnstone-run/turnstone/internal/blob"
	"github.com/turnstone-run/turnstone/internal/cluster"
	"github.com/turnstone-run/turnstone/internal/erasure"
	probes "github.com/turnstone-run/turnstone/internal/health"
	"github.com/turnstone-run/turnstone/internal/inbox"
	"github.com/turnstone-run/turnstone/internal/postgres"
	"github.com/turnstone-run/turnstone/internal/results"
	"github.com/turnstone-run/turnstone/internal/retention"
	"github.com/turnstone-run/turnstone/internal/turns"
)

var (
	_ retention.Store       = (*postgres.RetentionStore)(nil)
	_ retention.ReportStore = (*postgres.RetentionStore)(nil)
	_ erasure.Store         = (*postgres.ErasureStore)(nil)
	_ erasure.RequestStore  = (*postgres.ErasureStore)(nil)
	_ erasure.Turns         = (*inbox.Inbox)(nil)
	_ erasure.Blobs         = (*blob.Store)(nil)
)

// keepTombstones is how long the catalog keeps deletions of documents. No process may be cut off for longer.
const keepTombstones = 30 * 24 * time.Hour

// upkeep removes old data, and the data of users who asked for erasure.
type upkeep struct {
	reporter  *retention.Reporter
	schedule  *cluster.RetentionSchedule
	requests  *erasure.Requests
	retention *activities.Retention
	erasure   *activities.Erasure
}

// openUpkeep builds the upkeep, and runs its background tasks until background ends.
func (s *Service) openUpkeep(_, background context.Context) (err error) {
	s.startCollector(background)
	s.sweepPayloads(background)
	set := s.cfg.Settings
	u := &s.upkeep
	policy, logger := set.RetentionPolicy(), s.logger.Named("retention")
	if u.schedule, err = cluster.NewRetentionSchedule(cluster.RetentionScheduleConfig{
		Schedules: s.temporal.ScheduleClient(), Every: policy.Every, TaskQueue: set.Temporal.TaskQueue, Logger: logger,
	}); err != nil {
		return err
	}
	sweeper, err := retention.NewSweeper(retention.SweeperConfig{
		Policy: policy, Store: s.store.RetentionStore, Collectors: s.collectors(), Logger: logger,
	})
	if err != nil {
		return err
	}
	u.retention = activities.NewRetention(sweeper)
	u.reporter = &retention.Reporter{Policy: policy, Store: s.store.RetentionStore, Schedule: u.schedule}
	histories := &cluster.Executions{
		Client: s.temporal, Service: s.temporal.WorkflowService(), Schedules: s.temporal.ScheduleClient(), Namespace: s.namespace,
		TaskQueue: set.Temporal.TaskQueue,
	}
	if u.requests, err = erasure.NewRequests(s.store.ErasureStore, histories); err != nil {
		return err
	}
	eraser, err := erasure.NewEraser(erasure.EraserConfig{
		Store: s.store.ErasureStore, Turns: s.inbox, Histories: histories, Blobs: s.blobs, Logger: s.logger.Named("erasure"),
	})
	if err != nil {
		return err
	}
	u.erasure = activities.NewErasure(eraser)
	s.goUpkeep(func() { u.schedule.Run(background) })
	s.goUpkeep(func() { (&turns.Upkeep{Turns: s.turns, Store: s.store}).Run(background) })
	return nil
}

// startCollector removes content that nothing refers to, at intervals, until background ends.
func (s *Service) startCollector(background context.Context) {
	s.collector = results.NewCollector(results.CollectorConfig{
		Ledger: s.store.ContentStore, Bucket: s.blobs, Metrics: s.telemetry.registry, Logger: s.logger,
	})
	if every := s.cfg.Settings.Storage.CollectEvery; every > 0 {
		s.goUpkeep(func() { s.collector.Run(background, every) })
	}
}

// collectors returns the functions that remove data that belongs to no tenant. They run after the sweeps.
func (s *Service) collectors() []retention.Collector {
	return []retention.Collector{
		{Name: "content", Run: func(ctx context.Context) (removed, bytes int64, err error) {
			done, err := s.collector.Collect(ctx)
			return int64(done.Removed), done.Bytes, err
		}},
		{Name: "payloads", Run: func(ctx context.Context) (removed, bytes int64, err error) {
			n, err := s.blobs.Payloads().Sweep(ctx, time.Now().Add(-s.cfg.Settings.Temporal.OffloadKeep))
			return int64(n), 0, err
		}},
		{Name: "tombstones", Run: func(ctx context.Context) (removed, bytes int64, err error) {
			n, err := s.store.PruneCatalog(ctx, time.Now().Add(-keepTombstones))
			return int64(n), 0, err
		}},
	}
}

// retentionSchedule returns the state of the schedule of the workflow Retention.
func (u *upkeep) retentionSchedule(ctx context.Context) (probes.Schedule, error) {
	status, err := u.schedule.Status(ctx)
	out := probes.Schedule{Paused: status.Paused, Note: status.Note, Every: u.schedule.Every}
	if status.LastRun != nil {
		out.Last = *status.LastRun
	}
	return out, err
}

// goUpkeep runs a background task in a worker. A gateway alone does not run it.
func (s *Service) goUpkeep(task func()) {
	if s.cfg.Settings.Worker.Enabled {
		s.tasks.Go(task)
	}
}

// hasSweeps reports whether a schedule of Temporal removes old data.
func (s *Service) hasSweeps() bool { return s.cfg.Settings.Retention.Every > 0 }

// keepHere returns the retention time that this process enforces: 0, none, if the schedule or a worker does.
func (s *Service) keepHere(keep time.Duration) time.Duration {
	if s.hasSweeps() || !s.cfg.Settings.Worker.Enabled {
		return 0
	}
	return keep
}
