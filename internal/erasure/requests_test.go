package erasure_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/erasure"
)

// requestStore is a store with one erasure, and a starter.
type requestStore struct {
	by      string
	started []erasure.Ref
	err     error // of starts
}

func (s *requestStore) CreateErasure(_ context.Context, r erasure.Request, by string) (erasure.Erasure, error) {
	s.by = by
	return erasure.Erasure{ID: "e1", Tenant: r.Tenant}, r.Validate()
}

func (s *requestStore) Erasure(_ context.Context, tenant, id string) (erasure.Erasure, error) {
	return erasure.Erasure{ID: id, Tenant: tenant}, nil
}

func (s *requestStore) Erasures(context.Context, string, agent.Page) (erasure.Page, error) {
	return erasure.Page{Next: "more"}, nil
}

func (s *requestStore) Start(_ context.Context, r erasure.Ref) error {
	s.started = append(s.started, r)
	return s.err
}

func TestRequests(t *testing.T) {
	store := &requestStore{}
	r, err := erasure.NewRequests(store, store)
	require.NoError(t, err)
	e, err := r.Create(t.Context(), erasure.Request{UserID: "ann", Tenant: "acme", Reason: "r"}, agent.Principal{Credential: "key:k1"})
	require.NoError(t, err)
	require.Equal(t, "e1", e.ID)
	require.Equal(t, "key:k1", store.by)
	require.Equal(t, []erasure.Ref{{Tenant: "acme", ErasureID: "e1"}}, store.started)

	store.err = errors.New("away")
	_, err = r.Create(t.Context(), erasure.Request{UserID: "ann", Tenant: "acme", Reason: "r"}, agent.Principal{Subject: "ops"})
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
	_, err = r.Create(t.Context(), erasure.Request{Tenant: "acme", Reason: "r"}, agent.Principal{})
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	require.Len(t, store.started, 2)

	e, err = r.Get(t.Context(), "acme", "e7")
	require.NoError(t, err)
	require.Equal(t, "e7", e.ID)
	page, err := r.List(t.Context(), "acme", agent.Page{})
	require.NoError(t, err)
	require.Equal(t, "more", page.Next)
	_, err = erasure.NewRequests(nil, store)
	require.Error(t, err)
	_, err = erasure.NewRequests(store, nil)
	require.Error(t, err)
}
