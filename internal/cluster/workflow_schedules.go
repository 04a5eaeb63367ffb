package cluster

import (
	"cmp"
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
	"github.com/turnstone-run/turnstone/workflows"
)

// WorkflowStore reads the stored definitions of workflows.
type WorkflowStore interface {
	// Workflow returns a version of a definition, or the newest for version 0. [agent.CodeNotFound] if there is none, or it was deleted.
	Workflow(ctx context.Context, key agent.WorkflowKey, version int64) (agent.StoredWorkflow, error)
	// Workflows lists the newest versions; [agent.AnyTenant] lists those of all tenants.
	Workflows(ctx context.Context, q agent.WorkflowQuery) (agent.WorkflowPage, error)
}

// WorkflowScheduleConfig is the configuration of [NewWorkflowSchedules].
type WorkflowScheduleConfig struct {
	Schedules   client.ScheduleClient
	Definitions WorkflowStore
	TaskQueue   string                  // empty: the default task queue
	Data        converter.DataConverter // the client's, which encodes memos; nil: the SDK's default
	Logger      *zap.Logger             // nil: no logs
}

// WorkflowSchedules makes Temporal's schedules match those that definitions of workflows declare.
type WorkflowSchedules struct {
	WorkflowScheduleConfig

	syncer *scheduleSyncer
}

