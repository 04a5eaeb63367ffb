package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
)

func (a *app) catalogListCommand() *cobra.Command {
	var q agent.DocumentQuery
	var allTenants bool
	cmd := listCommand(a, &cobra.Command{
		Use: "list [kind]", Short: "List the documents", Args: cobra.MaximumNArgs(1),
		Example: `  starter catalog list
  starter catalog list agents --all-tenants
  starter catalog list --source api -o json`,
		PreRunE: func(_ *cobra.Command, args []string) (err error) {
			if len(args) > 0 {
				if q.Kind, err = readKind(args[0]); err != nil {
					return err
				}
			}
			q.Tenant, err = a.catalogTenant(allTenants)
			return err
		},
	}, listing[agent.Document]{header: "KIND NAME TENANT SOURCE REVISION UPDATED BY", row: documentRow, fetch: fetchDocuments(&q)})
	allTenantsFlag(cmd, &allTenants)
	cmd.Flags().StringVar(&q.Name, "name", "", "only of this name")
	cmd.Flags().StringVar(&q.Version, "version", "", "only of this version (of nodes)")
	cmd.Flags().StringVar(&q.Source, "source", "", "only from builtin, config, folder, follow or api")
	return cmd
}

func fetchDocuments(q *agent.DocumentQuery) fetchFunc[agent.Document] {
	return func(ctx context.Context, c *client.Client, _ []string, p agent.Page) ([]agent.Document, string, error) {
		q.Page = p
		page, err := c.Documents(ctx, *q)
		return page.Documents, page.Next, err
	}
}

func documentRow(d *agent.Document) []string {
	name := d.Name
	if d.Version != "" {
		name += "@" + d.Version
	}
	return []string{string(d.Kind), name, orDash(d.Tenant), d.Source, formatRevision(d.Revision), formatTime(d.UpdatedAt), d.UpdatedBy}
}

func (a *app) getCommand() *cobra.Command {
	var version string
	cmd := &cobra.Command{
		Use: "get <kind> <name>", Short: "Print a document as YAML that can be applied again", Args: cobra.ExactArgs(2),
		Long: "Print a document as YAML that can be applied again: the tenant's own, or else the shared one of that name.",
		Example: `  starter catalog get agent analyst > analyst.yaml
  starter catalog get node http_search --version 1 -o json   # with revision, source and who changed it`,
		RunE: printAnswer(a, func(ctx context.Context, c *client.Client, args []string) (agent.Document, error) {
			key, err := a.documentKey(args, version)
			if err != nil {
				return agent.Document{}, err
			}
			return visibleDocument(ctx, c, key)
		}, func(d *agent.Document) error { return a.printYAML(d.Body) }),
	}
	cmd.Flags().StringVar(&version, "version", "", "of a node")
	return cmd
}

// visibleDocument returns the document that a tenant sees: its own, or else the shared one.
func visibleDocument(ctx context.Context, c *client.Client, key agent.DocumentKey) (agent.Document, error) {
	d, err := c.Document(ctx, key)
	if agent.CodeOf(err) != agent.CodeNotFound || key.Kind == agent.KindNode || key.Tenant == agent.SharedTenant {
		return d, err
	}
	key.Tenant = agent.SharedTenant
	shared, sharedErr := c.Document(ctx, key)
	if agent.CodeOf(sharedErr) == agent.CodeNotFound {
		return d, err
	}
	return shared, sharedErr
}

