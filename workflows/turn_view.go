package workflows

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/turn"
	"github.com/turnstone-run/turnstone/internal/turns"
)

// TurnView answers the query "state". What has been said so far is in the stream, as a workflow holds no content: [ShowPartialText] adds it.
type TurnView struct {
	TurnID    agent.TurnID            `json:"turn_id"`
	SessionID agent.SessionID         `json:"session_id"`
	Agent     string                  `json:"agent"`
	Status    string                  `json:"status"` // starting, queued, running, waiting, finished
	Step      int                     `json:"step"`
	PlanHash  string                  `json:"plan_hash"`
	Pending   []agent.PendingApproval `json:"pending"`
	Partial   string                  `json:"partial_text"` // running or waiting: what its last model call has said so far
	Usage     agent.Usage             `json:"usage"`
	Model     string                  `json:"model"`
	StreamID  string                  `json:"stream_id"`
	Holder    agent.TurnID            `json:"holder,omitempty"`   // queued: whose end it waits for
	Position  int                     `json:"position,omitempty"` // queued: 1 is next
	Cancelled bool                    `json:"cancelled"`
}

func (t *agentTurn) view() TurnView {
	v := TurnView{
		TurnID: t.Turn.TurnID, SessionID: t.Turn.SessionID, Agent: t.Turn.Agent, Status: t.status, Step: max(t.step, t.State.Step),
		PlanHash: t.Turn.PlanHash, Pending: t.Pending, Usage: t.State.Usage, Model: t.State.Model, StreamID: string(t.Turn.TurnID),
		Cancelled: t.cancelled,
	}
	if v.Pending == nil {
		v.Pending = []agent.PendingApproval{}
	}
	if !t.ready {
		v.Holder, v.Position = t.holder, t.position
	}
	return v
}

//nolint:gochecknoglobals // constants in all but syntax
var (
	attributeTenant  = temporal.NewSearchAttributeKeyKeyword(AttributeTenant)
	attributeAgent   = temporal.NewSearchAttributeKeyKeyword(AttributeAgent)
	attributeSession = temporal.NewSearchAttributeKeyKeyword(AttributeSession)
)

// index sets the search attributes of a turn or a conversation. Call it only after an activity has found them registered: with an unknown one the
// workflow task fails again and again.
func index(ctx workflow.Context, attributes ...temporal.SearchAttributeUpdate) {
	if err := workflow.UpsertTypedSearchAttributes(ctx, attributes...); err != nil {
		workflow.GetLogger(ctx).Warn("search attributes", "error", err)
	}
}

// TurnAttributes are the search attributes that a turn may be started with, where the namespace knows them.
func TurnAttributes(tenant, agentName string, session agent.SessionID) temporal.SearchAttributes {
	return temporal.NewSearchAttributes(attributeTenant.ValueSet(tenant), attributeAgent.ValueSet(agentName), attributeSession.ValueSet(string(session)))
}

// startedWithAttributes reports whether the turn's first event has its search attributes, so that an upsert would only repeat them.
func startedWithAttributes(ctx workflow.Context) bool {
	started := workflow.GetTypedSearchAttributes(ctx)
	for _, key := range []temporal.SearchAttributeKeyKeyword{attributeTenant, attributeAgent, attributeSession} {
		if _, ok := started.GetKeyword(key); !ok {
			return false
		}
	}
	return true
}

// show writes to the Web UI, in Markdown, what the turn is doing. It costs no history.
func (t *agentTurn) show(ctx workflow.Context, a turn.Action) {
	t.step = max(t.step, a.Step)
	var b strings.Builder
	fmt.Fprintf(&b, "**%s** · session `%s`\n\n", t.Turn.Agent, t.Turn.SessionID)
	switch a.Kind {
	case turn.CallModel:
		t.status = "running"
		fmt.Fprintf(&b, "Step %d: asking the model.\n", a.Step)
	case turn.CallTools:
		t.status = "running"
		fmt.Fprintf(&b, "Step %d: running tools.\n", a.Step)
		for _, c := range a.Calls {
			fmt.Fprintf(&b, "- `%s`\n", c.Summary)
		}
	case turn.Await:
		t.status = "waiting"
		if a.Client {
			t.showClientCalls(ctx, &b, a.Step)
			break
		}
		fmt.Fprintf(&b, "Step %d: **waiting for a person**.\n", a.Step)
		for _, p := range t.Pending {
			fmt.Fprintf(&b, "\n`%s` wants to run%s. To approve:\n\n```\n%s\n```\n", p.ToolName, approvalReason(a.Calls, p.CallID),
				approval(workflowID(ctx), p.ApprovalID).lines())
		}
	case turn.Retrieve:
		t.status = "running"
		b.WriteString("Preparing: classify, reformulate, search.\n")
	case turn.Pause:
		t.status = "waiting"
		fmt.Fprintf(&b, "Step %d: **waiting for the model's provider**, next try at %s.\n", a.Step,
			workflow.Now(ctx).Add(time.Duration(a.DelayMS)*time.Millisecond).UTC().Format(time.RFC3339))
	case turn.Finish:
		t.status = "running"
		fmt.Fprintf(&b, "Storing the result (%s).\n", a.Stop)
	}
	workflow.SetCurrentDetails(ctx, b.String())
}

// showClientCalls says which results the turn waits for, and how to provide one.
func (t *agentTurn) showClientCalls(ctx workflow.Context, b *strings.Builder, step int) {
	fmt.Fprintf(b, "Step %d: **waiting for results of client-side tools**.\n", step)
	for _, p := range t.Pending {
		fmt.Fprintf(b, "\n`%s` runs at the caller. To provide its result:\n\n```\n%s\n```\n", p.ToolName, result(workflowID(ctx), p.CallID).lines())
	}
}

// approvalReason returns the end of a sentence that names the rule which gates a call; empty if the rule is not known.
func approvalReason(calls []turn.Call, id agent.CallID) string {
	i := slices.IndexFunc(calls, func(c turn.Call) bool { return c.ID == id && c.Rule != "" })
	if i < 0 {
		return ""
	}
	return "; `" + calls[i].Rule + "` is why you are asked"
}

func (t *agentTurn) showQueued(ctx workflow.Context, b *turns.BeginTurnResult) {
	t.status = "queued"
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("Waiting in session `%s`, position %d, behind turn `%s`.", t.Turn.SessionID, b.Position, b.Holder))
}

func (t *agentTurn) showDone(ctx workflow.Context, out *agent.AgentStepOutput) {
	t.status = "finished"
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("**%s** (%s). Result: `%s`", out.Status, out.StopReason, out.ResultRef))
}

// modelSummary returns the summary of a model call in the Web UI.
func (t *agentTurn) modelSummary(step int) string {
	return fmt.Sprintf("%s · step %d", t.State.Model, step)
}

// shownHashDigits is how many digits of a plan's hash people are shown.
const shownHashDigits = 12

// planSummary names a turn's plan for the Web UI: "analyst@2 · plan 0a1b2c3d4e5f".
func planSummary(ref *turns.TurnRef) string {
	digits := strings.TrimPrefix(ref.PlanHash, "sha256:")
	return ref.InstanceID + " · plan " + digits[:min(len(digits), shownHashDigits)]
}
