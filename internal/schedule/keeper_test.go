package schedule_test

import (
	"context"
	"encoding/json"
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
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/schedule"
	"github.com/turnstone-run/turnstone/workflows"
)

// server is Temporal's part, in memory.
type server struct {
	client.ScheduleClient

	all     map[string]*client.Schedule
	changes []string         // "create id", "update id", "delete id"
	broken  map[string]error // by id
	types   map[string]string
	race    bool                                       // a schedule is there by the time it is created
	refuses error                                      // what is created or updated
	status  map[string]enumspb.WorkflowExecutionStatus // of workflows
	started []client.StartWorkflowOptions
	input   []any
}

// stored is a schedule as the server hands it out: its memo is encoded.
func stored(s client.Schedule) *client.Schedule {
	if action, ok := s.Action.(*client.ScheduleWorkflowAction); ok {
		encoded := *action
		encoded.Memo = map[string]any{}
		for name, v := range action.Memo {
			p, err := converter.GetDefaultDataConverter().ToPayload(v)
			if err == nil {
				encoded.Memo[name] = p
			}
		}
		s.Action = &encoded
	}
	return &s
}

func (s *server) Create(_ context.Context, o client.ScheduleOptions) (client.ScheduleHandle, error) {
	if s.refuses != nil {
		return nil, s.refuses
	}
	if s.all[o.ID] != nil || s.race {
		if s.race {
			s.all[o.ID] = &client.Schedule{Action: &client.ScheduleWorkflowAction{}}
		}
		return nil, temporal.ErrScheduleAlreadyRunning
	}
	s.changes = append(s.changes, "create "+o.ID)
	s.all[o.ID] = stored(client.Schedule{
		Action: o.Action, Spec: &o.Spec, State: &client.ScheduleState{Paused: o.Paused, Note: o.Note},
		Policy: &client.SchedulePolicies{Overlap: o.Overlap, CatchupWindow: o.CatchupWindow},
	})
	return nil, nil //nolint:nilnil // nobody wants it
}

func (s *server) GetHandle(_ context.Context, id string) client.ScheduleHandle {
	return &handle{server: s, id: id}
}

// ExecuteWorkflow makes the server a starter, too.
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

type handle struct {
	client.ScheduleHandle

	server *server
	id     string
}

var tomorrow = time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)

func (h *handle) Describe(context.Context) (*client.ScheduleDescription, error) {
	if err := h.server.broken[h.id]; err != nil {
		return nil, err
	}
	found := h.server.all[h.id]
	if found == nil {
		return nil, serviceerror.NewNotFound("no schedule")
	}
	return &client.ScheduleDescription{Schedule: *found, Info: client.ScheduleInfo{NextActionTimes: []time.Time{tomorrow}}}, nil
}

func (h *handle) Update(_ context.Context, o client.ScheduleUpdateOptions) error {
	if h.server.refuses != nil {
		return h.server.refuses
	}
	next, err := o.DoUpdate(client.ScheduleUpdateInput{Description: client.ScheduleDescription{Schedule: *h.server.all[h.id]}})
	if err != nil {
		return err
	}
	h.server.changes = append(h.server.changes, "update "+h.id)
	h.server.all[h.id] = stored(*next.Schedule)
	return nil
}

func (h *handle) Delete(context.Context) error {
	if err := h.server.broken[h.id]; err != nil {
		return err
	}
	if h.server.all[h.id] == nil {
		return serviceerror.NewNotFound("no schedule")
	}
	h.server.changes = append(h.server.changes, "delete "+h.id)
	delete(h.server.all, h.id)
	return nil
}

type entries []*client.ScheduleListEntry

func (e *entries) HasNext() bool { return len(*e) > 0 }
func (e *entries) Next() (*client.ScheduleListEntry, error) {
	first := (*e)[0]
	*e = (*e)[1:]
	return first, nil
}

