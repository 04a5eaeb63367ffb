// Package inbox implements the ports of the gateway ([Inbox]) and turns.Runs ([Runs]) with the use cases of turns, the stores and Temporal's client.
// Rules about turns are in package turns.
package inbox

import (
	"context"
	"io"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/postgres"
	"github.com/turnstone-run/turnstone/internal/retrieval"
	"github.com/turnstone-run/turnstone/internal/turns"
)

// Store is the part of the store that the doors read, besides the state of turns.
type Store interface {
	SessionStore
	KnowledgeStore
	RunStore

	Approval(ctx context.Context, tenant, id string) (agent.Approval, error)
	Result(ctx context.Context, tenant, ref string) (postgres.ResultRow, error)
	ResultMetadata(ctx context.Context, tenant string, id agent.TurnID) (agent.ResultMetadata, error)
	ListApprovals(ctx context.Context, q agent.ApprovalQuery) (agent.ApprovalPage, error)
	HasStream(ctx context.Context, id agent.TurnID) (bool, error)
	Composites(ctx context.Context, tenant string) ([]agent.Composite, error)
	ChangeComposite(ctx context.Context, tenant, which string, c agent.CompositeChange) (agent.Composite, error)
}

// SessionStore reads and changes sessions.
type SessionStore interface {
	Messages(ctx context.Context, tenant string, id agent.SessionID, after int64, limit int) ([]postgres.TranscriptMessage, error)
	ExportSession(ctx context.Context, tenant string, id agent.SessionID) (agent.SessionExport, error)
	SetTitle(ctx context.Context, tenant string, id agent.SessionID, title, by string) error
	DeleteSession(ctx context.Context, tenant string, id agent.SessionID) (agent.SessionDeleted, error)
	ForkSession(ctx context.Context, tenant string, f agent.Fork) (agent.SessionForked, error)
}

// KnowledgeStore reads and removes the documents of collections.
type KnowledgeStore interface {
	KnowledgeDocuments(ctx context.Context, tenant, collection, after string, limit int) (agent.KnowledgePage, error)
	KnowledgeDocument(ctx context.Context, tenant, collection, id string) (agent.KnowledgeDocument, error)
	DeleteDocument(ctx context.Context, tenant, collection, id string) error
}

// Catalog finds the plans of agents, and collections with their embedding models.
type Catalog interface {
	Choose(ctx context.Context, c agent.RouteContext) (agent.RouteDecision, error)
	Resolve(ctx context.Context, tenant, name string) (agent.Plan, string, error)
	Collection(ctx context.Context, tenant, name string) (agent.KnowledgeCollection, *agent.PlanModel, error)
}

// Rows opens the rows behind a tenant's artifact:// or cas:// reference.
type Rows interface {
	Open(ctx context.Context, tenant, ref string) (io.ReadCloser, error)
}

// Blobs opens and removes the content behind a cas:// reference.
type Blobs interface {
	Rows
	Remove(ctx context.Context, tenant, ref string) error
}

// Config configures [New]. A field may be nil if no open door uses it.
type Config struct {
	*turns.Inbox
	Store

	Definitions Definitions // of workflows

	Runs    *Runs
	Blobs   Blobs
	Results Rows
	Library *retrieval.Library
	Catalog Catalog
	Models  turns.Models
	Health  func(ctx context.Context) gateway.Health
}

// Inbox implements the ports of the gateway: turns, and the data beside them.
type Inbox struct{ Config }

var (
	_ gateway.Turns         = (*Inbox)(nil)
	_ gateway.Results       = (*Inbox)(nil)
	_ gateway.Sessions      = (*Inbox)(nil)
	_ gateway.Approvals     = (*Inbox)(nil)
	_ gateway.Knowledge     = (*Inbox)(nil)
	_ gateway.Workflows     = (*Inbox)(nil)
	_ gateway.WorkflowRuns  = (*Inbox)(nil)
	_ gateway.Composites    = (*Inbox)(nil)
	_ gateway.Doctor        = (*Inbox)(nil)
	_ gateway.HealthChecker = (*Inbox)(nil)
)

// New returns an inbox.
func New(c Config) *Inbox { return &Inbox{c} }
