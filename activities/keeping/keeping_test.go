package keeping_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/turnstone-run/turnstone/activities/keeping"
	"github.com/turnstone-run/turnstone/agent"
)

// steps is a sweep of so many batches.
type steps struct {
	batches int
	from    []keeping.Cursor
	err     error
}

func (s *steps) Sweeps(_ context.Context, after string, now time.Time, limit int) ([]keeping.Sweep, string, error) {
	return []keeping.Sweep{{Tenant: after, Kind: fmt.Sprint(limit), Before: now}}, "next", s.err
}

func (s *steps) Sweep(_ context.Context, _ keeping.Sweep, at keeping.Cursor) (keeping.Batch, error) {
	s.from = append(s.from, at)
	at.Stage++
	return keeping.Batch{Removed: 10, Bytes: 1, Next: at, Done: at.Stage == s.batches}, s.err
}

func (s *steps) Oldest(context.Context, keeping.Sweep) (*time.Time, error) { return nil, s.err }

func (s *steps) Collect(context.Context) (removed, bytes int64, err error) { return 1, 2, s.err }

func open(t *testing.T, s *steps, most time.Duration) (*keeping.Activities, *testsuite.TestActivityEnvironment) {
	t.Helper()
	a, err := keeping.New(keeping.Config{Plan: s, Sweeper: s, Most: most})
	require.NoError(t, err)
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	for _, one := range a.Registered() {
		env.RegisterActivity(one.Func)
	}
	return a, env
}

func sweep(t *testing.T, a *keeping.Activities, env *testsuite.TestActivityEnvironment, in keeping.SweepInput) keeping.SweepResult {
	t.Helper()
	value, err := env.ExecuteActivity(a.SweepRetention, in)
	require.NoError(t, err)
	var out keeping.SweepResult
	require.NoError(t, value.Get(&out))
	return out
}

func TestSweepRetention(t *testing.T) {
	s := &steps{batches: 4}
	a, env := open(t, s, 0)
	out := sweep(t, a, env, keeping.SweepInput{Sweep: keeping.Sweep{Tenant: "acme", Kind: "events"}})
	require.Equal(t, keeping.SweepResult{Removed: 40, Bytes: 4}, out)

	s.from = nil
	a, env = open(t, s, 1)
	out = sweep(t, a, env, keeping.SweepInput{From: keeping.Cursor{Stage: 1}})
	require.Equal(t, keeping.SweepResult{Removed: 10, Bytes: 1, Next: &keeping.Cursor{Stage: 2}}, out, "its time is over")
	require.Equal(t, []keeping.Cursor{{Stage: 1}}, s.from)
}

// The next attempt goes on where the last one was heard of.
func TestSweepRetentionGoesOnAfterADeath(t *testing.T) {
	s := &steps{batches: 4}
	a, env := open(t, s, 0)
	env.SetHeartbeatDetails(map[string]any{"removed": 20, "bytes": 2, "from": map[string]any{"stage": 2}})
	require.Equal(t, keeping.SweepResult{Removed: 40, Bytes: 4}, sweep(t, a, env, keeping.SweepInput{}))
	require.Equal(t, 2, s.from[0].Stage)

	s.from = nil
	env.SetHeartbeatDetails("of another release")
	require.EqualValues(t, 40, sweep(t, a, env, keeping.SweepInput{}).Removed)
	require.Zero(t, s.from[0].Stage)
}

func TestRetentionActivitiesFail(t *testing.T) {
	s := &steps{batches: 1, err: agent.Errorf(agent.CodeUnavailable, "", "away")}
	a, env := open(t, s, 0)
	for _, call := range []func() error{
		func() error { _, err := env.ExecuteActivity(a.SweepRetention, keeping.SweepInput{}); return err },
		func() error { _, err := env.ExecuteActivity(a.ListRetention, keeping.ListInput{}); return err },
		func() error { _, err := env.ExecuteActivity(a.CollectRetention); return err },
	} {
		var application *temporal.ApplicationError
		require.ErrorAs(t, call(), &application)
		require.Equal(t, "unavailable", application.Type())
		require.False(t, application.NonRetryable())
	}
	s.err = nil
	value, err := env.ExecuteActivity(a.ListRetention, keeping.ListInput{After: "acme"})
	require.NoError(t, err)
	var out keeping.ListResult
	require.NoError(t, value.Get(&out))
	require.Equal(t, "acme", out.Due[0].Tenant)
	require.WithinDuration(t, time.Now(), out.Due[0].Before, time.Minute)
}