func (s *server) List(context.Context, client.ScheduleListOptions) (client.ScheduleListIterator, error) {
	var out entries
	for _, id := range slices.Sorted(maps.Keys(s.all)) {
		entry := &client.ScheduleListEntry{ID: id}
		entry.WorkflowType.Name = workflows.ScheduledRunType
		if name := s.types[id]; name != "" {
			entry.WorkflowType.Name = name
		}
		out = append(out, entry)
	}
	return &out, nil
}

// shelf holds schedules, one per page.
type shelf struct {
	all        map[string]agent.StoredSchedule
	unfinished int
	onList     func()
	long       []agent.ScheduleRun
	ended      []agent.ScheduleEnd
}

func (s *shelf) LongRuns(context.Context, time.Duration, int) ([]agent.ScheduleRun, error) {
	return s.long, nil
}

func (s *shelf) FinishScheduleRun(_ context.Context, e agent.ScheduleEnd) ([]agent.ScheduleNotice, error) {
	s.ended = append(s.ended, e)
	return nil, nil
}

func (s *shelf) PutSchedule(_ context.Context, in agent.StoredSchedule, isNew bool, most int) (agent.StoredSchedule, error) {
	id := schedule.ID(in.Tenant, in.Name)
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

func (s *shelf) PauseSchedule(ctx context.Context, tenant, name string, paused bool, note string) (agent.StoredSchedule, error) {
	found, err := s.Schedule(ctx, tenant, name)
	if err == nil {
		found.Paused, found.Note = paused, note
		s.all[schedule.ID(tenant, name)] = found
	}
	return found, err
}

func (s *shelf) Schedule(_ context.Context, tenant, name string) (agent.StoredSchedule, error) {
	found, ok := s.all[schedule.ID(tenant, name)]
	if !ok {
		return found, agent.FieldErrorf(agent.CodeNotFound, "name", "there is none")
	}
	return found, nil
}

func (s *shelf) DeleteSchedule(_ context.Context, tenant, name string) error {
	if _, ok := s.all[schedule.ID(tenant, name)]; !ok {
		return agent.FieldErrorf(agent.CodeNotFound, "name", "there is none")
	}
	delete(s.all, schedule.ID(tenant, name))
	return nil
}

func (s *shelf) Schedules(_ context.Context, tenant string, p agent.Page) (agent.SchedulePage, error) {
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
			page.Next = schedule.ID(page.Schedules[0].Tenant, page.Schedules[0].Name)
			break
		}
		page.Schedules = append(page.Schedules, s.all[id].Schedule)
	}
	return page, nil
}

func (s *shelf) ScheduleRuns(context.Context, string, string, agent.Page) (agent.ScheduleRunPage, error) {
	return agent.ScheduleRunPage{Runs: []agent.ScheduleRun{{RunID: "r1"}}}, nil
}

func (s *shelf) UnfinishedRuns(context.Context, string, string) (int, error) {
	return s.unfinished, nil
}

func keeper(t *testing.T) (*schedule.Keeper, *server, *shelf) {
	t.Helper()
	s := &server{all: map[string]*client.Schedule{}, broken: map[string]error{}, types: map[string]string{}}
	d := &shelf{all: map[string]agent.StoredSchedule{}}
	k, err := schedule.New(schedule.Config{Store: d, Schedules: s, Starter: s, MaxPerTenant: 3})
	require.NoError(t, err)
	return k, s, d
}

var ann = agent.Principal{Method: agent.MethodKey, Tenant: "acme", Subject: "ann", Scopes: []string{"*"}}

func daily(name string) agent.Schedule {
	return agent.Schedule{
		Name: name, Tenant: "acme", Message: "what is new?", Cron: []string{"0 9 * * mon-fri", "0 0 12 * * * *"}, Every: "6h",
		TimeZone: "Europe/Zurich", Jitter: "2m", StartAt: new(tomorrow), EndAt: new(tomorrow.AddDate(1, 0, 0)),
	}
}

