package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
)

func (a *app) schedulesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "schedules", Short: "Agents that run by the clock", Args: cobra.NoArgs,
		Example: `  starter schedules create morning "what happened overnight?" --cron "0 7 * * 1-5" --time-zone Europe/Berlin
  starter schedules list
  starter schedules runs morning`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.schedulesCreateCommand(), a.schedulesListCommand(), a.schedulesShowCommand(), a.schedulesRunsCommand(),
		a.schedulesPauseCommand(true), a.schedulesPauseCommand(false), a.schedulesTriggerCommand(), a.schedulesDeleteCommand())
	return cmd
}

// scheduleFlags are what create lets a schedule say.
type scheduleFlags struct {
	agent.Schedule

	file      string
	heartbeat bool
	replace   bool
	webhooks  []string
	mail      []string
	telegram  []string
	on        string
}

const createHelp = `Make a schedule: an agent gets the message whenever it is due, with a fresh history, in a session of its own.

--cron is five fields (minute hour day month weekday), or @hourly, @daily and the like, in --time-zone. --every counts from midnight UTC.
--file reads a whole schedule as JSON, - from standard input; flags change what they name.

Who is notified of how a run ended: --webhook gets a POST, --mail a mail, --telegram the chats that are linked to a user.`

func (a *app) schedulesCreateCommand() *cobra.Command {
	var f scheduleFlags
	cmd := &cobra.Command{
		Use: "create <name> [message]", Short: "Make a schedule", Args: cobra.RangeArgs(1, 2), Long: createHelp,
		Example: `  starter schedules create morning "what happened overnight?" --cron "0 7 * * 1-5" --time-zone Europe/Berlin --mail ops@example.com
  starter schedules create pulse "is anything wrong? If not, answer HEARTBEAT_OK." --every 15m --heartbeat --telegram ann
  starter schedules create nightly --file nightly.json --replace`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := f.schedule(cmd, a, args)
			if err != nil {
				return err
			}
			return a.call(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				put := c.CreateSchedule
				if f.replace {
					put = c.PutSchedule
				}
				made, err := put(ctx, s)
				if err != nil {
					return err
				}
				if a.output == "json" {
					return a.printJSON(made)
				}
				a.say("%s: %s", made.Name, next(&made))
				return nil
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.Agent, "agent", "a", "", "agent to ask (default: routing decides, each time)")
	flags.StringVarP(&f.Model, "model", "m", "", "one of the agent's models")
	flags.StringArrayVar(&f.Cron, "cron", nil, "when, in five fields; repeat for several")
	flags.StringVar(&f.Every, "every", "", "or how often: 15m, 24h")
	flags.StringVar(&f.TimeZone, "time-zone", "", "of --cron, such as Europe/Berlin (default UTC)")
	flags.StringVar(&f.Overlap, "overlap", "",
		"when a run is due while one is at work: skip, buffer_one, buffer_all, cancel_other, terminate_other or allow_all (default skip)")
	flags.StringVar(&f.Jitter, "jitter", "", "begin up to so much later, such as 30s")
	flags.StringVar(&f.CatchUpWindow, "catch-up", "", "how late a run may begin after an outage (default 1m)")
	flags.StringVar(&f.UserID, "user", "", "on whose behalf")
	flags.StringVar(&f.Description, "description", "", "what it is for")
	flags.BoolVar(&f.heartbeat, "heartbeat", false, "look whether there is anything to say: "+agent.HeartbeatQuiet+" notifies nobody")
	flags.StringArrayVar(&f.webhooks, "webhook", nil, "URL that is told; repeat for several")
	flags.StringArrayVar(&f.mail, "mail", nil, "address that is told; repeat for several")
	flags.StringArrayVar(&f.telegram, "telegram", nil, "user whose linked chats are told; repeat for several")
	flags.StringVar(&f.on, "notify-on", "", "always, success, failure or change (default always)")
	flags.BoolVar(&f.Paused, "paused", false, "do not run yet")
	flags.StringVar(&f.file, "file", "", "read the schedule from a file, - for standard input")
	flags.BoolVar(&f.replace, "replace", false, "change the schedule of this name where there is one")
	return cmd
}

// schedule is what flags and file say together.
func (f *scheduleFlags) schedule(cmd *cobra.Command, a *app, args []string) (*agent.Schedule, error) {
	s := f.Schedule
	if f.file != "" {
		text, err := textArg(cmd.Context(), a.in, "@"+f.file)
		if err != nil {
			return nil, usageError{fmt.Errorf("--file: %w", err)}
		}
		s = agent.Schedule{}
		read := json.NewDecoder(bytes.NewReader(text))
		read.DisallowUnknownFields() // what is misspelt would be lost without a word
		if err := read.Decode(&s); err != nil {
			return nil, usageError{fmt.Errorf("--file is no schedule: %w", err)}
		}
		f.over(cmd, &s)
	}
	s.Name = args[0]
	if len(args) > 1 {
		s.Message = args[1]
	}
	if f.heartbeat {
		s.Kind = agent.ScheduleHeartbeat
	}
	if f.on != "" && len(f.webhooks)+len(f.mail)+len(f.telegram) == 0 {
		return nil, usageError{errors.New("--notify-on says when, but nobody is named: --webhook, --mail or --telegram")}
	}
	for _, u := range f.webhooks {
		s.Notify = append(s.Notify, agent.Notification{On: f.on, Webhook: &agent.HookTarget{URL: u}})
	}
	if len(f.mail) > 0 {
		s.Notify = append(s.Notify, agent.Notification{On: f.on, Email: &agent.MailTarget{To: f.mail}})
	}
	for _, u := range f.telegram {
		s.Notify = append(s.Notify, agent.Notification{On: f.on, Telegram: &agent.PersonTarget{User: u}})
	}
	return &s, nil
}

// over puts the flags that were given over what a file says.
func (f *scheduleFlags) over(cmd *cobra.Command, s *agent.Schedule) {
	for name, set := range map[string]func(){
		"agent": func() { s.Agent = f.Agent }, "model": func() { s.Model = f.Model }, "cron": func() { s.Cron = f.Cron },
		"every": func() { s.Every = f.Every }, "time-zone": func() { s.TimeZone = f.TimeZone }, "overlap": func() { s.Overlap = f.Overlap },
		"jitter": func() { s.Jitter = f.Jitter }, "catch-up": func() { s.CatchUpWindow = f.CatchUpWindow }, "user": func() { s.UserID = f.UserID },
		"description": func() { s.Description = f.Description }, "paused": func() { s.Paused = f.Paused },
	} {
		if cmd.Flags().Changed(name) {
			set()
		}
	}
}

// next says when a schedule runs next.
func next(s *agent.Schedule) string {
	switch {
	case s.Paused && s.Note != "":
		return "paused: " + s.Note
	case s.Paused:
		return "paused"
	case len(s.Next) > 0:
		return "next " + moment(s.Next[0])
	default:
		return "scheduled"
	}
}

func when(s *agent.Schedule) string {
	parts := append([]string{}, s.Cron...)
	if s.Every != "" {
		parts = append(parts, "every "+s.Every)
	}
	if s.TimeZone != "" {
		parts = append(parts, s.TimeZone)
	}
	return strings.Join(parts, ", ")
}

func (a *app) schedulesListCommand() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use: "list", Short: "List the schedules", Args: cobra.NoArgs,
		Example: "  starter schedules list\n  starter schedules list -o json | jq -r '.[] | select(.paused) | .name'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 0 {
				return usageError{fmt.Errorf("--limit is %d, want 0 or more", limit)}
			}
			return a.call(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				return list(a, limit, "SCHEDULE WHEN STATE AGENT MESSAGE", scheduleRow, func(p agent.Page) ([]agent.Schedule, string, error) {
					page, err := c.Schedules(ctx, p)
					return page.Schedules, page.Next, err
				})
			})
		},
	}
	cmd.Flags().IntVar(&limit, "limit", listed, "at most so many; 0: all")
	return cmd
}

