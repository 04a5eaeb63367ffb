// Package executions takes requests to erase what is kept of a user, and knows Temporal: it starts the workflow, and deletes executions and
// schedules for it.
package executions

import (
	"cmp"
	"context"
	"errors"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/erasure"
	"github.com/turnstone-run/turnstone/workflows"
)

// Store keeps erasures. What the tenant does not have is [agent.CodeNotFound].
type Store interface {
	// CreateErasure records what is asked for; of a user whose erasure is under way it is that one which is returned.
	CreateErasure(ctx context.Context, r erasure.Request, by string) (erasure.Erasure, error)
	Erasure(ctx context.Context, tenant, id string) (erasure.Erasure, error)
	Erasures(ctx context.Context, tenant string, p agent.Page) (erasure.Page, error)
}

// Starter starts workflows; a [client.Client] is one.
type Starter interface {
	ExecuteWorkflow(ctx context.Context, o client.StartWorkflowOptions, workflow any, args ...any) (client.WorkflowRun, error)
}

// Keeper takes requests.
type Keeper struct {
	store     Store
	starter   Starter
	taskQueue string
}

// New returns a keeper whose workflows run on a task queue; empty: the house's.
func New(s Store, starter Starter, taskQueue string) (*Keeper, error) {
	switch {
	case s == nil:
		return nil, errors.New("erasure: the store is missing")
	case starter == nil:
		return nil, errors.New("erasure: the starter is missing")
	}
	return &Keeper{store: s, starter: starter, taskQueue: cmp.Or(taskQueue, workflows.TaskQueue)}, nil
}

// Create records a request and starts its workflow. Of a user whose erasure is under way it is that one, which is started again if its workflow
// was ended by force. While Temporal is away it is [agent.CodeUnavailable]; asked again, it goes on.
func (k *Keeper) Create(ctx context.Context, r erasure.Request, p agent.Principal) (erasure.Erasure, error) {
	e, err := k.store.CreateErasure(ctx, r, cmp.Or(p.Subject, p.Credential, p.Method))
	if err != nil {
		return erasure.Erasure{}, err
	}
	_, err = k.starter.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: workflows.ErasureID(e.Tenant, e.ID), TaskQueue: k.taskQueue, StaticSummary: "erasure",
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
	}, workflows.ErasureType, workflows.ErasureInput{Tenant: e.Tenant, ErasureID: e.ID})
	if err != nil {
		return erasure.Erasure{}, agent.Errorf(agent.CodeUnavailable, "start erasure", "erasure %s is recorded and not started; ask again: %w", e.ID, err)
	}
	return e, nil
}

// Get returns one with its report.
func (k *Keeper) Get(ctx context.Context, tenant, id string) (erasure.Erasure, error) {
	return k.store.Erasure(ctx, tenant, id)
}

// List lists a tenant's, newest first.
func (k *Keeper) List(ctx context.Context, tenant string, p agent.Page) (erasure.Page, error) {
	return k.store.Erasures(ctx, tenant, p)
}
