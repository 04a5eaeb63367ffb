package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
)

const rerunHelp = `Run a turn that has ended once more, and compare both turns. The new turn has the same input, in a branch of its session: what was said
before the turn is copied. What no flag changes is as the turn was asked. --from-step takes over the steps before one: their tools are not called again.

--prompt replaces the agent's system prompt for this turn alone, and --draft the whole agent; they need the right to change the agent.`

func (a *app) rerunCommand() *cobra.Command {
	var (
		r     agent.RerunRequest
		draft string
	)
	cmd := &cobra.Command{
		Use: "rerun <turn>", Short: "Run a turn that has ended once more, and compare", Long: rerunHelp,
		Args: cobra.MatchAll(cobra.ExactArgs(1), requireTurnID),
		Example: `  starter rerun turn-42 --model large
  starter rerun turn-42 --from-step 2 --prompt @prompt.txt
  starter rerun turn-42 --draft analyst.yaml
  starter rerun turn-42 --agent analyst --session try-2 --output json | jq .rerun.output`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			if err := refuseNegative("from-step", r.FromStep, 0); err != nil {
				return err
			}
			prompt, err := a.readTextArg(cmd.Context(), r.Prompt)
			if err != nil {
				return err
			}
			r.Prompt = string(prompt)
			if r.Draft, err = readDraft(draft); err != nil {
				return err
			}
			return a.rerun(cmd.Context(), c, agent.TurnID(args[0]), &r)
		},
	}
	cmd.Flags().IntVar(&r.FromStep, "from-step", 0, "take over the steps before this one, counted from 1 (default: none)")
	cmd.Flags().StringVarP(&r.Agent, "agent", "a", "", "another agent")
	cmd.Flags().StringVarP(&r.Model, "model", "m", "", "another one of the agent's models")
	cmd.Flags().StringVar(&r.Prompt, "prompt", "", "another system prompt: the text, @file, or @- for standard input")
	cmd.Flags().StringVar(&draft, "draft", "", "file of an AgentInstance that answers without being applied")
	cmd.Flags().StringVarP((*string)(&r.SessionID), "session", "s", "", "name of the branch, which must be new (default: named after the new turn)")
	cmd.Flags().StringVar((*string)(&r.Mode), "mode", "", "durable or direct")
	_ = cmd.RegisterFlagCompletionFunc("mode", fixedChoices(string(agent.ModeDurable), string(agent.ModeDirect))) // fails only if there is no such flag
	return cmd
}

// rerunComparison is a turn beside its rerun.
type rerunComparison struct {
	Original *agent.AgentStepOutput `json:"original"`
	Rerun    *agent.AgentStepOutput `json:"rerun"`
}

// rerun runs a turn again, shows it as chat does, and prints a comparison of both turns. The error is that of the new turn.
func (a *app) rerun(ctx context.Context, c *client.Client, id agent.TurnID, r *agent.RerunRequest) error {
	var both rerunComparison
	s := chatSession{app: a, client: c, printEnd: func(e *agent.Event) error {
		both.Rerun = e.Result
		original, err := c.Turn(ctx, id)
		if err != nil || both.Rerun == nil || original.Output == nil {
			return err
		}
		both.Original = original.Output
		return a.print(both, func() error { return a.printComparison(&both) })
	}}
	return s.follow(ctx, func(ctx context.Context) (agent.Receipt, error) { return c.Rerun(ctx, id, *r) })
}

func (a *app) printComparison(both *rerunComparison) error {
	before, after := both.Original, both.Rerun
	rows := [][]string{{"turn", string(before.TurnID), string(after.TurnID)}, {"session", string(before.SessionID), string(after.SessionID)}}
	for _, line := range []struct {
		name  string
		value func(*agent.AgentStepOutput) string
	}{
		{"status", func(o *agent.AgentStepOutput) string { return fmt.Sprintf("%s (%s)", o.Status, o.StopReason) }},
		{"agent", func(o *agent.AgentStepOutput) string { return o.AgentInstanceID }},
		{"model", func(o *agent.AgentStepOutput) string { return o.Model }},
		{"tools", calledTools},
		{"tokens", func(o *agent.AgentStepOutput) string {
			return fmt.Sprintf("%d in, %d out", o.Usage.InputTokens, o.Usage.OutputTokens)
		}},
		{"time", func(o *agent.AgentStepOutput) string {
			return (time.Duration(o.ExecutionTimeMS) * time.Millisecond).String()
		}},
		{"cost", func(o *agent.AgentStepOutput) string { return costText(&o.Usage) }},
	} {
		rows = append(rows, []string{line.name, orDash(line.value(before)), orDash(line.value(after))})
	}
	a.printLine("")
	if err := a.printRows("- ORIGINAL RERUN", rows); err != nil {
		return err
	}
	switch before.Output {
	case after.Output:
		a.printLine("\nThe text is the same.")
	case "":
		a.printLine("\nThe original said nothing.")
	default:
		a.printLine("\nThe original said:\n%s", strings.TrimRight(before.Output, "\n"))
	}
	return nil
}

// calledTools returns the names of the tools that a turn called, each with the number of calls.
func calledTools(o *agent.AgentStepOutput) string {
	counts := map[string]int{}
	var names []string
	for i := range o.ToolCalls {
		name := o.ToolCalls[i].Tool
		if counts[name]++; counts[name] == 1 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for i, name := range names {
		if counts[name] > 1 {
			names[i] = fmt.Sprintf("%s ×%d", name, counts[name])
		}
	}
	return strings.Join(names, ", ")
}

func (a *app) sessionForkCommand() *cobra.Command {
	var f agent.Fork
	cmd := &cobra.Command{
		Use: "fork <session>", Short: "Copy a session's transcript into a new session", Args: cobra.MatchAll(cobra.ExactArgs(1), requireSessionID),
		Long: `Copy a session's transcript into a new session, up to and including a turn, or all of it. A message to the new session continues from there.
The original is not changed, and deleting it leaves the copy.`,
		Example: "  starter sessions fork trip-1\n  starter sessions fork trip-1 --turn turn-42 --session trip-2",
		RunE: printAnswerText(a, func(ctx context.Context, c *client.Client, args []string) (agent.SessionForked, error) {
			f.From = agent.SessionID(args[0])
			return c.Fork(ctx, f)
		}, func(s *agent.SessionForked) string {
			return fmt.Sprintf("session %s begins with %s of %s, up to turn %s", s.SessionID, quantity(s.Messages, "message"), s.ForkedFrom, orDash(string(s.TurnID)))
		}),
	}
	cmd.Flags().StringVar((*string)(&f.TurnID), "turn", "", "the last turn to copy (default: all)")
	cmd.Flags().StringVarP((*string)(&f.SessionID), "session", "s", "", "name of the new session (default: a new id)")
	return cmd
}
