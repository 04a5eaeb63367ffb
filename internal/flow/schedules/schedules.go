// Package schedules keeps Temporal's schedules as the definitions of workflows say.
package schedules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
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

// Check asks Temporal, before version w is stored, about its schedules that the newest stored version does not have as they are. The error is
// [agent.CodeInvalid] and names the field if Temporal refuses one, and nothing has happened then. Any other error says that Temporal
// could not be asked. If w is not stored in the end, Sync takes away what was made for it.
func (k *Keeper) Check(ctx context.Context, w agent.StoredWorkflow) error {
	wanted, err := scheduled(&w)
	if err != nil || len(wanted) == 0 {
		return err
	}
	var stored []agent.WorkflowSchedule
	newest, err := k.Definitions.Workflow(ctx, w.WorkflowKey, 0)
	if err == nil {
		stored, err = scheduled(&newest)
	}
	if err != nil && agent.CodeOf(err) != agent.CodeNotFound {
		return fmt.Errorf("check schedules of %q: %w", w.Tag, err)
	}
	for i := range wanted {
		s := &wanted[i]
		if slices.ContainsFunc(stored, func(old agent.WorkflowSchedule) bool { return reflect.DeepEqual(old, *s) }) {
			continue
		}
		want := wantOf(&w, s)
		err := k.clock.Check(ctx, &want)
		if err == nil {
			continue
		}
		if agent.CodeOf(err) != agent.CodeInvalid {
			return err
		}
		times := "cron"
		if s.Cron == "" {
			times = "interval_sec"
		}
		refusal := agent.Invalid(fmt.Sprintf("schedules[%d].%s", i, clockwork.RefusedField(err, times)), "Temporal refuses this schedule: %w", err)
		if err := k.Sync(ctx, w); err != nil {
			k.Logger.Warn("schedules of a refused version remain until they are reconciled", zap.String("workflow_tag", w.Tag), zap.Error(err))
		}
		return refusal
	}
	return nil
}

// Sync makes the schedules of a definition be as its newest version says, whichever version it is given, also one that was not stored. Those that
// w, or the version before, had and the newest has not are deleted. Idempotent. It does what it can and returns what it could not.
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
	before := []agent.StoredWorkflow{w}
	for _, version := range []int64{w.Version, w.Version - 1, newest.Version - 1} {
		if version < 1 {
			continue
		}
		if old, err := k.Definitions.Workflow(ctx, newest.WorkflowKey, version); err == nil { // else the reconciler finds what is left
			before = append(before, old)
		}
	}
	for i := range before {
		old, err := scheduled(&before[i])
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
