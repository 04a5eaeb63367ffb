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

// turnReport is a turn with the steps that its events describe.
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
	Usage     agent.Usage            `json:"usage"` // so far, if the turn has not ended
	Steps     []turnCall             `json:"steps"`
	Expired   bool                   `json:"events_expired,omitempty"` // the events have expired, so there are no steps
	Pending   []pendingCall          `json:"pending"`
	Output    *agent.AgentStepOutput `json:"output,omitempty"` // set if the turn has ended
}

// turnCall is a model call or a tool call of a turn.
type turnCall struct {
	Step       int             `json:"step"` // 0: before the first model call
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

// pendingCall is a call that waits for a decision or a result, with the command that gives it.
type pendingCall struct {
	agent.Approval

	Command string `json:"command"`
}

func (a *app) turnsShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show <turn>", Short: "Print a turn with its steps and what it waits for", Args: cobra.MatchAll(cobra.ExactArgs(1), requireTurnID),
		Long: `Print a turn: how it stands or ended, who was chosen to answer and why, each model call and tool call with its time and tokens, and for each
call that waits the command that answers it. Of a turn whose events have expired, how it ended is left.`,
		Example: "  starter turns show turn-42\n  starter turns show turn-42 -o json | jq '.steps[] | select(.tool)'",
		RunE: printAnswer(a, func(ctx context.Context, c *client.Client, args []string) (turnReport, error) {
			return a.turnReport(ctx, c, agent.TurnID(args[0]))
		}, a.printTurnReport),
	}
}

// turnReport returns the report of a turn, from the turn and its events so far.
func (a *app) turnReport(ctx context.Context, c *client.Client, id agent.TurnID) (turnReport, error) {
	t, err := c.Turn(ctx, id)
	if err != nil {
		return turnReport{}, err
	}
	r := turnReport{
		TurnID: id, SessionID: t.SessionID, Status: t.State, Agent: t.Agent, Mode: t.Mode, Fallback: t.Fallback, RerunOf: t.RerunOf,
		FromStep: t.FromStep, StartedAt: t.StartedAt, Output: t.Output, Steps: []turnCall{}, Pending: []pendingCall{},
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
		r.addEvent(&e)
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

// answerCommand returns the command that answers a call that waits. For a client-side tool it has RESULT in place of the result.
func (a *app) answerCommand(p *agent.Approval) string {
	if p.Kind != agent.WaitClientTool {
		return a.renameProgram(p.DecideCommand())
	}
	body, _ := json.Marshal(map[string]string{"tool_call_id": p.ApprovalID, "result": "RESULT"}) // strings always encode
	return fmt.Sprintf("curl --json %s %s/v1/turns/%s/results", shellQuoted(string(body)), strings.TrimRight(a.server, "/"), p.TurnID)
}

func shellQuoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// addEvent adds what an event says about the turn.
func (r *turnReport) addEvent(e *agent.Event) {
	if r.StartedAt == nil {
		r.StartedAt = &e.Meta.Time
	}
	switch e.Type {
	case agent.EventRoute:
		_ = json.Unmarshal(e.Route, &r.Route) // an invalid route is left out
	case agent.EventUsage:
		if e.Usage != nil {
			r.Steps = append(r.Steps, turnCall{
				Step: producerStep(e.Meta.Producer), Model: e.Model, Status: agent.ResultSuccess, StartedAt: r.lastEnd(), EndedAt: &e.Meta.Time, Usage: e.Usage,
			})
			r.Usage, r.Model = r.Usage.Add(*e.Usage), e.Model
		}
	case agent.EventToolStart:
		r.toolCall(e).Input = e.Input
	case agent.EventToolEnd:
		call := r.toolCall(e)
		call.EndedAt, call.Ref, call.Status = &e.Meta.Time, e.Ref, agent.ResultSuccess
		if e.Failed {
			call.Status = agent.ResultError
		}
	default:
	}
}

// toolCall returns the tool call that an event belongs to. It adds the call if this is its first event.
func (r *turnReport) toolCall(e *agent.Event) *turnCall {
	i := slices.IndexFunc(r.Steps, func(call turnCall) bool {
		return call.producer == e.Meta.Producer && call.ToolCallID == e.ToolCallID && call.Tool == e.ToolName
	})
	if i < 0 {
		i = len(r.Steps)
		r.Steps = append(r.Steps, turnCall{
			Step: producerStep(e.Meta.Producer), Tool: e.ToolName, ToolCallID: e.ToolCallID, Status: "running", StartedAt: e.Meta.Time, producer: e.Meta.Producer,
		})
	}
	return &r.Steps[i]
}

// lastEnd returns when the last call ended, which is when the next model call began.
func (r *turnReport) lastEnd() time.Time {
	end := *r.StartedAt
	for i := range r.Steps {
		if endedAt := r.Steps[i].EndedAt; endedAt != nil && endedAt.After(end) {
			end = *endedAt
		}
	}
	return end
}

// producerStep returns the step in the name of a producer, model/N or tool/N/id, or 0 if it has none.
func producerStep(producer string) (step int) {
	if parts := strings.SplitN(producer, "/", 3); len(parts) > 1 {
		step, _ = strconv.Atoi(parts[1])
	}
	return step
}

func (a *app) printTurnReport(r *turnReport) error {
	if r.Output != nil {
		a.printOutcome(r.Output)
	} else {
		a.printField("turn", string(r.TurnID))
		a.printField("session", string(r.SessionID))
		a.printField("agent", strings.TrimSpace(r.Agent+" "+prefixed("on ", r.Model)))
		a.printField("status", r.Status)
		a.printUsageFacts(&r.Usage)
	}
	a.printField("mode", strings.TrimSpace(string(r.Mode)+prefixed(", ", r.Fallback.Reason())))
	if r.Route != nil {
		a.printField("route", strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Route.Reason, r.Route.Table, r.Route.Rule)))
	}
	if r.RerunOf != "" {
		a.printField("rerun of", string(r.RerunOf)+fmt.Sprintf(", from step %d", max(r.FromStep, 1)))
	}
	if r.StartedAt != nil {
		a.printField("started", formatTime(*r.StartedAt))
	}
	if err := a.printSteps(r); err != nil {
		return err
	}
	for i := range r.Pending {
		p := &r.Pending[i]
		a.printLine("\nwaits: %s %s", p.ToolName, argsLine(p.Args))
		a.printLine("  %s", cmdline.Visible(p.Command))
	}
	if r.Output != nil {
		a.printText(r.Output.Output)
	}
	return nil
}

// prefixed returns text with a prefix, or "" if text is empty.
func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

func (a *app) printSteps(r *turnReport) error {
	switch {
	case r.Expired:
		a.printNote("The events of the turn have expired, and its steps with them.")
		return nil
	case len(r.Steps) == 0:
		return nil
	}
	a.printLine("")
	return printTable(a, "STEP CALL STATUS TOOK TOKENS COST INPUT", func(call *turnCall) []string {
		tokens, cost := usageCells(call.Usage)
		return []string{
			formatInt(call.Step), cmp.Or(call.Tool, call.Model), call.Status, formatDuration(call.StartedAt, call.EndedAt), tokens, cost,
			orDash(cmdline.Visible(string(call.Input))),
		}
	}, r.Steps)
}
