package cli

import (
	"cmp"
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
)

// defaultFindLimit is the default of --limit for turns and sessions.
const defaultFindLimit = 50

const turnsHelp = `List turns, the newest first: what ran or waits, whose it was, how it ended, and how the first message of each begins.

A turn waits for a person, or for a result that the caller provides; starter approvals list has what waits for a person. --text looks for a
part of the beginning of the first message, in upper or lower case. --since and --until take a length of time (12h, 30d), a day or a time,
in UTC; --until is exclusive.`

func (a *app) turnsListCommand(use string) *cobra.Command {
	var q agent.TurnQuery
	cmd := &cobra.Command{
		Use: use, Short: "List turns, newest first", Long: turnsHelp,
		Example: `  starter turns
  starter turns list --status failed --since 24h
  starter turns --status waiting
  starter turns --agent analyst --user ann --text flights
  starter turns --rerun-of turn-42
  starter turns --status running,queued -o json | jq -r '.[].turn_id'`,
	}
	findFlags(cmd, findFields{&q.Status, &q.Agent, &q.UserID, &q.Channel, &q.Text, &q.Since, &q.Until})
	cmd.Flags().StringVarP((*string)(&q.SessionID), "session", "s", "", "only of this session")
	cmd.Flags().StringVar((*string)(&q.RerunOf), "rerun-of", "", "only reruns of this turn")
	return listCommand(a, cmd, listing[agent.TurnSummary]{
		header: "TURN SESSION AGENT USER STATUS STARTED TOOK TOKENS COST MESSAGE", row: turnRow, limit: defaultFindLimit, fetch: fetchTurns(&q),
	})
}

func fetchTurns(q *agent.TurnQuery) fetchFunc[agent.TurnSummary] {
	return func(ctx context.Context, c *client.Client, _ []string, p agent.Page) ([]agent.TurnSummary, string, error) {
		q.Limit, q.After = min(p.Size, agent.MaxFound), p.Token
		page, err := c.Turns(ctx, *q)
		return page.Turns, page.Next, err
	}
}

func turnRow(t *agent.TurnSummary) []string {
	status := t.Status
	if t.ErrorType != "" {
		status += " (" + t.ErrorType + ")"
	}
	tokens, cost := usageCells(t.Usage)
	return []string{
		string(t.TurnID), string(t.SessionID), orDash(t.Agent), orDash(t.UserID), status, formatTime(t.StartedAt),
		formatDuration(t.StartedAt, t.FinishedAt), tokens, cost, orDash(t.Summary),
	}
}

func (a *app) sessionsListCommand() *cobra.Command {
	var q agent.SessionQuery
	cmd := &cobra.Command{
		Use: "list", Short: "List sessions, the one with the newest turn first",
		Long: `List sessions, the one with the newest turn first. Agent, user, status and the times of --since and --until are those of the newest
turn. A session without a title is shown by its first message. --text looks for a part of the title or of the beginning of that message, in
upper or lower case.`,
		Example: `  starter sessions list --text flights
  starter sessions list --user ann --since 7d -o json | jq -r '.[].session_id'`,
	}
	findFlags(cmd, findFields{&q.Status, &q.Agent, &q.UserID, &q.Channel, &q.Text, &q.Since, &q.Until})
	cmd.Flag("text").Usage = "only where the title or the beginning of the first message has this text"
	return listCommand(a, cmd, listing[agent.SessionSummary]{
		header: "SESSION TURNS AGENT USER STATUS LAST-ACTIVE TITLE", row: sessionRow, limit: defaultFindLimit, fetch: fetchSessions(&q),
	})
}

func fetchSessions(q *agent.SessionQuery) fetchFunc[agent.SessionSummary] {
	return func(ctx context.Context, c *client.Client, _ []string, p agent.Page) ([]agent.SessionSummary, string, error) {
		q.Limit, q.After = min(p.Size, agent.MaxFound), p.Token
		page, err := c.Sessions(ctx, *q)
		return page.Sessions, page.Next, err
	}
}

func sessionRow(s *agent.SessionSummary) []string {
	return []string{
		string(s.SessionID), formatInt(s.Turns), orDash(s.Agent), orDash(s.UserID), s.Status, formatTime(s.ActiveAt), orDash(cmp.Or(s.Title, s.Summary)),
	}
}

// findFields points to the fields that the queries of turns and sessions have in common.
type findFields struct {
	status                     *[]string
	agent, user, channel, text *string
	since, until               *time.Time
}

// findFlags adds flags that set the fields.
func findFlags(cmd *cobra.Command, f findFields) {
	var since, until string
	flags := cmd.Flags()
	flags.StringSliceVar(f.status, "status", nil, "only in this state, or in any of several: queued, running, waiting, completed, failed or cancelled")
	_ = cmd.RegisterFlagCompletionFunc("status", fixedChoices( // fails only if there is no such flag
		agent.StateQueued, agent.StateRunning, agent.StateWaiting, string(agent.TurnCompleted), string(agent.TurnFailed), string(agent.TurnCancelled)))
	flags.StringVarP(f.agent, "agent", "a", "", "only of this agent")
	flags.StringVar(f.user, "user", "", "only of this user")
	flags.StringVar(f.channel, "channel", "", "only of this channel")
	flags.StringVar(f.text, "text", "", "only where the beginning of the first message has this text")
	flags.StringVar(&since, "since", "", "how far back, or from when on")
	flags.StringVar(&until, "until", "", "until when")
	cmd.PreRunE = func(*cobra.Command, []string) (err error) {
		now := time.Now()
		if *f.since, err = readTime("--since", since, now); err != nil {
			return err
		}
		*f.until, err = readTime("--until", until, now)
		return err
	}
}
