package turns

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// maxCachedTurns is the number of turns whose facts a process caches.
const maxCachedTurns = 4096

// facts are the parts of a turn record that do not change once the turn holds its session. A process caches them.
type facts struct {
	TurnRef

	cursor   int64
	model    string // the requested model profile; empty for the agent's default
	history  agent.History
	user     string
	role     string
	schema   json.RawMessage // the schema of the answer; empty for free text
	parent   agent.TurnID
	job      jobFacts
	isFirst  bool             // whether it is the first turn of its session
	tools    *agent.TurnTools // the tools of dynamic toolkits; nil until they are listed
	limits   agent.Limits     // the limits in the request
	client   []agent.PlanTool // the client-side tools in the request
	route    *agent.RouteDecision
	fallback agent.Fallback // why a turn that should be direct is not
	policy   agent.ApprovalPolicy
	aside    *string // the part of its prompts about available data; nil until the first model call

	observed    *agent.Observed // what observers get to know of the turn
	answerBegun *atomic.Bool    // whether a fragment of the answer has arrived in this process
}

func factsOf(r *agent.TurnRecord, cursor int64, since time.Time) facts {
	f := facts{
		TurnRef: TurnRef{
			TurnID: r.TurnID, Tenant: r.Tenant, SessionID: r.SessionID, Agent: r.Agent, InstanceID: r.InstanceID, PlanHash: r.PlanHash,
			Delegated: r.Parent != "",
		},
		cursor: cursor, model: r.Model, history: r.History, user: r.UserID, role: r.Context.UserRole, schema: r.OutputSchema, parent: r.Parent,
		job: jobOf(r), isFirst: cursor <= int64(len(r.Input)), observed: observedTurn(r, since), answerBegun: new(atomic.Bool),
		policy: r.Approvals, route: r.Route, fallback: r.Fallback,
	}
	if r.Limits != nil {
		f.limits = *r.Limits
	}
	for i := range r.ClientTools {
		f.client = append(f.client, r.ClientTools[i].Granted(requestBinding))
	}
	return f
}

// remember caches the facts of a turn that holds its session.
func (ts *Turns) remember(f facts) {
	if f.cursor > 0 {
		ts.turns.Add(f.TurnID, f)
	}
}

// turn returns the facts of a turn, from the cache if possible.
func (ts *Turns) turn(ctx context.Context, id agent.TurnID) (facts, error) {
	if f, ok := ts.turns.Get(id); ok {
		return f, nil
	}
	t, err := ts.Store.Turn(ctx, id)
	if err != nil {
		return facts{}, fmt.Errorf("load turn %s: %w", id, err)
	}
	f := factsOf(&t.Record, t.Cursor, t.StartedAt)
	ts.remember(f)
	return f, nil
}
