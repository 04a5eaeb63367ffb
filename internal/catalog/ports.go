package catalog

import (
	"context"

	"github.com/turnstone-run/turnstone/agent"
)

// Store keeps the documents, their history and the published plans.
type Store interface {
	// LoadCatalog returns everything that is current, without tombstones.
	LoadCatalog(ctx context.Context) (agent.CatalogState, error)
	// CatalogSince returns the documents that changed after a revision, as they are now; deleted ones are tombstones.
	CatalogSince(ctx context.Context, revision int64) (agent.CatalogState, error)
	// CommitCatalog makes a change the newest revision and returns it. Its error is [agent.CodeConflict] if another came first.
	CommitCatalog(ctx context.Context, c agent.CatalogCommit) (revision int64, err error)
	CatalogHistory(ctx context.Context, q agent.HistoryQuery) (agent.HistoryPage, error)
	// ListenCatalog calls wake whenever the catalog may have changed, until ctx ends: on a notification, after a broken connection was
	// made again, and now and then in between.
	ListenCatalog(ctx context.Context, wake func())
}

// Plans keeps compiled plans by hash, for turns that outlive the process or the plan.
type Plans interface {
	planBackend
	// SavePlan stores the bytes of a plan and returns their reference, cas://<hash>.
	SavePlan(ctx context.Context, body []byte) (uri string, err error)
}

// planBackend has every plan.
type planBackend interface {
	// PlanBytes returns the bytes of a hash; [agent.CodeNotFound] when there are none.
	PlanBytes(ctx context.Context, hash string) ([]byte, error)
}

// Router decides for one tenant.
type Router interface {
	Decide(c agent.RouteContext, available func(name, model string) bool, explain bool) agent.RouteDecision
}

// Routes compiles route tables.
type Routes interface {
	// Check says what keeps a table from working; the paths are within the table.
	Check(t *agent.RouteTable) agent.Faults
	// Router joins the tables of a tenant, its own before the shared ones. They passed Check.
	Router(own, shared []*agent.RouteTable) (Router, error)
}
