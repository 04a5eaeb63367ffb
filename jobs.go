package turnstone

import (
	"context"
	"fmt"
	"sync"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/channel/jobs"
)

// startJobs takes jobs from Redis, if it is configured.
func (s *Service) startJobs(ctx, _ context.Context) error {
	set := s.cfg.Settings.Jobs
	if set.RedisURL == "" {
		return nil
	}
	keep := set.ResultTTL
	if keep == 0 {
		keep = -1 // for ever
	}
	bridge, err := jobs.New(jobs.Config{
		URL: set.RedisURL.Reveal(), Queue: set.Queue, ResultPrefix: set.ResultPrefix, Tenant: set.Tenant, Concurrency: set.Concurrency,
		ResultTTL: keep, Drain: set.DrainTimeout, Approvals: agent.ApprovalPolicy(set.Approvals), Results: s.inbox, Metrics: s.telemetry.registry, Logger: s.logger,
	})
	if err != nil {
		return fmt.Errorf("jobs: %w", err)
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() {
		if err := bridge.Serve(serving, s.inbox); err != nil {
			s.failed <- fmt.Errorf("jobs: %w", err)
		}
	})
	s.stopJobs = func() {
		stop()
		running.Wait()
	}
	return nil
}