func (s *server) of(name string) *client.Schedule { return s.all["schedule/acme/"+name] }

func TestPutCreatesUpdatesDeletes(t *testing.T) {
	k, s, d := keeper(t)
	kept, err := k.Put(t.Context(), daily("news"), ann, true)
	require.NoError(t, err)
	require.Equal(t, []time.Time{tomorrow}, kept.Next)
	require.Equal(t, ann, d.all["schedule/acme/news"].Principal)
	require.Equal(t, "ann", d.all["schedule/acme/news"].UpdatedBy)
	require.Equal(t, []string{"create schedule/acme/news"}, s.changes)

	got := s.of("news")
	require.Equal(t, client.ScheduleSpec{
		CronExpressions: []string{"0 9 * * mon-fri", "0 0 12 * * * *"}, TimeZoneName: "Europe/Zurich", Jitter: 2 * time.Minute,
		Intervals: []client.ScheduleIntervalSpec{{Every: 6 * time.Hour}}, StartAt: tomorrow, EndAt: tomorrow.AddDate(1, 0, 0),
	}, *got.Spec)
	require.Equal(t, client.SchedulePolicies{Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_SKIP, CatchupWindow: time.Minute}, *got.Policy)
	action, ok := got.Action.(*client.ScheduleWorkflowAction)
	require.True(t, ok)
	require.Equal(t, "scheduled/acme/news", action.ID)
	require.Equal(t, workflows.ScheduledRunType, action.Workflow)
	require.Equal(t, workflows.TaskQueue, action.TaskQueue)
	require.Equal(t, []any{workflows.ScheduledRunInput{Tenant: "acme", Schedule: "news"}}, action.Args, "what it says is read when it runs")

	s.changes = nil
	other := daily("news")
	other.Message = "anything else?"
	_, err = k.Put(t.Context(), other, ann, false)
	require.NoError(t, err)
	require.Empty(t, s.changes, "Temporal knows only of the times")
	require.Equal(t, "anything else?", d.all["schedule/acme/news"].Message)
	other.Overlap, other.CatchUpWindow = agent.OverlapCancelOther, "1h"
	_, err = k.Put(t.Context(), other, ann, false)
	require.NoError(t, err)
	require.Equal(t, []string{"update schedule/acme/news"}, s.changes)
	require.Equal(t, client.SchedulePolicies{Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_CANCEL_OTHER, CatchupWindow: time.Hour}, *s.of("news").Policy)

	_, err = k.Put(t.Context(), other, ann, true)
	require.Equal(t, agent.CodeConflict, agent.CodeOf(err))
	require.NoError(t, k.Delete(t.Context(), "acme", "news"))
	require.Empty(t, s.all)
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(k.Delete(t.Context(), "acme", "news")))
}

func TestEveryOverlapPolicyReachesTemporal(t *testing.T) {
	k, s, _ := keeper(t)
	for text, want := range map[string]enumspb.ScheduleOverlapPolicy{
		"": enumspb.SCHEDULE_OVERLAP_POLICY_SKIP, "skip": enumspb.SCHEDULE_OVERLAP_POLICY_SKIP,
		"buffer_one": enumspb.SCHEDULE_OVERLAP_POLICY_BUFFER_ONE, "buffer_all": enumspb.SCHEDULE_OVERLAP_POLICY_BUFFER_ALL,
		"cancel_other": enumspb.SCHEDULE_OVERLAP_POLICY_CANCEL_OTHER, "terminate_other": enumspb.SCHEDULE_OVERLAP_POLICY_TERMINATE_OTHER,
		"allow_all": enumspb.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL,
	} {
		one := daily("news")
		one.Overlap = text
		_, err := k.Put(t.Context(), one, ann, false)
		require.NoError(t, err)
		require.Equal(t, want, s.of("news").Policy.Overlap, text)
	}
}

