package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
	"github.com/turnstone-run/turnstone/internal/cmdline"
)

func (a *app) sessionsCommand() *cobra.Command {
	return commandGroup(&cobra.Command{
		Use: "sessions", Short: "Conversations: find, read, rename, fork, export and delete them",
		Example: "  starter sessions list --text flights\n  starter sessions messages trip-1\n  starter sessions export trip-1 > trip-1.json",
	}, a.sessionsListCommand(), a.sessionMessagesCommand(), a.sessionRenameCommand(), a.sessionForkCommand(), a.sessionExportCommand(),
		a.sessionDeleteCommand())
}

func (a *app) sessionMessagesCommand() *cobra.Command {
	return listCommand(a, &cobra.Command{
		Use: "messages <session>", Short: "Print a session's transcript", Args: cobra.MatchAll(cobra.ExactArgs(1), requireSessionID),
		Example: "  starter sessions messages trip-1\n  starter sessions messages trip-1 -o json | jq '.[].role'",
	}, listing[client.Message]{
		limitUsage: "at most so many, the first ones; 0: all", fetch: fetchMessages,
		print: func(messages []client.Message) error {
			for i := range messages {
				a.printMessage(&messages[i])
			}
			return nil
		},
	})
}

// fetchMessages returns a page of a transcript. The token of a page is the position after which it begins.
func fetchMessages(ctx context.Context, c *client.Client, args []string, p agent.Page) ([]client.Message, string, error) {
	after, err := readPosition(p)
	if err != nil {
		return nil, "", err
	}
	page, err := c.Messages(ctx, agent.SessionID(args[0]), after, p.Size)
	if err != nil || !page.More {
		return page.Messages, "", err
	}
	return page.Messages, formatInt(page.Next), nil
}

func (a *app) printMessage(m *client.Message) {
	a.printLine("— %d %s · %s · %s", m.Position, m.Role, formatTime(m.CreatedAt), orDash(string(m.TurnID)))
	for i := range m.Blocks {
		a.printLine("%s", blockLine(&m.Blocks[i]))
	}
}

// blockLine returns the text of a block, or a description of any other content on one line.
func blockLine(b *agent.Block) string {
	switch b.Type {
	case agent.BlockText:
		return strings.TrimRight(b.Text, "\n")
	case agent.BlockReasoning:
		return "[reasoning] " + cmdline.OneLine(b.Reasoning, 400)
	case agent.BlockToolCall, agent.BlockInvalidToolCall, agent.BlockServerToolCall:
		return "→ " + b.Name + " " + cmdline.OneLine(string(b.Args), 400)
	case agent.BlockToolResult, agent.BlockServerToolResult:
		mark := "✓ "
		if b.Status == agent.ResultError {
			mark = "✗ "
		}
		line := mark + cmdline.OneLine(string(b.Output), 400)
		if b.Ref != "" {
			line += " " + b.Ref
		}
		return line
	case agent.BlockImage, agent.BlockAudio, agent.BlockFile:
		return strings.TrimSpace(fmt.Sprintf("[%s] %s %s", b.Type, b.MIMEType, b.URL+b.FileID))
	default:
		return "[" + string(b.Type) + "]"
	}
}

func (a *app) sessionRenameCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rename <session> <title>", Short: "Give a session a title", Args: cobra.MatchAll(cobra.ExactArgs(2), requireSessionID),
		Long: `Give a session a title, one line of at most 200 characters, which everybody sees in place of its first message. "" takes the title away.`,
		Example: `  starter sessions rename trip-1 "Flights to LAX"
  starter sessions rename trip-1 ""`,
		RunE: printAnswerText(a, func(ctx context.Context, c *client.Client, args []string) (agent.SessionSummary, error) {
			return c.RenameSession(ctx, agent.SessionID(args[0]), args[1])
		}, func(s *agent.SessionSummary) string {
			if s.Title == "" {
				return fmt.Sprintf("session %s has no title", s.SessionID)
			}
			return fmt.Sprintf("session %s is called %s", s.SessionID, s.Title)
		}),
	}
}

func (a *app) sessionExportCommand() *cobra.Command {
	return &cobra.Command{
		Use: "export <session>", Short: "Print everything that is kept of a session, as JSON", Args: cobra.MatchAll(cobra.ExactArgs(1), requireSessionID),
		Long:    "Print everything that is kept of a session, as JSON: its messages, turns with their results, approvals, and what middleware notes.",
		Example: "  starter sessions export trip-1 > trip-1.json",
		RunE: printAnswer(a, func(ctx context.Context, c *client.Client, args []string) (agent.SessionExport, error) {
			return c.ExportSession(ctx, agent.SessionID(args[0]))
		}, func(e *agent.SessionExport) error { return a.printJSON(e) }),
	}
}

func (a *app) sessionDeleteCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "delete <session>", Short: "Delete a session with everything that is kept of it", Args: cobra.MatchAll(cobra.ExactArgs(1), requireSessionID),
		Long: `Delete a session with its turns, messages, results, events, approvals, and the stored content that nothing else refers to. What its
turns consumed stays in the ledger. Refused while a turn runs or waits in it.`,
		Example: "  starter sessions delete trip-1\n  starter sessions delete trip-1 --yes",
		RunE: printAnswerText(a, func(ctx context.Context, c *client.Client, args []string) (agent.SessionDeleted, error) {
			if !yes {
				if err := a.confirm(ctx, fmt.Sprintf("Delete session %s and everything that is kept of it?", args[0])); err != nil {
					return agent.SessionDeleted{}, err
				}
			}
			return c.DeleteSession(ctx, agent.SessionID(args[0]))
		}, func(d *agent.SessionDeleted) string {
			return fmt.Sprintf("deleted session %s: %s, %s, %s", d.SessionID, quantity(d.Turns, "turn"), quantity(d.Messages, "message"), quantity(d.Blobs, "blob"))
		}),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

// confirm asks a question and returns an error unless the answer is yes.
func (a *app) confirm(ctx context.Context, question string) error {
	fmt.Fprintf(a.errOut, "%s [y/N] ", question)
	select {
	case line := <-a.lines.next(): // "" at the end of the input
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return nil
		}
		fmt.Fprintln(a.errOut)
		return usageError{errors.New("not confirmed, nothing was done; --yes does not ask")}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
