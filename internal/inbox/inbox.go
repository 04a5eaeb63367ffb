// Package inbox is the one invocation path: every door submits, follows, decides and cancels through [Inbox]. It joins
// the Temporal client with the stores, satisfies gateway.Runtime, agent.Inbox and turns.Runs, and holds no agent logic.
package inbox

import (
	"context"
	"io"
	"time"

	"go.temporal.io/sdk/client"
	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/direct"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/postgres"
	"github.com/turnstone-run/turnstone/internal/retrieval"
	"github.com/turnstone-run/turnstone/internal/turns"
)

// idleCheck is how long a follower hears nothing before it makes sure that somebody still runs the turn (DESIGN §4).
const idleCheck = 30 * time.Second

// Store is what the inbox reads besides what the activities need.
type Store interface {
	turns.TurnStore
	// Waiting returns the turn that holds the session while a person has not decided one of its approvals, "" when there is none.
	Waiting(ctx context.Context, tenant string, id agent.SessionID) (agent.TurnID, error)
	Result(ctx context.Context, tenant, ref string) (postgres.ResultRow, error)
	ResultMetadata(ctx context.Context, tenant string, id agent.TurnID) (agent.ResultMetadata, error)
	Messages(ctx context.Context, tenant string, id agent.SessionID, after int64, limit int) ([]postgres.TranscriptMessage, error)
	// PendingBelow lists the undecided approvals of a turn and of the turns that it asked for, by step.
	PendingBelow(ctx context.Context, id agent.TurnID) ([]agent.Approval, error)
	ListApprovals(ctx context.Context, q agent.ApprovalQuery) (agent.ApprovalPage, error)
	ExportSession(ctx context.Context, tenant string, id agent.SessionID) (agent.SessionExport, error)
	DeleteSession(ctx context.Context, tenant string, id agent.SessionID) (agent.SessionDeleted, error)
	KnowledgeDocuments(ctx context.Context, tenant, collection, after string, limit int) (agent.KnowledgePage, error)
	KnowledgeDocument(ctx context.Context, tenant, collection, id string) (agent.KnowledgeDocument, error)
	DeleteDocument(ctx context.Context, tenant, collection, id string) error
	RunStore
	CompositeStore
	UpkeepStore
}

// UpkeepStore finds turns that do not go on by themselves, and does the work of the store that no request waits for.
type UpkeepStore interface {
	// StalledTurns returns turns that the store gave a reason to go on and that have not for a while.
	StalledTurns(ctx context.Context, quiet time.Duration, limit int) ([]postgres.StalledTurn, error)
	// Stranded calls work with turns that nobody may be driving: recorded by a door longer than age ago and not begun, or direct with a lease
	// that has run out. Of all processes one does so at a time.
	Stranded(ctx context.Context, age time.Duration, limit int, work func(context.Context, []agent.TurnID) error) (ran bool, err error)
	// AddUpUsage moves what model calls were billed since the last time into the sums by day, and returns how many rows that was.
	AddUpUsage(ctx context.Context) (added int64, err error)
}

// Collections knows the collections of the catalog, with the model that makes their vectors.
type Collections interface {
	Collection(ctx context.Context, tenant, name string) (agent.KnowledgeCollection, *agent.PlanModel, error)
}

// Agents finds an agent's plan, for whoever tries its models out.
type Agents interface {
	Choose(ctx context.Context, c agent.RouteContext) (agent.RouteDecision, error)
	Resolve(ctx context.Context, tenant, name string) (agent.Plan, string, error)
}

// Blobs opens what a cas:// reference names.
type Blobs interface {
	Open(ctx context.Context, tenant, ref string) (io.ReadCloser, error)
	Remove(ctx context.Context, tenant, ref string) error
}

// Rows opens the rows behind a reference, artifact:// or cas://, of a tenant.
type Rows interface {
	Open(ctx context.Context, tenant, ref string) (io.ReadCloser, error)
}

// Capacity bounds how many turns start at the same time; admission.Capacity does. A refusal is [agent.CodeUnavailable]: nothing was started.
// leave gives the place back; begun says that the turn has begun by then.
type Capacity interface {
	Enter(ctx context.Context) (leave func(begun bool), err error)
}

// Config is what [New] needs.
type Config struct {
	Temporal client.Client
	Runs     *Runs
	Turns    *turns.Turns
	Store    Store
	Log      turns.EventLog
	Blobs    Blobs
	Results  Rows
	Direct   *direct.Driver // nil: every turn is durable
	Library  *retrieval.Library
	Catalog  interface {
		Agents
		Collections
	}
	Definitions Definitions // of workflows; nil: there are none
	Models      turns.Models
	Health      func(ctx context.Context) gateway.Health
	Logger      *zap.Logger
	IdleCheck   time.Duration // 0: 30 s

	Admission      Admission // nil: nothing is bound
	Capacity       Capacity  // nil: turns start however many there are
	Audit          Audit     // nil: there is no trail
	DirectChannels []string  // whose turns are direct where neither request nor agent says otherwise
}

// Inbox is the one invocation path.
type Inbox struct {
	Config

	overloadJoins *semaphore.Weighted // of the reads for requests that come while there is no capacity
}

var (
	_ gateway.Runtime = (*Inbox)(nil)
	_ agent.Inbox     = (*Inbox)(nil)
)

// New returns an inbox.
func New(c Config) *Inbox {
	if c.IdleCheck <= 0 {
		c.IdleCheck = idleCheck
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	return &Inbox{Config: c, overloadJoins: semaphore.NewWeighted(joinsInOverload)}
}
