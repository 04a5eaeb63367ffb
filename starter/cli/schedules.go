package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
)

func (a *app) schedulesCommand() *cobra.Command {
	return commandGroup(&cobra.Command{
		Use: "schedules", Short: "Agents that run by the clock",
		Example: `  starter schedules create morning "what happened overnight?" --cron "0 7 * * 1-5" --time-zone Europe/Berlin
  starter schedules list
  starter schedules runs morning`,
	}, a.schedulesCreateCommand(), a.schedulesListCommand(), a.schedulesShowCommand(), a.schedulesRunsCommand(),
		a.schedulesPauseCommand("pause", "Keep a schedule from running", true), a.schedulesPauseCommand("resume", "Let a schedule run again", false),
		a.schedulesTriggerCommand(), a.schedulesDeleteCommand())
}

// scheduleFlags are the flags of create.
type scheduleFlags struct {
	agent.Schedule

	file      string
	heartbeat bool
	replace   bool
	webhooks  []string
	mail      []string
	telegram  []string
	notifyOn  string
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
	}
	cmd.RunE = printAnswerText(a, func(ctx context.Context, c *client.Client, args []string) (agent.Schedule, error) {
		s, err := f.schedule(ctx, cmd, a, args)
		switch {
		case err != nil:
			return agent.Schedule{}, err
		case f.replace:
			return c.PutSchedule(ctx, s)
		default:
			return c.CreateSchedule(ctx, s)
		}
	}, scheduleState)
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
	flags.StringVar(&f.notifyOn, "notify-on", "", "always, success, failure or change (default always)")
	flags.BoolVar(&f.Paused, "paused", false, "do not run yet")
	flags.StringVar(&f.file, "file", "", "read the schedule from a file, - for standard input")
	flags.BoolVar(&f.replace, "replace", false, "change the schedule of this name where there is one")
	return cmd
}

// schedule returns the schedule in the file of --file, if any, changed by the other flags and the arguments.
func (f *scheduleFlags) schedule(ctx context.Context, cmd *cobra.Command, a *app, args []string) (*agent.Schedule, error) {
	s := f.Schedule
	if f.file != "" {
		text, err := a.readInput(ctx, f.file)
		if err != nil {
			return nil, usageError{fmt.Errorf("--file: %w", err)}
		}
		s = agent.Schedule{}
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields() // or a misspelled field would be ignored
		if err := decoder.Decode(&s); err != nil {
			return nil, usageError{fmt.Errorf("--file is no schedule: %w", err)}
		}
		f.override(cmd, &s)
	}
	s.Name = args[0]
	if len(args) > 1 {
		s.Message = args[1]
	}
	if f.heartbeat {
		s.Kind = agent.ScheduleHeartbeat
	}
	if f.notifyOn != "" && len(f.webhooks)+len(f.mail)+len(f.telegram) == 0 {
		return nil, usageError{errors.New("--notify-on says when, but nobody is named: --webhook, --mail or --telegram")}
	}
	for _, u := range f.webhooks {
		s.Notify = append(s.Notify, agent.Notification{On: f.notifyOn, Webhook: &agent.HookTarget{URL: u}})
	}
	if len(f.mail) > 0 {
		s.Notify = append(s.Notify, agent.Notification{On: f.notifyOn, Email: &agent.MailTarget{To: f.mail}})
	}
	for _, u := range f.telegram {
		s.Notify = append(s.Notify, agent.Notification{On: f.notifyOn, Telegram: &agent.PersonTarget{User: u}})
	}
	return &s, nil
}

// override sets the fields of s for which the command line has flags.
func (f *scheduleFlags) override(cmd *cobra.Command, s *agent.Schedule) {
	applyFlags(cmd.Flags(), map[string]func(){
		"agent": func() { s.Agent = f.Agent }, "model": func() { s.Model = f.Model }, "cron": func() { s.Cron = f.Cron },
		"every": func() { s.Every = f.Every }, "time-zone": func() { s.TimeZone = f.TimeZone }, "overlap": func() { s.Overlap = f.Overlap },
		"jitter": func() { s.Jitter = f.Jitter }, "catch-up": func() { s.CatchUpWindow = f.CatchUpWindow }, "user": func() { s.UserID = f.UserID },
		"description": func() { s.Description = f.Description }, "paused": func() { s.Paused = f.Paused },
	})
}

