package workflows_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/activities"
	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/retention"
	"github.com/turnstone-run/turnstone/workflows"
)

// broom is a store of so many batches of 10 rows for each sweep.
type broom struct {
	pages  [][]retention.Sweep
	page   int            // the one that was asked for last
	left   map[string]int // batches, by tenant/kind
	faults map[string]error
	swept  []string
	gone   int64
}

// RetentionTenants returns as many names as were asked for while there are more pages. The last of them names the next page.
func (b *broom) RetentionTenants(_ context.Context, after string, limit int) ([]string, error) {
	b.page = 0
	if after != "" {
		if _, err := fmt.Sscanf(after, "page%d", &b.page); err != nil {
			return nil, err
		}
	}
	if b.page+1 < len(b.pages) {
		return slices.Repeat([]string{fmt.Sprintf("page%d", b.page+1)}, limit), nil
	}
	return nil, nil
}

func (b *broom) RetentionDue(context.Context, []retention.Sweep) (due []retention.Sweep, err error) {
	for _, s := range b.pages[b.page] {
		s.Before = time.Now().Add(-time.Hour)
		due = append(due, s)
	}
	return due, nil
}

func (b *broom) SweepRetention(_ context.Context, s retention.Sweep, at retention.Cursor) (retention.Batch, error) {
	key := s.Tenant + "/" + s.Kind
	if err := b.faults[key]; err != nil {
		return retention.Batch{}, err
	}
	if at == (retention.Cursor{}) {
		b.swept = append(b.swept, key)
	}
	n := b.left[key]
	if n == 0 {
		return retention.Batch{Done: true}, nil
	}
	b.left[key], b.gone = n-1, b.gone+10
	return retention.Batch{Removed: 10, Bytes: 100, Next: retention.Cursor{ID: fmt.Sprint(n)}}, nil
}

func (b *broom) OldestKept(context.Context, string, string) (*time.Time, error) {
	return new(time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)), nil
}

func (b *broom) collect(context.Context) (removed, bytes int64, err error) {
	return 3, 30, b.faults["content"]
}

func sweeping(t *testing.T, b *broom, maxDuration time.Duration) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(30 * time.Second)
	env.RegisterWorkflowWithOptions(workflows.Retention, workflow.RegisterOptions{Name: workflows.RetentionType})
	sweeper, err := retention.NewSweeper(retention.SweeperConfig{
		Store: b, MaxDuration: maxDuration, Collectors: []retention.Collector{{Name: "content", Run: b.collect}},
	})
	require.NoError(t, err)
	workflows.RegisterActivities(env, activities.NewRetention(sweeper))
	return env
}

func dusty() *broom {
	return &broom{
		pages: [][]retention.Sweep{
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
	env.OnActivity("SweepRetention", mock.Anything, mock.Anything).Return(func(context.Context, retention.SweepInput) (retention.SweepResult, error) {
		if lost++; lost%2 == 1 {
			return retention.SweepResult{}, temporal.NewApplicationError("the worker died", "unavailable")
		}
		return retention.SweepResult{Removed: 1}, nil
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
	b := &broom{pages: [][]retention.Sweep{{}}, left: map[string]int{}}
	for i := range 230 {
		s := retention.Sweep{Tenant: fmt.Sprintf("t%d", i), Kind: "events"}
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
	env.OnActivity("SweepRetention", mock.Anything, mock.Anything).Return(retention.SweepResult{}, temporal.NewApplicationError("away", "unavailable"))
	env.ExecuteWorkflow(workflows.RetentionType)
	require.True(t, env.IsWorkflowCompleted())
	require.True(t, temporal.IsCanceledError(env.GetWorkflowError()))
}
