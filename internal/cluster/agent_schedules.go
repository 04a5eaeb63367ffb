package cluster

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
	"github.com/turnstone-run/turnstone/workflows"
)

// ScheduleStore stores the schedules of agents.
type ScheduleStore interface {
	// PutSchedule stores a schedule. With isNew an existing one is [agent.CodeConflict]; a new one beyond maxSchedules is [agent.CodeOverflow].
	PutSchedule(ctx context.Context, s agent.StoredSchedule, isNew bool, maxSchedules int) (agent.StoredSchedule, error)
	// PauseSchedule, Schedule and DeleteSchedule return [agent.CodeNotFound] if the tenant has no schedule of that name.
	PauseSchedule(ctx context.Context, tenant, name string, paused bool, note string) (agent.StoredSchedule, error)
	Schedule(ctx context.Context, tenant, name string) (agent.StoredSchedule, error)
	DeleteSchedule(ctx context.Context, tenant, name string) error
	// Schedules lists schedules by name; [agent.AnyTenant] lists those of all tenants.
	Schedules(ctx context.Context, tenant string, p agent.Page) (agent.SchedulePage, error)
	ScheduleRuns(ctx context.Context, tenant, name string, p agent.Page) (agent.ScheduleRunPage, error)
	// UnfinishedRuns counts the runs of a schedule that began recently and have not ended.
	UnfinishedRuns(ctx context.Context, tenant, name string) (int, error)
	// LongRuns lists runs of all tenants that began at least minDuration ago and have not ended.
	LongRuns(ctx context.Context, minDuration time.Duration, limit int) ([]agent.ScheduleRun, error)
	// FinishScheduleRun ends a run. A run ends once: later calls change nothing.
	FinishScheduleRun(ctx context.Context, e agent.ScheduleEnd) ([]agent.ScheduleNotice, error)
}

// Starter starts and describes workflows. A [client.Client] is one.
type Starter interface {
	DescribeWorkflowExecution(ctx context.Context, workflowID, runID string) (*workflowservice.DescribeWorkflowExecutionResponse, error)
	ExecuteWorkflow(ctx context.Context, o client.StartWorkflowOptions, workflow any, args ...any) (client.WorkflowRun, error)
}

// Schemas checks JSON Schemas as a turn does when it begins.
type Schemas interface {
	CheckSchema(path string, schema json.RawMessage) error
}

// AgentScheduleConfig is the configuration of [NewAgentSchedules].
type AgentScheduleConfig struct {
	Store        ScheduleStore
	Schedules    client.ScheduleClient
	Starter      Starter
	Schemas      Schemas                 // nil: schemas are not checked, and each run with a wrong one fails
	TaskQueue    string                  // empty: the default task queue
	Data         converter.DataConverter // the client's, which encodes memos; nil: the SDK's default
	MaxPerTenant int                     // 0: 100
	Logger       *zap.Logger             // nil: no logs
}

// AgentSchedules stores the schedules of agents and makes Temporal's schedules match them.
type AgentSchedules struct {
	AgentScheduleConfig

	syncer *scheduleSyncer
}

