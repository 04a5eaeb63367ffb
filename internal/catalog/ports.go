package catalog

import (
	"context"

	"github.com/turnstone-run/turnstone/agent"
)

// Store keeps the documents, their history and the published plans.
type Store interface {
	// LoadCatalog returns all current documents, without tombstones.
	LoadCatalog(ctx context.Context) (agent.CatalogState, error)
	// CatalogSince returns the current state of the documents that changed after a revision; deleted documents are tombstones.
	CatalogSince(ctx context.Context, revision int64) (agent.CatalogState, error)
	// CommitCatalog stores a change as the newest revision and returns that revision. Its error is [agent.CodeConflict] if another
	// commit came first.
	CommitCatalog(ctx context.Context, c agent.CatalogCommit) (revision int64, err error)
	CatalogHistory(ctx context.Context, q agent.HistoryQuery) (agent.HistoryPage, error)
	// ListenCatalog calls wake whenever the catalog may have changed, until ctx ends: on a notification, after a reconnect, and
	// periodically.
	ListenCatalog(ctx context.Context, wake func())
}

// Plans keeps compiled plans by hash, for turns that outlive the process or the plan.
type Plans interface {
	planBackend
	// SavePlan stores the bytes of a plan and returns their reference, cas://<hash>.
	SavePlan(ctx context.Context, body []byte) (uri string, err error)
}

// planBackend holds every published plan.
type planBackend interface {
	// PlanBytes returns the plan with a hash. Its error is [agent.CodeNotFound] if there is none.
	PlanBytes(ctx context.Context, hash string) ([]byte, error)
}

// Router chooses agents for one tenant.
type Router interface {
	Decide(c agent.RouteContext, available func(name, model string) bool, explain bool) agent.RouteDecision
}

// Routes compiles route tables.
type Routes interface {
	// Check returns the faults of a table; their paths are relative to the table.
	Check(t *agent.RouteTable) agent.Faults
	// Router returns the router of a tenant: the tenant's own tables come before the shared ones. All tables have passed Check.
	Router(own, shared []*agent.RouteTable) (Router, error)
}
