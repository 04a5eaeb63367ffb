package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
	"github.com/turnstone-run/turnstone/internal/cmdline"
)

// turnReport is a turn with what its events say of it.
type turnReport struct {
	TurnID    agent.TurnID           `json:"turn_id"`
	SessionID agent.SessionID        `json:"session_id"`
	Status    string                 `json:"status"`
	Agent     string                 `json:"agent"`
	Model     string                 `json:"model,omitempty"`
	Mode      agent.Mode             `json:"mode,omitempty"`
	Fallback  agent.Fallback         `json:"fallback,omitempty"`
	Route     *agent.RouteDecision   `json:"route,omitempty"`
	RerunOf   agent.TurnID           `json:"rerun_of,omitempty"`
	FromStep  int                    `json:"from_step,omitempty"`
	StartedAt *time.Time             `json:"started_at,omitempty"`
	Usage     agent.Usage            `json:"usage"` // of a turn that has not ended: until now
	Steps     []turnWork             `json:"steps"`
	Expired   bool                   `json:"events_expired,omitempty"` // the steps are gone
	Pending   []pendingCall          `json:"pending"`
	Output    *agent.AgentStepOutput `json:"output,omitempty"` // once it has ended
}

// turnWork is a model call or a tool call of a turn.
type turnWork struct {
	Step       int             `json:"step"` // 0: what came before the first model call
	Model      string          `json:"model,omitempty"`
	Tool       string          `json:"tool,omitempty"`
	ToolCallID agent.CallID    `json:"tool_call_id,omitempty"`
	Status     string          `json:"status"` // success, error, running or unfinished
	StartedAt  time.Time       `json:"started_at"`
	EndedAt    *time.Time      `json:"ended_at,omitempty"`
	Usage      *agent.Usage    `json:"usage,omitempty"` // of a model call
	Input      json.RawMessage `json:"input,omitempty"` // of a tool call
	Ref        string          `json:"ref,omitempty"`

	producer string
}

// pendingCall is a call that waits, with the command that answers it.
type pendingCall struct {
	agent.Approval

	Command string `json:"command"`
}

func (a *app) turnsShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show <turn>", Short: "Print a turn with its steps and what it waits for", Args: cobra.ExactArgs(1),
		Long: `Print a turn: how it stands or ended, who was chosen to answer and why, each model call and tool call with its time and tokens, and for each
call that waits the command that answers it. Of a turn whose events have expired, how it ended is left.`,
		Example: "  starter turns show turn-42\n  starter turns show turn-42 -o json | jq '.steps[] | select(.tool)'",
		RunE: view(a, func(ctx context.Context, c *client.Client, args []string) (turnReport, error) {
			id, err := requireTurnID(args[0])
			if err != nil {
				return turnReport{}, err
			}
			return a.turnReport(ctx, c, id)
		}, a.printTurnReport),
	}
}

// turnReport asks for a turn and reads its events so far.
func (a *app) turnReport(ctx context.Context, c *client.Client, id agent.TurnID) (turnReport, error) {
	t, err := c.Turn(ctx, id)
	if err != nil {
		return turnReport{}, err
	}
	r := turnReport{
		TurnID: id, SessionID: t.SessionID, Status: t.State, Agent: t.Agent, Mode: t.Mode, Fallback: t.Fallback, RerunOf: t.RerunOf,
		FromStep: t.FromStep, StartedAt: t.StartedAt, Output: t.Output, Steps: []turnWork{}, Pending: []pendingCall{},
	}
	for i := range t.Pending {
		r.Pending = append(r.Pending, pendingCall{t.Pending[i], a.answerCommand(&t.Pending[i])})
	}
	for e, err := range c.Follow(ctx, id, 0) {
		if errors.Is(err, agent.ErrGap) {
			r.Expired = true
			break
		}
		if err != nil {
			return r, err
		}
		r.take(&e)
		if t.Output == nil && e.Meta.EventIndex >= t.LastEventIndex {
			break
		}
	}
	if r.Output != nil {
		for i := range r.Steps {
			if r.Steps[i].EndedAt == nil {
				r.Steps[i].Status = "unfinished"
			}
		}
		r.Usage, r.Model, r.Agent = r.Output.Usage, r.Output.Model, cmp.Or(r.Output.AgentInstanceID, r.Agent)
	}
	return r, nil
}

// answerCommand returns the command that answers a call that waits. Nothing but the client knows the result of its own tool.
func (a *app) answerCommand(p *agent.Approval) string {
	if p.Kind != agent.WaitClientTool {
		return a.named(p.DecideCommand())
	}
	body, _ := json.Marshal(map[string]string{"tool_call_id": p.ApprovalID, "result": "RESULT"}) // strings
	return fmt.Sprintf("curl --json %s %s/v1/turns/%s/results", shellQuoted(string(body)), strings.TrimRight(a.server, "/"), p.TurnID)
}

func shellQuoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// take adds an event of the turn.
func (r *turnReport) take(e *agent.Event) {
	if r.StartedAt == nil {
		r.StartedAt = &e.Meta.Time
	}
	switch e.Type {
	case agent.EventRoute:
		_ = json.Unmarshal(e.Route, &r.Route) // a route that cannot be read is not shown
	case agent.EventUsage:
		if e.Usage != nil {
			r.Steps = append(r.Steps, turnWork{
				Step: stepOf(e.Meta.Producer), Model: e.Model, Status: agent.ResultSuccess, StartedAt: r.lastEnd(), EndedAt: &e.Meta.Time, Usage: e.Usage,
			})
			r.Usage, r.Model = r.Usage.Add(*e.Usage), e.Model
		}
	case agent.EventToolStart:
		w := r.toolCall(e)
		w.Input = e.Input
	case agent.EventToolEnd:
		w := r.toolCall(e)
		w.EndedAt, w.Ref, w.Status = &e.Meta.Time, e.Ref, agent.ResultSuccess
		if e.Failed {
			w.Status = agent.ResultError
		}
	default:
	}
}

// toolCall returns the tool call that an event is about.
func (r *turnReport) toolCall(e *agent.Event) *turnWork {
	is := func(w turnWork) bool {
		return w.producer == e.Meta.Producer && w.ToolCallID == e.ToolCallID && w.Tool == e.ToolName
	}
	i := slices.IndexFunc(r.Steps, is)
	if i < 0 {
		i = len(r.Steps)
		r.Steps = append(r.Steps, turnWork{
			Step: stepOf(e.Meta.Producer), Tool: e.ToolName, ToolCallID: e.ToolCallID, Status: "running", StartedAt: e.Meta.Time, producer: e.Meta.Producer,
		})
	}
	return &r.Steps[i]
}

// lastEnd returns when the last call ended so far: the next model call began then.
func (r *turnReport) lastEnd() time.Time {
	end := *r.StartedAt
	for i := range r.Steps {
		if at := r.Steps[i].EndedAt; at != nil && at.After(end) {
			end = *at
		}
	}
	return end
}

// stepOf returns the step in which a producer works, model/N or tool/N/id; 0 for one that works before the first.
func stepOf(producer string) (step int) {
	if parts := strings.SplitN(producer, "/", 3); len(parts) > 1 {
		step, _ = strconv.Atoi(parts[1])
	}
	return step
}

func (a *app) printTurnReport(r *turnReport) error {
	if r.Output != nil {
		a.printOutcome(r.Output)
	} else {
		a.fact("turn", string(r.TurnID))
		a.fact("session", string(r.SessionID))
		a.fact("agent", strings.TrimSpace(r.Agent+" "+prefixed("on ", r.Model)))
		a.fact("status", r.Status)
		a.printUsageFacts(&r.Usage)
	}
	a.fact("mode", strings.TrimSpace(string(r.Mode)+prefixed(", ", r.Fallback.Reason())))
	if r.Route != nil {
		a.fact("route", strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Route.Reason, r.Route.Table, r.Route.Rule)))
	}
	if r.RerunOf != "" {
		a.fact("rerun of", string(r.RerunOf)+fmt.Sprintf(", from step %d", max(r.FromStep, 1)))
	}
	if r.StartedAt != nil {
		a.fact("started", moment(*r.StartedAt))
	}
	if err := a.printWork(r); err != nil {
		return err
	}
	for i := range r.Pending {
		p := &r.Pending[i]
		a.printLine("\nwaits: %s %s", p.ToolName, argsLine(p.Args))
		a.printLine("  %s", cmdline.Visible(p.Command))
	}
	if r.Output != nil && r.Output.Output != "" {
		a.printLine("\n%s", strings.TrimRight(r.Output.Output, "\n"))
	}
	return nil
}

// prefixed returns a text behind a prefix, or nothing.
func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

func (a *app) printWork(r *turnReport) error {
	switch {
	case r.Expired:
		a.printNote("The events of the turn have expired, and its steps with them.")
		return nil
	case len(r.Steps) == 0:
		return nil
	}
	a.printLine("")
	return printTable(a, "STEP CALL STATUS TOOK TOKENS COST INPUT", func(w *turnWork) []string {
		tokens, cost := "-", "-"
		if w.Usage != nil {
			tokens, cost = decimal(w.Usage.InputTokens+w.Usage.OutputTokens), dash(costText(w.Usage))
		}
		return []string{
			decimal(w.Step), cmp.Or(w.Tool, w.Model), w.Status, formatDuration(w.StartedAt, w.EndedAt), tokens, cost,
			dash(cmdline.Visible(string(w.Input))),
		}
	}, r.Steps)
}
