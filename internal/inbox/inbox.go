// Package inbox is the one invocation path (seed 001): every door submits, follows, decides and cancels through [Inbox]. It joins
// the Temporal client with the stores, satisfies gateway.Runtime, agent.Inbox and activities.Runs, and holds no agent logic.
package inbox

import (
	"context"
	"io"
	"time"

	"go.temporal.io/sdk/client"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/activities"
	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

// idleCheck is how long a follower hears nothing before it makes sure that somebody still runs the turn (DESIGN §4).
const idleCheck = 30 * time.Second

// Store is what the inbox reads besides what the activities need.
type Store interface {
	activities.TurnStore
	// Waiting returns the turn that holds the session while a person has not decided one of its approvals, "" when there is none.
	Waiting(ctx context.Context, tenant string, id agent.SessionID) (agent.TurnID, error)
	Result(ctx context.Context, tenant, ref string) (postgres.ResultRow, error)
	Messages(ctx context.Context, tenant string, id agent.SessionID, after int64, limit int) ([]postgres.TranscriptMessage, error)
}

// Blobs opens what a cas:// reference names.
type Blobs interface {
	Open(ctx context.Context, tenant, ref string) (io.ReadCloser, error)
}

// Config is what [New] needs.
type Config struct {
	Temporal   client.Client
	Runs       *Runs
	Activities *activities.Activities
	Store      Store
	Log        activities.EventLog
	Blobs      Blobs
	Health     func(ctx context.Context) gateway.Health
	Logger     *zap.Logger
	IdleCheck  time.Duration // 0: 30 s
}

// Inbox is the one invocation path.
type Inbox struct {
	Config
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
	return &Inbox{Config: c}
}
