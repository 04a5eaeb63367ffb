package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
)

func (a *app) retentionCommand() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use: "retention", Short: "How long things are kept, and what there is", Args: cobra.NoArgs,
		Long: `Print for each kind how long it is kept, what is stored and what of it is due, of one tenant or of all that the credential may see; then how the
sweeps stand. A kind is counted in turns that still have it, or in rows.`,
		Example: `  starter retention
  starter retention --tenant acme -o json | jq '.schedule.next_run'
  starter retention run --dry-run
  starter retention pause --reason "restoring a backup"`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.retentionReport(cmd.Context(), limit, false)
		},
	}
	cmd.Flags().IntVar(&limit, "limit", listed, "tenants at most; 0: all")
	cmd.AddCommand(a.retentionRunCommand(), a.retentionPauseCommand(true), a.retentionPauseCommand(false))
	return cmd
}

func (a *app) retentionRunCommand() *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use: "run", Short: "Sweep now, besides when it is due", Args: cobra.NoArgs,
		Example: "  starter retention run --dry-run   # what would go\n  starter retention run",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dry {
				return a.retentionReport(cmd.Context(), 0, true)
			}
			return a.call(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				s, err := c.RunRetention(ctx)
				if err != nil {
					return err
				}
				return a.printSweeps(&s)
			})
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "remove nothing, list what is due")
	return cmd
}

func (a *app) retentionPauseCommand(pause bool) *cobra.Command {
	word, short := "resume", "Let the sweeps run again"
	if pause {
		word, short = "pause", "Keep the sweeps from running; nothing is removed"
	}
	var reason string
	cmd := &cobra.Command{
		Use: word, Short: short, Args: cobra.NoArgs,
		Example: "  starter retention " + word + " --reason \"restoring a backup\"",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.call(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				s, err := c.PauseRetention(ctx, pause, reason)
				if err != nil {
					return err
				}
				return a.printSweeps(&s)
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for whoever looks")
	return cmd
}

// retentionReport prints what is kept, or of it what is due.
func (a *app) retentionReport(ctx context.Context, limit int, due bool) error {
	if limit < 0 {
		return usageError{fmt.Errorf("--limit is %d, want 0 or more", limit)}
	}
	return a.call(ctx, func(ctx context.Context, c *client.Client) error {
		var report client.RetentionReport
		tenants, more, err := all(limit, func(p agent.Page) ([]client.RetentionTenant, string, error) {
			p.Size = min(p.Size, 100)
			page, err := c.Retention(ctx, a.tenant, p)
			report.Schedule = page.Schedule
			return page.Tenants, page.Next, err
		})
		if err != nil {
			return err
		}
		report.Tenants = tenants
		if a.output == "json" {
			return a.printJSON(report)
		}
		if more {
			defer a.note("… there are more; see --limit")
		}
		var rows [][]string
		for i := range report.Tenants {
			for j := range report.Tenants[i].Kinds {
				if k := &report.Tenants[i].Kinds[j]; !due || k.Due > 0 {
					rows = append(rows, retentionRow(report.Tenants[i].Tenant, k))
				}
			}
		}
		if err := a.table("TENANT KIND KEPT STORED DUE OLDEST", rows); err != nil {
			return err
		}
		a.say("\n%s", sweeps(&report.Schedule))
		return nil
	})
}

func retentionRow(tenant string, k *client.RetentionKind) []string {
	kept := keptFor(k.Keep)
	if k.Own {
		kept += " (its own)"
	}
	stored := strconv.FormatInt(k.Stored, 10)
	if k.More {
		stored += "+"
	}
	oldest := "-"
	if k.Oldest != nil {
		oldest = moment(*k.Oldest)
	}
	return []string{tenant, k.Kind, kept, stored + " " + k.Unit, strconv.FormatInt(k.Due, 10), oldest}
}

// keptFor is a length of time as people say it.
func keptFor(text string) string {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return text
	case d == 0:
		return "for ever"
	case d%(24*time.Hour) == 0:
		return strconv.FormatInt(int64(d/(24*time.Hour)), 10) + "d"
	default:
		return d.String()
	}
}

func (a *app) printSweeps(s *client.RetentionStatus) error {
	if a.output == "json" {
		return a.printJSON(s)
	}
	a.say("%s", sweeps(s))
	return nil
}

// sweeps says how the sweeps stand.
func sweeps(s *client.RetentionStatus) string {
	if !s.Scheduled {
		return "nothing is swept: there is no schedule (retention.every)"
	}
	text := "schedule " + s.ID + ": every " + s.Every
	if s.Running {
		text += ", at work"
	}
	if s.LastRun != nil {
		text += ", last run " + moment(*s.LastRun)
	}
	switch {
	case s.Paused && s.Note != "":
		text += ", paused: " + s.Note
	case s.Paused:
		text += ", paused"
	case s.NextRun != nil:
		text += ", next run " + moment(*s.NextRun)
	}
	return text
}
