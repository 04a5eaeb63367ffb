package cli

import (
	"cmp"
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
	return commandGroup(&cobra.Command{
		Use: "catalog", Short: "Read and change the catalog of agents, tools, models and routes", Long: catalogHelp, Example: catalogExample,
	}, a.applyCommand(), a.diffCommand(), a.validateCommand(), a.catalogListCommand(), a.getCommand(), a.deleteCommand(),
		a.historyCommand(), a.publishCommand(), a.statusCommand(), a.watchCommand())
}

// shortKinds are the short names of kinds, in the singular.
//
//nolint:gochecknoglobals // a constant in all but syntax
var shortKinds = map[string]agent.Kind{
	"node": agent.KindNode, "agent": agent.KindAgent, "binding": agent.KindBinding, "tool": agent.KindBinding, "model": agent.KindModel,
	"route": agent.KindRoutes, "auth": agent.KindAuth, "knowledge": agent.KindKnowledge, "collection": agent.KindKnowledge,
}

// readKind returns the kind with a name, in upper or lower case. It takes short names and plurals, too.
func readKind(text string) (agent.Kind, error) {
	for _, kind := range agent.Kinds() {
		if strings.EqualFold(text, string(kind)) || strings.EqualFold(text, string(kind)+"s") {
			return kind, nil
		}
	}
	if kind, ok := shortKinds[strings.TrimSuffix(strings.ToLower(text), "s")]; ok {
		return kind, nil
	}
	return "", usageError{fmt.Errorf("unknown kind %q: want node, agent, tool, model, route, auth or knowledge", text)}
}

// requireName returns name, or an error if it is no valid name.
func requireName(name string) (string, error) {
	if !agent.ValidName(name) || strings.Trim(name, ".") == "" {
		return "", usageError{fmt.Errorf("%q is no name: want 1 to 128 of A-Z a-z 0-9 . _ -", name)}
	}
	return name, nil
}

// documentKey returns the key for the arguments <kind> <name> and the flag --version. The key of a node definition has no tenant.
func (a *app) documentKey(args []string, version string) (agent.DocumentKey, error) {
	kind, err := readKind(args[0])
	if err != nil {
		return agent.DocumentKey{}, err
	}
	name, err := requireName(args[1])
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

// author returns the author of a change of the catalog: the value of --by, or the user of this machine if it is empty.
func (a *app) author(by string) string {
	for _, name := range []string{"USER", "LOGNAME", "USERNAME"} {
		for _, entry := range a.env {
			if value, ok := strings.CutPrefix(entry, name+"="); ok && by == "" {
				by = value
			}
		}
	}
	return by
}

// changeFlags are the flags of commands that change the catalog.
type changeFlags struct {
	dryRun      bool
	base        int64
	fromEmpty   bool // --base-revision is given and 0
	by, comment string
}

func (f *changeFlags) register(cmd *cobra.Command) {
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		f.fromEmpty = cmd.Flags().Changed("base-revision") && f.base == 0
		return refuseNegative("base-revision", f.base, 0)
	}
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "say what would change, and change nothing")
	cmd.Flags().Int64Var(&f.base, "base-revision", 0, "refuse when a document has changed since this revision")
	cmd.Flags().StringVar(&f.by, "by", "", "who, for the record (default: the user of this machine)")
	cmd.Flags().StringVar(&f.comment, "comment", "", "why, for the record")
}

// applyText describes what a change of the catalog did, or what a dry run would do.
func applyText(r *agent.ApplyResult) string {
	var text strings.Builder
	counts := map[string]int{}
	for i := range r.Changes {
		c := &r.Changes[i]
		counts[c.Action]++
		fmt.Fprintf(&text, "%-9s  %s\n", c.Action, clipName(c.String()))
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
	fmt.Fprintf(&text, "revision %d: %s%s", r.Revision, strings.Join(parts, ", "), dry)
	return text.String()
}

// allTenantsFlag adds the flag --all-tenants.
func allTenantsFlag(cmd *cobra.Command, all *bool) {
	cmd.Flags().BoolVar(all, "all-tenants", false, "those of every tenant")
}

// listTenant returns the tenant for the query of a list: agent.SharedTenant stands for every tenant, and "" for the server's default.
func (a *app) listTenant(allTenants bool) (string, error) {
	switch {
	case allTenants && a.tenant != "":
		return "", usageError{fmt.Errorf("--tenant %s and --all-tenants exclude each other", a.tenant)}
	case allTenants:
		return agent.SharedTenant, nil
	}
	return a.tenant, nil
}

// catalogTenant is listTenant for lists of catalog documents. Without --tenant they have the documents of every tenant.
func (a *app) catalogTenant(allTenants bool) (string, error) {
	tenant, err := a.listTenant(allTenants)
	return cmp.Or(tenant, agent.SharedTenant), err
}

// readLabels returns the labels of flags --label name=value.
func readLabels(flags []string) (map[string]string, error) {
	labels := map[string]string{}
	for _, f := range flags {
		name, value, ok := strings.Cut(f, "=")
		if !ok || name == "" {
			return nil, usageError{fmt.Errorf("--label is %q, want name=value", f)}
		}
		if first, twice := labels[name]; twice && first != value {
			return nil, usageError{fmt.Errorf("--label %s is both %q and %q", name, first, value)}
		}
		labels[name] = value
	}
	return labels, nil
}
