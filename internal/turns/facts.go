package turns

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// cachedTurns is the number of turns whose facts a process caches.
const cachedTurns = 4096

// facts are the parts of a turn record that stay the same once the turn holds its session. A process caches them.
type facts struct {
	TurnRef

	cursor   int64
	model    string // profile asked for
	history  agent.History
	user     string
	role     string
	schema   json.RawMessage // of the answer; empty: free text
	parent   agent.TurnID
	job      jobFacts
	first    bool             // nothing came before it in its session
	tools    *agent.TurnTools // besides the plan's; nil until they are asked for
	limits   agent.Limits     // the request's
	client   []agent.PlanTool // that the request brought: they run at the caller
	route    *agent.RouteDecision
	fallback agent.Fallback // why it is not direct, although it was to be
	policy   agent.ApprovalPolicy
	aside    *string // the part of its prompts about available data; nil until the first model call

	seen   *agent.Observed // the facts that observers get
	spoken *atomic.Bool    // a fragment of its answer has come in this process
}

func factsOf(r *agent.TurnRecord, cursor int64, since time.Time) facts {
	f := facts{
		TurnRef: TurnRef{
			TurnID: r.TurnID, Tenant: r.Tenant, SessionID: r.SessionID, Agent: r.Agent, InstanceID: r.InstanceID, PlanHash: r.PlanHash,
			Delegated: r.Parent != "",
		},
		cursor: cursor, model: r.Model, history: r.History, user: r.UserID, role: r.Context.UserRole, schema: r.OutputSchema, parent: r.Parent,
		job: jobOf(r), first: cursor <= int64(len(r.Input)), seen: seenOf(r, since), spoken: new(atomic.Bool),
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