// NewWorkflowSchedules checks the configuration and fills in the defaults.
func NewWorkflowSchedules(c WorkflowScheduleConfig) (*WorkflowSchedules, error) {
	if c.Definitions == nil {
		return nil, errors.New("cluster: Definitions is missing")
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	c.TaskQueue = cmp.Or(c.TaskQueue, workflows.TaskQueue)
	syncer, err := newScheduleSyncer(c.Schedules, c.TaskQueue, c.Data)
	return &WorkflowSchedules{WorkflowScheduleConfig: c, syncer: syncer}, err
}

// workflowScheduleID returns the id of a definition's schedule in Temporal.
func workflowScheduleID(key agent.WorkflowKey, id string) string {
	return idPrefix + key.Tenant + "/" + key.Owner + "/" + key.Tag + "/" + id
}

// Check asks Temporal, before a version is stored, whether it accepts the schedules that the newest stored version does not have. The error is
// [agent.CodeInvalid] and names the field if Temporal refuses one; then nothing has changed. Any other error means that Temporal could not
// be asked. If the version is not stored in the end, Sync removes what Check has created.
func (s *WorkflowSchedules) Check(ctx context.Context, w agent.StoredWorkflow) error {
	declared, err := declaredSchedules(&w)
	if err != nil || len(declared) == 0 {
		return err
	}
	var stored []agent.WorkflowSchedule
	newest, err := s.Definitions.Workflow(ctx, w.WorkflowKey, 0)
	if err == nil {
		stored, err = declaredSchedules(&newest)
	}
	if err != nil && agent.CodeOf(err) != agent.CodeNotFound {
		return fmt.Errorf("check schedules of %q: %w", w.Tag, err)
	}
	for i := range declared {
		if slices.ContainsFunc(stored, func(old agent.WorkflowSchedule) bool { return reflect.DeepEqual(old, declared[i]) }) {
			continue
		}
		desired := makeWorkflowSchedule(&w, &declared[i])
		err := s.syncer.Check(ctx, &desired)
		if err == nil {
			continue
		}
		if agent.CodeOf(err) != agent.CodeInvalid {
			return err
		}
		if err := s.Sync(ctx, w); err != nil {
			s.Logger.Warn("schedules of a refused version remain until they are reconciled", zap.String("workflow_tag", w.Tag), zap.Error(err))
		}
		return refusalError(i, &declared[i], err)
	}
	return nil
}

// refusalError returns Temporal's refusal of the schedule at an index as [agent.CodeInvalid] about its field.
func refusalError(index int, declared *agent.WorkflowSchedule, refusal error) error {
	times := "cron"
	if declared.Cron == "" {
		times = "interval_sec"
	}
	return agent.Invalid(fmt.Sprintf("schedules[%d].%s", index, refusedField(refusal, times)), "Temporal refuses this schedule: %w", refusal)
}

// Sync makes the schedules of a definition match its newest version, whichever version it is given, stored or not. It deletes the schedules that
// w, or the version before, declared and the newest does not. It is idempotent, goes on after an error and returns all errors, joined.
func (s *WorkflowSchedules) Sync(ctx context.Context, w agent.StoredWorkflow) error {
	newest, err := s.Definitions.Workflow(ctx, w.WorkflowKey, 0)
	var declared []agent.WorkflowSchedule
	switch {
	case agent.CodeOf(err) == agent.CodeNotFound:
		newest = w
	case err != nil:
		return fmt.Errorf("sync schedules of %q: %w", w.Tag, err)
	case !newest.Deleted:
		if declared, err = declaredSchedules(&newest); err != nil {
			return err
		}
	}
	var failed []error
	handled := map[string]bool{}
	for i := range declared {
		handled[declared[i].ID] = true
		desired := makeWorkflowSchedule(&newest, &declared[i])
		failed = append(failed, s.syncer.Ensure(ctx, &desired, false))
	}
	for _, old := range s.formerSchedules(ctx, &w, &newest) {
		if !handled[old.ID] {
			handled[old.ID] = true
			failed = append(failed, s.syncer.Remove(ctx, workflowScheduleID(newest.WorkflowKey, old.ID)))
		}
	}
	return errors.Join(failed...)
}

// formerSchedules returns the schedules that w and the versions before w and newest declare. Versions that cannot be read are left out:
// Reconcile finds what remains of them.
func (s *WorkflowSchedules) formerSchedules(ctx context.Context, w, newest *agent.StoredWorkflow) []agent.WorkflowSchedule {
	versions := []agent.StoredWorkflow{*w}
	for _, version := range []int64{w.Version, w.Version - 1, newest.Version - 1} {
		if version < 1 {
			continue
		}
		if old, err := s.Definitions.Workflow(ctx, newest.WorkflowKey, version); err == nil {
			versions = append(versions, old)
		}
	}
	var all []agent.WorkflowSchedule
	for i := range versions {
		if declared, err := declaredSchedules(&versions[i]); err == nil {
			all = append(all, declared...)
		}
	}
	return all
}

// declaredSchedules returns the schedules that a version of a definition declares. A deleted one has none.
func declaredSchedules(w *agent.StoredWorkflow) ([]agent.WorkflowSchedule, error) {
	if len(w.Definition) == 0 || w.Deleted {
		return nil, nil
	}
	var d agent.WorkflowDefinition
	if err := json.Unmarshal(w.Definition, &d); err != nil {
		return nil, agent.Errorf(agent.CodeInternal, op, "version %d of %q: %w", w.Version, w.Tag, err)
	}
	return d.Schedules, nil
}

// makeWorkflowSchedule returns the schedule that Temporal should have. Each run executes the newest version at the time it starts.
func makeWorkflowSchedule(w *agent.StoredWorkflow, s *agent.WorkflowSchedule) desiredSchedule {
	spec := client.ScheduleSpec{TimeZoneName: s.TimeZone}
	if s.Cron != "" {
		spec.CronExpressions = []string{s.Cron}
	} else {
		spec.Intervals = []client.ScheduleIntervalSpec{{Every: time.Duration(s.IntervalSec) * time.Second}}
	}
	request := agent.RunRequest{
		Owner: w.Owner, Tag: w.Tag, Input: s.Input, Context: agent.InvocationContext{Tenant: w.Tenant},
	}
	return desiredSchedule{
		ID: workflowScheduleID(w.WorkflowKey, s.ID), Spec: spec, Source: s,
		Policy: client.SchedulePolicies{Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_SKIP, CatchupWindow: defaultCatchUp},
		State:  client.ScheduleState{Paused: s.Paused, Note: "made by workflow " + w.Tag},
		Action: client.ScheduleWorkflowAction{
			ID:       workflows.DefinedWorkflowID(w.WorkflowKey, s.ID), // Temporal appends the time
			Workflow: workflows.DefinedWorkflowType, Args: []any{request}, StaticSummary: "schedule " + s.ID,
		},
	}
}
