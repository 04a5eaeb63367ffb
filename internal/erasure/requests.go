package erasure

import (
	"cmp"
	"context"
	"errors"

	"github.com/turnstone-run/turnstone/agent"
)

// Requests records requests for erasures, starts the erasures and returns them.
type Requests struct {
	store   RequestStore
	starter Starter
}

// NewRequests returns a [Requests]. Both arguments are required.
func NewRequests(s RequestStore, starter Starter) (*Requests, error) {
	switch {
	case s == nil:
		return nil, errors.New("erasure: RequestStore is missing")
	case starter == nil:
		return nil, errors.New("erasure: Starter is missing")
	}
	return &Requests{store: s, starter: starter}, nil
}

// Create records a request and starts its erasure. If the user has an erasure that has not ended, Create starts and returns that one. The error is
// [agent.CodeUnavailable] if the erasure could not be started. Then the request is recorded, and the same call again starts it.
func (r *Requests) Create(ctx context.Context, in Request, p agent.Principal) (Erasure, error) {
	e, err := r.store.CreateErasure(ctx, in, cmp.Or(p.Subject, p.Credential, p.Method))
	if err != nil {
		return Erasure{}, err
	}
	if err := r.starter.Start(ctx, Ref{Tenant: e.Tenant, ErasureID: e.ID}); err != nil {
		return Erasure{}, agent.Errorf(agent.CodeUnavailable, "start erasure", "erasure %s is recorded and not started; ask again: %w", e.ID, err)
	}
	return e, nil
}

// Get returns an erasure with its report.
func (r *Requests) Get(ctx context.Context, tenant, id string) (Erasure, error) {
	return r.store.Erasure(ctx, tenant, id)
}

// List lists a tenant's erasures, newest first.
func (r *Requests) List(ctx context.Context, tenant string, p agent.Page) (Page, error) {
	return r.store.Erasures(ctx, tenant, p)
}