// NewAgentSchedules checks the configuration and fills in the defaults.
func NewAgentSchedules(c AgentScheduleConfig) (*AgentSchedules, error) {
	switch {
	case c.Store == nil:
		return nil, errors.New("cluster: Store is missing")
	case c.Starter == nil:
		return nil, errors.New("cluster: Starter is missing")
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	c.TaskQueue = cmp.Or(c.TaskQueue, workflows.TaskQueue)
	c.MaxPerTenant = cmp.Or(max(c.MaxPerTenant, 0), 100)
	syncer, err := newScheduleSyncer(c.Schedules, c.TaskQueue, c.Data)
	return &AgentSchedules{AgentScheduleConfig: c, syncer: syncer}, err
}

// Put stores a schedule, whose runs have the rights of p from then on, and syncs it to Temporal. With isNew an existing schedule is
// [agent.CodeConflict]. A schedule that Temporal refuses is not stored. While Temporal is unavailable the schedule is stored, and Reconcile
// syncs it later.
func (a *AgentSchedules) Put(ctx context.Context, s agent.Schedule, p agent.Principal, isNew bool) (agent.Schedule, error) {
	if err := a.validate(&s, &p); err != nil {
		return agent.Schedule{}, err
	}
	before, err := a.Store.Schedule(ctx, s.Tenant, s.Name)
	if err != nil && agent.CodeOf(err) != agent.CodeNotFound {
		return agent.Schedule{}, err
	}
	checkErr := a.checkTimes(ctx, &s, &before.Schedule)
	if agent.CodeOf(checkErr) == agent.CodeInvalid {
		return agent.Schedule{}, checkErr
	}
	s.UpdatedBy = cmp.Or(p.Subject, p.Credential, p.Method)
	stored, err := a.Store.PutSchedule(ctx, agent.StoredSchedule{Schedule: s, Principal: p}, isNew, a.MaxPerTenant)
	if err != nil {
		a.logUnsynced("refuse", &s, a.sync(context.WithoutCancel(ctx), s.Tenant, s.Name, false)) // checkTimes may have created it
		return agent.Schedule{}, err
	}
	if checkErr != nil {
		a.logUnsynced("put", &s, checkErr)
		return stored.Schedule, nil
	}
	a.logUnsynced("put", &s, a.sync(ctx, s.Tenant, s.Name, false))
	return a.withTemporalState(ctx, stored.Schedule), nil
}

// validate checks a schedule and the right of p to write it.
func (a *AgentSchedules) validate(s *agent.Schedule, p *agent.Principal) error {
	if err := s.Validate(); err != nil {
		return err
	}
	if s.OutputSchema != nil && a.Schemas != nil {
		if err := a.Schemas.CheckSchema("output_schema", s.OutputSchema); err != nil {
			return err
		}
	}
	return checkApprovals(p, s.Approvals)
}

// checkApprovals returns [agent.CodeDenied] if the policy exempts a tool from approval whose calls p may not approve.
func checkApprovals(p *agent.Principal, policy agent.ApprovalPolicy) error {
	for _, tool := range policy.Tools() {
		if !p.MayAll(agent.ActionApprovalsDecide) && (strings.HasSuffix(tool, "*") || !p.May(agent.ActionApprovalsDecide, tool)) {
			return agent.FieldErrorf(agent.CodeDenied, "approvals", "%s: only who may approve its calls (%s) may say that they need no approval",
				tool, agent.ActionApprovalsDecide)
		}
	}
	return nil
}

// checkTimes asks Temporal whether it accepts the times of a schedule, unless they are those of the stored one. The error is
// [agent.CodeInvalid] if Temporal refuses them.
func (a *AgentSchedules) checkTimes(ctx context.Context, s, stored *agent.Schedule) error {
	desired, err := makeAgentSchedule(s)
	if err != nil {
		return err
	}
	before, err := makeAgentSchedule(stored)
	if err == nil && reflect.DeepEqual(desired.Source, before.Source) {
		return nil
	}
	err = a.syncer.Check(ctx, &desired)
	if agent.CodeOf(err) != agent.CodeInvalid {
		return err
	}
	times := "cron"
	if len(s.Cron) == 0 {
		times = "every"
	}
	return agent.Invalid(refusedField(err, times), "Temporal refuses these times: %w", err)
}

// logUnsynced logs that a schedule differs in Temporal until it is reconciled, if err is not nil.
func (a *AgentSchedules) logUnsynced(operation string, s *agent.Schedule, err error) {
	if err != nil {
		a.Logger.Warn("schedule differs in Temporal until it is reconciled", zap.String("what", operation), zap.String("tenant", s.Tenant),
			zap.String("schedule", s.Name), zap.Error(err))
	}
}

// Get returns a schedule with the times of its next runs.
func (a *AgentSchedules) Get(ctx context.Context, tenant, name string) (agent.Schedule, error) {
	s, err := a.Store.Schedule(ctx, tenant, name)
	if err != nil {
		return agent.Schedule{}, err
	}
	return a.withTemporalState(ctx, s.Schedule), nil
}

// withTemporalState returns s with the state that Temporal reports: whether it is paused, which a person may have changed there, and its next
// times. If Temporal does not answer, s is returned as stored.
func (a *AgentSchedules) withTemporalState(ctx context.Context, s agent.Schedule) agent.Schedule {
	found, err := a.Schedules.GetHandle(ctx, agentScheduleID(s.Tenant, s.Name)).Describe(ctx)
	if err != nil {
		return s
	}
	if state := found.Schedule.State; state != nil {
		s.Paused, s.Note = state.Paused, state.Note
	}
	s.Next = nil
	if s.Paused { // Temporal lists next times of paused schedules, too
		return s
	}
	for _, at := range found.Info.NextActionTimes {
		s.Next = append(s.Next, at.UTC())
	}
	return s
}

// List lists schedules by name, as they are stored.
func (a *AgentSchedules) List(ctx context.Context, tenant string, p agent.Page) (agent.SchedulePage, error) {
	return a.Store.Schedules(ctx, tenant, p)
}

// Runs lists the runs of a schedule, newest first.
func (a *AgentSchedules) Runs(ctx context.Context, tenant, name string, p agent.Page) (agent.ScheduleRunPage, error) {
	if _, err := a.Store.Schedule(ctx, tenant, name); err != nil {
		return agent.ScheduleRunPage{}, err
	}
	return a.Store.ScheduleRuns(ctx, tenant, name, p)
}

// Delete deletes a schedule and the records of its runs. A run in progress goes on, but nobody is notified of its end.
func (a *AgentSchedules) Delete(ctx context.Context, tenant, name string) error {
	if err := a.Store.DeleteSchedule(ctx, tenant, name); err != nil {
		return err
	}
	a.logUnsynced("delete", &agent.Schedule{Tenant: tenant, Name: name}, a.sync(ctx, tenant, name, true))
	return nil
}

// Pause pauses or resumes a schedule, even if a person has changed that in Temporal.
func (a *AgentSchedules) Pause(ctx context.Context, tenant, name string, paused bool, note string) (agent.Schedule, error) {
	s, err := a.Store.PauseSchedule(ctx, tenant, name, paused, note)
	if err != nil {
		return agent.Schedule{}, err
	}
	if err := a.sync(ctx, tenant, name, true); err != nil {
		return agent.Schedule{}, fmt.Errorf("it is noted, and will be done later: %w", err)
	}
	return a.withTemporalState(ctx, s.Schedule), nil
}
