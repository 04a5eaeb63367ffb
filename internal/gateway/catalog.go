package gateway

import (
	"context"
	"iter"

	"github.com/turnstone-run/turnstone/agent"
)

// Agents is the port of the agents and nodes of the catalog. The Tenant of a query is not empty. A page token of another query is
// [agent.CodeInvalid].
type Agents interface {
	ListNodes(ctx context.Context, q agent.NodeQuery) (agent.NodePage, error)
	ListAgents(ctx context.Context, q agent.AgentQuery) (agent.AgentPage, error)
	// Watch yields the catalog and then its changes until ctx ends. A slow consumer gets all changes since its last event as one event.
	Watch(ctx context.Context, q agent.WatchQuery) iter.Seq2[agent.CatalogEvent, error]
	// AgentPlan returns the current plan of an agent as canonical JSON with its hash.
	AgentPlan(ctx context.Context, tenant, name string) (body []byte, hash string, err error)
	// PlanBody returns the plan of a hash.
	PlanBody(ctx context.Context, hash string) ([]byte, error)
	// Route returns which agent would answer, and why. It runs nothing.
	Route(ctx context.Context, r agent.RouteContext) (agent.RouteDecision, error)
}

// Documents is the port of the documents of the catalog. The Tenant of a query selects that tenant's documents only. It is empty for the documents
// of all tenants, and for node definitions. Faults in documents are an [agent.CodeInvalid] error that wraps [agent.Faults].
type Documents interface {
	Documents(ctx context.Context, q agent.DocumentQuery) (agent.DocumentPage, error)
	// Apply makes all changes of a request or none. Its error is [agent.CodeConflict] if a document has changed since BaseRevision.
	Apply(ctx context.Context, r agent.ApplyRequest) (agent.ApplyResult, error)
	// CompileDraft compiles an agent's document that is not in the catalog, and stores the plan. It calls allow first, with the document's key,
	// and returns its error. Other errors are those of Apply, and [agent.CodeInvalid] with Field "draft".
	CompileDraft(ctx context.Context, tenant, text string, allow func(agent.DocumentKey) error) (agent.Draft, error)
	// Publish compiles an agent and stores the plan. An unknown agent is [agent.CodeNotFound] with Field "agent".
	Publish(ctx context.Context, tenant, name, by string) (agent.AgentInfo, error)
	History(ctx context.Context, q agent.HistoryQuery) (agent.HistoryPage, error)
	Status(ctx context.Context) agent.CatalogStatus
}