func scheduleRow(s *agent.Schedule) []string {
	return []string{s.Name, when(s), next(s), dash(s.Agent), s.Message}
}

func (a *app) schedulesShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show <schedule>", Short: "Show a schedule as JSON, with when it runs next", Args: cobra.ExactArgs(1),
		Example: "  starter schedules show morning > morning.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.call(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				s, err := c.Schedule(ctx, args[0])
				if err != nil {
					return err
				}
				return a.printJSON(s)
			})
		},
	}
}

func (a *app) schedulesRunsCommand() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use: "runs <schedule>", Short: "List the runs of a schedule, newest first", Args: cobra.ExactArgs(1),
		Example: "  starter schedules runs morning --limit 5\n  starter results get \"$(starter schedules runs morning --limit 1 -o json | jq -r '.[0].turn_id')\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 0 {
				return usageError{fmt.Errorf("--limit is %d, want 0 or more", limit)}
			}
			return a.call(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				return list(a, limit, "TURN STARTED STATUS NOTICES OUTPUT", scheduleRunRow, func(p agent.Page) ([]agent.ScheduleRun, string, error) {
					page, err := c.ScheduleRuns(ctx, args[0], p)
					return page.Runs, page.Next, err
				})
			})
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 20, "at most so many; 0: all")
	return cmd
}

