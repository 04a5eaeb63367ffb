package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
	"github.com/turnstone-run/turnstone/internal/cmdline"
)

// turnFlags are the flags of chat and start that set fields of the request.
type turnFlags struct{ session, agent, model, key, draft string }

func (f *turnFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.session, "session", "s", "", "conversation to continue, or the name of a new one")
	cmd.Flags().StringVarP(&f.agent, "agent", "a", "", "agent to ask (default: routing decides)")
	cmd.Flags().StringVarP(&f.model, "model", "m", "", "one of the agent's models")
}

func (f *turnFlags) request(message string) agent.TurnRequest {
	return agent.TurnRequest{
		Agent: f.agent, SessionID: agent.SessionID(f.session), Message: message, Model: f.model, Channel: "cli", IdempotencyKey: f.key,
	}
}

func (a *app) startCommand() *cobra.Command {
	var f turnFlags
	cmd := &cobra.Command{
		Use: "start <message>", Short: "Start a turn and print its ids without waiting", Args: cobra.MinimumNArgs(1),
		Example: `  starter start "summarize the last quarter"
  starter start --agent analyst --session q3 --output json "and the one before?"
  starter tail "$(starter start "fetch flights" -o json | jq -r .turn_id)"`,
		RunE: printAnswerText(a, func(ctx context.Context, c *client.Client, args []string) (agent.Receipt, error) {
			return c.Start(ctx, f.request(strings.Join(args, " ")))
		}, func(r *agent.Receipt) string { return fmt.Sprintf("turn     %s\nsession  %s", r.TurnID, r.SessionID) }),
	}
	f.register(cmd)
	cmd.Flags().StringVar(&f.key, "idempotency-key", "", "the same key is the same turn, however often it is started")
	return cmd
}

func (a *app) tailCommand() *cobra.Command {
	var after int64
	cmd := &cobra.Command{
		Use: "tail <turn>", Short: "Follow a turn to its end", Args: cobra.MatchAll(cobra.ExactArgs(1), requireTurnID),
		Long: "Follow the events of a turn until it ends, and exit with its outcome. Ctrl-C stops following; the turn goes on.",
		Example: `  starter tail turn-42
  starter tail turn-42 --after 100 --output json   # one event per line`,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			if err := refuseNegative("after", after, 0); err != nil {
				return err
			}
			return a.tail(ctx, c, agent.TurnID(args[0]), after)
		}),
	}
	cmd.Flags().Int64Var(&after, "after", 0, "begin behind this event_index")
	return cmd
}

func (a *app) tail(ctx context.Context, c *client.Client, id agent.TurnID, after int64) error {
	printer := cmdline.NewTurnPrinter(a.out, a.errOut)
	printer.Program = a.program
	for e, err := range c.Follow(ctx, id, after) {
		if err != nil {
			return err
		}
		if a.output != "json" {
			printer.Show(&e)
		} else if err := a.printJSONLine(e); err != nil {
			return err
		}
		if e.Terminal() {
			return turnOutcome(&e)
		}
	}
	// There was no terminal event behind after: the turn had ended before.
	t, err := c.Turn(ctx, id)
	if err != nil {
		return err
	}
	if t.Output != nil && t.Output.Status != agent.TurnCompleted {
		return turnEnded{t.Output.Status}
	}
	return nil
}

// turnOutcome returns the error of a command whose turn ended with the terminal event e: nil if the turn completed.
func turnOutcome(e *agent.Event) error {
	switch e.Status {
	case agent.StatusCompleted:
		return nil
	case agent.StatusCancelled:
		return turnEnded{agent.TurnCancelled}
	default:
		return turnEnded{agent.TurnFailed}
	}
}

func (a *app) cancelCommand() *cobra.Command {
	var r agent.CancelRequest
	cmd := &cobra.Command{
		Use: "cancel <turn>", Short: "Ask a turn to stop", Args: cobra.MatchAll(cobra.ExactArgs(1), requireTurnID),
		Long:    "Ask a turn to stop. The model's request is aborted within a second; what was produced is stored.",
		Example: `  starter cancel turn-42 --reason "wrong airport"`,
		RunE: a.confirmRequest("turn_id", "asked turn %s to stop", func(ctx context.Context, c *client.Client, name string) error {
			return c.Cancel(ctx, agent.TurnID(name), r)
		}),
	}
	cancelFlags(cmd, &r)
	return cmd
}

// cancelFlags adds the flags --reason and --by.
func cancelFlags(cmd *cobra.Command, r *agent.CancelRequest) {
	cmd.Flags().StringVar(&r.Reason, "reason", "", "why, for the record")
	cmd.Flags().StringVar(&r.By, "by", "", "who, for the record")
}

func (a *app) messageCommand() *cobra.Command {
	var r agent.TurnRequest
	cmd := &cobra.Command{
		Use: "message <turn> <text>", Short: "Say something to the session of a turn, running or not",
		Args: cobra.MatchAll(cobra.MinimumNArgs(2), requireTurnID),
		Long: `Say something to the session of a turn. It becomes a turn of its own: behind the running one, or, with --on-busy interrupt, in its place.`,
		Example: `  starter message turn-42 "and the return flights"
  starter message turn-42 --on-busy interrupt "stop, I meant LGA"`,
		RunE: printAnswerText(a, func(ctx context.Context, c *client.Client, args []string) (client.Posted, error) {
			if r.OnBusy != "" {
				if err := requireOneOf("on-busy", string(r.OnBusy), "queue, interrupt or reject"); err != nil {
					return client.Posted{}, err
				}
			}
			r.Message, r.Channel = strings.Join(args[1:], " "), "cli"
			return c.Message(ctx, agent.TurnID(args[0]), r)
		}, func(posted *client.Posted) string {
			if posted.Position > 0 {
				return fmt.Sprintf("turn %s is number %d in line", posted.TurnID, posted.Position)
			}
			return fmt.Sprintf("turn %s runs now", posted.TurnID)
		}),
	}
	cmd.Flags().StringVar((*string)(&r.OnBusy), "on-busy", "", "queue, interrupt or reject (default queue)")
	cmd.Flags().StringVar(&r.IdempotencyKey, "idempotency-key", "", "the same key is the same message, however often it is sent")
	return cmd
}
