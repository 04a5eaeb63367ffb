package activities_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/turnstone-run/turnstone/activities"
	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/retention"
)

// sweptStore is the store of a sweep of so many batches.
type sweptStore struct {
	batches int
	from    []retention.Cursor
	err     error
}

func (s *sweptStore) RetentionTenants(_ context.Context, after string, _ int) ([]string, error) {
	return []string{after}, s.err
}

func (s *sweptStore) RetentionDue(_ context.Context, planned []retention.Sweep) ([]retention.Sweep, error) {
	return planned, s.err
}

func (s *sweptStore) SweepRetention(_ context.Context, _ retention.Sweep, from retention.Cursor) (retention.Batch, error) {
	s.from = append(s.from, from)
	from.Stage++
	return retention.Batch{Removed: 10, Bytes: 1, Next: from, Done: from.Stage == s.batches}, s.err
}

func (s *sweptStore) OldestKept(context.Context, string, string) (*time.Time, error) {
	return nil, s.err
}

func newRetention(t *testing.T, s *sweptStore, maxDuration time.Duration) (*activities.Retention, *testsuite.TestActivityEnvironment) {
	t.Helper()
	sweeper, err := retention.NewSweeper(retention.SweeperConfig{
		Store: s, MaxDuration: maxDuration, Policy: retention.Policy{Keep: retention.Keep{Events: new(time.Hour)}},
		Collectors: []retention.Collector{{Name: "content", Run: func(context.Context) (removed, bytes int64, err error) { return 1, 2, s.err }}},
	})
	require.NoError(t, err)
	a := activities.NewRetention(sweeper)
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	for _, one := range a.Registered() {
		env.RegisterActivity(one.Func)
	}
	return a, env
}

func sweep(t *testing.T, a *activities.Retention, env *testsuite.TestActivityEnvironment, in retention.SweepInput) retention.SweepResult {
	t.Helper()
	value, err := env.ExecuteActivity(a.SweepRetention, in)
	require.NoError(t, err)
	var out retention.SweepResult
	require.NoError(t, value.Get(&out))
	return out
}

func TestSweepRetention(t *testing.T) {
	s := &sweptStore{batches: 4}
	a, env := newRetention(t, s, 0)
	out := sweep(t, a, env, retention.SweepInput{Sweep: retention.Sweep{Tenant: "acme", Kind: "events"}})
	require.Equal(t, retention.SweepResult{Removed: 40, Bytes: 4}, out)

	s.from = nil
	a, env = newRetention(t, s, 1)
	out = sweep(t, a, env, retention.SweepInput{From: retention.Cursor{Stage: 1}})
	require.Equal(t, retention.SweepResult{Removed: 10, Bytes: 1, Next: &retention.Cursor{Stage: 2}}, out, "its time is over")
	require.Equal(t, []retention.Cursor{{Stage: 1}}, s.from)
}

// The next attempt continues where the last heartbeat was.
func TestSweepRetentionGoesOnAfterADeath(t *testing.T) {
	s := &sweptStore{batches: 4}
	a, env := newRetention(t, s, 0)
	env.SetHeartbeatDetails(map[string]any{"removed": 20, "bytes": 2, "from": map[string]any{"stage": 2}})
	require.Equal(t, retention.SweepResult{Removed: 40, Bytes: 4}, sweep(t, a, env, retention.SweepInput{}))
	require.Equal(t, 2, s.from[0].Stage)

	s.from = nil
	env.SetHeartbeatDetails("of another release")
	require.EqualValues(t, 40, sweep(t, a, env, retention.SweepInput{}).Removed)
	require.Zero(t, s.from[0].Stage)
}

// A stopping worker leaves the rest of the sweep to another one.
func TestSweepRetentionStopsWithItsWorker(t *testing.T) {
	s := &sweptStore{batches: 4}
	a, env := newRetention(t, s, 0)
	stopping := make(chan struct{})
	close(stopping)
	env.SetWorkerStopChannel(stopping)
	require.Equal(t, retention.SweepResult{Removed: 10, Bytes: 1, Next: &retention.Cursor{Stage: 1}}, sweep(t, a, env, retention.SweepInput{}))
}

func TestRetentionActivitiesFail(t *testing.T) {
	s := &sweptStore{batches: 1, err: agent.Errorf(agent.CodeUnavailable, "", "away")}
	a, env := newRetention(t, s, 0)
	for _, call := range []func() error{
		func() error { _, err := env.ExecuteActivity(a.SweepRetention, retention.SweepInput{}); return err },
		func() error { _, err := env.ExecuteActivity(a.ListRetention, retention.ListDueInput{}); return err },
		func() error { _, err := env.ExecuteActivity(a.CollectRetention); return err },
	} {
		var application *temporal.ApplicationError
		require.ErrorAs(t, call(), &application)
		require.Equal(t, "unavailable", application.Type())
		require.False(t, application.NonRetryable())
	}
	s.err = nil
	value, err := env.ExecuteActivity(a.ListRetention, retention.ListDueInput{After: "acme"})
	require.NoError(t, err)
	var out retention.ListDueResult
	require.NoError(t, value.Get(&out))
	require.Equal(t, "acme", out.Due[0].Tenant)
	require.WithinDuration(t, time.Now().Add(-time.Hour), out.Due[0].Before, time.Minute)
}