func scheduleRunRow(r *agent.ScheduleRun) []string {
	output := r.Output
	if r.Error != nil {
		output = r.Error.Message
	}
	sent := 0
	for i := range r.Notices {
		if r.Notices[i].Status == agent.NoticeSent {
			sent++
		}
	}
	notices := "-"
	if n := len(r.Notices); n > 0 {
		notices = strconv.Itoa(sent) + " of " + strconv.Itoa(n)
	}
	return []string{dash(string(r.TurnID)), moment(r.StartedAt), r.Status, notices, output}
}

func (a *app) schedulesPauseCommand(pause bool) *cobra.Command {
	word, short := "resume", "Let a schedule run again"
	if pause {
		word, short = "pause", "Keep a schedule from running"
	}
	var note string
	cmd := &cobra.Command{
		Use: word + " <schedule>", Short: short, Args: cobra.ExactArgs(1),
		Example: "  starter schedules " + word + " morning --note \"holidays\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.call(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				s, err := c.PauseSchedule(ctx, args[0], pause, note)
				if err != nil {
					return err
				}
				if a.output == "json" {
					return a.printJSON(s)
				}
				a.say("%s: %s", s.Name, next(&s))
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&note, "note", "", "why, for whoever looks")
	return cmd
}

func (a *app) schedulesTriggerCommand() *cobra.Command {
	return &cobra.Command{
		Use: "trigger <schedule>", Short: "Run a schedule now, besides when it is due", Args: cobra.ExactArgs(1),
		Example: "  starter schedules trigger morning && starter schedules runs morning --limit 1",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.call(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				run, err := c.TriggerSchedule(ctx, args[0])
				if err != nil {
					return err
				}
				if a.output == "json" {
					return a.printJSON(run)
				}
				a.say("%s: run %s", args[0], run.RunID)
				return nil
			})
		},
	}
}

func (a *app) schedulesDeleteCommand() *cobra.Command {
	return &cobra.Command{
		Use: "delete <schedule>", Short: "Delete a schedule; a run under way goes on", Args: cobra.ExactArgs(1),
		Example: "  starter schedules delete morning",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.call(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				if err := c.DeleteSchedule(ctx, args[0]); err != nil {
					return err
				}
				return a.done(map[string]string{"name": args[0]}, "deleted %s", args[0])
			})
		},
	}
}
