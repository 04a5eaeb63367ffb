package cluster

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/workflows"
)

// server is Temporal's part, in memory: schedules, and workflows that are started beside them.
type server struct {
	*scheduleServer

	status  map[string]enumspb.WorkflowExecutionStatus // of workflows
	started []client.StartWorkflowOptions
	input   []any
}

func (s *server) of(name string) *client.Schedule { return s.All["schedule/acme/"+name] }

// ExecuteWorkflow implements [Starter].
func (s *server) ExecuteWorkflow(_ context.Context, o client.StartWorkflowOptions, _ any, args ...any) (client.WorkflowRun, error) {
	for _, before := range s.started {
		if before.ID == o.ID {
			return nil, serviceerror.NewWorkflowExecutionAlreadyStarted("there", "", "run-of-"+o.ID)
		}
	}
	s.started, s.input = append(s.started, o), append(s.input, args...)
	return workflowRun{id: "run-of-" + o.ID}, nil
}

func (s *server) DescribeWorkflowExecution(_ context.Context, id, _ string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	status, ok := s.status[id]
	if !ok {
		return nil, serviceerror.NewNotFound("no workflow")
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{Status: status}}, nil
}

type workflowRun struct {
	client.WorkflowRun

	id string
}

func (r workflowRun) GetRunID() string { return r.id }

var tomorrow = time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)

// agentStore holds schedules, one per page.
type agentStore struct {
	all        map[string]agent.StoredSchedule
	unfinished int
	onList     func()
	long       []agent.ScheduleRun
	ended      []agent.ScheduleEnd
}

func (s *agentStore) LongRuns(context.Context, time.Duration, int) ([]agent.ScheduleRun, error) {
	return s.long, nil
}

func (s *agentStore) FinishScheduleRun(_ context.Context, e agent.ScheduleEnd) ([]agent.ScheduleNotice, error) {
	s.ended = append(s.ended, e)
	return nil, nil
}

func (s *agentStore) PutSchedule(_ context.Context, in agent.StoredSchedule, isNew bool, most int) (agent.StoredSchedule, error) {
	id := agentScheduleID(in.Tenant, in.Name)
	before, known := s.all[id]
	switch {
	case known && isNew:
		return in, agent.FieldErrorf(agent.CodeConflict, "name", "there already")
	case !known && most > 0 && len(s.all) >= most:
		return in, agent.Errorf(agent.CodeOverflow, "", "too many")
	}
	in.Revision = before.Revision + 1
	s.all[id] = in
	return in, nil
}

func (s *agentStore) PauseSchedule(ctx context.Context, tenant, name string, paused bool, note string) (agent.StoredSchedule, error) {
	found, err := s.Schedule(ctx, tenant, name)
	if err == nil {
		found.Paused, found.Note = paused, note
		s.all[agentScheduleID(tenant, name)] = found
	}
	return found, err
}

func (s *agentStore) Schedule(_ context.Context, tenant, name string) (agent.StoredSchedule, error) {
	found, ok := s.all[agentScheduleID(tenant, name)]
	if !ok {
		return found, agent.FieldErrorf(agent.CodeNotFound, "name", "there is none")
	}
	return found, nil
}

func (s *agentStore) DeleteSchedule(_ context.Context, tenant, name string) error {
	if _, ok := s.all[agentScheduleID(tenant, name)]; !ok {
		return agent.FieldErrorf(agent.CodeNotFound, "name", "there is none")
	}
	delete(s.all, agentScheduleID(tenant, name))
	return nil
}

func (s *agentStore) Schedules(_ context.Context, tenant string, p agent.Page) (agent.SchedulePage, error) {
	if tenant != agent.AnyTenant {
		return agent.SchedulePage{}, errors.New("want all tenants")
	}
	if s.onList != nil {
		s.onList()
	}
	var page agent.SchedulePage
	for _, id := range slices.Sorted(maps.Keys(s.all)) {
		if id <= p.Token {
			continue
		}
		if len(page.Schedules) == 1 {
			page.Next = agentScheduleID(page.Schedules[0].Tenant, page.Schedules[0].Name)
			break
		}
		page.Schedules = append(page.Schedules, s.all[id].Schedule)
	}
	return page, nil
}

func (s *agentStore) ScheduleRuns(context.Context, string, string, agent.Page) (agent.ScheduleRunPage, error) {
	return agent.ScheduleRunPage{Runs: []agent.ScheduleRun{{RunID: "r1"}}}, nil
}

func (s *agentStore) UnfinishedRuns(context.Context, string, string) (int, error) {
	return s.unfinished, nil
}

func newAgentSchedules(t *testing.T) (*AgentSchedules, *server, *agentStore) {
	t.Helper()
	s, d := &server{scheduleServer: newScheduleServer(workflows.ScheduledRunType)}, &agentStore{all: map[string]agent.StoredSchedule{}}
	s.Info.NextActionTimes = []time.Time{tomorrow}
	k, err := NewAgentSchedules(AgentScheduleConfig{Store: d, Schedules: s, Starter: s, MaxPerTenant: 3})
	require.NoError(t, err)
	return k, s, d
}

var ann = agent.Principal{Method: agent.MethodKey, Tenant: "acme", Subject: "ann", Scopes: []string{"*"}}

func dailySchedule(name string) agent.Schedule {
	return agent.Schedule{
		Name: name, Tenant: "acme", Message: "what is new?", Cron: []string{"0 9 * * mon-fri", "0 0 12 * * * *"}, Every: "6h",
		TimeZone: "Europe/Zurich", Jitter: "2m", StartAt: new(tomorrow), EndAt: new(tomorrow.AddDate(1, 0, 0)),
	}
}

// put stores a schedule of Ann's.
func put(t *testing.T, k *AgentSchedules, s agent.Schedule) {
	t.Helper()
	_, err := k.Put(t.Context(), s, ann, false)
	require.NoError(t, err)
}
