package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
)

//nolint:gochecknoglobals // a constant in all but syntax
var runPauses = pollPauses{first: 200 * time.Millisecond, longest: 5 * time.Second}

func (a *app) workflowsRunCommand() *cobra.Command {
	var r agent.RunRequest
	var input, user, key string
	var wait bool
	cmd := &cobra.Command{
		Use: "run <tag>", Short: "Run a definition and print the run's id, or wait for its end", Args: cobra.ExactArgs(1),
		Long: `Run a definition and print the run's id, or, with --wait, wait for its end and print its steps. The run keeps the version that it begins with.
Ctrl-C stops waiting; the run goes on.

Exit codes with --wait: 0 the run completed, 1 it failed, 4 it was cancelled, 130 interrupted.`,
		Example: `  starter workflows run main
  starter workflows run main --input '{"origin":"NYC"}' --wait
  starter workflows run main --version 3 --run-id nightly-7`,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			name, err := workflowKey(args[0], r.Owner)
			if err != nil {
				return err
			}
			if input != "" && !json.Valid([]byte(input)) {
				return usageError{errors.New("--input is no JSON")}
			}
			if err := refuseNegative("version", r.Version, 1); err != nil {
				return err
			}
			r.Tag, r.Input, r.Context.UserID = name.Tag, json.RawMessage(input), user
			return a.startRun(ctx, c, r, key, wait)
		}),
	}
	ownerFlag(cmd, &r.Owner)
	cmd.Flags().StringVar(&input, "input", "", "JSON that the first nodes are given")
	cmd.Flags().Int64Var(&r.Version, "version", 0, "an earlier version (default: the newest)")
	cmd.Flags().StringVar(&r.RunID, "run-id", "", "of the run; the same id is the same run")
	cmd.Flags().StringVar(&user, "user", "", "for whom it runs")
	cmd.Flags().StringVar(&key, "idempotency-key", "", "the same key is the same run, however often it is started")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait for the end")
	return cmd
}

func (a *app) startRun(ctx context.Context, c *client.Client, r agent.RunRequest, key string, wait bool) error {
	receipt, err := c.StartRun(ctx, r, key)
	if err != nil {
		return err
	}
	if !wait {
		return a.printResult(receipt, "run      %s\nworkflow %s", receipt.RunID, receipt.WorkflowID)
	}
	if a.output != "json" {
		a.printNote("run %s", receipt.RunID)
	}
	run, err := poll(ctx, runPauses, func() (agent.Run, bool, error) {
		run, err := c.Run(ctx, receipt.RunID)
		return run, run.Status != agent.RunRunning, err
	})
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	if err := a.print(run, func() error { return a.printRun(&run) }); err != nil {
		return err
	}
	switch run.Status {
	case agent.RunCompleted:
		return nil
	case agent.RunCancelled:
		return exitStatus(exitCancelled)
	default:
		return exitStatus(exitFailed)
	}
}

func (a *app) workflowsRunsCommand() *cobra.Command {
	var q agent.RunQuery
	cmd := listCommand(a, &cobra.Command{
		Use: "runs", Short: "List runs, newest first",
		Example: "  starter workflows runs --tag main\n  starter workflows runs --status failed -o json",
	}, listing[agent.Run]{
		header: "RUN TAG OWNER VERSION STATUS STARTED TOOK BY", row: workflowRunRow,
		fetch: func(ctx context.Context, c *client.Client, _ []string, p agent.Page) ([]agent.Run, string, error) {
			q.Page = p
			page, err := c.Runs(ctx, q)
			return page.Runs, page.Next, err
		},
	})
	cmd.Flags().StringVar(&q.Tag, "tag", "", "only of this tag")
	cmd.Flags().StringVar(&q.Owner, "owner", "", "only of this owner")
	cmd.Flags().StringVar((*string)(&q.Status), "status", "", "running, completed, failed or cancelled")
	return cmd
}

func workflowRunRow(r *agent.Run) []string {
	by := r.UserID
	if r.Schedule != "" {
		by = "schedule " + r.Schedule
	}
	return []string{
		r.RunID, r.Tag, r.Owner, formatInt(r.Version), string(r.Status), formatTime(r.StartedAt), formatDuration(r.StartedAt, r.FinishedAt), orDash(by),
	}
}

// formatDuration returns the time between two times, or "-" if to is nil.
func formatDuration(from time.Time, to *time.Time) string {
	if to == nil {
		return "-"
	}
	return to.Sub(from).Round(time.Millisecond).String()
}

func (a *app) workflowsShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show <run>", Short: "Print a run with its steps", Args: cobra.ExactArgs(1),
		Example: "  starter workflows show nightly-7\n  starter workflows show nightly-7 -o json | jq '.steps[].output'",
		RunE: printAnswer(a, func(ctx context.Context, c *client.Client, args []string) (agent.Run, error) {
			return c.Run(ctx, args[0])
		}, a.printRun),
	}
}

func (a *app) printRun(r *agent.Run) error {
	a.printField("run", r.RunID)
	a.printField("tag", fmt.Sprintf("%s, version %d, owner %s", r.Tag, r.Version, r.Owner))
	a.printField("status", string(r.Status))
	if r.Error != nil {
		a.printField("error", r.Error.Type+": "+r.Error.Message)
	}
	a.printField("workflow", r.WorkflowID)
	if len(r.Steps) == 0 {
		return nil
	}
	a.printLine("")
	return printTable(a, "NODE VISIT TYPE STATUS TOOK OUTPUT", stepRow, r.Steps)
}

func stepRow(s *agent.RunStep) []string {
	output := string(s.Output)
	switch {
	case s.Error != nil:
		output = s.Error.Type + ": " + s.Error.Message
	case s.Outcome != "":
		output = s.Outcome
	case s.TurnID != "":
		output = "turn " + string(s.TurnID)
	case s.Ref != "":
		output = s.Ref
	}
	return []string{s.NodeID, formatInt(s.Visit), s.Type, string(s.Status), formatDuration(s.StartedAt, s.FinishedAt), orDash(output)}
}

func (a *app) workflowsCancelCommand() *cobra.Command {
	var r agent.CancelRequest
	cmd := &cobra.Command{
		Use: "cancel <run>", Short: "Ask a run to stop", Args: cobra.ExactArgs(1),
		Example: `  starter workflows cancel nightly-7 --reason "wrong input"`,
		RunE: a.confirmRequest("run_id", "asked run %s to stop", func(ctx context.Context, c *client.Client, id string) error {
			return c.CancelRun(ctx, id, r)
		}),
	}
	cancelFlags(cmd, &r)
	return cmd
}
