package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
)

func (a *app) routeCommand() *cobra.Command {
	var r agent.RouteContext
	var flags, metadata []string
	cmd := &cobra.Command{
		Use: "route", Short: "Say which agent would answer, and why", Args: cobra.NoArgs,
		Long: `Say which agent would answer a request, and why: every rule in the order of evaluation, with the reason for which it matched or
not. Nothing is started. Values of --flag and --metadata are JSON where they are valid JSON, else text: --flag beta=true is a truth
value, --flag beta='"true"' is text.`,
		Example: `  starter route --dry-run --role trader --page /portfolio
  starter route --flag beta=true --metadata account='{"tier":"gold"}' --channel telegram
  starter route --agent analyst          # would the rules have chosen it?`,
		RunE: printAnswer(a, func(ctx context.Context, c *client.Client, _ []string) (d agent.RouteDecision, err error) {
			if r.Flags, err = parseValues("--flag", flags); err != nil {
				return d, err
			}
			if r.Metadata, err = parseValues("--metadata", metadata); err != nil {
				return d, err
			}
			return c.Route(ctx, r)
		}, a.printRoute),
	}
	cmd.Flags().Bool("dry-run", true, "always so: nothing is started")
	cmd.Flags().StringVarP(&r.Agent, "agent", "a", "", "agent that the request names")
	cmd.Flags().StringVar(&r.UserID, "user", "", "who asks")
	cmd.Flags().StringVar(&r.UserRole, "role", "", "role of who asks")
	cmd.Flags().StringVar(&r.UIPage, "page", "", "page from which they ask")
	cmd.Flags().StringVar(&r.Channel, "channel", "cli", "way in")
	cmd.Flags().StringVarP((*string)(&r.SessionID), "session", "s", "", "conversation")
	cmd.Flags().StringArrayVar(&flags, "flag", nil, "feature flag, name=value")
	cmd.Flags().StringArrayVar(&metadata, "metadata", nil, "name=value")
	return cmd
}

// parseValues returns the values of flags name=value. A value that is valid JSON is decoded, and any other is text.
func parseValues(flag string, args []string) (map[string]any, error) {
	values := map[string]any{}
	for _, arg := range args {
		name, text, ok := strings.Cut(arg, "=")
		if !ok || name == "" {
			return nil, usageError{fmt.Errorf("%s is %q, want name=value", flag, arg)}
		}
		if _, twice := values[name]; twice {
			return nil, usageError{fmt.Errorf("%s %s is given twice", flag, name)}
		}
		values[name] = jsonOrText(text)
	}
	return values, nil
}

func jsonOrText(text string) any {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber() // a float64 would change long ids
	var value any
	if d.Decode(&value) != nil {
		return text
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return text
	}
	return value
}

func (a *app) printRoute(d *agent.RouteDecision) error {
	name := d.Agent
	if d.Model != "" {
		name += " with model " + d.Model
	}
	a.printLine("agent  %s\nwhy    %s", clipName(name), clipName(routeReason(d)))
	if d.Mismatch {
		a.printLine("note   the rules would have chosen %s", clipName(d.Expected))
	}
	if len(d.Rules) == 0 {
		return nil
	}
	fmt.Fprintln(a.out)
	return printTable(a, "MATCH TABLE RULE PRIORITY AGENT REASON", ruleRow, d.Rules)
}

func ruleRow(v *agent.RuleVerdict) []string {
	mark := "✗"
	switch {
	case v.Chosen:
		mark = "✓ chosen"
	case v.Matched:
		mark = "✓"
	}
	name := v.Agent
	if v.Model != "" {
		name += " (" + v.Model + ")"
	}
	return []string{mark, v.Table, v.Rule, formatInt(v.Priority), name, v.Reason}
}

// routeReason describes why a turn was routed to its agent.
func routeReason(d *agent.RouteDecision) string {
	switch d.Reason {
	case agent.RouteNamed:
		return "the request names it"
	case agent.RouteRuled:
		return fmt.Sprintf("rule %s of table %s", d.Rule, d.Table)
	case agent.RouteDefault:
		if d.Table != "" {
			return "no rule matches; it is the default agent of table " + d.Table
		}
		return "no rule matches; it is the default agent"
	case agent.RouteDraft:
		return "the request brings a draft of it"
	default:
		return string(d.Reason)
	}
}
