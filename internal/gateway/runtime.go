package gateway

import (
	"context"
	"io"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// AnyTenant is the tenant argument of a caller who is not confined to one: without authentication, or with a credential of every
// tenant, a turn or result id is enough to see it. It can never be a tenant's name, because it has no valid shape. For callers whose
// credential is of one tenant it is never passed.
const AnyTenant = agent.AnyTenant

// Runtime is what the doors need of the system behind them. Errors are [agent.Error]s; anything else is reported to callers as
// internal, without its text. All methods return soon after ctx ends.
//
// Inbox.Follow may yield [agent.ErrGap]. Inbox.Decide, Inbox.Cancel and Provide take no tenant: the gateway calls Turn first.
type Runtime interface {
	agent.Inbox // Submit, Follow, Decide, Cancel

	// Turn returns a turn's state and, when it has finished, its output. [agent.CodeNotFound] for one that is unknown or belongs
	// to another tenant, in the same words. tenant may be [AnyTenant].
	Turn(ctx context.Context, tenant string, id agent.TurnID) (TurnView, error)
	// Provide hands in the result of a client-side tool. [agent.CodeConflict] when nothing waits for it.
	Provide(ctx context.Context, id agent.TurnID, r ProvidedResult) error
	// MessageFrom submits an envelope to the session of the turn; the request's own session id is ignored, and its agent is the turn's unless
	// it names one. position is 0 when the new turn runs at once, 1 for the next in line.
	MessageFrom(ctx context.Context, id agent.TurnID, e agent.Envelope) (r agent.Receipt, position int, err error)
	// Result opens a stored result by artifact:// reference, cas:// reference, result id, turn id or job id. The caller closes Body.
	// tenant may be [AnyTenant]; a cas:// reference is then one of [agent.DefaultTenant].
	Result(ctx context.Context, tenant, ref string) (ResultView, error)
	// Messages returns a session's transcript behind a position, at most limit messages. [agent.CodeNotFound] for a session that
	// has none.
	Messages(ctx context.Context, tenant string, s agent.SessionID, after int64, limit int) (MessagePage, error)
	// Health asks every dependency, within ctx.
	Health(ctx context.Context) Health

	Approvals
	Sessions
	Collections
	Datasets
	Examiner
	Workflows
	WorkflowRuns
	Composites
}

// StateWaiting is the state of a turn that waits for a person. The others are [agent.StateQueued], [agent.StateRunning] and the
// three of [agent.TurnStatus].
const StateWaiting = "waiting"

// TurnView is a turn as its callers see it: the body of GET /v1/turns/{id} while it runs (with Output, that body is the output
// plus State, see http_turns.go).
type TurnView struct {
	TurnID    agent.TurnID
	SessionID agent.SessionID
	StreamID  string
	Tenant    string
	Agent     string
	UserID    string         // who asked for it; empty: not known
	Mode      agent.Mode     // how it is driven; empty: not known
	Fallback  agent.Fallback // why it is not direct, although it was to be
	State     string
	StartedAt time.Time
	Tail      agent.StreamTail       // where its events stand
	Pending   []agent.Approval       // what waits for a person
	Output    *agent.AgentStepOutput // once finished
}

// endedAt is about when a turn ended that has: nobody keeps the moment with it, but how long it took.
func (v *TurnView) endedAt() time.Time {
	if v.StartedAt.IsZero() {
		return time.Now()
	}
	return v.StartedAt.Add(time.Duration(v.Output.ExecutionTimeMS) * time.Millisecond)
}

// ProvidedResult is the result of a client-side tool.
type ProvidedResult = agent.ProvidedResult

// ResultView is a stored result, open for reading.
type ResultView struct {
	Ref       string        // the canonical reference, artifact:// or cas://
	TurnID    agent.TurnID  // empty for a blob that belongs to no single turn
	MediaType string        // empty: application/json
	Size      int64         // bytes; -1 when not known
	Body      io.ReadCloser // streamed, so that a result of any size costs no memory
}

// MessagePage is a part of a session's transcript, oldest first.
type MessagePage struct {
	SessionID agent.SessionID  `json:"session_id"`
	Messages  []SessionMessage `json:"messages"`
	Next      int64            `json:"next"` // pass as after for the next page; the position of the last message here
	More      bool             `json:"more"`
}

// SessionMessage is one message of a transcript.
type SessionMessage struct {
	Position  int64         `json:"position"` // from 1, ascending within the session
	TurnID    agent.TurnID  `json:"turn_id"`
	CreatedAt time.Time     `json:"created_at"`
	Role      agent.Role    `json:"role"`
	Blocks    []agent.Block `json:"blocks"`
}

// The states of a [Dependency], and of [Health] as a whole.
const (
	HealthOK       = "ok"
	HealthDegraded = "degraded" // turns run all the same
	HealthDown     = "down"     // no turn can run until it is back
)

// Health says whether a turn can run, and what of its dependencies answers.
type Health struct {
	OK           bool // the worker polls and a turn can run
	Workers      int  // how many jobs this process may have under way; 0: it takes none
	Dependencies []Dependency
}

// Dependency is one thing the system needs, or would like to have.
type Dependency struct {
	Name   string    // temporal, worker, postgres, event_log, …
	OK     bool      // State is [HealthOK]
	State  string    // empty: ok, or degraded where OK is false and the whole is OK
	Detail string    // for those who run the system; no secrets
	Hint   string    // what to do, for anybody; empty where all is well
	Since  time.Time // when State became what it is; zero: not known
	Took   time.Duration
}

// state is what a dependency is in, also of a runtime that knows no more than good and bad.
func (d *Dependency) state(whole bool) string {
	switch {
	case d.State != "":
		return d.State
	case d.OK:
		return HealthOK
	case whole:
		return HealthDegraded
	default:
		return HealthDown
	}
}
