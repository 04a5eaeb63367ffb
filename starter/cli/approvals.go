package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
)

func (a *app) approvalsCommand() *cobra.Command {
	return commandGroup(&cobra.Command{
		Use: "approvals", Short: "Tool calls that wait, or waited, for a person",
		Example: "  starter approvals list\n  starter approvals decide turn-42.1.call_7 approve --by ann",
	}, a.approvalsListCommand(), a.approvalsDecideCommand())
}

func (a *app) approvalsListCommand() *cobra.Command {
	var q agent.ApprovalQuery
	limit := defaultLimit
	cmd := &cobra.Command{
		Use: "list", Short: "List what waits for a decision", Args: cobra.NoArgs,
		Long: `List what waits for a decision, oldest first: the approvals of turns that have not ended. Characters that hide or turn the order of
others are written as \uXXXX. Arguments of more than 2000 characters are cut, which is said; --output json has all of them, with the
description, what may be decided, and what was.`,
		Example: `  starter approvals list
  starter approvals list --state decided --session trip-1
  starter approvals list -o json | jq -r '.[] | select(.tool_name == "send_mail") | .approval_id'`,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			if err := requireOneOf("state", q.State, "pending, decided or all"); err != nil {
				return err
			}
			if q.State == "all" {
				q.State = ""
			}
			found, more, err := fetchAll(limit, func(p agent.Page) ([]agent.Approval, string, error) { return fetchApprovals(&q)(ctx, c, nil, p) })
			if err != nil {
				return err
			}
			return a.printApprovals(found, more)
		}),
	}
	cmd.Flags().StringVar(&q.State, "state", "pending", "pending, decided or all")
	cmd.Flags().StringVarP((*string)(&q.SessionID), "session", "s", "", "only of this session")
	cmd.Flags().StringVar((*string)(&q.TurnID), "turn", "", "only of this turn")
	limitFlag(cmd, &limit, "at most so many; 0: all")
	return cmd
}

func fetchApprovals(q *agent.ApprovalQuery) fetchFunc[agent.Approval] {
	return func(ctx context.Context, c *client.Client, _ []string, p agent.Page) ([]agent.Approval, string, error) {
		q.Limit, q.After = p.Size, p.Token
		page, err := c.Approvals(ctx, *q)
		return page.Approvals, page.Next, err
	}
}

func (a *app) approvalsDecideCommand() *cobra.Command {
	var f decisionFlags
	cmd := &cobra.Command{
		Use: "decide <approval> approve|edit|reject|respond", Short: "Answer an approval",
		Long: decideHelp, Args: cobra.ExactArgs(2),
		Example: `  starter approvals decide turn-42.1.call_7 approve --by ann
  starter approvals decide turn-42.1.call_7 approve --remember      # and do not ask again for this call
  starter approvals decide turn-42.1.call_7 edit --args '{"to":"ops@example.com"}'
  starter approvals decide turn-42.1.call_7 edit --args @args.json
  starter approvals decide turn-42.1.call_7 reject --message "not today"
  starter approvals decide turn-42.1.call_7 respond --message "the answer is 42"`,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			d, err := f.decision(ctx, a, args[0], args[1])
			if err != nil {
				return err
			}
			v, err := c.Approval(ctx, d.ApprovalID) // because an approval id need not contain the turn id
			if err != nil {
				return err
			}
			return a.decide(ctx, c, v.TurnID, d)
		}),
	}
	f.register(cmd)
	return cmd
}

const decideHelp = `Answer an approval: approve runs the tool, edit runs it with other arguments, reject tells the model that it may not, and respond gives
the model an answer in the tool's place. Refused is a decision about what is decided, has expired or is over, one that the agent's policy
does not allow, and arguments that do not fit the tool's schema.`

// decideCommand is "approvals decide" with the turn as an argument.
func (a *app) decideCommand() *cobra.Command {
	var f decisionFlags
	cmd := &cobra.Command{
		Use: "decide <turn> <approval> approve|edit|reject|respond", Short: "Answer an approval that a turn waits for",
		Long: decideHelp, Args: cobra.MatchAll(cobra.ExactArgs(3), requireTurnID),
		Example: `  starter decide turn-42 a1 approve
  starter decide turn-42 a1 edit --args '{"to":"ops@example.com"}'
  starter decide turn-42 a1 reject --message "not today"
  starter decide turn-42 a1 respond --message "the answer is 42"`,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			d, err := f.decision(ctx, a, args[1], args[2])
			if err != nil {
				return err
			}
			return a.decide(ctx, c, agent.TurnID(args[0]), d)
		}),
	}
	f.register(cmd)
	return cmd
}

func (a *app) decide(ctx context.Context, c *client.Client, id agent.TurnID, d agent.Decision) error {
	if err := c.Decide(ctx, id, d); err != nil {
		return err
	}
	fields := map[string]string{"turn_id": string(id), "approval_id": d.ApprovalID, "decision": string(d.Decision)}
	return a.printResult(fields, "%s: %s", d.ApprovalID, d.Decision)
}

// decisionFlags are the flags of a decision about an approval.
type decisionFlags struct {
	args, message, by string
	remember          bool
}

func (f *decisionFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.args, "args", "", "edit: the arguments to run with, as JSON; @file reads them, @- from standard input")
	cmd.Flags().StringVar(&f.message, "message", "", "reject: why; respond: what the model gets as the tool's answer")
	cmd.Flags().BoolVar(&f.remember, "remember", false, "do not ask again in this session, as far as the approval's policy says")
	cmd.Flags().StringVar(&f.by, "by", "", "who decides, for the record")
}

// decision returns the decision that the flags describe. The server checks whether the approval allows it.
func (f *decisionFlags) decision(ctx context.Context, a *app, id, kind string) (agent.Decision, error) {
	d := agent.Decision{ApprovalID: id, Decision: agent.DecisionKind(kind), Message: f.message, Remember: f.remember, By: f.by}
	switch {
	case d.Decision == agent.DecisionEdit && f.args == "":
		return d, usageError{fmt.Errorf("edit wants --args")}
	case d.Decision == agent.DecisionRespond && f.message == "":
		return d, usageError{fmt.Errorf("respond wants --message")}
	}
	if f.args == "" {
		return d, nil
	}
	text, err := a.readTextArg(ctx, f.args)
	if err != nil {
		return d, usageError{fmt.Errorf("--args: %w", err)}
	}
	if !json.Valid(text) {
		return d, usageError{fmt.Errorf("--args is not JSON: %.200s", text)}
	}
	d.Args = text
	return d, nil
}

// readTextArg returns the value of a flag, or, if it is @file, the content of the file.
func (a *app) readTextArg(ctx context.Context, value string) ([]byte, error) {
	if name, ok := strings.CutPrefix(value, "@"); ok {
		return a.readInput(ctx, name)
	}
	return []byte(value), nil
}
