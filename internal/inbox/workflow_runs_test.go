package inbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/inbox"
)

// frontend is a Temporal that only notes what it is asked.
type frontend struct {
	client.Client

	started  map[string]agent.RunRequest
	signals  []string
	gone     bool // what is signalled does not exist
	finished bool // what is described has ended
	missing  bool // what is described does not exist
	away     bool // nothing can be started
}

func (f *frontend) ExecuteWorkflow(_ context.Context, o client.StartWorkflowOptions, workflow any, args ...any) (client.WorkflowRun, error) {
	if _, ok := f.started[o.ID]; ok || o.ID == "by hand" {
		return nil, serviceerror.NewWorkflowExecutionAlreadyStarted("", "", "")
	}
	if f.away {
		return nil, serviceerror.NewUnavailable("away")
	}
	if workflow != "DefinedWorkflow" || o.TaskQueue != "turnstone" {
		return nil, fmt.Errorf("%v on %s", workflow, o.TaskQueue)
	}
	f.started[o.ID] = args[0].(agent.RunRequest)
	return nil, nil //nolint:nilnil // nobody looks at it
}

func (f *frontend) SignalWorkflow(_ context.Context, id, _, name string, arg any) error {
	if f.gone {
		return serviceerror.NewNotFound("")
	}
	f.signals = append(f.signals, fmt.Sprintf("%s %s %v", id, name, arg))
	return nil
}

func (f *frontend) DescribeWorkflowExecution(context.Context, string, string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	if f.missing {
		return nil, serviceerror.NewNotFound("")
	}
	status := enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	if f.finished {
		status = enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{Status: status}}, nil
}

// flowStore has one definition, main of ops, and runs.
type flowStore struct {
	inbox.Store
	inbox.Definitions

	runs map[string]agent.Run
}

func (s *flowStore) Workflow(_ context.Context, key agent.WorkflowKey, version int64) (agent.StoredWorkflow, error) {
	if key.Tag != "main" || key.Tenant != "acme" {
		return agent.StoredWorkflow{}, agent.FieldErrorf(agent.CodeNotFound, "workflow_tag", "there is no workflow")
	}
	key.Owner = "ops"
	return agent.StoredWorkflow{WorkflowKey: key, Version: max(version, 1), Deleted: version == 9}, nil
}

func (s *flowStore) Run(_ context.Context, tenant, id string) (agent.Run, error) {
	r, ok := s.runs[id]
	if !ok || tenant != agent.AnyTenant && tenant != r.Tenant {
		return agent.Run{}, agent.FieldErrorf(agent.CodeNotFound, "run_id", "there is no run")
	}
	return r, nil
}

func (s *flowStore) BeginRun(_ context.Context, r agent.Run) (agent.Run, error) {
	if known, ok := s.runs[r.RunID]; ok {
		return known, nil
	}
	r.StartedAt = time.Time{}
	s.runs[r.RunID] = r
	return r, nil
}

func (s *flowStore) FinishRun(_ context.Context, _, id string, status agent.RunStatus, failure *agent.Failure, at time.Time) error {
	r := s.runs[id]
	if r.Status == agent.RunRunning {
		r.Status, r.Error, r.FinishedAt = status, failure, &at
	}
	s.runs[id] = r
	return nil
}

func runner() (*inbox.Inbox, *frontend, *flowStore) {
	f, s := &frontend{started: map[string]agent.RunRequest{}}, &flowStore{runs: map[string]agent.Run{}}
	return inbox.New(inbox.Config{Runs: &inbox.Runs{Temporal: f, TaskQueue: "turnstone"}, Store: s, Definitions: s}), f, s
}

func requireFault(t *testing.T, code agent.Code, field string, err error) {
	t.Helper()
	require.Equal(t, code, agent.CodeOf(err), "%v", err)
	require.Equal(t, field, agent.FailureOf(err).Field, "%v", err)
}

