package gateway

import (
	"context"
	"iter"

	"github.com/turnstone-run/turnstone/agent"
)

// Catalog is what the doors need of the catalog behind them. A query's Tenant is filled in: the caller's, or as he asks. That of documents
// and of history is exact; it is empty, and filters nothing, where every tenant's are asked for, and for node definitions.
//
// Errors are as [Runtime]'s; what is wrong with documents is an [agent.CodeInvalid] error that wraps [agent.Faults]. A token of a page
// that was not made by the same query is [agent.CodeInvalid].
type Catalog interface {
	ListNodes(ctx context.Context, q agent.NodeQuery) (agent.NodePage, error)
	ListAgents(ctx context.Context, q agent.AgentQuery) (agent.AgentPage, error)
	Documents(ctx context.Context, q agent.DocumentQuery) (agent.DocumentPage, error)
	// Apply changes the catalog, all of it or nothing. [agent.CodeConflict] when a document changed since BaseRevision.
	Apply(ctx context.Context, r agent.ApplyRequest) (agent.ApplyResult, error)
	// Publish compiles an agent and stores the plan. [agent.CodeNotFound] with Field "agent" for an unknown one.
	Publish(ctx context.Context, tenant, name, by string) (agent.AgentInfo, error)
	History(ctx context.Context, q agent.HistoryQuery) (agent.HistoryPage, error)
	// Watch yields the catalog and then its changes until ctx ends. A slow consumer stalls only itself, and misses no state: what
	// changes meanwhile comes as one event.
	Watch(ctx context.Context, q agent.WatchQuery) iter.Seq2[agent.CatalogEvent, error]
	Status(ctx context.Context) agent.CatalogStatus
	// AgentPlan returns the current plan of an agent as canonical JSON with its hash; PlanBody the plan of a hash.
	AgentPlan(ctx context.Context, tenant, name string) (body []byte, hash string, err error)
	PlanBody(ctx context.Context, hash string) ([]byte, error)
	// Route explains which agent would answer: a dry run.
	Route(ctx context.Context, r agent.RouteContext) (agent.RouteDecision, error)
}