// scheduleState returns the name of a schedule and when it runs next.
func scheduleState(s *agent.Schedule) string { return s.Name + ": " + nextRun(s) }

// nextRun describes when a schedule runs next.
func nextRun(s *agent.Schedule) string {
	switch {
	case s.Paused && s.Note != "":
		return "paused: " + s.Note
	case s.Paused:
		return "paused"
	case len(s.Next) > 0:
		return "next " + formatTime(s.Next[0])
	default:
		return "scheduled"
	}
}

// scheduleTimes describes when a schedule is due.
func scheduleTimes(s *agent.Schedule) string {
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
	return listCommand(a, &cobra.Command{
		Use: "list", Short: "List the schedules",
		Example: "  starter schedules list\n  starter schedules list -o json | jq -r '.[] | select(.paused) | .name'",
	}, listing[agent.Schedule]{
		header: "SCHEDULE WHEN STATE AGENT MESSAGE",
		row: func(s *agent.Schedule) []string {
			return []string{s.Name, scheduleTimes(s), nextRun(s), orDash(s.Agent), s.Message}
		},
		fetch: fetchSchedules,
	})
}

func fetchSchedules(ctx context.Context, c *client.Client, _ []string, p agent.Page) ([]agent.Schedule, string, error) {
	page, err := c.Schedules(ctx, p)
	return page.Schedules, page.Next, err
}

func (a *app) schedulesShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show <schedule>", Short: "Show a schedule as JSON, with when it runs next", Args: cobra.ExactArgs(1),
		Example: "  starter schedules show morning > morning.json",
		RunE: printAnswer(a, func(ctx context.Context, c *client.Client, args []string) (agent.Schedule, error) {
			return c.Schedule(ctx, args[0])
		}, func(s *agent.Schedule) error { return a.printJSON(s) }),
	}
}

func (a *app) schedulesRunsCommand() *cobra.Command {
	return listCommand(a, &cobra.Command{
		Use: "runs <schedule>", Short: "List the runs of a schedule, newest first", Args: cobra.ExactArgs(1),
		Example: "  starter schedules runs morning --limit 5\n  starter results get \"$(starter schedules runs morning --limit 1 -o json | jq -r '.[0].turn_id')\"",
	}, listing[agent.ScheduleRun]{
		limit: 20, header: "TURN STARTED STATUS NOTICES OUTPUT", row: scheduleRunRow,
		fetch: func(ctx context.Context, c *client.Client, args []string, p agent.Page) ([]agent.ScheduleRun, string, error) {
			page, err := c.ScheduleRuns(ctx, args[0], p)
			return page.Runs, page.Next, err
		},
	})
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
		notices = fmt.Sprintf("%d of %d", sent, n)
	}
	return []string{orDash(string(r.TurnID)), formatTime(r.StartedAt), r.Status, notices, output}
}

func (a *app) schedulesPauseCommand(name, short string, pause bool) *cobra.Command {
	var note string
	cmd := &cobra.Command{
		Use: name + " <schedule>", Short: short, Args: cobra.ExactArgs(1),
		Example: "  starter schedules " + name + " morning --note \"holidays\"",
		RunE: printAnswerText(a, func(ctx context.Context, c *client.Client, args []string) (agent.Schedule, error) {
			return c.PauseSchedule(ctx, args[0], pause, note)
		}, scheduleState),
	}
	cmd.Flags().StringVar(&note, "note", "", "why, for whoever looks")
	return cmd
}

func (a *app) schedulesTriggerCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "trigger <schedule>", Short: "Run a schedule now, besides when it is due", Args: cobra.ExactArgs(1),
		Example: "  starter schedules trigger morning && starter schedules runs morning --limit 1",
	}
	cmd.RunE = printAnswerText(a, func(ctx context.Context, c *client.Client, args []string) (agent.ScheduleTriggered, error) {
		return c.TriggerSchedule(ctx, args[0])
	}, func(run *agent.ScheduleTriggered) string { return cmd.Flags().Arg(0) + ": run " + run.RunID })
	return cmd
}

func (a *app) schedulesDeleteCommand() *cobra.Command {
	return &cobra.Command{
		Use: "delete <schedule>", Short: "Delete a schedule; a run under way goes on", Args: cobra.ExactArgs(1),
		Example: "  starter schedules delete morning",
		RunE: a.confirmRequest("name", "deleted %s", func(ctx context.Context, c *client.Client, name string) error {
			return c.DeleteSchedule(ctx, name)
		}),
	}
}
