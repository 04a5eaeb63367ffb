package retention_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/retention"
)

var tomorrow = time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)

// memoryStore is a store with some tenants. Of the planned sweeps, all but the first are due.
type memoryStore struct {
	tenants []string
	planned []retention.Sweep // of the last call of RetentionDue
	err     error             // of every call
}

func (s *memoryStore) RetentionTenants(_ context.Context, after string, limit int) (found []string, err error) {
	for _, tenant := range s.tenants {
		if tenant > after && len(found) < limit {
			found = append(found, tenant)
		}
	}
	return found, s.err
}

func (s *memoryStore) RetentionDue(_ context.Context, planned []retention.Sweep) ([]retention.Sweep, error) {
	s.planned = planned
	return planned[1:], s.err
}

func (s *memoryStore) SweepRetention(_ context.Context, w retention.Sweep, from retention.Cursor) (retention.Batch, error) {
	from.Stage++
	return retention.Batch{Removed: 3, Bytes: 4, Next: from, Done: w.Kind == "audit"}, s.err
}

func (s *memoryStore) StoredKind(_ context.Context, _, kind string, before time.Time) (retention.StoredKind, error) {
	k := retention.StoredKind{Count: 7, More: kind == "usage", Oldest: &tomorrow}
	if !before.IsZero() {
		k.Due = 2
	}
	return k, s.err
}

func (s *memoryStore) OldestKept(context.Context, string, string) (*time.Time, error) {
	return &tomorrow, s.err
}

func testPolicy() retention.Policy {
	return retention.Policy{
		Every: time.Hour, Keep: retention.Keep{Events: new(168 * time.Hour), Audit: new(240 * time.Hour)},
		Tenants: []retention.Tenant{{Tenant: "zoo", Keep: retention.Keep{Events: new(time.Hour)}}},
	}
}

func newSweeper(t *testing.T) (*retention.Sweeper, *memoryStore) {
	t.Helper()
	store := &memoryStore{tenants: []string{"acme"}}
	for i := range 49 {
		store.tenants = append(store.tenants, fmt.Sprintf("m%02d", i))
	}
	store.tenants = append(store.tenants, "zoo")
	s, err := retention.NewSweeper(retention.SweeperConfig{Policy: testPolicy(), Store: store, Now: func() time.Time { return tomorrow }})
	require.NoError(t, err)
	return s, store
}

func TestListDue(t *testing.T) {
	s, store := newSweeper(t)
	out, err := s.ListDue(t.Context(), retention.ListDueInput{})
	require.NoError(t, err)
	require.Equal(t, "m48", out.Next, "the fiftieth tenant")
	require.Equal(t, []retention.Sweep{
		{Kind: "events", Before: tomorrow.Add(-720 * time.Hour)},
		{Kind: "audit", Before: tomorrow.Add(-240 * time.Hour)},
		{Tenant: "acme", Kind: "events", Before: tomorrow.Add(-168 * time.Hour)},
		{Tenant: "acme", Kind: "audit", Before: tomorrow.Add(-240 * time.Hour)},
	}, store.planned[:4], "data without a tenant comes first")
	require.Len(t, out.Due, 2*(1+50)-1)
	out, err = s.ListDue(t.Context(), retention.ListDueInput{After: out.Next})
	require.NoError(t, err)
	require.Empty(t, out.Next)
	require.Equal(t, []retention.Sweep{{Tenant: "zoo", Kind: "audit", Before: tomorrow.Add(-240 * time.Hour)}}, out.Due)
	require.Equal(t, tomorrow.Add(-time.Hour), store.planned[0].Before, "the tenant's own duration")
	store.err = agent.Errorf(agent.CodeUnavailable, "", "away")
	_, err = s.ListDue(t.Context(), retention.ListDueInput{})
	require.Error(t, err)
}

func TestSweep(t *testing.T) {
	s, store := newSweeper(t)
	var reported []retention.SweepProgress
	report := func(p retention.SweepProgress) bool {
		reported = append(reported, p)
		return len(reported) < 3
	}
	from := retention.SweepProgress{From: retention.Cursor{Stage: 1, ID: "x", Behind: true}}
	out, err := s.Sweep(t.Context(), retention.Sweep{Tenant: "zoo", Kind: "audit"}, from, report)
	require.NoError(t, err)
	require.Equal(t, retention.SweepResult{Removed: 3, Bytes: 4, OldestLeft: &tomorrow}, out)
	require.Equal(t, []retention.SweepProgress{{Removed: 3, Bytes: 4, From: retention.Cursor{Stage: 2, ID: "x", Behind: true}}}, reported)

	out, err = s.Sweep(t.Context(), retention.Sweep{Tenant: "zoo", Kind: "events"}, retention.SweepProgress{Removed: 1}, report)
	require.NoError(t, err)
	require.Equal(t, retention.SweepResult{Removed: 7, Bytes: 8, Next: &retention.Cursor{Stage: 2}}, out, "until report returns false")
	store.err = agent.Errorf(agent.CodeUnavailable, "", "away")
	_, err = s.Sweep(t.Context(), retention.Sweep{}, retention.SweepProgress{}, report)
	require.Error(t, err)
}

func TestCollect(t *testing.T) {
	s, _ := newSweeper(t)
	s.Collectors = []retention.Collector{
		{Name: "content", Run: func(context.Context) (removed, bytes int64, err error) {
			return 1, 10, errors.New("the bucket is away")
		}},
		{Name: "payloads", Run: func(context.Context) (removed, bytes int64, err error) { return 2, 20, nil }},
	}
	out, err := s.Collect(t.Context())
	require.ErrorContains(t, err, "content: the bucket is away")
	require.Equal(t, retention.SweepResult{Removed: 3, Bytes: 30}, out)
}

func TestSweeperConfig(t *testing.T) {
	_, err := retention.NewSweeper(retention.SweeperConfig{})
	require.ErrorContains(t, err, "Store is missing")
}