func (a *app) historyCommand() *cobra.Command {
	var q agent.HistoryQuery
	var allTenants bool
	cmd := listCommand(a, &cobra.Command{
		Use: "history [kind [name]]", Short: "Show who changed what, when and why", Args: cobra.MaximumNArgs(2),
		Long: "Show who changed what, when and why, the newest first. As JSON the entries hold the documents before and after.",
		Example: `  starter catalog history --limit 20
  starter catalog history agent analyst`,
		PreRunE: func(_ *cobra.Command, args []string) (err error) {
			if len(args) > 0 {
				if q.Kind, err = readKind(args[0]); err != nil {
					return err
				}
			}
			if len(args) > 1 {
				if q.Name, err = requireName(args[1]); err != nil {
					return err
				}
			}
			q.Tenant, err = a.catalogTenant(allTenants)
			return err
		},
	}, listing[agent.AuditEntry]{
		limit: 100, header: "REVISION AT ACTION DOCUMENT BY SOURCE COMMENT",
		row: func(e *agent.AuditEntry) []string {
			return []string{formatRevision(e.Revision), formatTime(e.At), e.Action, e.String(), orDash(e.By), e.Source, e.Comment}
		},
		fetch: func(ctx context.Context, c *client.Client, _ []string, p agent.Page) ([]agent.AuditEntry, string, error) {
			q.Page = p
			page, err := c.History(ctx, q)
			return page.Entries, page.Next, err
		},
	})
	allTenantsFlag(cmd, &allTenants)
	return cmd
}

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show what the server serves, and what keeps it from serving something newer", Args: cobra.NoArgs,
		Long: `Show which revision of the catalog the server serves, how many documents it has of each kind, and where they come from. The exit
code is 1 when a source is not well; the server then serves what it had.`,
		Example: "  starter catalog status\n  starter catalog status -o json | jq '.sources[].faults'",
		RunE: a.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			s, err := c.CatalogStatus(ctx)
			if err != nil {
				return err
			}
			if err := a.print(s, func() error { return a.printStatus(&s) }); err != nil {
				return err
			}
			for i := range s.Sources {
				if !s.Sources[i].OK {
					return exitStatus(exitFailed)
				}
			}
			return nil
		}),
	}
}

func (a *app) printStatus(s *agent.CatalogStatus) error {
	a.printLine("revision %d, loaded %s", s.Revision, formatTime(s.LoadedAt))
	err := printTable(a, "KIND DOCUMENTS", func(kind *agent.Kind) []string { return []string{string(*kind), formatInt(s.Counts[*kind])} }, agent.Kinds())
	if err != nil {
		return err
	}
	err = printTable(a, "SOURCE STATE READ DETAIL", func(source *agent.SourceStatus) []string {
		state := "ok"
		if !source.OK {
			state = "not ok"
		}
		return []string{source.Name, state, formatTime(source.At), source.Detail}
	}, s.Sources)
	if err != nil {
		return err
	}
	for i := range s.Sources {
		if !s.Sources[i].OK { // the table shortens the detail
			a.printLine("%s: %s", s.Sources[i].Name, s.Sources[i].Detail)
		}
		a.printFaults(a.out, s.Sources[i].Faults)
	}
	return nil
}

func (a *app) watchCommand() *cobra.Command {
	var q agent.WatchQuery
	var allTenants bool
	cmd := &cobra.Command{
		Use: "watch", Short: "Follow the changes of nodes and agents", Args: cobra.NoArgs,
		Long: `Follow the changes of nodes and agents, one line each, until Ctrl-C. The first is everything there is, unless --after names a
revision to go on from. A lost connection is made again where it broke.`,
		Example: "  starter catalog watch\n  starter catalog watch --after 41 -o json | jq -c '[.revision, .agents[].name]'",
		RunE: a.withClient(func(ctx context.Context, c *client.Client, _ []string) (err error) {
			if err := refuseNegative("after", q.After, 0); err != nil {
				return err
			}
			if q.Tenant, err = a.listTenant(allTenants); err != nil {
				return err
			}
			for e, err := range c.WatchCatalog(ctx, q) {
				if err != nil {
					return err
				}
				if a.output != "json" {
					a.printLine("%s", changeLine(&e))
				} else if err := a.printJSONLine(e); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	cmd.Flags().Int64Var(&q.After, "after", 0, "begin behind this revision")
	cmd.Flags().BoolVar(&allTenants, "all-tenants", false, "agents of every tenant")
	return cmd
}

// changeLine describes a change of the catalog in one line.
func changeLine(e *agent.CatalogEvent) string {
	if e.Snapshot {
		return fmt.Sprintf("revision %d: snapshot of %s and %s", e.Revision, quantity(len(e.Nodes), "node"), quantity(len(e.Agents), "agent"))
	}
	var parts []string
	for i := range e.Nodes {
		parts = append(parts, "node "+e.Nodes[i].NodeID+"@"+e.Nodes[i].Version)
	}
	for i := range e.Agents {
		part := "agent " + e.Agents[i].Name
		if e.Agents[i].Fault != "" {
			part += " (cannot run: " + e.Agents[i].Fault + ")"
		}
		parts = append(parts, part)
	}
	for _, removed := range e.Removed {
		parts = append(parts, "removed "+agent.DocumentKey(removed).String())
	}
	if parts == nil {
		parts = []string{"nothing of these"}
	}
	return fmt.Sprintf("revision %d: %s", e.Revision, clipName(strings.Join(parts, ", ")))
}
