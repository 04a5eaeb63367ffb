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

// keepTombstones is how long the catalog remembers deleted documents: longer than any process may miss a deletion.
const keepTombstones = 30 * 24 * time.Hour

// upkeep removes old data, and the data of users who are erased.
type upkeep struct {
	reporter  *retention.Reporter
	schedule  *cluster.RetentionSchedule
	requests  *erasure.Requests
	retention *activities.Retention
	erasure   *activities.Erasure
}

// openUpkeep builds the upkeep, and runs its background tasks until background ends.
func (s *Service) openUpkeep(background context.Context, store *postgres.Store, cases *turns.Turns, box *inbox.Inbox) (err error) {
	set := s.cfg.Settings
	u := &s.upkeep
	policy, logger := set.RetentionPolicy(), s.logger.Named("retention")
	if u.schedule, err = cluster.NewRetentionSchedule(cluster.RetentionScheduleConfig{
		Schedules: s.temporal.ScheduleClient(), Every: policy.Every, TaskQueue: set.Temporal.TaskQueue, Logger: logger,
	}); err != nil {
		return err
	}
	sweeper, err := retention.NewSweeper(retention.SweeperConfig{
		Policy: policy, Store: store.RetentionStore, Collectors: s.collectors(store), Logger: logger,
	})
	if err != nil {
		return err
	}
	u.retention = activities.NewRetention(sweeper)
	u.reporter = &retention.Reporter{Policy: policy, Store: store.RetentionStore, Schedule: u.schedule}
	histories := &cluster.Executions{
		Client: s.temporal, Service: s.temporal.WorkflowService(), Schedules: s.temporal.ScheduleClient(), Namespace: s.namespace,
		TaskQueue: set.Temporal.TaskQueue,
	}
	if u.requests, err = erasure.NewRequests(store.ErasureStore, histories); err != nil {
		return err
	}
	eraser, err := erasure.NewEraser(erasure.EraserConfig{
		Store: store.ErasureStore, Turns: box, Histories: histories, Blobs: s.blobs, Logger: s.logger.Named("erasure"),
	})
	if err != nil {
		return err
	}
	u.erasure = activities.NewErasure(eraser)
	s.goUpkeep(func() { u.schedule.Run(background) })
	s.goUpkeep(func() { (&turns.Upkeep{Turns: cases, Store: store}).Run(background) })
	return nil
}

// collectors returns the functions that remove data of no tenant, after the sweeps.
func (s *Service) collectors(store *postgres.Store) []retention.Collector {
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
			n, err := store.PruneCatalog(ctx, time.Now().Add(-keepTombstones))
			return int64(n), 0, err
		}},
	}
}

// scheduled returns the state of the schedule of the workflow Retention.
func (u *upkeep) scheduled(ctx context.Context) (probes.Schedule, error) {
	status, err := u.schedule.Status(ctx)
	out := probes.Schedule{Paused: status.Paused, Note: status.Note, Every: u.schedule.Every}
	if status.LastRun != nil {
		out.Last = *status.LastRun
	}
	return out, err
}

// goUpkeep runs a background task of workers. A gateway alone has none, so that more gateways do not repeat it.
func (s *Service) goUpkeep(task func()) {
	if s.cfg.Settings.Worker.Enabled {
		s.tasks.Go(task)
	}
}

// swept reports whether a schedule of Temporal removes old data.
func (s *Service) swept() bool { return s.cfg.Settings.Retention.Every > 0 }

// unswept returns how long this process itself keeps something: 0, for ever, if the schedule or a worker removes it.
func (s *Service) unswept(keep time.Duration) time.Duration {
	if s.swept() || !s.cfg.Settings.Worker.Enabled {
		return 0
	}
	return keep
}
