package retention_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/retention"
)

type fakeSchedule struct{ err error }

func (s *fakeSchedule) Status(context.Context) (retention.Status, error) {
	return retention.Status{Scheduled: true}, s.err
}

func TestReport(t *testing.T) {
	schedule := &fakeSchedule{}
	r := retention.Reporter{Policy: testPolicy(), Store: &memoryStore{tenants: []string{"acme", "zoo"}}, Schedule: schedule}
	got, err := r.Report(t.Context(), agent.AnyTenant, agent.Page{Size: 1})
	require.NoError(t, err)
	require.True(t, got.Schedule.Scheduled)
	require.Equal(t, "acme", got.Next)
	require.Len(t, got.Tenants, 1)
	require.Len(t, got.Tenants[0].Kinds, len(retention.Kinds()))
	got, err = r.Report(t.Context(), agent.AnyTenant, agent.Page{Size: 1000, Token: got.Next})
	require.NoError(t, err)
	require.Empty(t, got.Next)
	require.Equal(t, retention.KindReport{Kind: "events", Keep: "1h0m0s", Own: true, Unit: "turns", Stored: 7, Due: 2, Oldest: &tomorrow}, got.Tenants[0].Kinds[0])
	require.Equal(t, retention.KindReport{Kind: "usage", Keep: "0s", Unit: "rows", Stored: 7, More: true, Oldest: &tomorrow}, got.Tenants[0].Kinds[6])
	got, err = r.Report(t.Context(), "new", agent.Page{})
	require.NoError(t, err)
	require.Equal(t, "new", got.Tenants[0].Tenant)
	schedule.err = agent.Errorf(agent.CodeUnavailable, "", "away")
	_, err = r.Report(t.Context(), "acme", agent.Page{})
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
}
