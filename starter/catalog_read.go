package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
)

// listed is how many entries lists show unless told otherwise.
const listed = 1000

func (a *app) listCommand() *cobra.Command {
	var q agent.DocumentQuery
	var of tenantFlags
	cmd := &cobra.Command{
		Use: "list [kind]", Short: "List the documents", Args: cobra.MaximumNArgs(1),
		Example: `  starter catalog list
  starter catalog list agents --all-tenants
  starter catalog list --source api -o json`,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if len(args) > 0 {
				if q.Kind, err = kindArg(args[0]); err != nil {
					return err
				}
			}
			if q.Tenant, err = of.wide(a); err != nil {
				return err
			}
			return a.call(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				return list(a, of.limit, "KIND NAME TENANT SOURCE REVISION UPDATED BY", documentRow,
					func(p agent.Page) ([]agent.Document, string, error) {
						q.Page = p
						page, err := c.Documents(ctx, q)
						return page.Documents, page.Next, err
					})
			})
		},
	}
	of.register(cmd, listed)
	cmd.Flags().StringVar(&q.Name, "name", "", "only of this name")
	cmd.Flags().StringVar(&q.Version, "version", "", "only of this version (of nodes)")
	cmd.Flags().StringVar(&q.Source, "source", "", "only from builtin, config, folder, follow or api")
	return cmd
}

func documentRow(d *agent.Document) []string {
	name := d.Name
	if d.Version != "" {
		name += "@" + d.Version
	}
	return []string{string(d.Kind), name, dash(d.Tenant), d.Source, number(d.Revision), moment(d.UpdatedAt), d.UpdatedBy}
}

// number is a revision; there is none of what is not stored.
func number(revision int64) string {
	if revision == 0 {
		return "-"
	}
	return strconv.FormatInt(revision, 10)
}

func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

func (a *app) getCommand() *cobra.Command {
	var version string
	cmd := &cobra.Command{
		Use: "get <kind> <name>", Short: "Print a document as YAML that can be applied again", Args: cobra.ExactArgs(2),
		Long: "Print a document as YAML that can be applied again: the tenant's own, or else the shared one of that name.",
		Example: `  starter catalog get agent analyst > analyst.yaml
  starter catalog get node http_search --version 1 -o json   # with revision, source and who changed it`,
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := a.keyArgs(args, version)
			if err != nil {
				return err
			}
			return a.call(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				d, err := document(ctx, c, key)
				if err != nil {
					return err
				}
				if a.output == "json" {
					return a.printJSON(d)
				}
				text, err := toYAML(d.Body)
				if err != nil {
					return fmt.Errorf("show %s: %w", d.DocumentKey, err)
				}
				fmt.Fprint(a.out, text)
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&version, "version", "", "of a node")
	return cmd
}

// document returns the document that a tenant sees: its own, or the shared one.
func document(ctx context.Context, c *client.Client, key agent.DocumentKey) (agent.Document, error) {
	d, err := c.Document(ctx, key)
	if agent.CodeOf(err) != agent.CodeNotFound || key.Kind == agent.KindNode || key.Tenant == agent.SharedTenant {
		return d, err
	}
	key.Tenant = agent.SharedTenant
	shared, serr := c.Document(ctx, key)
	if agent.CodeOf(serr) == agent.CodeNotFound {
		return d, err
	}
	return shared, serr
}

func (a *app) historyCommand() *cobra.Command {
	var of tenantFlags
	cmd := &cobra.Command{
		Use: "history [kind [name]]", Short: "Show who changed what, when and why", Args: cobra.MaximumNArgs(2),
		Long: "Show who changed what, when and why, the newest first. As JSON the entries hold the documents before and after.",
		Example: `  starter catalog history --limit 20
  starter catalog history agent analyst`,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			var q agent.HistoryQuery
			if len(args) > 0 {
				if q.Kind, err = kindArg(args[0]); err != nil {
					return err
				}
			}
			if len(args) > 1 {
				if q.Name, err = nameArg(args[1]); err != nil {
					return err
				}
			}
			if q.Tenant, err = of.wide(a); err != nil {
				return err
			}
			return a.call(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				return list(a, of.limit, "REVISION AT ACTION DOCUMENT BY SOURCE COMMENT", entryRow,
					func(p agent.Page) ([]agent.AuditEntry, string, error) {
						q.Page = p
						page, err := c.History(ctx, q)
						return page.Entries, page.Next, err
					})
			})
		},
	}
	of.register(cmd, 100)
	return cmd
}

