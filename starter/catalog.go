package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
)

const catalogHelp = `The catalog holds what agents are made of: node definitions, agent instances, tool bindings, model profiles, route tables, auth
profiles and knowledge collections, as documents in YAML or JSON. A change is all or nothing, and running turns keep what they
began with.

A kind is written as in the documents or shortly: node, agent, tool (or binding), model, route, auth, knowledge; also in the plural.`

const catalogExample = `  starter catalog validate catalog/         # offline
  starter catalog diff catalog/             # what apply would change
  starter catalog apply catalog/ --prune --comment "tuesday's release"
  starter catalog get agent analyst > analyst.yaml
  starter catalog history agent analyst`

func (a *app) catalogCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "catalog", Short: "Read and change the catalog of agents, tools, models and routes", Long: catalogHelp, Example: catalogExample,
		Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.applyCommand(), a.diffCommand(), a.validateCommand(), a.listCommand(), a.getCommand(), a.deleteCommand(),
		a.historyCommand(), a.publishCommand(), a.statusCommand(), a.watchCommand())
	return cmd
}

// kindArg reads the name of a kind, in any case and in its short forms.
func kindArg(text string) (agent.Kind, error) {
	for _, kind := range agent.Kinds() {
		if strings.EqualFold(text, string(kind)) || strings.EqualFold(text, string(kind)+"s") {
			return kind, nil
		}
	}
	switch strings.ToLower(text) {
	case "node", "nodes":
		return agent.KindNode, nil
	case "agent", "agents":
		return agent.KindAgent, nil
	case "binding", "bindings", "tool", "tools":
		return agent.KindBinding, nil
	case "model", "models":
		return agent.KindModel, nil
	case "route", "routes":
		return agent.KindRoutes, nil
	case "auth", "auths":
		return agent.KindAuth, nil
	case "knowledge", "collection", "collections":
		return agent.KindKnowledge, nil
	}
	return "", usageError{fmt.Errorf("unknown kind %q: want node, agent, tool, model, route, auth or knowledge", text)}
}

// nameArg checks a name before it becomes part of an address.
func nameArg(name string) (string, error) {
	if !agent.ValidName(name) || strings.Trim(name, ".") == "" {
		return "", usageError{fmt.Errorf("%q is no name: want 1 to 128 of A-Z a-z 0-9 . _ -", name)}
	}
	return name, nil
}

// keyArgs reads "<kind> <name>" with the version of a flag. A node definition belongs to no tenant.
func (a *app) keyArgs(args []string, version string) (agent.DocumentKey, error) {
	kind, err := kindArg(args[0])
	if err != nil {
		return agent.DocumentKey{}, err
	}
	name, err := nameArg(args[1])
	if err != nil {
		return agent.DocumentKey{}, err
	}
	switch {
	case kind != agent.KindNode && version != "":
		return agent.DocumentKey{}, usageError{fmt.Errorf("--version is for nodes: an %s has none", kind)}
	case kind == agent.KindNode:
		return agent.DocumentKey{Kind: kind, Name: name, Version: version}, nil
	}
	return agent.DocumentKey{Kind: kind, Tenant: a.tenant, Name: name}, nil
}

// by is who changes the catalog: as the flag says, else the user of this machine.
func (a *app) by(flag string) string {
	for _, name := range []string{"USER", "LOGNAME", "USERNAME"} {
		for _, entry := range a.env {
			if value, ok := strings.CutPrefix(entry, name+"="); ok && flag == "" {
				flag = value
			}
		}
	}
	return flag
}

// changeFlags are what every change of the catalog lets a request say.
type changeFlags struct {
	dryRun      bool
	base        int64
	by, comment string
}

func (f *changeFlags) register(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "say what would change, and change nothing")
	cmd.Flags().Int64Var(&f.base, "base-revision", 0, "refuse when a document has changed since this revision")
	cmd.Flags().StringVar(&f.by, "by", "", "who, for the record (default: the user of this machine)")
	cmd.Flags().StringVar(&f.comment, "comment", "", "why, for the record")
}

func (f *changeFlags) check() error {
	if f.base < 0 {
		return usageError{fmt.Errorf("--base-revision is %d, want 0 or more", f.base)}
	}
	return nil
}

// printResult prints what a change did, or would do.
func (a *app) printResult(r *agent.ApplyResult) error {
	if a.output == "json" {
		return a.printJSON(r)
	}
	counts := map[string]int{}
	for i := range r.Changes {
		c := &r.Changes[i]
		counts[c.Action]++
		a.say("%-9s  %s", c.Action, wide(c.String()))
	}
	var parts []string
	for _, action := range []string{
		agent.ActionCreated, agent.ActionUpdated, agent.ActionDeleted, agent.ActionPublished, agent.ActionUnchanged,
	} {
		if n := counts[action]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, action))
		}
	}
	if len(parts) == 0 {
		parts = []string{"no changes"}
	}
	dry := ""
	if r.DryRun {
		dry = " (dry run: nothing was changed)"
	}
	a.say("revision %d: %s%s", r.Revision, strings.Join(parts, ", "), dry)
	return nil
}

// tenantFlags choose whose entries a list shows.
type tenantFlags struct {
	all   bool
	limit int
}

func (f *tenantFlags) register(cmd *cobra.Command, limit int) {
	cmd.Flags().BoolVar(&f.all, "all-tenants", false, "those of every tenant")
	cmd.Flags().IntVar(&f.limit, "limit", limit, "at most so many; 0: all")
}

// tenant is the tenant to ask for; empty: the server's default.
func (f *tenantFlags) tenant(a *app) (string, error) {
	switch {
	case f.limit < 0:
		return "", usageError{fmt.Errorf("--limit is %d, want 0 or more", f.limit)}
	case f.all && a.tenant != "":
		return "", usageError{fmt.Errorf("--tenant %s and --all-tenants exclude each other", a.tenant)}
	case f.all:
		return agent.SharedTenant, nil
	}
	return a.tenant, nil
}

// wide is tenant for lists of the catalog itself: all of it, shared documents and nodes included, unless a tenant is named.
func (f *tenantFlags) wide(a *app) (string, error) {
	tenant, err := f.tenant(a)
	if tenant == "" {
		tenant = agent.SharedTenant
	}
	return tenant, err
}

// count is "1 fault", "2 faults", "1 binding".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// labelArgs reads --label k=v flags.
func labelArgs(flags []string) (map[string]string, error) {
	labels := map[string]string{}
	for _, f := range flags {
		name, value, ok := strings.Cut(f, "=")
		if !ok || name == "" {
			return nil, usageError{fmt.Errorf("--label is %q, want name=value", f)}
		}
		if known, twice := labels[name]; twice && known != value {
			return nil, usageError{fmt.Errorf("--label %s is both %q and %q", name, known, value)}
		}
		labels[name] = value
	}
	return labels, nil
}