func TestWhatTemporalRefusesIsNotStored(t *testing.T) {
	k, s, d := keeper(t)
	s.refuses = serviceerror.NewInvalidArgument("unknown time zone")
	_, err := k.Put(t.Context(), daily("news"), ann, true)
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	require.ErrorContains(t, err, "unknown time zone")
	require.Empty(t, d.all)

	s.refuses = nil
	_, err = k.Put(t.Context(), daily("news"), ann, true)
	require.NoError(t, err)
	s.refuses = serviceerror.NewInvalidArgument("unknown time zone")
	other := daily("news")
	other.TimeZone, other.Message = "Africa/Lagos", "other"
	_, err = k.Put(t.Context(), other, agent.Principal{Method: agent.MethodKey, Subject: "bob"}, false)
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	require.Equal(t, "what is new?", d.all["schedule/acme/news"].Message)
	require.Equal(t, ann, d.all["schedule/acme/news"].Principal, "with the rights of before")
}

func TestWhileTemporalIsAwayTheStoreIsTheTruth(t *testing.T) {
	k, s, d := keeper(t)
	id := "schedule/acme/news"
	s.broken[id] = serviceerror.NewUnavailable("away")
	_, err := k.Put(t.Context(), daily("news"), ann, true)
	require.NoError(t, err)
	require.Contains(t, d.all, id)
	require.Empty(t, s.all)
	_, err = k.Pause(t.Context(), "acme", "news", true, "")
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err), "whoever pauses wants to know that it runs on")
	delete(s.broken, id)
	require.NoError(t, k.Reconcile(t.Context()))
	require.True(t, s.of("news").State.Paused)

	s.broken[id] = serviceerror.NewUnavailable("away")
	require.NoError(t, k.Delete(t.Context(), "acme", "news"))
	require.Contains(t, s.all, id)
	delete(s.broken, id)
	require.NoError(t, k.Reconcile(t.Context()))
	require.Empty(t, s.all)
}

// schemas refuses every schema.
type schemas struct{}

func (schemas) CheckSchema(path string, _ json.RawMessage) error {
	return agent.Invalid(path+".type", "is of no use")
}

func TestASchemaOfNoUseIsNotStored(t *testing.T) {
	_, s, d := keeper(t)
	k, err := schedule.New(schedule.Config{Store: d, Schedules: s, Starter: s, Schemas: schemas{}})
	require.NoError(t, err)
	news := daily("news")
	news.OutputSchema = json.RawMessage(`{"type":"thing"}`)
	_, err = k.Put(t.Context(), news, ann, true)
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	require.ErrorContains(t, err, "output_schema.type")
	require.Empty(t, d.all)
	_, err = k.Put(t.Context(), daily("news"), ann, true)
	require.NoError(t, err, "without one")
}

func TestPauseAndResume(t *testing.T) {
	k, s, _ := keeper(t)
	_, err := k.Put(t.Context(), daily("news"), ann, true)
	require.NoError(t, err)
	got, err := k.Pause(t.Context(), "acme", "news", true, "holidays")
	require.NoError(t, err)
	require.True(t, got.Paused)
	require.Empty(t, got.Next, "it does not run, whatever Temporal says of its times")
	require.Equal(t, "holidays", s.of("news").State.Note)
	got, err = k.Pause(t.Context(), "acme", "news", false, "")
	require.NoError(t, err)
	require.False(t, s.of("news").State.Paused)
	require.Equal(t, []time.Time{tomorrow}, got.Next)

	s.of("news").State.Paused = true // by a person, in the Web UI
	require.NoError(t, k.Reconcile(t.Context()))
	require.True(t, s.of("news").State.Paused, "it stays so")
	got, err = k.Get(t.Context(), "acme", "news")
	require.NoError(t, err)
	require.True(t, got.Paused, "and is told")
	_, err = k.Pause(t.Context(), "acme", "news", false, "")
	require.NoError(t, err)
	require.False(t, s.of("news").State.Paused, "until somebody says otherwise here")
}

