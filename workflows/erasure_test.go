package workflows_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/activities"
	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/erasure"
	"github.com/turnstone-run/turnstone/workflows"
)

// remains is what there is of a user, in memory. It is all that an erasure talks to.
type remains struct {
	dry       bool
	status    erasure.Status
	live      int // turns that run; one stops with each request to, unless they are stubborn
	stubborn  bool
	marked    map[string][]string // by kind
	rows      int
	busy      int   // how often the user does something while it is looked for what is left
	pending   int64 // content that was just put; it settles look by look
	free      []erasure.Object
	held      bool    // the content: somebody refers to it after all
	broken    []error // of the next deletions of executions
	calls     []string
	failed    string
	cancelled []agent.TurnID
}

func (r *remains) call(name string) { r.calls = append(r.calls, name) }

func (r *remains) BeginErasure(context.Context, string, string) (erasure.Erasure, error) {
	r.call("begin")
	return erasure.Erasure{DryRun: r.dry, Status: r.status}, nil
}

func (r *remains) MarkErasure(context.Context, string, string) error {
	r.call("mark")
	return nil
}

func (r *remains) LiveTurns(context.Context, string, string, int) ([]agent.TurnID, error) {
	return slices.Repeat([]agent.TurnID{"t"}, r.live), nil
}

func (r *remains) Cancel(_ context.Context, id agent.TurnID, c agent.CancelRequest) error {
	if r.cancelled = append(r.cancelled, id); !r.stubborn {
		r.live--
	}
	return agent.Errorf(agent.CodeConflict, "", "it has ended, by %s", c.By)
}

func (r *remains) Marks(_ context.Context, _, _, kind string, _ int) ([]string, error) {
	return r.marked[kind], nil
}

func (r *remains) MarkDone(_ context.Context, _, _, kind string, names []string, removed, _ int64) error {
	r.call("done " + kind + " " + strings.Join(names, ",") + " " + string(rune('0'+removed)))
	r.marked[kind] = slices.DeleteFunc(r.marked[kind], func(n string) bool { return slices.Contains(names, n) })
	return nil
}

func (r *remains) MarkFound(_ context.Context, _, _, kind, name string, found int64) error {
	r.call("found " + kind + " " + name + " " + string(rune('0'+found)))
	return nil
}

func (r *remains) Delete(_ context.Context, id string) (int, error) {
	if len(r.broken) > 0 {
		err := r.broken[0]
		r.broken = r.broken[1:]
		return 2, err
	}
	r.call("delete " + id)
	return 1, nil
}

func (r *remains) DeleteSchedule(_ context.Context, tenant, name string) error {
	r.call("unschedule " + tenant + "/" + name)
	return nil
}

func (r *remains) EraseRows(context.Context, string, string) (bool, error) {
	r.call("rows")
	r.rows--
	return r.rows > 0, nil
}

func (r *remains) ReleaseContent(context.Context, string, string, time.Duration, int) ([]erasure.Object, int64, error) {
	r.call("release")
	free, pending := r.free, r.pending
	r.free, r.pending = nil, max(0, r.pending-1)
	return free, pending, nil
}

func (r *remains) Remove(_ context.Context, tenant, ref string) error {
	r.call("remove " + tenant + " " + ref)
	if r.held {
		return agent.Errorf(agent.CodeConflict, "", "in use")
	}
	return nil
}

func (r *remains) CheckErasure(context.Context, string, string) (int64, error) {
	r.call("check")
	r.busy--
	return int64(max(0, r.busy+1)), nil
}

func (r *remains) FinishErasure(context.Context, string, string) (erasure.Erasure, error) {
	r.call("finish")
	return erasure.Erasure{Status: erasure.StatusCompleted, Digest: "sha256:1", Report: &erasure.Report{}}, nil
}

func (r *remains) FailErasure(_ context.Context, _, _, why string) error {
	r.failed = why
	return nil
}

func erasureOf(t *testing.T, r *remains) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(30 * time.Second)
	env.RegisterWorkflowWithOptions(workflows.Erasure, workflow.RegisterOptions{Name: workflows.ErasureType})
	eraser, err := erasure.NewEraser(erasure.EraserConfig{Store: r, Turns: r, Histories: r, Blobs: r, MaxDuration: time.Nanosecond})
	require.NoError(t, err)
	workflows.RegisterActivities(env, activities.NewErasure(eraser))
	return env
}

func erases(t *testing.T, env *testsuite.TestWorkflowEnvironment) workflows.ErasureResult {
	t.Helper()
	env.ExecuteWorkflow(workflows.ErasureType, workflows.ErasureInput{Tenant: "acme", ErasureID: "e1"})
	require.True(t, env.IsWorkflowCompleted())
	require.NoError(t, env.GetWorkflowError())
	var out workflows.ErasureResult
	require.NoError(t, env.GetWorkflowResult(&out))
	return out
}

