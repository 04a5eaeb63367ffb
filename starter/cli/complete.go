package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
	"github.com/turnstone-run/turnstone/internal/cmdline"
)

// Someone waits for a completion: what the server does not answer at once is not offered.
const (
	completionTimeout = 2 * time.Second
	maxChoices        = 200
)

// addCompletions gives the commands the completions of their arguments and flags. Other arguments complete to files where a command reads files,
// else to nothing.
func (a *app) addCompletions(root *cobra.Command) {
	arguments, flags := a.argumentChoices(), a.flagChoices()
	var add func(cmd *cobra.Command)
	add = func(cmd *cobra.Command) {
		path := strings.TrimPrefix(cmd.CommandPath(), root.Name()+" ")
		if complete, ok := arguments[path]; ok {
			cmd.ValidArgsFunction = complete
		} else if cmd.ValidArgsFunction == nil && !strings.Contains(cmd.Use, "<file|") {
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
		for name, complete := range flags {
			if cmd.LocalNonPersistentFlags().Lookup(name) != nil {
				_ = cmd.RegisterFlagCompletionFunc(name, complete) // fails only where there is no such flag
			}
		}
		if f := cmd.LocalFlags().Lookup("output"); f != nil && f.DefValue != "" { // without a default it is a file
			_ = cmd.RegisterFlagCompletionFunc(f.Name, fixedChoices(formats(f.Usage)...))
		}
		for _, sub := range cmd.Commands() {
			add(sub)
		}
	}
	add(root)
}

// formats returns the formats that the description of a flag lists: "text, json or csv".
func formats(usage string) []string {
	return strings.FieldsFunc(strings.ReplaceAll(usage, " or ", ", "), func(r rune) bool { return r == ',' || r == ' ' })
}

// flagChoices returns the completions of flags by their names.
func (a *app) flagChoices() map[string]cobra.CompletionFunc {
	return map[string]cobra.CompletionFunc{
		"agent":     a.agentNames(),
		"session":   a.sessionIDs(),
		"on-busy":   fixedChoices(agent.OnBusyQueue, agent.OnBusyInterrupt, agent.OnBusyReject),
		"outcome":   fixedChoices(agent.AuditAllowed, agent.AuditDenied, agent.AuditFailed),
		"notify-on": fixedChoices(agent.NotifyAlways, agent.NotifySuccess, agent.NotifyFailure, agent.NotifyChange),
		"overlap": fixedChoices(agent.OverlapSkip, agent.OverlapBufferOne, agent.OverlapBufferAll, agent.OverlapCancelOther, agent.OverlapTerminate,
			agent.OverlapAllowAll),
		"state": fixedChoices("pending", "decided", "all"),
		"type":  cobra.NoFileCompletions,
		"group": fixedChoices(agent.UsageKeys()...),
		"scope": fixedChoices(agent.Actions()...),
	}
}

// argumentChoices returns the completions of arguments by the paths of their commands.
func (a *app) argumentChoices() map[string]cobra.CompletionFunc {
	all := map[string]cobra.CompletionFunc{
		"approvals decide": a.decisionChoices,
		"catalog publish":  a.agentNames(),
		"catalog list":     firstArgument(kindChoices()),
		"plan show":        firstArgument(a.agentNames()),
		"links delete":     firstArgument(a.chatIDs()),
	}
	add := func(group string, complete cobra.CompletionFunc, commands ...string) {
		for _, command := range commands {
			all[group+" "+command] = complete
		}
	}
	for _, command := range []string{"tail", "message"} {
		all[command] = firstArgument(a.turnIDs())
	}
	all["cancel"], all["decide"] = firstArgument(a.turnIDs(agent.StateQueued, agent.StateRunning, agent.StateWaiting)), a.turnDecisionChoices
	add("results", firstArgument(a.turnIDs()), "get", "export")
	add("turns", firstArgument(a.turnIDs()), "show")
	add("sessions", firstArgument(a.sessionIDs()), "messages", "export", "delete")
	add("keys", firstArgument(a.keyIDs()), "rotate", "revoke")
	add("schedules", firstArgument(a.scheduleNames()), "show", "runs", "pause", "resume", "trigger", "delete")
	add("workflows", firstArgument(a.workflowTags()), "get", "history", "put", "patch", "revert", "delete", "run")
	add("tools", firstArgument(a.toolNames()), "rename", "describe", "enable", "disable")
	add("catalog", a.documentChoices, "get", "delete", "history")
	return all
}

func (a *app) agentNames() cobra.CompletionFunc {
	return choices(a, func(ctx context.Context, c *client.Client) ([]agent.AgentInfo, error) {
		page, err := c.ListAgents(ctx, agent.AgentQuery{Tenant: a.tenant, Page: agent.Page{Size: pageSize}})
		return page.Agents, err
	}, func(info *agent.AgentInfo) cobra.Completion { return completionOf(info.Name, info.Description) })
}

// turnIDs offers the newest turns, or those in some states.
func (a *app) turnIDs(states ...string) cobra.CompletionFunc {
	return choices(a, func(ctx context.Context, c *client.Client) ([]agent.TurnSummary, error) {
		page, err := c.Turns(ctx, agent.TurnQuery{Limit: maxChoices, Status: states})
		return page.Turns, err
	}, func(t *agent.TurnSummary) cobra.Completion {
		return completionOf(string(t.TurnID), t.Status+": "+t.Summary)
	})
}

// sessionIDs offers the sessions with the newest turns.
func (a *app) sessionIDs() cobra.CompletionFunc {
	return choices(a, func(ctx context.Context, c *client.Client) ([]agent.SessionSummary, error) {
		page, err := c.Sessions(ctx, agent.SessionQuery{Limit: maxChoices})
		return page.Sessions, err
	}, func(s *agent.SessionSummary) cobra.Completion { return completionOf(string(s.SessionID), s.Summary) })
}

func (a *app) scheduleNames() cobra.CompletionFunc {
	return choices(a, func(ctx context.Context, c *client.Client) ([]agent.Schedule, error) {
		page, err := c.Schedules(ctx, agent.Page{Size: pageSize})
		return page.Schedules, err
	}, func(s *agent.Schedule) cobra.Completion { return completionOf(s.Name, scheduleTimes(s)) })
}

// keyIDs offers the keys that have not been revoked.
func (a *app) keyIDs() cobra.CompletionFunc {
	return choices(a, func(ctx context.Context, c *client.Client) ([]agent.APIKey, error) {
		keys, _, err := c.Keys(ctx, agent.Page{Size: pageSize})
		return slices.DeleteFunc(keys, func(k agent.APIKey) bool { return k.RevokedAt != nil }), err
	}, func(k *agent.APIKey) cobra.Completion { return completionOf(k.ID, k.Name) })
}

func (a *app) workflowTags() cobra.CompletionFunc {
	return choices(a, func(ctx context.Context, c *client.Client) ([]agent.StoredWorkflow, error) {
		page, err := c.Workflows(ctx, agent.WorkflowQuery{Page: agent.Page{Size: pageSize}})
		return page.Workflows, err
	}, func(w *agent.StoredWorkflow) cobra.Completion { return w.Tag })
}

func (a *app) toolNames() cobra.CompletionFunc {
	return choices(a, func(ctx context.Context, c *client.Client) ([]agent.Composite, error) { return c.Composites(ctx) },
		func(tool *agent.Composite) cobra.Completion { return completionOf(tool.Name, tool.Description) })
}

func (a *app) chatIDs() cobra.CompletionFunc {
	return choices(a, func(ctx context.Context, c *client.Client) ([]agent.Link, error) {
		page, err := c.Links(ctx, agent.LinkQuery{PageSize: linksPage})
		return page.Links, err
	}, func(l *agent.Link) cobra.Completion { return completionOf(l.ChatID, l.Channel+", "+l.UserID) })
}

// turnDecisionChoices offers the turns that wait, then the pending approvals of that turn, then the kinds of decisions.
func (a *app) turnDecisionChoices(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return a.turnIDs(agent.StateWaiting)(cmd, args, typed)
	}
	found, directive := a.decisionChoices(cmd, args[1:], typed)
	if len(args) == 1 {
		found = slices.DeleteFunc(found, func(c cobra.Completion) bool { return !strings.HasPrefix(c, args[0]+".") })
	}
	return found, directive
}

