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

const (
	completionTimeout = 2 * time.Second // short, because a person waits at the prompt
	maxChoices        = 200
)

// addCompletions adds the completions of arguments and flags to the commands. An argument without one completes to files if the command reads
// files, else to nothing.
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
				_ = cmd.RegisterFlagCompletionFunc(name, complete) // fails only if there is no such flag
			}
		}
		if f := cmd.LocalFlags().Lookup("output"); f != nil && f.DefValue != "" { // an --output without a default is a file
			_ = cmd.RegisterFlagCompletionFunc(f.Name, fixedChoices(splitList(f.Usage)...))
		}
		for _, sub := range cmd.Commands() {
			add(sub)
		}
	}
	add(root)
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
	return fetchedChoices(a, fetchAgents(&agent.AgentQuery{Tenant: a.tenant}), func(info *agent.AgentInfo) cobra.Completion {
		return describedChoice(info.Name, info.Description)
	})
}

// turnIDs completes to the newest turns, or to the newest in some states.
func (a *app) turnIDs(states ...string) cobra.CompletionFunc {
	return fetchedChoices(a, fetchTurns(&agent.TurnQuery{Status: states}), func(t *agent.TurnSummary) cobra.Completion {
		return describedChoice(string(t.TurnID), t.Status+": "+t.Summary)
	})
}

// sessionIDs completes to the sessions with the newest turns.
func (a *app) sessionIDs() cobra.CompletionFunc {
	return fetchedChoices(a, fetchSessions(&agent.SessionQuery{}), func(s *agent.SessionSummary) cobra.Completion {
		return describedChoice(string(s.SessionID), s.Summary)
	})
}

func (a *app) scheduleNames() cobra.CompletionFunc {
	return fetchedChoices(a, fetchSchedules, func(s *agent.Schedule) cobra.Completion { return describedChoice(s.Name, scheduleTimes(s)) })
}

// keyIDs completes to the keys that have not been revoked.
func (a *app) keyIDs() cobra.CompletionFunc {
	return fetchedChoices(a, fetchKeys, func(k *agent.APIKey) cobra.Completion {
		if k.RevokedAt != nil {
			return ""
		}
		return describedChoice(k.ID, k.Name)
	})
}

func (a *app) workflowTags() cobra.CompletionFunc {
	return fetchedChoices(a, fetchWorkflows(&agent.WorkflowQuery{}), func(w *agent.StoredWorkflow) cobra.Completion { return w.Tag })
}

func (a *app) toolNames() cobra.CompletionFunc {
	return fetchedChoices(a, func(ctx context.Context, c *client.Client, _ []string, _ agent.Page) ([]agent.Composite, string, error) {
		tools, err := c.Composites(ctx)
		return tools, "", err
	}, func(tool *agent.Composite) cobra.Completion { return describedChoice(tool.Name, tool.Description) })
}

func (a *app) chatIDs() cobra.CompletionFunc {
	return fetchedChoices(a, fetchLinks(&agent.LinkQuery{}), func(l *agent.Link) cobra.Completion {
		return describedChoice(l.ChatID, l.Channel+", "+l.UserID)
	})
}

// turnDecisionChoices completes the first argument to the turns that wait, the second to the pending approvals of that turn, and the third to the
// kinds of decisions.
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

// decisionChoices completes the first argument to the pending approvals, and the second to the kinds of decisions.
func (a *app) decisionChoices(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	complete := cobra.NoFileCompletions
	switch len(args) {
	case 0:
		complete = fetchedChoices(a, fetchApprovals(&agent.ApprovalQuery{State: "pending"}), func(v *agent.Approval) cobra.Completion {
			return describedChoice(v.ApprovalID, v.ToolName)
		})
	case 1:
		complete = fixedChoices(agent.DecisionApprove, agent.DecisionEdit, agent.DecisionReject, agent.DecisionRespond)
	}
	return complete(cmd, args, typed)
}

func kindChoices() cobra.CompletionFunc {
	return fixedChoices("node", "agent", "tool", "model", "route", "auth", "knowledge")
}

// documentChoices completes the first argument to the kinds of documents, and the second to the names of that kind.
func (a *app) documentChoices(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	complete := cobra.NoFileCompletions
	switch len(args) {
	case 0:
		complete = kindChoices()
	case 1:
		if kind, err := readKind(args[0]); err == nil {
			documents := fetchDocuments(&agent.DocumentQuery{Kind: kind, Tenant: agent.SharedTenant})
			complete = fetchedChoices(a, documents, func(d *agent.Document) cobra.Completion { return d.Name })
		}
	}
	return complete(cmd, args, typed)
}

// fetchedChoices returns a completion that offers a choice for each entry of the first page, without duplicates. It offers nothing if the server
// does not answer, and leaves out empty choices.
func fetchedChoices[T any](a *app, fetch fetchFunc[T], choice func(*T) cobra.Completion) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		c, err := a.client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		entries, _, err := fetch(ctx, c, nil, agent.Page{Size: pageSize})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var found []cobra.Completion
		for i := range entries {
			if name := choice(&entries[i]); name != "" && !slices.Contains(found, name) {
				found = append(found, name)
			}
		}
		return fixedChoices(found...)(cmd, args, typed)
	}
}

// fixedChoices returns a completion that offers the entries of a list with the typed prefix.
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

// firstArgument returns a completion of the first argument alone.
func firstArgument(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, typed)
	}
}

// describedChoice returns a choice with a description, which may be empty.
func describedChoice(name, description string) cobra.Completion {
	if description = cmdline.OneLine(cmdline.Printable(description), cellWidth); description == "" {
		return name
	}
	return cobra.CompletionWithDesc(name, description)
}