func TestStartRun(t *testing.T) {
	b, f, s := runner()
	ask := agent.RunRequest{Tag: "main", Input: json.RawMessage(`{"price":1.50}`), Context: agent.InvocationContext{Tenant: "acme", UserID: "u1"}}
	first, err := b.StartRun(t.Context(), ask, "k1")
	require.NoError(t, err)
	require.Equal(t, gateway.RunReceipt{RunID: first.RunID, WorkflowID: "workflow/acme/ops/main/" + first.RunID, Owner: "ops", Tag: "main"}, first)
	want := ask
	want.RunID, want.Owner = first.RunID, "ops"
	require.Equal(t, want, f.started[first.WorkflowID])
	again, err := b.StartRun(t.Context(), ask, "k1")
	require.NoError(t, err)
	first.Joined = true
	require.Equal(t, first, again)
	require.Len(t, f.started, 1)
	other, err := b.StartRun(t.Context(), ask, "")
	require.NoError(t, err)
	require.NotEqual(t, first.RunID, other.RunID)

	s.runs["mine"] = agent.Run{
		RunID: "mine", WorkflowID: "by hand", WorkflowKey: agent.WorkflowKey{Tenant: "acme", Owner: "ops", Tag: "main"}, Status: agent.RunRunning,
		Input: json.RawMessage(`{ "price": 1.50 }`),
	}
	s.runs["theirs"] = agent.Run{RunID: "theirs", WorkflowKey: agent.WorkflowKey{Tenant: "evil", Owner: "ops", Tag: "main"}}
	ask.RunID = "mine"
	joined, err := b.StartRun(t.Context(), ask, "")
	require.NoError(t, err)
	require.Equal(t, "by hand", joined.WorkflowID)
	require.True(t, joined.Joined)
	ask.RunID = "theirs"
	_, err = b.StartRun(t.Context(), ask, "")
	requireFault(t, agent.CodeConflict, "run_id", err)
	ask.RunID, ask.Version = "", 9
	_, err = b.StartRun(t.Context(), ask, "")
	requireFault(t, agent.CodeConflict, "version", err)
	ask.Tag, ask.Version = "other", 0
	_, err = b.StartRun(t.Context(), ask, "")
	requireFault(t, agent.CodeNotFound, "workflow_tag", err)
	require.Len(t, f.started, 2)
}

// A run is known as soon as its caller has its id. One whose workflow could not be started has failed; one that was recorded by somebody who
// died before starting it is started by whoever asks again.
func TestRunIsRecordedFirst(t *testing.T) {
	b, f, s := runner()
	ask := agent.RunRequest{Tag: "main", RunID: "r1", Context: agent.InvocationContext{Tenant: "acme"}}
	f.away, f.missing = true, true
	_, err := b.StartRun(t.Context(), ask, "")
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
	require.Equal(t, agent.RunFailed, s.runs["r1"].Status)

	f.away = false
	ask.RunID = "r2"
	s.runs["r2"] = agent.Run{
		RunID: "r2", WorkflowID: "workflow/acme/ops/main/r2", WorkflowKey: agent.WorkflowKey{Tenant: "acme", Owner: "ops", Tag: "main"}, Version: 4,
		Status: agent.RunRunning, StartedAt: time.Now(),
	}
	got, err := b.Run(t.Context(), "acme", "r2")
	require.NoError(t, err)
	require.Equal(t, agent.RunRunning, got.Status, "its workflow may come")
	receipt, err := b.StartRun(t.Context(), ask, "")
	require.NoError(t, err)
	require.True(t, receipt.Joined)
	require.Equal(t, int64(4), f.started["workflow/acme/ops/main/r2"].Version)
}

// What was begun with one input does not answer for another.
func TestARunIsOfOneRequest(t *testing.T) {
	b, f, _ := runner()
	first := agent.RunRequest{Tag: "main", Input: json.RawMessage(`{"a":1,"b":"<"}`), Context: agent.InvocationContext{Tenant: "acme"}}
	for _, field := range []string{"run_id", "idempotency_key"} {
		ask, key := first, ""
		if field == "run_id" {
			ask.RunID = "r1"
		} else {
			key = "k1"
		}
		_, err := b.StartRun(t.Context(), ask, key)
		require.NoError(t, err)
		same := ask
		same.Input = json.RawMessage(`{"b":"\u003c", "a":1}`)
		again, err := b.StartRun(t.Context(), same, key)
		require.NoError(t, err)
		require.True(t, again.Joined)
		for name, change := range map[string]func(r *agent.RunRequest){
			"input":    func(r *agent.RunRequest) { r.Input = json.RawMessage(`{"a":2,"b":"<"}`) },
			"no input": func(r *agent.RunRequest) { r.Input = nil },
			"version":  func(r *agent.RunRequest) { r.Version = 2 },
		} {
			other := ask
			change(&other)
			_, err = b.StartRun(t.Context(), other, key)
			require.Error(t, err, name)
			requireFault(t, agent.CodeConflict, field, err)
		}
	}
	require.Len(t, f.started, 2)
	ask := first
	ask.RunID = "r9"
	_, err := b.StartRun(t.Context(), ask, "k9")
	requireFault(t, agent.CodeInvalid, "run_id", err)
}

