// Package schedules keeps Temporal's schedules as the definitions of workflows say.
package schedules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clockwork"
	"github.com/turnstone-run/turnstone/workflows"
)

const (
	prefix = "schedule/" // of the ids, before tenant/owner/tag/id
	// catchUp is how late a run may start after an outage. What was missed longer ago does not run.
	catchUp = time.Minute
)

// Definitions are the stored workflows.
type Definitions interface {
	// Workflow returns the newest version for 0; [agent.CodeNotFound] when there is none, or it was deleted.
	Workflow(ctx context.Context, key agent.WorkflowKey, version int64) (agent.StoredWorkflow, error)
	// Workflows lists newest versions; tenant "*" is all.
	Workflows(ctx context.Context, q agent.WorkflowQuery) (agent.WorkflowPage, error)
}

// Config is what [New] needs.
type Config struct {
	Schedules   client.ScheduleClient
	Definitions Definitions
	TaskQueue   string                  // empty: the house's
	Data        converter.DataConverter // of the client, which writes memos with it; nil: the SDK's
	Logger      *zap.Logger             // nil: none
}

// Keeper makes schedules be as definitions say. A schedule that a person paused, or changed, in Temporal stays so until the definition says
// something else of it.
type Keeper struct {
	Config

	clock *clockwork.Keeper
}

// New checks the configuration.
func New(c Config) (*Keeper, error) {
	switch {
	case c.Schedules == nil:
		return nil, errors.New("schedules: Schedules is missing")
	case c.Definitions == nil:
		return nil, errors.New("schedules: Definitions is missing")
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	if c.TaskQueue == "" {
		c.TaskQueue = workflows.TaskQueue
	}
	clock, err := clockwork.New(c.Schedules, c.TaskQueue, c.Data)
	return &Keeper{Config: c, clock: clock}, err
}

// ID is the id of a definition's schedule in Temporal.
func ID(key agent.WorkflowKey, id string) string {
	return prefix + key.Tenant + "/" + key.Owner + "/" + key.Tag + "/" + id
}

// Sync makes the schedules of a definition be as its newest version says, whichever version it is given; those that the version before had
// and this one has not are deleted. Idempotent. It does what it can and returns what it could not.
func (k *Keeper) Sync(ctx context.Context, w agent.StoredWorkflow) error {
	newest, err := k.Definitions.Workflow(ctx, w.WorkflowKey, 0)
	var wanted []agent.WorkflowSchedule
	switch {
	case agent.CodeOf(err) == agent.CodeNotFound:
		newest = w
	case err != nil:
		return fmt.Errorf("sync schedules of %q: %w", w.Tag, err)
	case !newest.Deleted:
		if wanted, err = scheduled(&newest); err != nil {
			return err
		}
	}
	var failed []error
	keep := map[string]bool{}
	for i := range wanted {
		keep[wanted[i].ID] = true
		want := wantOf(&newest, &wanted[i])
		failed = append(failed, k.clock.Ensure(ctx, &want, false))
	}
	for _, version := range []int64{w.Version, w.Version - 1, newest.Version - 1} {
		if version < 1 {
			continue
		}
		before, err := k.Definitions.Workflow(ctx, newest.WorkflowKey, version)
		if err != nil {
			continue // the reconciler finds what is left
		}
		old, err := scheduled(&before)
		if err != nil {
			continue // as above
		}
		for _, s := range old {
			if !keep[s.ID] {
				keep[s.ID] = true // once
				failed = append(failed, k.clock.Remove(ctx, ID(newest.WorkflowKey, s.ID)))
			}
		}
	}
	return errors.Join(failed...)
}

func scheduled(w *agent.StoredWorkflow) ([]agent.WorkflowSchedule, error) {
	if len(w.Definition) == 0 || w.Deleted {
		return nil, nil
	}
	var d agent.WorkflowDefinition
	if err := json.Unmarshal(w.Definition, &d); err != nil {
		return nil, agent.Errorf(agent.CodeInternal, "sync schedules", "version %d of %q: %w", w.Version, w.Tag, err)
	}
	return d.Schedules, nil
}

// wantOf is a schedule as Temporal is to know it. It starts a run of whatever version is the newest then.
func wantOf(w *agent.StoredWorkflow, s *agent.WorkflowSchedule) clockwork.Want {
	req := agent.RunRequest{
		Owner: w.Owner, Tag: w.Tag, Input: s.Input, Context: agent.InvocationContext{Tenant: w.Tenant},
	}
	return clockwork.Want{
		ID: ID(w.WorkflowKey, s.ID), Spec: specOf(s), From: s,
		Policy: client.SchedulePolicies{Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_SKIP, CatchupWindow: catchUp},
		State:  client.ScheduleState{Paused: s.Paused, Note: "made by workflow " + w.Tag},
		Action: client.ScheduleWorkflowAction{
			ID:       workflows.DefinedWorkflowID(w.WorkflowKey, s.ID), // Temporal puts the time behind it
			Workflow: workflows.DefinedWorkflowType, Args: []any{req}, StaticSummary: "schedule " + s.ID,
		},
	}
}

func specOf(s *agent.WorkflowSchedule) client.ScheduleSpec {
	spec := client.ScheduleSpec{TimeZoneName: s.TimeZone}
	if s.Cron != "" {
		spec.CronExpressions = []string{s.Cron}
	} else {
		spec.Intervals = []client.ScheduleIntervalSpec{{Every: time.Duration(s.IntervalSec) * time.Second}}
	}
	return spec
}
