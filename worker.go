package turnstone

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/interceptor"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/turnstone-run/turnstone/activities"
	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/workflows"
)

// drainMargin is left of the shutdown timeout for the doors and the database once the worker has drained.
const drainMargin = 5 * time.Second

// startWorker begins to poll.
func (s *Service) startWorker(context.Context, context.Context) error {
	set := s.cfg.Settings
	if !set.Worker.Enabled {
		return nil
	}
	runner, err := s.definitionRunner()
	if err != nil {
		return err
	}
	runs, err := s.scheduledRuns()
	if err != nil {
		return err
	}
	w := sdkworker.New(s.temporal, set.Temporal.TaskQueue, s.workerOptions())
	workflows.Register(w)
	workflows.RegisterActivities(w, activities.New(s.turns), activities.NewDefinitions(runner), activities.NewSchedules(runs),
		s.upkeep.retention, s.upkeep.erasure)
	if err := w.Start(); err != nil {
		return fmt.Errorf("start worker: %w", err)
	}
	s.worker = w
	return nil
}

func (s *Service) workerOptions() sdkworker.Options {
	set := s.cfg.Settings
	// Two pollers, the SDK's default, are too few for a busy queue: started turns would wait behind new ones, which start eagerly.
	pollers := sdkworker.NewPollerBehaviorAutoscaling(sdkworker.PollerBehaviorAutoscalingOptions{})
	options := sdkworker.Options{
		WorkflowTaskPollerBehavior:              pollers,
		ActivityTaskPollerBehavior:              pollers,
		MaxConcurrentActivityExecutionSize:      set.Temporal.MaxConcurrentActivities,
		MaxConcurrentLocalActivityExecutionSize: set.Temporal.MaxConcurrentLocalActivities,
		MaxConcurrentWorkflowTaskExecutionSize:  set.Temporal.MaxConcurrentWorkflowTasks,
		WorkerStopTimeout:                       max(set.ShutdownTimeout-drainMargin, time.Second),
		Interceptors: []interceptor.WorkerInterceptor{workflows.ShowPartialText(func(id agent.TurnID) string {
			return s.turns.PartialText(context.Background(), id) // a query has no context of its own
		})},
		OnFatalError: func(err error) { s.failed <- fmt.Errorf("worker: %w", err) },
	}
	if v := set.Temporal.WorkerVersioning; v.Deployment != "" {
		options.DeploymentOptions = sdkworker.DeploymentOptions{
			UseVersioning: true,
			Version:       sdkworker.WorkerDeploymentVersion{DeploymentName: v.Deployment, BuildID: v.BuildID},
		}
	}
	return options
}
