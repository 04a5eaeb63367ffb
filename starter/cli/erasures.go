package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
	"github.com/turnstone-run/turnstone/internal/erasure"
)

//nolint:gochecknoglobals // a constant in all but syntax
var erasurePauses = pollPauses{first: 100 * time.Millisecond, longest: 2 * time.Second}

const eraseHelp = `Erase everything that is kept of one user: what he said and was answered, his sessions, chats, schedules, runs and keys, content that nobody
else refers to, and the histories in Temporal. What was paid stays countable, and the audit trail stays whole, under a pseudonym.

Before it begins it says what would go, and asks; --dry-run says no more than that. The reason is kept for ever: name a ticket, not the user.
The report that stays is the proof: see "starter erasures verify".

Exit codes with --wait: 0 nothing is left, 1 something is or it failed, 130 interrupted; the erasure goes on.`

func (a *app) eraseCommand() *cobra.Command {
	var (
		r         erasure.Request
		wait, yes bool
	)
	cmd := &cobra.Command{
		Use: "erase", Short: "Erase everything that is kept of one user", Args: cobra.NoArgs, Long: eraseHelp,
		Example: `  starter erase --user ann --reason "ticket 4711" --dry-run
  starter erase --user ann --reason "ticket 4711" --wait
  starter erase --user ann --reason "after the restore of 2026-11-22" --yes`,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			r.Tenant = "" // the client sends the tenant of --tenant
			if err := r.Validate(); err != nil {
				return usageError{flagError(err)}
			}
			if r.DryRun || !yes {
				if err := a.previewErasure(ctx, c, r); err != nil || r.DryRun {
					return err
				}
			}
			return a.erase(ctx, c, r, wait)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&r.UserID, "user", "", "whose data")
	flags.StringVar(&r.Reason, "reason", "", "why, without naming the user")
	flags.BoolVar(&r.DryRun, "dry-run", false, "say what would go, and change nothing")
	flags.BoolVar(&wait, "wait", false, "wait for the end and print the report")
	flags.BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

// flagError returns err with the name of the flag in place of the field.
func flagError(err error) error {
	fault, ok := errors.AsType[*agent.Error](err)
	if !ok {
		return err
	}
	return fmt.Errorf("--%s: %w", strings.TrimSuffix(fault.Field, "_id"), fault.Err)
}

// previewErasure prints what an erasure would remove. Unless the request is a dry run it then asks for confirmation.
func (a *app) previewErasure(ctx context.Context, c *client.Client, r erasure.Request) error {
	preview := r
	preview.DryRun = true
	e, err := a.awaitErasure(ctx, c, preview)
	switch {
	case err != nil:
		return err
	case e.Status != erasure.StatusCompleted:
		a.printLine("%s: %s %s", e.ID, e.Status, e.Error)
		return exitStatus(exitFailed)
	case r.DryRun:
		return a.print(e, func() error { return a.printErasure(&e) })
	case a.output != "json":
		if err := a.printErasure(&e); err != nil {
			return err
		}
	}
	return a.confirm(ctx, "This cannot be undone. Erase?")
}

func (a *app) erase(ctx context.Context, c *client.Client, r erasure.Request, wait bool) error {
	if !wait {
		e, err := c.Erase(ctx, r)
		if err != nil {
			return err
		}
		return a.printResult(e, "%s: %s", e.ID, e.Status)
	}
	e, err := a.awaitErasure(ctx, c, r)
	if err != nil {
		return err
	}
	err = a.print(e, func() error { return a.printErasure(&e) })
	if err == nil && e.Status != erasure.StatusCompleted {
		return exitStatus(exitFailed)
	}
	return err
}

// awaitErasure starts an erasure and returns it when it has ended.
func (a *app) awaitErasure(ctx context.Context, c *client.Client, r erasure.Request) (erasure.Erasure, error) {
	e, err := c.Erase(ctx, r)
	if err != nil {
		return e, err
	}
	if !r.DryRun {
		a.printNote("erasure %s", e.ID)
	}
	return poll(ctx, erasurePauses, func() (erasure.Erasure, bool, error) {
		e, err := c.Erasure(ctx, e.ID)
		return e, e.Status.Final(), err
	})
}

// printErasure prints the report of an erasure, without the kinds of data that the user had none of.
func (a *app) printErasure(e *erasure.Erasure) error {
	r := e.Report
	if r == nil {
		a.printLine("%s: %s %s", e.ID, e.Status, e.Error)
		return nil
	}
	var rows [][]string
	for i := range r.Kinds {
		k := &r.Kinds[i]
		reason := cmp.Or(k.Left, k.Kept)
		switch {
		case k.Found+k.Removed+k.Unnamed+k.Remaining == 0:
		case r.DryRun:
			rows = append(rows, []string{k.Name, formatInt(k.Found), reason})
		default:
			rows = append(rows, []string{k.Name, formatInt(k.Removed), formatInt(k.Unnamed), formatInt(k.Remaining), reason})
		}
	}
	header := "KIND REMOVED UNNAMED LEFT WHY"
	if r.DryRun {
		header = "KIND FOUND STAYS-BECAUSE"
	}
	if err := a.printRows(header, rows); err != nil {
		return err
	}
	if r.DryRun {
		a.printLine("turns: %d, sessions of this user alone: %d, shared sessions: %d, executions in Temporal: up to %d, stored objects: up to %d",
			r.Turns, r.Sessions, r.Shared, r.Executions.Found, r.Content.Found)
		return nil
	}
	a.printLine("executions in Temporal: %d deleted; stored objects: %d removed (%d bytes), %d stay because others refer to them, %d wait",
		r.Executions.Deleted, r.Content.Removed, r.Content.Bytes, r.Content.Shared, r.Content.Pending)
	a.printLine("%s: %s, %d rows left\n%s", e.ID, e.Status, r.Remaining(), e.Digest)
	return nil
}

func (a *app) erasuresCommand() *cobra.Command {
	return commandGroup(&cobra.Command{
		Use: "erasures", Short: "Erasures of users' data: list, show and verify them",
		Example: "  starter erasures list\n  starter erasures verify 0b0e2f6a-… --user ann",
	}, a.erasuresListCommand(), a.erasuresGetCommand(), a.erasuresVerifyCommand())
}

func (a *app) erasuresListCommand() *cobra.Command {
	return listCommand(a, &cobra.Command{
		Use: "list", Short: "List erasures, newest first",
		Example: "  starter erasures list\n  starter erasures list -o json | jq -r '.[] | select(.status == \"incomplete\") | .erasure_id'",
	}, listing[erasure.Erasure]{
		header: "ERASURE ASKED STATUS BY REASON", row: erasureRow,
		fetch: func(ctx context.Context, c *client.Client, _ []string, p agent.Page) ([]erasure.Erasure, string, error) {
			page, err := c.Erasures(ctx, p)
			return page.Erasures, page.Next, err
		},
	})
}

func erasureRow(e *erasure.Erasure) []string {
	status := string(e.Status)
	if e.DryRun {
		status += " (dry run)"
	}
	return []string{e.ID, formatTime(e.CreatedAt), status, orDash(e.RequestedBy), e.Reason}
}

func (a *app) erasuresGetCommand() *cobra.Command {
	return &cobra.Command{
		Use: "get <erasure>", Short: "Print an erasure with its report", Args: cobra.ExactArgs(1),
		Example: "  starter erasures get 0b0e2f6a-…\n  starter erasures get 0b0e2f6a-… -o json > proof.json",
		RunE: printAnswer(a, func(ctx context.Context, c *client.Client, args []string) (erasure.Erasure, error) {
			return c.Erasure(ctx, args[0])
		}, a.printErasure),
	}
}

func (a *app) erasuresVerifyCommand() *cobra.Command {
	var user string
	cmd := &cobra.Command{
		Use: "verify <erasure>", Short: "Check that a report is as it was made, and whose it is", Args: cobra.ExactArgs(1),
		Long: `Check that a report is as it was made: its digest is computed anew, here, and compared with the one that was stored with it and the one in the
audit trail. With --user it is also checked that the report is about this user, whose id is kept nowhere. It goes with the request nowhere.

Exit codes: 0 it is, 1 it is not.`,
		Example: "  starter erasures verify 0b0e2f6a-…\n  starter erasures verify 0b0e2f6a-… --user ann",
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			e, err := c.Erasure(ctx, args[0])
			if err != nil {
				return err
			}
			proof, err := erasure.Verify(&e, user)
			if err != nil {
				return err
			}
			return a.printProof(&e, &proof)
		}),
	}
	cmd.Flags().StringVar(&user, "user", "", "whose report it should be")
	return cmd
}

func (a *app) printProof(e *erasure.Erasure, p *erasure.Proof) error {
	err := a.print(p, func() error {
		for _, fault := range p.Faults {
			a.printLine("✗ %s", fault)
		}
		if len(p.Faults) == 0 {
			a.printLine("✓ the report is as it was made on %s, and the audit trail has its digest", formatTime(e.Report.FinishedAt))
		}
		if p.Subject != nil && *p.Subject {
			a.printLine("✓ it is about this user")
		}
		a.printLine("%s", p.Digest)
		return nil
	})
	if err == nil && len(p.Faults) > 0 {
		return exitStatus(exitFailed)
	}
	return err
}
