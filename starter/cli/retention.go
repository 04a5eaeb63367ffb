package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
)

func (a *app) retentionCommand() *cobra.Command {
	limit := defaultLimit
	cmd := &cobra.Command{
		Use: "retention", Short: "How long things are kept, and what there is", Args: cobra.NoArgs,
		Long: `Print for each kind how long it is kept, what is stored and what of it is due, of one tenant or of all that the credential may see; then how the
sweeps stand. A kind is counted in turns that still have it, or in rows.`,
		Example: `  starter retention
  starter retention --tenant acme -o json | jq '.schedule.next_run'
  starter retention run --dry-run
  starter retention pause --reason "restoring a backup"`,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			return a.retentionReport(ctx, c, limit, false)
		}),
	}
	limitFlag(cmd, &limit, "tenants at most; 0: all")
	cmd.AddCommand(a.retentionRunCommand(), a.retentionPauseCommand("pause", "Keep the sweeps from running; nothing is removed", true),
		a.retentionPauseCommand("resume", "Let the sweeps run again", false))
	return cmd
}

func (a *app) retentionRunCommand() *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use: "run", Short: "Sweep now, besides when it is due", Args: cobra.NoArgs,
		Example: "  starter retention run --dry-run   # what would go\n  starter retention run",
		RunE: func(cmd *cobra.Command, args []string) error {
			if dryRun {
				return a.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
					return a.retentionReport(ctx, c, 0, true)
				})(cmd, args)
			}
			return printAnswerText(a, func(ctx context.Context, c *client.Client, _ []string) (client.RetentionStatus, error) {
				return c.RunRetention(ctx)
			}, sweepState)(cmd, args)
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "remove nothing, list what is due")
	return cmd
}

func (a *app) retentionPauseCommand(name, short string, pause bool) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: name, Short: short, Args: cobra.NoArgs,
		Example: "  starter retention " + name + " --reason \"restoring a backup\"",
		RunE: printAnswerText(a, func(ctx context.Context, c *client.Client, _ []string) (client.RetentionStatus, error) {
			return c.PauseRetention(ctx, pause, reason)
		}, sweepState),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for whoever looks")
	return cmd
}

// retentionReport prints the kinds of data of each tenant, or only those of which some data is due for removal.
func (a *app) retentionReport(ctx context.Context, c *client.Client, limit int, onlyDue bool) error {
	var report client.RetentionReport
	tenants, more, err := fetchAll(limit, func(p agent.Page) ([]client.RetentionTenant, string, error) {
		p.Size = min(p.Size, 100)
		page, err := c.Retention(ctx, a.tenant, p)
		report.Schedule = page.Schedule
		return page.Tenants, page.Next, err
	})
	if err != nil {
		return err
	}
	report.Tenants = tenants
	return a.print(report, func() error {
		if more {
			defer a.printNote(moreText)
		}
		var rows [][]string
		for i := range report.Tenants {
			for j := range report.Tenants[i].Kinds {
				if k := &report.Tenants[i].Kinds[j]; !onlyDue || k.Due > 0 {
					rows = append(rows, retentionRow(report.Tenants[i].Tenant, k))
				}
			}
		}
		if err := a.printRows("TENANT KIND KEPT STORED DUE OLDEST", rows); err != nil {
			return err
		}
		a.printLine("\n%s", sweepState(&report.Schedule))
		return nil
	})
}

func retentionRow(tenant string, k *client.RetentionKind) []string {
	kept := formatKeep(k.Keep)
	if k.Own {
		kept += " (its own)"
	}
	stored := formatInt(k.Stored)
	if k.More {
		stored += "+"
	}
	return []string{tenant, k.Kind, kept, stored + " " + k.Unit, formatInt(k.Due), formatTimeOr(k.Oldest, "-")}
}

// formatKeep returns a duration in days if it is a whole number of them, "for ever" for 0, and text itself if it is no duration.
func formatKeep(text string) string {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return text
	case d == 0:
		return "for ever"
	case d%(24*time.Hour) == 0:
		return formatInt(int64(d/(24*time.Hour))) + "d"
	default:
		return d.String()
	}
}

// sweepState describes the schedule of the sweeps.
func sweepState(s *client.RetentionStatus) string {
	if !s.Scheduled {
		return "nothing is swept: there is no schedule (retention.every)"
	}
	text := "schedule " + s.ID + ": every " + s.Every
	if s.Running {
		text += ", at work"
	}
	if s.LastRun != nil {
		text += ", last run " + formatTime(*s.LastRun)
	}
	switch {
	case s.Paused && s.Note != "":
		text += ", paused: " + s.Note
	case s.Paused:
		text += ", paused"
	case s.NextRun != nil:
		text += ", next run " + formatTime(*s.NextRun)
	}
	return text
}