func TestTriggersAreRunsOfTheirOwn(t *testing.T) {
	k, s, d := keeper(t)
	_, err := k.Trigger(t.Context(), "acme", "news", "")
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
	_, err = k.Put(t.Context(), daily("news"), ann, true)
	require.NoError(t, err)
	ids := map[string]bool{}
	for range 3 {
		run, err := k.Trigger(t.Context(), "acme", "news", "")
		require.NoError(t, err)
		ids[run.WorkflowID] = true
	}
	require.Len(t, ids, 3, "also within a second")
	first, err := k.Trigger(t.Context(), "acme", "news", "k")
	require.NoError(t, err)
	require.False(t, first.Joined)
	again, err := k.Trigger(t.Context(), "acme", "news", "k")
	require.NoError(t, err)
	require.True(t, again.Joined)
	require.Equal(t, first.RunID, again.RunID)
	require.Len(t, s.started, 4)
	require.Equal(t, workflows.TaskQueue, s.started[0].TaskQueue)
	require.True(t, s.started[0].WorkflowExecutionErrorWhenAlreadyStarted)
	require.Equal(t, enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE, s.started[0].WorkflowIDReusePolicy)
	require.Equal(t, workflows.ScheduledRunInput{Tenant: "acme", Schedule: "news"}, s.input[0])
	d.unfinished = 100
	_, err = k.Trigger(t.Context(), "acme", "news", "")
	require.Equal(t, agent.CodeRateLimited, agent.CodeOf(err))
}

func TestSchedulesOfATenantAreBounded(t *testing.T) {
	k, _, _ := keeper(t)
	for _, name := range []string{"a", "b", "c"} {
		_, err := k.Put(t.Context(), daily(name), ann, false)
		require.NoError(t, err)
	}
	_, err := k.Put(t.Context(), daily("d"), ann, false)
	require.Equal(t, agent.CodeOverflow, agent.CodeOf(err))
	_, err = k.Put(t.Context(), daily("c"), ann, false)
	require.NoError(t, err)
}

func TestReconcile(t *testing.T) {
	k, s, d := keeper(t)
	for _, name := range []string{"a", "b"} {
		d.all[schedule.ID("acme", name)] = agent.StoredSchedule{Schedule: daily(name)}
	}
	for id, kind := range map[string]string{
		"schedule/acme/gone": "", "schedule/acme/ann/main/daily": workflows.DefinedWorkflowType, "schedule/other": "SomethingElse", "nightly": "",
	} {
		s.all[id], s.types[id] = &client.Schedule{Action: &client.ScheduleWorkflowAction{TaskQueue: workflows.TaskQueue}}, kind
	}
	s.all["schedule/acme/theirs"] = &client.Schedule{Action: &client.ScheduleWorkflowAction{TaskQueue: "another-runtime"}}
	require.NoError(t, k.Reconcile(t.Context()))
	require.Equal(t, []string{
		"nightly", "schedule/acme/a", "schedule/acme/ann/main/daily", "schedule/acme/b", "schedule/acme/theirs", "schedule/other",
	}, slices.Sorted(maps.Keys(s.all)), "what is not ours stays")
	s.changes = nil
	require.NoError(t, k.Reconcile(t.Context()))
	require.Empty(t, s.changes)

	k.TaskQueue = "moved"
	require.NoError(t, k.Reconcile(t.Context()))
	require.Equal(t, []string{"update schedule/acme/a", "update schedule/acme/b"}, s.changes, "they move to the queue")
}

