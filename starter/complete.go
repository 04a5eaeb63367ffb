package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
	"github.com/turnstone-run/turnstone/internal/termtext"
)

// Whoever presses Tab waits: what the server does not say at once is not offered.
const (
	completionPatience = 2 * time.Second
	offered            = 200 // choices at most
)

// choices are what a shell may offer.
type choices = []cobra.Completion

// complete teaches the commands what a shell may offer for their arguments and flags. What is not known here stays with files, where a command
// reads files, or is nothing.
func (a *app) complete(root *cobra.Command) {
	arguments := a.argumentChoices()
	flags := a.flagChoices()
	var teach func(cmd *cobra.Command)
	teach = func(cmd *cobra.Command) {
		path := strings.TrimPrefix(cmd.CommandPath(), root.Name()+" ")
		if offer, ok := arguments[path]; ok {
			cmd.ValidArgsFunction = offer
		} else if cmd.ValidArgsFunction == nil && !readsFiles(cmd) {
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
		for _, name := range slices.Sorted(maps.Keys(flags)) {
			if cmd.LocalNonPersistentFlags().Lookup(name) != nil || (cmd == root && cmd.PersistentFlags().Lookup(name) != nil) {
				_ = cmd.RegisterFlagCompletionFunc(name, flags[name]) // fails only where there is no such flag
			}
		}
		if f := cmd.LocalFlags().Lookup("output"); f != nil && f.DefValue != "" { // without one it is a file
			_ = cmd.RegisterFlagCompletionFunc(f.Name, words(forms(f.Usage)...))
		}
		for _, sub := range cmd.Commands() {
			teach(sub)
		}
	}
	teach(root)
}

// readsFiles reports whether a command takes names of files as arguments.
func readsFiles(cmd *cobra.Command) bool { return strings.Contains(cmd.Use, "<file|") }

// ask offers what the server says, and nothing when it does not.
func (a *app) ask(find func(ctx context.Context, c *client.Client) (choices, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, typed string) (choices, cobra.ShellCompDirective) {
		c, err := a.client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionPatience)
		defer cancel()
		found, err := find(ctx, c)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return begun(found, typed), cobra.ShellCompDirectiveNoFileComp
	}
}

// offer is a choice with what it is.
func offer(name, description string) cobra.Completion {
	description = termtext.OneLine(termtext.Printable(description), cellWidth)
	if description == "" {
		return name
	}
	return cobra.CompletionWithDesc(name, description)
}

// first offers something for the first argument alone, each for every one.
func first(f cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) (choices, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f(cmd, args, typed)
	}
}

// words offers those of a list that begin as what is typed.
func words(list ...cobra.Completion) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) (choices, cobra.ShellCompDirective) {
		return begun(list, typed), cobra.ShellCompDirectiveNoFileComp
	}
}

func begun(list choices, typed string) choices {
	var found choices
	for _, choice := range list {
		if strings.HasPrefix(choice, typed) && len(found) < offered {
			found = append(found, choice)
		}
	}
	return found
}

// forms are the choices that a flag's description lists: text, json or csv.
func forms(usage string) choices {
	return strings.FieldsFunc(strings.ReplaceAll(usage, " or ", ", "), func(r rune) bool { return r == ',' || r == ' ' })
}

func texts[T ~string](list []T) choices {
	all := make(choices, len(list))
	for i, v := range list {
		all[i] = string(v)
	}
	return all
}

// flagChoices are what flags take, by their names.
func (a *app) flagChoices() map[string]cobra.CompletionFunc {
	return map[string]cobra.CompletionFunc{
		"agent":     a.agentNames(),
		"on-busy":   words(string(agent.OnBusyQueue), string(agent.OnBusyInterrupt), string(agent.OnBusyReject)),
		"outcome":   words(agent.AuditAllowed, agent.AuditDenied, agent.AuditFailed),
		"notify-on": words(agent.NotifyAlways, agent.NotifySuccess, agent.NotifyFailure, agent.NotifyChange),
		"overlap": words(agent.OverlapSkip, agent.OverlapBufferOne, agent.OverlapBufferAll, agent.OverlapCancelOther, agent.OverlapTerminate,
			agent.OverlapAllowAll),
		"state": words("pending", "decided", "all"),
		"type":  cobra.NoFileCompletions,
		"group": words(texts(agent.UsageKeys())...),
		"scope": words(texts(agent.Actions())...),
	}
}