// A run of another tenant is not told apart from an id that cannot be used.
func TestARunOfAnotherTenantIsNotTold(t *testing.T) {
	b, _, s := runner()
	s.runs["theirs"] = agent.Run{RunID: "theirs", WorkflowKey: agent.WorkflowKey{Tenant: "evil", Owner: "secret", Tag: "plan"}}
	_, err := b.StartRun(t.Context(), agent.RunRequest{Tag: "main", RunID: "theirs", Context: agent.InvocationContext{Tenant: "acme"}}, "")
	requireFault(t, agent.CodeConflict, "run_id", err)
	for _, told := range []string{"taken", "evil", "secret", "plan"} {
		require.NotContains(t, err.Error(), told)
	}
}

// The door refuses what the workflow would refuse: as it is encoded, a < takes six bytes.
func TestRunInputIsBounded(t *testing.T) {
	b, f, s := runner()
	for input, ok := range map[string]bool{
		`"` + strings.Repeat("x", agent.MaxRunInput-2) + `"`:   true,
		`"` + strings.Repeat("x", agent.MaxRunInput-1) + `"`:   false,
		`"` + strings.Repeat("<", agent.MaxRunInput/6+1) + `"`: false,
	} {
		before := len(f.started)
		_, err := b.StartRun(t.Context(), agent.RunRequest{Tag: "main", Input: json.RawMessage(input), Context: agent.InvocationContext{Tenant: "acme"}}, "")
		if ok {
			require.NoError(t, err)
			continue
		}
		requireFault(t, agent.CodeOverflow, "input", err)
		require.Len(t, f.started, before)
	}
	require.Len(t, s.runs, 1)
}

func TestRunWhoseWorkflowIsGone(t *testing.T) {
	b, f, s := runner()
	live := agent.Run{RunID: "r1", WorkflowID: "w1", WorkflowKey: agent.WorkflowKey{Tenant: "acme"}, Status: agent.RunRunning}
	s.runs["r1"] = live
	got, err := b.Run(t.Context(), "acme", "r1")
	require.NoError(t, err)
	require.Equal(t, live, got)
	_, err = b.Run(t.Context(), "evil", "r1")
	requireFault(t, agent.CodeNotFound, "run_id", err)
	f.finished = true
	got, err = b.Run(t.Context(), agent.AnyTenant, "r1")
	require.NoError(t, err)
	require.Equal(t, agent.RunFailed, got.Status)
	require.Contains(t, got.Error.Message, "terminated")
}

func TestCancelRun(t *testing.T) {
	b, f, s := runner()
	s.runs["r1"] = agent.Run{RunID: "r1", WorkflowID: "w1", WorkflowKey: agent.WorkflowKey{Tenant: "acme"}, Status: agent.RunRunning}
	requireFault(t, agent.CodeNotFound, "run_id", b.CancelRun(t.Context(), "evil", "r1", agent.CancelRequest{}))
	require.NoError(t, b.CancelRun(t.Context(), "acme", "r1", agent.CancelRequest{Reason: "wrong", By: "ops"}))
	require.Equal(t, []string{"w1 cancel {wrong ops}"}, f.signals)
	require.Equal(t, agent.RunRunning, s.runs["r1"].Status, "the workflow says when it has ended")
	f.gone = true
	require.NoError(t, b.CancelRun(t.Context(), "acme", "r1", agent.CancelRequest{}))
	require.Equal(t, agent.RunCancelled, s.runs["r1"].Status)
	requireFault(t, agent.CodeConflict, "", b.CancelRun(t.Context(), "acme", "r1", agent.CancelRequest{}))
}
