package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
)

func (a *app) keysCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "keys", Short: "API keys: make, list, rotate and revoke them", Args: cobra.NoArgs,
		Example: `  starter keys create billing
  starter keys list
  starter keys revoke k3m5q7tzab2cd4ef`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.keysCreateCommand(), a.keysListCommand(), a.keysRotateCommand(), a.keysRevokeCommand())
	return cmd
}

func (a *app) keysCreateCommand() *cobra.Command {
	var r agent.KeyRequest
	cmd := &cobra.Command{
		Use: "create <name>", Short: "Make an API key", Args: cobra.ExactArgs(1),
		Long: `Make an API key. It is printed once, on standard output alone, and kept nowhere: the server keeps a hash of it.

Scopes are actions, which may be confined to resources: turns.run, turns.*, turns.run:analyst, approvals.decide:send_*, catalog.write, *.
Nobody can hand out more than he has himself. Without --scope the key may talk to agents and see what came of it.`,
		Example: `  starter keys create billing                       # what a user needs
  starter keys create ops --scope '*' --expires 720h
  starter keys create bot --subject ann --role trader --scope turns.run:analyst --scope turns.read
  export TURNSTONE_KEY="$(starter keys create laptop)"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			r.Name, r.Tenant = args[0], a.tenant
			if r.ExpiresIn < 0 {
				return usageError{fmt.Errorf("--expires is %s, want 0 or more", r.ExpiresIn)}
			}
			return a.call(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				k, err := c.CreateKey(ctx, r)
				if err != nil {
					return err
				}
				return a.showNewKey(&k)
			})
		},
	}
	cmd.Flags().StringVar(&r.Subject, "subject", "", "user id of whom the key is; empty: requests may name a user")
	cmd.Flags().StringVar(&r.Role, "role", "", "role that routing sees")
	cmd.Flags().StringArrayVar(&r.Scopes, "scope", nil, "what the key may do; repeat for several")
	cmd.Flags().DurationVar(&r.ExpiresIn, "expires", 0, "how long it is good; 0: until it is revoked")
	return cmd
}

// showNewKey prints a key by itself, so that it can be caught, and what is known of it beside it.
func (a *app) showNewKey(k *agent.NewKey) error {
	if a.output == "json" {
		return a.printJSON(k)
	}
	until := "until it is revoked"
	if k.ExpiresAt != nil {
		until = "until " + moment(*k.ExpiresAt)
	}
	a.note("key %s of tenant %s, good %s; it is shown this once:", k.ID, k.Tenant, until)
	fmt.Fprintln(a.out, k.Key)
	return nil
}

func (a *app) keysListCommand() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use: "list", Short: "List API keys, without the keys", Args: cobra.NoArgs,
		Example: "  starter keys list\n  starter keys list -o json | jq -r '.[] | select(.revoked_at == null) | .id'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 0 {
				return usageError{fmt.Errorf("--limit is %d, want 0 or more", limit)}
			}
			return a.call(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				return list(a, limit, "KEY TENANT NAME SUBJECT STATE USED SCOPES", keyRow, func(p agent.Page) ([]agent.APIKey, string, error) {
					return c.Keys(ctx, p)
				})
			})
		},
	}
	cmd.Flags().IntVar(&limit, "limit", listed, "at most so many; 0: all")
	return cmd
}

func keyRow(k *agent.APIKey) []string {
	state := "good"
	switch {
	case k.RevokedAt != nil:
		state = "revoked " + moment(*k.RevokedAt)
	case k.ExpiresAt != nil && k.ReplacedBy != "":
		state = "replaced, until " + moment(*k.ExpiresAt)
	case k.ExpiresAt != nil:
		state = "until " + moment(*k.ExpiresAt)
	}
	used := "never"
	if k.LastUsedAt != nil {
		used = moment(*k.LastUsedAt)
	}
	return []string{k.ID, k.Tenant, k.Name, dash(k.Subject), state, used, strings.Join(k.Scopes, " ")}
}

func (a *app) keysRotateCommand() *cobra.Command {
	overlap := 24 * time.Hour
	cmd := &cobra.Command{
		Use: "rotate <key id>", Short: "Make a new key in place of another one, which goes on working for a while", Args: cobra.ExactArgs(1),
		Example: "  starter keys rotate k3m5q7tzab2cd4ef --overlap 1h",
		RunE: func(cmd *cobra.Command, args []string) error {
			if overlap < 0 {
				return usageError{fmt.Errorf("--overlap is %s, want 0 or more", overlap)}
			}
			return a.call(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				k, err := c.RotateKey(ctx, args[0], overlap)
				if err != nil {
					return err
				}
				return a.showNewKey(&k)
			})
		},
	}
	cmd.Flags().DurationVar(&overlap, "overlap", overlap, "how long the old key goes on working")
	return cmd
}

func (a *app) keysRevokeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "revoke <key id>", Short: "End a key, within seconds everywhere", Args: cobra.ExactArgs(1),
		Example: "  starter keys revoke k3m5q7tzab2cd4ef",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.call(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				k, err := c.RevokeKey(ctx, args[0])
				if err != nil {
					return err
				}
				return a.done(map[string]string{"id": k.ID}, "revoked %s", k.ID)
			})
		},
	}
}

func (a *app) whoamiCommand() *cobra.Command {
	return &cobra.Command{
		Use: "whoami", Short: "Say who the server takes you for, and what you may do", Args: cobra.NoArgs,
		Example: "  starter whoami\n  starter whoami -o json | jq .scopes",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.call(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				p, err := c.WhoAmI(ctx)
				if err != nil {
					return err
				}
				if a.output == "json" {
					return a.printJSON(p)
				}
				if p.Trusted() {
					a.say("no authentication is configured: whoever reaches the server may do everything")
					return nil
				}
				return a.table("TENANT USER ROLE BY SCOPES", [][]string{
					{p.Tenant, dash(p.Subject), dash(p.Role), p.Credential, strings.Join(p.Scopes, " ")},
				})
			})
		},
	}
}

func (a *app) auditCommand() *cobra.Command {
	var q agent.AuditQuery
	var since time.Duration
	cmd := &cobra.Command{
		Use: "audit", Short: "Who did, or tried, what", Args: cobra.NoArgs,
		Long: "Print the audit trail, newest first: turns with how they are driven, decisions, changes, and what was denied.",
		Example: `  starter audit --outcome denied --since 24h
  starter audit --action 'catalog.*' --subject ann
  starter audit --action turns.run -o json | jq -r '.[].detail.mode' | sort | uniq -c`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if q.Limit < 1 || since < 0 {
				return usageError{fmt.Errorf("--limit wants 1 or more, --since 0 or more")}
			}
			if since > 0 {
				q.Since = time.Now().Add(-since)
			}
			q.Tenant = a.tenant
			return a.call(cmd.Context(), func(ctx context.Context, c *client.Client) error { return a.printAudit(ctx, c, q) })
		},
	}
	cmd.Flags().StringVar(&q.Subject, "subject", "", "only of this user")
	cmd.Flags().StringVar(&q.Action, "action", "", "only this action, or those that begin so: catalog.*")
	cmd.Flags().StringVar(&q.Outcome, "outcome", "", "only allowed, denied or failed")
	cmd.Flags().DurationVar(&since, "since", 0, "only of so long ago at most; 0: all")
	cmd.Flags().IntVar(&q.Limit, "limit", 100, "at most so many")
	return cmd
}

// auditPage is how many records one request asks for.
const auditPage = 500

func (a *app) printAudit(ctx context.Context, c *client.Client, q agent.AuditQuery) error {
	limit, records := q.Limit, []agent.AuditRecord{}
	for {
		q.Limit = min(limit-len(records), auditPage)
		page, err := c.Audit(ctx, q)
		if err != nil {
			return err
		}
		records = append(records, page.Records...)
		if q.Before = page.Next; page.Next == 0 || len(records) >= limit || len(page.Records) == 0 {
			break
		}
	}
	if q.Before != 0 {
		defer a.note("… there are more; see --limit")
	}
	if a.output == "json" {
		return a.printJSON(records)
	}
	rows := make([][]string, len(records))
	for i := range records {
		r := &records[i]
		rows[i] = []string{
			moment(r.At), dash(r.Tenant), r.Outcome, string(r.Action), r.Resource, dash(r.Subject), dash(r.Credential), dash(r.Channel), string(r.Detail),
		}
	}
	return a.table("TIME TENANT OUTCOME ACTION RESOURCE USER CREDENTIAL CHANNEL DETAIL", rows)
}