// argumentChoices are what commands take as arguments, by their paths.
func (a *app) argumentChoices() map[string]cobra.CompletionFunc {
	schedule, key, workflow, tool := first(a.scheduleNames()), first(a.keyIDs()), first(a.workflowTags()), first(a.toolNames())
	all := map[string]cobra.CompletionFunc{
		"approvals decide": a.decisions,
		"catalog publish":  a.agentNames(),
		"plan show":        first(a.agentNames()),
		"keys rotate":      key, "keys revoke": key,
		"links delete": first(a.chats()),
	}
	for _, command := range []string{"show", "runs", "pause", "resume", "trigger", "delete"} {
		all["schedules "+command] = schedule
	}
	for _, command := range []string{"get", "history", "put", "patch", "revert", "delete", "run"} {
		all["workflows "+command] = workflow
	}
	for _, command := range []string{"rename", "describe", "enable", "disable"} {
		all["tools "+command] = tool
	}
	for _, command := range []string{"get", "delete", "history", "list"} {
		all["catalog "+command] = a.documents(command != "list")
	}
	return all
}

func (a *app) agentNames() cobra.CompletionFunc {
	return a.ask(func(ctx context.Context, c *client.Client) (choices, error) {
		page, err := c.ListAgents(ctx, agent.AgentQuery{Tenant: a.tenant, Page: agent.Page{Size: pageSize}})
		var found choices
		for i := range page.Agents {
			found = append(found, offer(page.Agents[i].Name, page.Agents[i].Description))
		}
		return found, err
	})
}

func (a *app) scheduleNames() cobra.CompletionFunc {
	return a.ask(func(ctx context.Context, c *client.Client) (choices, error) {
		page, err := c.Schedules(ctx, agent.Page{Size: pageSize})
		var found choices
		for i := range page.Schedules {
			found = append(found, offer(page.Schedules[i].Name, when(&page.Schedules[i])))
		}
		return found, err
	})
}

// keyIDs are those of keys that have not been revoked.
func (a *app) keyIDs() cobra.CompletionFunc {
	return a.ask(func(ctx context.Context, c *client.Client) (choices, error) {
		keys, _, err := c.Keys(ctx, agent.Page{Size: pageSize})
		var found choices
		for i := range keys {
			if keys[i].RevokedAt == nil {
				found = append(found, offer(keys[i].ID, keys[i].Name))
			}
		}
		return found, err
	})
}

func (a *app) workflowTags() cobra.CompletionFunc {
	return a.ask(func(ctx context.Context, c *client.Client) (choices, error) {
		page, err := c.Workflows(ctx, agent.WorkflowQuery{Page: agent.Page{Size: pageSize}})
		var found choices
		for i := range page.Workflows {
			found = append(found, page.Workflows[i].Tag)
		}
		return slices.Compact(found), err
	})
}

func (a *app) toolNames() cobra.CompletionFunc {
	return a.ask(func(ctx context.Context, c *client.Client) (choices, error) {
		tools, err := c.Composites(ctx)
		var found choices
		for i := range tools {
			found = append(found, offer(tools[i].Name, tools[i].Description))
		}
		return found, err
	})
}

func (a *app) chats() cobra.CompletionFunc {
	return a.ask(func(ctx context.Context, c *client.Client) (choices, error) {
		page, err := c.Links(ctx, agent.LinkQuery{PageSize: linksPage})
		var found choices
		for i := range page.Links {
			found = append(found, offer(page.Links[i].ChatID, page.Links[i].Channel+", "+page.Links[i].UserID))
		}
		return found, err
	})
}

// decisions offers approvals that wait, and then what can be decided.
func (a *app) decisions(cmd *cobra.Command, args []string, typed string) (choices, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return a.ask(func(ctx context.Context, c *client.Client) (choices, error) {
			page, err := c.Approvals(ctx, agent.ApprovalQuery{State: "pending", Limit: offered})
			var found choices
			for i := range page.Approvals {
				found = append(found, offer(page.Approvals[i].ApprovalID, page.Approvals[i].ToolName))
			}
			return found, err
		})(cmd, args, typed)
	case 1:
		return words(texts([]agent.DecisionKind{agent.DecisionApprove, agent.DecisionEdit, agent.DecisionReject, agent.DecisionRespond})...)(cmd, args, typed)
	default:
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// documents offers kinds, and then names of that kind where the command takes one.
func (a *app) documents(named bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) (choices, cobra.ShellCompDirective) {
		switch {
		case len(args) == 0:
			return words("node", "agent", "tool", "model", "route", "auth", "knowledge")(cmd, args, typed)
		case len(args) > 1 || !named:
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		kind, err := kindArg(args[0])
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.ask(func(ctx context.Context, c *client.Client) (choices, error) {
			page, err := c.Documents(ctx, agent.DocumentQuery{Kind: kind, Tenant: agent.SharedTenant, Page: agent.Page{Size: pageSize}})
			var found choices
			for i := range page.Documents {
				found = append(found, page.Documents[i].Name)
			}
			slices.Sort(found)
			return slices.Compact(found), err
		})(cmd, args, typed)
	}
}
