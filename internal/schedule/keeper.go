// Package schedule keeps the schedules of agents: PostgreSQL says what they are, Temporal runs them by the clock.
package schedule

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clockwork"
	"github.com/turnstone-run/turnstone/workflows"
)

// Store keeps what schedules are.
type Store interface {
	// PutSchedule stores a schedule. With isNew one that is there is [agent.CodeConflict]; a new one beyond most is [agent.CodeOverflow].
	PutSchedule(ctx context.Context, s agent.StoredSchedule, isNew bool, most int) (agent.StoredSchedule, error)
	// PauseSchedule, Schedule and DeleteSchedule are [agent.CodeNotFound] when the tenant has none of that name.
	PauseSchedule(ctx context.Context, tenant, name string, paused bool, note string) (agent.StoredSchedule, error)
	Schedule(ctx context.Context, tenant, name string) (agent.StoredSchedule, error)
	DeleteSchedule(ctx context.Context, tenant, name string) error
	// Schedules lists by name; tenant "*" is all.
	Schedules(ctx context.Context, tenant string, p agent.Page) (agent.SchedulePage, error)
	ScheduleRuns(ctx context.Context, tenant, name string, p agent.Page) (agent.ScheduleRunPage, error)
	// UnfinishedRuns counts the runs of a schedule that began of late and have not ended.
	UnfinishedRuns(ctx context.Context, tenant, name string) (int, error)
	// LongRuns lists runs of all tenants that began longer ago than that and have not ended.
	LongRuns(ctx context.Context, than time.Duration, limit int) ([]agent.ScheduleRun, error)
	// FinishScheduleRun ends a run; the first end stands.
	FinishScheduleRun(ctx context.Context, e agent.ScheduleEnd) ([]agent.ScheduleNotice, error)
}

// Starter starts workflows and looks at them; a [client.Client] is one.
type Starter interface {
	DescribeWorkflowExecution(ctx context.Context, workflowID, runID string) (*workflowservice.DescribeWorkflowExecutionResponse, error)
	ExecuteWorkflow(ctx context.Context, o client.StartWorkflowOptions, workflow any, args ...any) (client.WorkflowRun, error)
}

// Schemas checks JSON Schemas as a turn that begins does.
type Schemas interface {
	CheckSchema(path string, schema json.RawMessage) error
}

// Config is what [New] needs.
type Config struct {
	Store        Store
	Schedules    client.ScheduleClient
	Starter      Starter
	Schemas      Schemas                 // nil: a schema that is of no use fails each run
	TaskQueue    string                  // empty: the house's
	Data         converter.DataConverter // of the client, which writes memos with it; nil: the SDK's
	MaxPerTenant int                     // 0: 100
	Logger       *zap.Logger             // nil: none
}

// Keeper makes Temporal's schedules be as the stored ones say. A schedule that a person paused, or changed, in Temporal stays so until its
// times, or whether it is paused, are written anew.
type Keeper struct {
	Config

	clock *clockwork.Keeper
}