func TestReconcileSparesWhatIsStoredMeanwhile(t *testing.T) {
	k, s, d := keeper(t)
	s.all["schedule/acme/0late"] = &client.Schedule{Action: &client.ScheduleWorkflowAction{TaskQueue: workflows.TaskQueue}}
	d.all[schedule.ID("zoo", "z")] = agent.StoredSchedule{Schedule: func() agent.Schedule {
		z := daily("z")
		z.Tenant = "zoo"
		return z
	}()}
	lists := 0
	d.onList = func() {
		if lists++; lists == 1 {
			return
		}
		d.all[schedule.ID("acme", "0late")] = agent.StoredSchedule{Schedule: daily("0late")} // behind the list's back
	}
	d.all[schedule.ID("acme", "a")] = agent.StoredSchedule{Schedule: daily("a")}
	require.NoError(t, k.Reconcile(t.Context()))
	require.Contains(t, s.all, "schedule/acme/0late")
}

func TestOneThatGoesWrongDoesNotStopTheOthers(t *testing.T) {
	k, s, d := keeper(t)
	for _, name := range []string{"a", "b"} {
		d.all[schedule.ID("acme", name)] = agent.StoredSchedule{Schedule: daily(name)}
	}
	s.broken["schedule/acme/a"] = errors.New("away")
	err := k.Reconcile(t.Context())
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
	require.ErrorContains(t, err, "schedule/acme/a")
	require.Contains(t, s.all, "schedule/acme/b")
}

func TestRunsThatWereTerminatedAreSettled(t *testing.T) {
	k, s, d := keeper(t)
	now := time.Now()
	d.long = []agent.ScheduleRun{
		{RunID: "works", Workflow: "works", StartedAt: now},
		{RunID: "killed", Tenant: "acme", Workflow: "killed", StartedAt: now},
		{RunID: "old", Workflow: "old", StartedAt: now.Add(-2 * time.Hour)},
		{RunID: "young", Workflow: "young", StartedAt: now},
	}
	s.status = map[string]enumspb.WorkflowExecutionStatus{
		"works": enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, "killed": enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED,
	}
	require.NoError(t, k.Reconcile(t.Context()))
	require.Len(t, d.ended, 2)
	require.Equal(t, "killed", d.ended[0].RunID)
	require.Equal(t, "acme", d.ended[0].Tenant)
	require.Equal(t, "failed", d.ended[0].Status)
	require.Equal(t, "terminated", d.ended[0].Error.Type)
	require.Equal(t, "old", d.ended[1].RunID)
}

func TestSomebodyElseIsFaster(t *testing.T) {
	k, s, _ := keeper(t)
	s.race = true
	_, err := k.Put(t.Context(), daily("news"), ann, true)
	require.NoError(t, err)
	require.Equal(t, []string{"update schedule/acme/news"}, s.changes)
}

func TestRunEndsWithItsContext(t *testing.T) {
	k, s, d := keeper(t)
	d.all[schedule.ID("acme", "a")] = agent.StoredSchedule{Schedule: daily("a")}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx, time.Hour) }()
	stop()
	require.NoError(t, <-done)
	require.Len(t, s.all, 1, "the first round comes at once")
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(k.Run(t.Context(), 0)))
}

func TestRunsAndList(t *testing.T) {
	k, _, _ := keeper(t)
	_, err := k.Runs(t.Context(), "acme", "news", agent.Page{})
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
	_, err = k.Put(t.Context(), daily("news"), ann, true)
	require.NoError(t, err)
	page, err := k.Runs(t.Context(), "acme", "news", agent.Page{})
	require.NoError(t, err)
	require.Len(t, page.Runs, 1)
	bad := daily("news")
	bad.Every = "soon"
	_, err = k.Put(t.Context(), bad, ann, false)
	require.ErrorContains(t, err, "every: want a duration")
}

func TestConfig(t *testing.T) {
	s, d := &server{}, &shelf{}
	for _, c := range []schedule.Config{{}, {Store: d}, {Store: d, Schedules: s}, {Schedules: s, Starter: s}} {
		_, err := schedule.New(c)
		require.ErrorContains(t, err, "is missing")
	}
}
