package cli

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
	return commandGroup(&cobra.Command{
		Use: "keys", Short: "API keys: make, list, rotate and revoke them",
		Example: `  starter keys create billing
  starter keys list
  starter keys revoke k3m5q7tzab2cd4ef`,
	}, a.keysCreateCommand(), a.keysListCommand(), a.keysRotateCommand(), a.keysRevokeCommand())
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
		RunE: printAnswer(a, func(ctx context.Context, c *client.Client, args []string) (agent.NewKey, error) {
			r.Name, r.Tenant = args[0], a.tenant
			if err := refuseNegative("expires", r.ExpiresIn, 0); err != nil {
				return agent.NewKey{}, err
			}
			return c.CreateKey(ctx, r)
		}, a.printNewKey),
	}
	cmd.Flags().StringVar(&r.Subject, "subject", "", "user id of whom the key is; empty: requests may name a user")
	cmd.Flags().StringVar(&r.Role, "role", "", "role that routing sees")
	cmd.Flags().StringArrayVar(&r.Scopes, "scope", nil, "what the key may do; repeat for several")
	cmd.Flags().DurationVar(&r.ExpiresIn, "expires", 0, "how long it is good; 0: until it is revoked")
	return cmd
}

// printNewKey prints a key on standard output and its properties on standard error, so that a shell can capture the key.
func (a *app) printNewKey(k *agent.NewKey) error {
	until := "until " + formatTimeOr(k.ExpiresAt, "it is revoked")
	a.printNote("key %s of tenant %s, good %s; it is shown this once:", k.ID, k.Tenant, until)
	fmt.Fprintln(a.out, k.Key)
	return nil
}

func (a *app) keysListCommand() *cobra.Command {
	return listCommand(a, &cobra.Command{
		Use: "list", Short: "List API keys, without the keys",
		Example: "  starter keys list\n  starter keys list -o json | jq -r '.[] | select(.revoked_at == null) | .id'",
	}, listing[agent.APIKey]{
		header: "KEY TENANT NAME SUBJECT STATE USED SCOPES", row: keyRow, fetch: fetchKeys,
	})
}

func fetchKeys(ctx context.Context, c *client.Client, _ []string, p agent.Page) ([]agent.APIKey, string, error) {
	return c.Keys(ctx, p)
}

func keyRow(k *agent.APIKey) []string {
	state := "good"
	switch {
	case k.RevokedAt != nil:
		state = "revoked " + formatTime(*k.RevokedAt)
	case k.ExpiresAt != nil && k.ReplacedBy != "":
		state = "replaced, until " + formatTime(*k.ExpiresAt)
	case k.ExpiresAt != nil:
		state = "until " + formatTime(*k.ExpiresAt)
	}
	return []string{k.ID, k.Tenant, k.Name, orDash(k.Subject), state, formatTimeOr(k.LastUsedAt, "never"), strings.Join(k.Scopes, " ")}
}

func (a *app) keysRotateCommand() *cobra.Command {
	overlap := 24 * time.Hour
	cmd := &cobra.Command{
		Use: "rotate <key id>", Short: "Make a new key in place of another one, which goes on working for a while", Args: cobra.ExactArgs(1),
		Example: "  starter keys rotate k3m5q7tzab2cd4ef --overlap 1h",
		RunE: printAnswer(a, func(ctx context.Context, c *client.Client, args []string) (agent.NewKey, error) {
			if err := refuseNegative("overlap", overlap, 0); err != nil {
				return agent.NewKey{}, err
			}
			return c.RotateKey(ctx, args[0], overlap)
		}, a.printNewKey),
	}
	cmd.Flags().DurationVar(&overlap, "overlap", overlap, "how long the old key goes on working")
	return cmd
}

func (a *app) keysRevokeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "revoke <key id>", Short: "End a key, within seconds everywhere", Args: cobra.ExactArgs(1),
		Example: "  starter keys revoke k3m5q7tzab2cd4ef",
		RunE: a.confirmRequest("id", "revoked %s", func(ctx context.Context, c *client.Client, id string) error {
			_, err := c.RevokeKey(ctx, id)
			return err
		}),
	}
}

func (a *app) whoamiCommand() *cobra.Command {
	return &cobra.Command{
		Use: "whoami", Short: "Say who the server takes you for, and what you may do", Args: cobra.NoArgs,
		Example: "  starter whoami\n  starter whoami -o json | jq .scopes",
		RunE: printAnswer(a, func(ctx context.Context, c *client.Client, _ []string) (agent.Principal, error) {
			return c.WhoAmI(ctx)
		}, func(p *agent.Principal) error {
			if p.Trusted() {
				a.printLine("no authentication is configured: whoever reaches the server may do everything")
				return nil
			}
			return a.printRows("TENANT USER ROLE BY SCOPES", [][]string{
				{p.Tenant, orDash(p.Subject), orDash(p.Role), p.Credential, strings.Join(p.Scopes, " ")},
			})
		}),
	}
}

// auditPage is the largest number of audit records in a response.
const auditPage = 500

func (a *app) auditCommand() *cobra.Command {
	var q agent.AuditQuery
	var since time.Duration
	cmd := listCommand(a, &cobra.Command{
		Use: "audit", Short: "Who did, or tried, what",
		Long: "Print the audit trail, newest first: turns with how they are driven, decisions, changes, and what was denied.",
		Example: `  starter audit --outcome denied --since 24h
  starter audit --action 'catalog.*' --subject ann
  starter audit --action turns.run -o json | jq -r '.[].detail.mode' | sort | uniq -c`,
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if limit, _ := cmd.Flags().GetInt("limit"); limit < 1 || since < 0 { // unlike other lists, an audit trail is never printed in full
				return usageError{fmt.Errorf("--limit wants 1 or more, --since 0 or more")}
			}
			if since > 0 {
				q.Since = time.Now().Add(-since)
			}
			q.Tenant = a.tenant
			return nil
		},
	}, listing[agent.AuditRecord]{
		limit: 100, limitUsage: "at most so many",
		header: "TIME TENANT OUTCOME ACTION RESOURCE USER CREDENTIAL CHANNEL DETAIL", row: auditRow,
		fetch: func(ctx context.Context, c *client.Client, _ []string, p agent.Page) ([]agent.AuditRecord, string, error) {
			return fetchAudit(ctx, c, q, p)
		},
	})
	cmd.Flags().StringVar(&q.Subject, "subject", "", "only of this user")
	cmd.Flags().StringVar(&q.Action, "action", "", "only this action, or those that begin so: catalog.*")
	cmd.Flags().StringVar(&q.Outcome, "outcome", "", "only allowed, denied or failed")
	cmd.Flags().DurationVar(&since, "since", 0, "only of so long ago at most; 0: all")
	return cmd
}

// fetchAudit returns a page of the audit trail. The token of a page is the number of the record before which it begins.
func fetchAudit(ctx context.Context, c *client.Client, q agent.AuditQuery, p agent.Page) (_ []agent.AuditRecord, _ string, err error) {
	q.Limit = min(p.Size, auditPage)
	if q.Before, err = readPosition(p); err != nil {
		return nil, "", err
	}
	page, err := c.Audit(ctx, q)
	if err != nil || page.Next == 0 {
		return page.Records, "", err
	}
	return page.Records, formatInt(page.Next), nil
}

func auditRow(r *agent.AuditRecord) []string {
	return []string{
		formatTime(r.At), orDash(r.Tenant), r.Outcome, string(r.Action), r.Resource, orDash(r.Subject), orDash(r.Credential), orDash(r.Channel), string(r.Detail),
	}
}