// New checks the configuration.
func New(c Config) (*Keeper, error) {
	switch {
	case c.Store == nil:
		return nil, errors.New("schedule: Store is missing")
	case c.Schedules == nil:
		return nil, errors.New("schedule: Schedules is missing")
	case c.Starter == nil:
		return nil, errors.New("schedule: Starter is missing")
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	c.TaskQueue = cmp.Or(c.TaskQueue, workflows.TaskQueue)
	c.MaxPerTenant = cmp.Or(max(c.MaxPerTenant, 0), 100)
	clock, err := clockwork.New(c.Schedules, c.TaskQueue, c.Data)
	return &Keeper{Config: c, clock: clock}, err
}

// Put stores a schedule, which runs with the rights of p from then on, and makes Temporal know it. With isNew one that is there is
// [agent.CodeConflict]. What Temporal refuses is not stored; while Temporal is away the schedule is stored and reconciled later.
func (k *Keeper) Put(ctx context.Context, s agent.Schedule, p agent.Principal, isNew bool) (agent.Schedule, error) {
	if err := s.Validate(); err != nil {
		return agent.Schedule{}, err
	}
	if s.OutputSchema != nil && k.Schemas != nil {
		if err := k.Schemas.CheckSchema("output_schema", s.OutputSchema); err != nil {
			return agent.Schedule{}, err
		}
	}
	if err := mayAllow(&p, s.Approvals); err != nil {
		return agent.Schedule{}, err
	}
	before, err := k.Store.Schedule(ctx, s.Tenant, s.Name)
	if err != nil && agent.CodeOf(err) != agent.CodeNotFound {
		return agent.Schedule{}, err
	}
	checked := k.check(ctx, &s, &before.Schedule)
	if agent.CodeOf(checked) == agent.CodeInvalid {
		return agent.Schedule{}, checked
	}
	s.UpdatedBy = cmp.Or(p.Subject, p.Credential, p.Method)
	kept, err := k.Store.PutSchedule(ctx, agent.StoredSchedule{Schedule: s, Principal: p}, isNew, k.MaxPerTenant)
	if err != nil {
		k.later("refuse", &s, k.sync(context.WithoutCancel(ctx), s.Tenant, s.Name, false)) // the check may have created it
		return agent.Schedule{}, err
	}
	if checked != nil {
		k.later("put", &s, checked)
		return kept.Schedule, nil
	}
	k.later("put", &s, k.sync(ctx, s.Tenant, s.Name, false))
	return k.shown(ctx, kept.Schedule), nil
}

// mayAllow refuses a list of tools that need no approval from somebody who may not approve calls of each of them.
func mayAllow(p *agent.Principal, policy agent.ApprovalPolicy) error {
	for _, tool := range policy.Tools() {
		if !p.MayAll(agent.ActionApprovalsDecide) && (strings.HasSuffix(tool, "*") || !p.May(agent.ActionApprovalsDecide, tool)) {
			return agent.FieldErrorf(agent.CodeDenied, "approvals", "%s: only who may approve its calls (%s) may say that they need no approval",
				tool, agent.ActionApprovalsDecide)
		}
	}
	return nil
}

// check asks Temporal about the times of a schedule, unless they are those of before. The error is [agent.CodeInvalid] if Temporal refuses them.
func (k *Keeper) check(ctx context.Context, s, before *agent.Schedule) error {
	w, err := wantOf(s)
	if err != nil {
		return err
	}
	stored, err := wantOf(before)
	if err == nil && reflect.DeepEqual(w.From, stored.From) {
		return nil
	}
	err = k.clock.Check(ctx, &w)
	if agent.CodeOf(err) != agent.CodeInvalid {
		return err
	}
	times := "cron"
	if len(s.Cron) == 0 {
		times = "every"
	}
	return agent.Invalid(clockwork.RefusedField(err, times), "Temporal refuses these times: %w", err)
}

// later tells of what the reconciler will put right.
func (k *Keeper) later(what string, s *agent.Schedule, err error) {
	if err != nil {
		k.Logger.Warn("schedule differs in Temporal until it is reconciled", zap.String("what", what), zap.String("tenant", s.Tenant),
			zap.String("schedule", s.Name), zap.Error(err))
	}
}

// Get returns a schedule, with the next times as Temporal says.
func (k *Keeper) Get(ctx context.Context, tenant, name string) (agent.Schedule, error) {
	s, err := k.Store.Schedule(ctx, tenant, name)
	if err != nil {
		return agent.Schedule{}, err
	}
	return k.shown(ctx, s.Schedule), nil
}

// shown is a schedule as it stands in Temporal: a person may have paused it there. What Temporal does not say is left out.
func (k *Keeper) shown(ctx context.Context, s agent.Schedule) agent.Schedule {
	found, err := k.Schedules.GetHandle(ctx, ID(s.Tenant, s.Name)).Describe(ctx)
	if err != nil {
		return s
	}
	if state := found.Schedule.State; state != nil {
		s.Paused, s.Note = state.Paused, state.Note
	}
	s.Next = nil
	if s.Paused { // Temporal goes on to say when it would run
		return s
	}
	for _, at := range found.Info.NextActionTimes {
		s.Next = append(s.Next, at.UTC())
	}
	return s
}

// List lists schedules by name, as they are stored.
func (k *Keeper) List(ctx context.Context, tenant string, p agent.Page) (agent.SchedulePage, error) {
	return k.Store.Schedules(ctx, tenant, p)
}

// Runs lists the runs of a schedule, newest first.
func (k *Keeper) Runs(ctx context.Context, tenant, name string, p agent.Page) (agent.ScheduleRunPage, error) {
	if _, err := k.Store.Schedule(ctx, tenant, name); err != nil {
		return agent.ScheduleRunPage{}, err
	}
	return k.Store.ScheduleRuns(ctx, tenant, name, p)
}

// Delete forgets a schedule and its runs. A run that is under way goes on, and nobody hears of it.
func (k *Keeper) Delete(ctx context.Context, tenant, name string) error {
	if err := k.Store.DeleteSchedule(ctx, tenant, name); err != nil {
		return err
	}
	k.later("delete", &agent.Schedule{Tenant: tenant, Name: name}, k.sync(ctx, tenant, name, true))
	return nil
}

// Pause pauses a schedule or lets it go on, also when a person has done otherwise in Temporal.
func (k *Keeper) Pause(ctx context.Context, tenant, name string, paused bool, note string) (agent.Schedule, error) {
	s, err := k.Store.PauseSchedule(ctx, tenant, name, paused, note)
	if err != nil {
		return agent.Schedule{}, err
	}
	if err := k.sync(ctx, tenant, name, true); err != nil {
		return agent.Schedule{}, fmt.Errorf("it is noted, and will be done later: %w", err)
	}
	return k.shown(ctx, s.Schedule), nil
}

// Run reconciles at once and then every so often, until ctx ends.
func (k *Keeper) Run(ctx context.Context, every time.Duration) error {
	return clockwork.Every(ctx, every, k.Logger, k.Reconcile)
}