// Turns stop before histories go, histories before rows, rows before schedules and content; then it is looked for what is left.
func TestErasure(t *testing.T) {
	r := &remains{
		live: 2, rows: 3, pending: 2, busy: 1, free: []erasure.Object{{Ref: "cas://a", Bytes: 7}},
		marked: map[string][]string{"execution": {"turn/1"}, "schedule": {"daily"}},
	}
	out := erases(t, erasureOf(t, r))
	require.Equal(t, workflows.ErasureResult{Status: erasure.StatusCompleted, Digest: "sha256:1"}, out)
	require.Len(t, r.cancelled, 2)
	require.Equal(t, []string{
		"begin", "mark", "delete turn/1", "done execution turn/1 1", "rows", "rows", "rows", "unschedule acme/daily", "done schedule daily 0",
		"release", "remove acme cas://a", "done content cas://a 1", "release", "release", "mark", "check",
		"rows", "release", "mark", "check", "finish",
	}, r.calls)
	require.Empty(t, r.failed)
}

func TestErasureOfLess(t *testing.T) {
	dry := &remains{dry: true, live: 2}
	require.Equal(t, erasure.StatusCompleted, erases(t, erasureOf(t, dry)).Status)
	require.Equal(t, []string{"begin", "mark", "finish"}, dry.calls, "a dry run changes nothing")
	require.Empty(t, dry.cancelled)

	over := &remains{status: erasure.StatusCompleted}
	erases(t, erasureOf(t, over))
	require.Equal(t, []string{"begin", "finish"}, over.calls, "what has ended is not begun again")

	held := &remains{held: true, free: []erasure.Object{{Ref: "cas://a", Bytes: 7}}, marked: map[string][]string{}}
	erases(t, erasureOf(t, held))
	require.Contains(t, held.calls, "done content cas://a 0", "somebody refers to it after all")
}

// A user who never rests, turns that never stop and content that never settles do not hold it up for ever.
func TestErasureEnds(t *testing.T) {
	r := &remains{live: 1, stubborn: true, busy: 1000, pending: 1000}
	erases(t, erasureOf(t, r))
	count := func(call string) (n int) {
		for _, c := range r.calls {
			if c == call {
				n++
			}
		}
		return n
	}
	require.Equal(t, 5, count("check"))
	require.Equal(t, 75, count("release"))
	require.Equal(t, 1, count("finish"))
}

// What is away for a while is asked again; what is refused ends the erasure, which says so; so does a cancel.
func TestErasureFails(t *testing.T) {
	r := &remains{
		broken: []error{agent.Errorf(agent.CodeUnavailable, "", "away"), agent.Errorf(agent.CodeUnavailable, "", "away")},
		marked: map[string][]string{"execution": {"turn/1"}},
	}
	erases(t, erasureOf(t, r))
	require.Contains(t, r.calls, "found execution turn/1 2", "for the count, when they are gone")
	require.Contains(t, r.calls, "delete turn/1")

	r = &remains{broken: []error{agent.Errorf(agent.CodeDenied, "", "not allowed")}, marked: map[string][]string{"execution": {"turn/1"}}}
	env := erasureOf(t, r)
	env.ExecuteWorkflow(workflows.ErasureType, workflows.ErasureInput{Tenant: "acme", ErasureID: "e1"})
	var failure *temporal.ApplicationError
	require.ErrorAs(t, env.GetWorkflowError(), &failure)
	require.Equal(t, string(agent.CodeDenied), failure.Type())
	require.Contains(t, r.failed, "not allowed")
	require.NotContains(t, r.calls, "finish")

	r = &remains{live: 1, stubborn: true}
	env = erasureOf(t, r)
	env.RegisterDelayedCallback(env.CancelWorkflow, 5*time.Second)
	env.ExecuteWorkflow(workflows.ErasureType, workflows.ErasureInput{Tenant: "acme", ErasureID: "e1"})
	require.True(t, temporal.IsCanceledError(env.GetWorkflowError()))
	require.Equal(t, "it was cancelled", r.failed)
}

// A long one continues in a run of its own, in the round that it was in.
func TestErasureContinues(t *testing.T) {
	r := &remains{rows: 1 << 20}
	env := erasureOf(t, r)
	env.SetContinueAsNewSuggested(true)
	env.ExecuteWorkflow(workflows.ErasureType, workflows.ErasureInput{Tenant: "acme", ErasureID: "e1"})
	require.True(t, workflow.IsContinueAsNewError(env.GetWorkflowError()))
	require.Empty(t, r.failed)
	r = &remains{busy: 1000}
	env = erasureOf(t, r)
	env.ExecuteWorkflow(workflows.ErasureType, workflows.ErasureInput{Tenant: "acme", ErasureID: "e1"}, &workflows.ErasureCarry{Round: 4})
	require.NoError(t, env.GetWorkflowError())
	require.Len(t, slices.DeleteFunc(r.calls, func(c string) bool { return c != "check" }), 1)
}
