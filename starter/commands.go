package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
	"github.com/turnstone-run/turnstone/internal/termtext"
)

// turnFlags are what chat and start let a request say.
type turnFlags struct{ session, agent, model, key string }

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
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.call(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				r, err := c.Start(ctx, f.request(strings.Join(args, " ")))
				if err != nil {
					return err
				}
				if a.output == "json" {
					return a.printJSON(r)
				}
				fmt.Fprintf(a.out, "turn     %s\nsession  %s\n", r.TurnID, r.SessionID)
				return nil
			})
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&f.key, "idempotency-key", "", "the same key is the same turn, however often it is started")
	return cmd
}

func (a *app) tailCommand() *cobra.Command {
	var after int64
	cmd := &cobra.Command{
		Use: "tail <turn>", Short: "Follow a turn to its end", Args: cobra.ExactArgs(1),
		Long: "Follow the events of a turn until it ends, and exit with its outcome. Ctrl-C stops following; the turn goes on.",
		Example: `  starter tail turn-42
  starter tail turn-42 --after 100 --output json   # one event per line`,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := turnArg(args[0])
			if err != nil {
				return err
			}
			if after < 0 {
				return usageError{fmt.Errorf("--after is %d, want 0 or more", after)}
			}
			return a.call(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				return a.tail(ctx, c, id, after)
			})
		},
	}
	cmd.Flags().Int64Var(&after, "after", 0, "begin behind this event_index")
	return cmd
}

func (a *app) tail(ctx context.Context, c *client.Client, id agent.TurnID, after int64) error {
	display := termtext.NewTurnPrinter(a.out, a.errOut)
	lines := json.NewEncoder(a.out)
	lines.SetEscapeHTML(false)
	for e, err := range c.Follow(ctx, id, after) {
		if err != nil {
			return err
		}
		if a.output == "json" {
			if err := lines.Encode(e); err != nil {
				return fmt.Errorf("print event: %w", err)
			}
		} else {
			display.Show(&e)
		}
		if e.Terminal() {
			return endOf(&e)
		}
	}
	// Nothing came: the turn had ended before.
	t, err := c.Turn(ctx, id)
	if err != nil {
		return err
	}
	if t.Output != nil && t.Output.Status != agent.TurnCompleted {
		return turnEnded{t.Output.Status}
	}
	return nil
}

// endOf turns a terminal event into what the command returns.
func endOf(e *agent.Event) error {
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
		Use: "cancel <turn>", Short: "Ask a turn to stop", Args: cobra.ExactArgs(1),
		Long:    "Ask a turn to stop. The model's request is aborted within a second; what was produced is stored.",
		Example: `  starter cancel turn-42 --reason "wrong airport"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := turnArg(args[0])
			if err != nil {
				return err
			}
			return a.call(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				if err := c.Cancel(ctx, id, r); err != nil {
					return err
				}
				return a.done(map[string]string{"turn_id": string(id)}, "asked turn %s to stop", id)
			})
		},
	}
	cmd.Flags().StringVar(&r.Reason, "reason", "", "why, for the record")
	cmd.Flags().StringVar(&r.By, "by", "", "who, for the record")
	return cmd
}

// done says that an action is done.
func (a *app) done(fields map[string]string, format string, args ...any) error {
	if a.output == "json" {
		return a.printJSON(fields)
	}
	fmt.Fprintf(a.out, format+"\n", args...)
	return nil
}
