package gateway

import (
	"context"
	"iter"

	"github.com/turnstone-run/turnstone/agent"
)

// Agents is the port of the agents and nodes that the catalog serves. A query's Tenant is set, either to the caller's or as the caller names
// it. The token of a page that was not made by the same query is [agent.CodeInvalid].
type Agents interface {
	ListNodes(ctx context.Context, q agent.NodeQuery) (agent.NodePage, error)
	ListAgents(ctx context.Context, q agent.AgentQuery) (agent.AgentPage, error)
	// Watch yields the catalog and then its changes until ctx ends. A slow consumer stalls only itself, and misses no state: the changes of
	// the meantime come as one event.
	Watch(ctx context.Context, q agent.WatchQuery) iter.Seq2[agent.CatalogEvent, error]
	// AgentPlan returns the current plan of an agent as canonical JSON with its hash.
	AgentPlan(ctx context.Context, tenant, name string) (body []byte, hash string, err error)
	// PlanBody returns the plan of a hash.
	PlanBody(ctx context.Context, hash string) ([]byte, error)
	// Route explains which agent would answer, without running anything.
	Route(ctx context.Context, r agent.RouteContext) (agent.RouteDecision, error)
}

// Documents is the port of the documents that make the catalog. The Tenant of a query is exact; it is empty, and filters nothing, if every
// tenant's documents are asked for, and for node definitions. Faults in documents are an [agent.CodeInvalid] error that wraps
// [agent.Faults].
type Documents interface {
	Documents(ctx context.Context, q agent.DocumentQuery) (agent.DocumentPage, error)
	// Apply changes the catalog completely or not at all. [agent.CodeConflict] when a document changed since BaseRevision.
	Apply(ctx context.Context, r agent.ApplyRequest) (agent.ApplyResult, error)
	// CompileDraft compiles an agent's document that is not in the catalog, and stores the plan. allow is asked before, with the document's key.
	// [agent.CodeInvalid] with Field "draft", or as for Apply.
	CompileDraft(ctx context.Context, tenant, text string, allow func(agent.DocumentKey) error) (agent.Draft, error)
	// Publish compiles an agent and stores the plan. [agent.CodeNotFound] with Field "agent" for an unknown one.
	Publish(ctx context.Context, tenant, name, by string) (agent.AgentInfo, error)
	History(ctx context.Context, q agent.HistoryQuery) (agent.HistoryPage, error)
	Status(ctx context.Context) agent.CatalogStatus
}