// decisionChoices offers the pending approvals, and then the kinds of decisions.
func (a *app) decisionChoices(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	complete := cobra.NoFileCompletions
	switch len(args) {
	case 0:
		complete = choices(a, func(ctx context.Context, c *client.Client) ([]agent.Approval, error) {
			page, err := c.Approvals(ctx, agent.ApprovalQuery{State: "pending", Limit: maxChoices})
			return page.Approvals, err
		}, func(v *agent.Approval) cobra.Completion { return completionOf(v.ApprovalID, v.ToolName) })
	case 1:
		complete = fixedChoices(agent.DecisionApprove, agent.DecisionEdit, agent.DecisionReject, agent.DecisionRespond)
	}
	return complete(cmd, args, typed)
}

func kindChoices() cobra.CompletionFunc {
	return fixedChoices("node", "agent", "tool", "model", "route", "auth", "knowledge")
}

// documentChoices offers the kinds of documents, and then the names of one kind.
func (a *app) documentChoices(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	complete := cobra.NoFileCompletions
	switch len(args) {
	case 0:
		complete = kindChoices()
	case 1:
		if kind, err := readKind(args[0]); err == nil {
			complete = choices(a, func(ctx context.Context, c *client.Client) ([]agent.Document, error) {
				page, err := c.Documents(ctx, agent.DocumentQuery{Kind: kind, Tenant: agent.SharedTenant, Page: agent.Page{Size: pageSize}})
				return page.Documents, err
			}, func(d *agent.Document) cobra.Completion { return d.Name })
		}
	}
	return complete(cmd, args, typed)
}

// choices returns a completion that offers a choice for each entry that the server returns, without repetitions; nothing if it fails.
func choices[T any](a *app, fetch func(ctx context.Context, c *client.Client) ([]T, error), choice func(*T) cobra.Completion) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		c, err := a.client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		entries, err := fetch(ctx, c)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var found []cobra.Completion
		for i := range entries {
			if name := choice(&entries[i]); !slices.Contains(found, name) {
				found = append(found, name)
			}
		}
		return fixedChoices(found...)(cmd, args, typed)
	}
}

// fixedChoices returns a completion that offers the entries of a list that begin with the typed text.
func fixedChoices[T ~string](list ...T) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var found []cobra.Completion
		for _, choice := range list {
			if strings.HasPrefix(string(choice), typed) && len(found) < maxChoices {
				found = append(found, string(choice))
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// firstArgument limits a completion to the first argument.
func firstArgument(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, typed)
	}
}

// completionOf returns a choice with its description, if it has one.
func completionOf(name, description string) cobra.Completion {
	if description = cmdline.OneLine(cmdline.Printable(description), cellWidth); description == "" {
		return name
	}
	return cobra.CompletionWithDesc(name, description)
}