func entryRow(e *agent.AuditEntry) []string {
	return []string{number(e.Revision), moment(e.At), e.Action, e.String(), dash(e.By), e.Source, e.Comment}
}

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show what the server serves, and what keeps it from serving something newer", Args: cobra.NoArgs,
		Long: `Show which revision of the catalog the server serves, how many documents it has of each kind, and where they come from. The exit
code is 1 when a source is not well; the server then serves what it had.`,
		Example: "  starter catalog status\n  starter catalog status -o json | jq '.sources[].faults'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.call(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				s, err := c.CatalogStatus(ctx)
				if err != nil {
					return err
				}
				return a.printStatus(&s)
			})
		},
	}
}

func (a *app) printStatus(s *agent.CatalogStatus) error {
	well := true
	for i := range s.Sources {
		well = well && s.Sources[i].OK
	}
	if a.output == "json" {
		if err := a.printJSON(s); err != nil {
			return err
		}
	} else {
		a.say("revision %d, loaded %s", s.Revision, moment(s.LoadedAt))
		rows := make([][]string, 0, len(agent.Kinds()))
		for _, kind := range agent.Kinds() {
			rows = append(rows, []string{string(kind), strconv.Itoa(s.Counts[kind])})
		}
		if err := a.table("KIND DOCUMENTS", rows); err != nil {
			return err
		}
		rows = nil
		for i := range s.Sources {
			from := &s.Sources[i]
			state := "ok"
			if !from.OK {
				state = "not ok"
			}
			rows = append(rows, []string{from.Name, state, moment(from.At), from.Detail})
		}
		if err := a.table("SOURCE STATE READ DETAIL", rows); err != nil {
			return err
		}
		for i := range s.Sources {
			if !s.Sources[i].OK { // whole: the table cuts it
				a.say("%s: %s", s.Sources[i].Name, s.Sources[i].Detail)
			}
			a.printFaults(a.out, s.Sources[i].Faults)
		}
	}
	if !well {
		return outcome(exitFailed)
	}
	return nil
}

func (a *app) watchCommand() *cobra.Command {
	var q agent.WatchQuery
	var every bool
	cmd := &cobra.Command{
		Use: "watch", Short: "Follow the changes of nodes and agents", Args: cobra.NoArgs,
		Long: `Follow the changes of nodes and agents, one line each, until Ctrl-C. The first is everything there is, unless --after names a
revision to go on from. A lost connection is made again where it broke.`,
		Example: "  starter catalog watch\n  starter catalog watch --after 41 -o json | jq -c '[.revision, .agents[].name]'",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if q.After < 0 {
				return usageError{fmt.Errorf("--after is %d, want 0 or more", q.After)}
			}
			of := tenantFlags{all: every}
			if q.Tenant, err = of.tenant(a); err != nil {
				return err
			}
			return a.call(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				for e, err := range c.WatchCatalog(ctx, q) {
					if err != nil {
						return err
					}
					if err := a.printEvent(&e); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().Int64Var(&q.After, "after", 0, "begin behind this revision")
	cmd.Flags().BoolVar(&every, "all-tenants", false, "agents of every tenant")
	return cmd
}

// printEvent prints one line.
func (a *app) printEvent(e *agent.CatalogEvent) error {
	if a.output == "json" {
		return a.printJSONLine(e)
	}
	if e.Snapshot {
		a.say("revision %d: snapshot of %s and %s", e.Revision, count(len(e.Nodes), "node"), count(len(e.Agents), "agent"))
		return nil
	}
	line := ""
	for i := range e.Nodes {
		line += ", node " + e.Nodes[i].NodeID + "@" + e.Nodes[i].Version
	}
	for i := range e.Agents {
		line += ", agent " + e.Agents[i].Name
		if e.Agents[i].Fault != "" {
			line += " (cannot run: " + e.Agents[i].Fault + ")"
		}
	}
	for _, gone := range e.Removed {
		line += ", removed " + agent.DocumentKey(gone).String()
	}
	if line == "" {
		line = ", nothing of these"
	}
	a.say("revision %d: %s", e.Revision, wide(line[2:]))
	return nil
}
