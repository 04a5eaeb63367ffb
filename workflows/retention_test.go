package workflows_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/activities/keeping"
	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/workflows"
)

// broom is a plan and what is removed, in memory: so many batches of 10 rows for each sweep.
type broom struct {
	pages  [][]keeping.Sweep
	left   map[string]int // batches, by tenant/kind
	faults map[string]error
	swept  []string
	gone   int64
}

func (b *broom) Sweeps(_ context.Context, after string, now time.Time, _ int) (due []keeping.Sweep, next string, err error) {
	at := 0
	if after != "" {
		_, err := fmt.Sscanf(after, "page%d", &at)
		if err != nil {
			return nil, "", err
		}
	}
	for _, s := range b.pages[at] {
		s.Before = now.Add(-time.Hour)
		due = append(due, s)
	}
	if at+1 < len(b.pages) {
		next = fmt.Sprintf("page%d", at+1)
	}
	return due, next, nil
}

func (b *broom) Sweep(_ context.Context, s keeping.Sweep, at keeping.Cursor) (keeping.Batch, error) {
	key := s.Tenant + "/" + s.Kind
	if err := b.faults[key]; err != nil {
		return keeping.Batch{}, err
	}
	if at == (keeping.Cursor{}) {
		b.swept = append(b.swept, key)
	}
	n := b.left[key]
	if n == 0 {
		return keeping.Batch{Done: true}, nil
	}
	b.left[key], b.gone = n-1, b.gone+10
	return keeping.Batch{Removed: 10, Bytes: 100, Next: keeping.Cursor{ID: fmt.Sprint(n)}}, nil
}

func (b *broom) Oldest(context.Context, keeping.Sweep) (*time.Time, error) {
	return new(time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)), nil
}

func (b *broom) Collect(context.Context) (removed, bytes int64, err error) {
	return 3, 30, b.faults["content"]
}

func sweeping(t *testing.T, b *broom, most time.Duration) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(30 * time.Second)
	env.RegisterWorkflowWithOptions(workflows.Retention, workflow.RegisterOptions{Name: workflows.RetentionType})
	a, err := keeping.New(keeping.Config{Plan: b, Sweeper: b, Most: most})
	require.NoError(t, err)
	workflows.RegisterActivities(env, a)
	return env
}

func dusty() *broom {
	return &broom{
		pages: [][]keeping.Sweep{
			{{Kind: "audit"}, {Tenant: "acme", Kind: "events"}, {Tenant: "acme", Kind: "usage"}}, {}, {{Tenant: "zoo", Kind: "events"}},
		},
		left:   map[string]int{"acme/events": 5, "zoo/events": 2},
		faults: map[string]error{},
	}
}

func swept(t *testing.T, env *testsuite.TestWorkflowEnvironment) workflows.RetentionResult {
	t.Helper()
	require.True(t, env.IsWorkflowCompleted())
	require.NoError(t, env.GetWorkflowError())
	var out workflows.RetentionResult
	require.NoError(t, env.GetWorkflowResult(&out))
	return out
}

func TestRetention(t *testing.T) {
	for _, most := range []time.Duration{time.Hour, 1} { // in one activity, and in one for each batch
		b := dusty()
		env := sweeping(t, b, most)
		env.ExecuteWorkflow(workflows.RetentionType)
		out := swept(t, env)
		require.EqualValues(t, 73, out.Removed)
		require.EqualValues(t, 730, out.Bytes)
		require.Zero(t, out.Failed)
		require.Equal(t, []string{"/audit", "acme/events", "acme/usage", "zoo/events"}, b.swept)
		require.Len(t, out.Kinds, 3, "what was nothing is not told of")
		require.Equal(t, workflows.RetentionSwept{
			Tenant: "acme", Kind: "events", Removed: 50, Bytes: 500, OldestLeft: new(time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)),
		}, out.Kinds[0])
	}
}

func TestRetentionGoesOnBesideAFault(t *testing.T) {
	b := dusty()
	b.faults["acme/events"] = agent.Errorf(agent.CodeInvalid, "", "%s", strings.Repeat("no such kind ", 100))
	b.faults["content"] = agent.Errorf(agent.CodeUnavailable, "", "the bucket is away")
	env := sweeping(t, b, time.Hour)
	env.ExecuteWorkflow(workflows.RetentionType)
	out := swept(t, env)
	require.EqualValues(t, 20, out.Removed)
	require.Equal(t, 2, out.Failed)
	require.Contains(t, out.Kinds[0].Error, "no such kind")
	require.Less(t, len(out.Kinds[0].Error), 320)
	require.Contains(t, out.Kinds[2].Error, "away", "after an hour of attempts")
}

func TestRetentionIsAttemptedAgain(t *testing.T) {
	b := dusty()
	env := sweeping(t, b, time.Hour)
	lost := 0
	env.OnActivity("SweepRetention", mock.Anything, mock.Anything).Return(func(context.Context, keeping.SweepInput) (keeping.SweepResult, error) {
		if lost++; lost%2 == 1 {
			return keeping.SweepResult{}, temporal.NewApplicationError("the worker died", "unavailable")
		}
		return keeping.SweepResult{Removed: 1}, nil
	})
	env.ExecuteWorkflow(workflows.RetentionType)
	require.EqualValues(t, 4+3, swept(t, env).Removed)
}

func TestRetentionContinuesAsNew(t *testing.T) {
	b := dusty()
	env := sweeping(t, b, time.Hour)
	env.SetContinueAsNewSuggested(true)
	env.ExecuteWorkflow(workflows.RetentionType)
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, env.GetWorkflowError(), &next)
	require.Equal(t, []string{"/audit", "acme/events", "acme/usage"}, b.swept)

	env = sweeping(t, b, time.Hour)
	env.ExecuteWorkflow(workflows.RetentionType, &workflows.RetentionCarry{After: "page1", Result: workflows.RetentionResult{Removed: 50}})
	out := swept(t, env)
	require.EqualValues(t, 73, out.Removed)
	require.Equal(t, "zoo/events", b.swept[len(b.swept)-1])
}

func TestRetentionTellsOfABoundedNumber(t *testing.T) {
	b := &broom{pages: [][]keeping.Sweep{{}}, left: map[string]int{}}
	for i := range 230 {
		s := keeping.Sweep{Tenant: fmt.Sprintf("t%d", i), Kind: "events"}
		b.pages[0], b.left[s.Tenant+"/events"] = append(b.pages[0], s), 1
	}
	env := sweeping(t, b, time.Hour)
	env.ExecuteWorkflow(workflows.RetentionType)
	out := swept(t, env)
	require.Len(t, out.Kinds, 200)
	require.Equal(t, 31, out.Omitted)
	require.EqualValues(t, 2303, out.Removed)
}

func TestRetentionIsCancelled(t *testing.T) {
	b := dusty()
	env := sweeping(t, b, time.Hour)
	env.RegisterDelayedCallback(env.CancelWorkflow, 0)
	env.OnActivity("SweepRetention", mock.Anything, mock.Anything).Return(keeping.SweepResult{}, temporal.NewApplicationError("away", "unavailable"))
	env.ExecuteWorkflow(workflows.RetentionType)
	require.True(t, env.IsWorkflowCompleted())
	require.True(t, temporal.IsCanceledError(env.GetWorkflowError()))
}

func TestKeepingConfig(t *testing.T) {
	_, err := keeping.New(keeping.Config{Sweeper: &broom{}})
	require.ErrorContains(t, err, "Plan is missing")
	_, err = keeping.New(keeping.Config{Plan: &broom{}})
	require.ErrorContains(t, err, "Sweeper is missing")
}
