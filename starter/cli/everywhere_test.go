package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

// commands returns all commands by their paths, without those of cobra.
func commands(b *bench) map[string]*cobra.Command {
	a := &app{program: standalone, in: noInput(), out: io.Discard, errOut: io.Discard, server: b.server}
	found := map[string]*cobra.Command{}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			if sub.Name() == "completion" || sub.Name() == "help" {
				continue
			}
			found[strings.TrimPrefix(sub.CommandPath(), "starter ")] = sub
			walk(sub)
		}
	}
	walk(a.rootCommand())
	return found
}

func TestEveryCommandExplainsItself(t *testing.T) {
	b := setup(t)
	all := commands(b)
	require.Greater(t, len(all), 60)
	for path, cmd := range all {
		require.NotEmpty(t, cmd.Short, path)
		require.NotContains(t, cmd.Short, "\n", path)
		require.NotEmpty(t, cmd.Example, path)
		for line := range strings.SplitSeq(cmd.Example, "\n") {
			require.True(t, line == "" || strings.HasPrefix(line, "  "), "%s: %q", path, line)
			requireExample(t, line)
		}
		require.Contains(t, cmd.Example, "starter ", path)
		require.NotNil(t, cmd.RunE, path)
		require.NotNil(t, cmd.Flag("output"), path)
		if !cmd.HasSubCommands() && path != "results export" {
			require.Contains(t, cmd.Flag("output").Usage, "json", path)
		}
	}
}

// requireExample checks that the flags in an example exist, and that the command takes its arguments.
func requireExample(t *testing.T, line string) {
	t.Helper()
	line, _, _ = strings.Cut(line, "   #")
	fields := strings.Fields(line)
	if len(fields) == 0 || fields[0] != "starter" || strings.ContainsAny(line, "$|\\'\"&") {
		return // a comment, a pipe, or a line with quotes, which only a shell can parse
	}
	root := (&app{program: standalone, in: noInput(), out: io.Discard, errOut: io.Discard}).rootCommand()
	target, args, err := root.Find(fields[1:])
	require.NoError(t, err, line)
	if i := slices.IndexFunc(args, func(word string) bool { return word == ">" || word == "<" }); i >= 0 {
		args = args[:i]
	}
	require.NoError(t, target.ParseFlags(args), line)
	require.NoError(t, target.ValidateArgs(target.Flags().Args()), line)
}

// withEverything is a bench whose gateway has all features, each with some data.
func withEverything(t *testing.T) (*bench, *miniredis.Miniredis) {
	t.Helper()
	const plan = `{"agent":"planner"}`
	_, book := withLinks(t)
	times := &gatewaytest.Schedules{}
	ledger := &gatewaytest.Usage{Rows: []agent.UsageRow{{Day: new("2026-11-21"), UsageSums: agent.UsageSums{Calls: 1}}}}
	trail := &gatewaytest.Trail{}
	trail.Record(agent.AuditRecord{Tenant: "default", Action: agent.ActionTurnsRun, Outcome: agent.AuditAllowed})
	b := setupWith(t, func(cfg *gateway.Config) {
		cfg.Keys, cfg.Audit, cfg.Usage, cfg.Retention, cfg.Erasures = &keyring{}, trail, ledger, gatewaytest.NewRetention(), &gatewaytest.Erasures{}
		cfg.Schedules, cfg.SchedulePlans, cfg.Links, cfg.LinkChannels = times, times, book, []gateway.LinkChannel{{Name: "telegram"}}
	})
	redis := miniredis.RunT(t)
	b.redis = "redis://" + redis.Addr()
	b.rt.Collections = []string{"handbook"}
	b.rt.Promoted = []agent.Composite{{ID: "c1", Tenant: "default", Name: "fetch_flights", Description: "Fetches flights.", Enabled: true}}
	sum := sha256.Sum256([]byte(plan))
	hash := "sha256:" + hex.EncodeToString(sum[:])
	b.catalog.AgentList = []agent.AgentInfo{{Name: "analyst", Tenant: "default", Default: true}, {
		Name: "planner", Tenant: "default", Description: "Makes\tplans.\nAll of them.", PlanHash: hash,
	}}
	b.catalog.Plans[hash] = []byte(plan)
	b.catalog.NodeList = []agent.NodeInfo{{NodeID: "agent", Version: "1", Type: agent.NodeAgent}}
	b.rt.Examine = func(_ context.Context, _, _ string, report func(gateway.DoctorCheck)) error {
		report(gateway.DoctorCheck{Name: "connects", OK: true})
		return nil
	}
	b.rt.OnRun = func(rt *gatewaytest.Runtime, id string) {
		if id != "lives" {
			rt.EndRun(id, agent.RunCompleted, nil)
		}
	}
	b.rt.Script = func(rt *gatewaytest.Runtime, id agent.TurnID, r agent.TurnRequest) {
		switch r.Message {
		case "wait":
			rt.Emit(id, agent.Event{Type: agent.EventApprovalRequested, Approval: &agent.Approval{ApprovalID: "a1", ToolName: "send_mail"}},
				agent.Event{Type: agent.EventApprovalRequested, Approval: &agent.Approval{ApprovalID: "a2", ToolName: "send_mail"}}, gatewaytest.Status(agent.StatusWaiting))
		default:
			rt.Say(id, "hello")
		}
	}
	for _, c := range []commandLine{
		line(0, "start", "-s", "trip-1", "hello"),
		line(0, "tail", "turn-1"),
		line(0, "start", "-s", "trip-2", "wait"),
		{analystDoc + "---\n" + clerkDoc, []string{"catalog", "apply", "-"}, 0},
		{flowYAML, []string{"workflows", "put", "main", "-f", "-"}, 0},
		line(0, "workflows", "run", "main", "--run-id", "done", "--wait"),
		line(0, "workflows", "run", "main", "--run-id", "lives"),
		{"be kind", []string{"knowledge", "add", "handbook", "-", "--type", "text", "--id", "rules"}, 0},
		line(0, "schedules", "create", "morning", "what happened?", "--every", "24h"),
		line(0, "schedules", "create", "nightly", "anything?", "--every", "12h"),
	} {
		require.Equal(t, c.want, b.run(strings.NewReader(c.in), c.args...), "%s: %s", c.args, b.screen)
	}
	require.Eventually(t, func() bool { // the script runs in another goroutine
		page, err := b.rt.Approvals(t.Context(), agent.ApprovalQuery{Tenant: "default", State: "pending", Limit: 10})
		return err == nil && len(page.Approvals) == 2
	}, 30*time.Second, time.Millisecond)
	b.rt.StoreRows("default", "turn-1", cheap)
	b.screen = &terminal{}
	return b, redis
}

// TestJSONEverywhere runs every command with --output json. Standard output must be JSON and nothing else.
func TestJSONEverywhere(t *testing.T) {
	t.Chdir(t.TempDir())
	writeFile(t, clerkDoc, "clerk.yaml")
	writeFile(t, strings.Replace(clerkDoc, "clerk", "trader", 1), "trader.yaml")
	b, redis := withEverything(t)
	_, err := redis.Push("agent:results:j1", doneJob)
	require.NoError(t, err)
	covered := []string{
		"setup",          // needs Temporal
		"catalog watch",  // does not end; TestCatalogWatch tests it
		"results export", // -o is a file, and the default format is JSON
	}
	for _, c := range []struct {
		args string // the first words are the path
		in   string
		want int
	}{
		{args: "chat hello"},
		{args: "start hello"},
		{args: "tail turn-1"},
		{args: "rerun turn-1"},
		{args: "sessions fork trip-1"},
		{args: "message turn-1 again"},
		{args: "approvals list"},
		{args: "approvals decide a1 approve"},
		{args: "decide turn-2 a2 reject"},
		{args: "cancel turn-2"},
		{args: "results get turn-1"},
		{args: "turns"},
		{args: "turns list"},
		{args: "turns show turn-1"},
		{args: "sessions list"},
		{args: "sessions messages trip-1"},
		{args: "sessions export trip-1"},
		{args: "sessions rename trip-1 Flights"},
		{args: "sessions delete trip-1 --yes"},
		{args: "jobs push hello"},
		{args: "jobs wait j1"},
		{args: "workflows list"},
		{args: "workflows get main"},
		{args: "workflows history main"},
		{args: "workflows put copy -f -", in: flowYAML},
		{args: `workflows patch main --op replace_/description_"x"`},
		{args: "workflows revert main patch_main_2"},
		{args: "workflows delete copy"},
		{args: "workflows run main"},
		{args: "workflows runs"},
		{args: "workflows show done"},
		{args: "workflows cancel lives"},
		{args: "tools list"},
		{args: "tools rename fetch_flights flights"},
		{args: "tools describe flights of a route"},
		{args: "tools disable flights"},
		{args: "tools enable flights"},
		{args: "knowledge list handbook"},
		{args: "knowledge search handbook kind"},
		{args: "knowledge add handbook - --type text --id more", in: "be brief"},
		{args: "knowledge delete handbook rules"},
		{args: "doctor"},
		{args: "agents"},
		{args: "agents list"},
		{args: "nodes"},
		{args: "nodes list"},
		{args: "plan show planner"},
		{args: "catalog validate clerk.yaml"},
		{args: "catalog diff trader.yaml", want: exitDifferent},
		{args: "catalog apply trader.yaml"},
		{args: "catalog list"},
		{args: "catalog get agent clerk"},
		{args: "catalog history"},
		{args: "catalog status"},
		{args: "catalog publish analyst"},
		{args: "catalog delete agent clerk"},
		{args: "route"},
		{args: "version"},
		{args: "schedules create other hello --every 1h"},
		{args: "schedules list"},
		{args: "schedules show morning"},
		{args: "schedules runs morning"},
		{args: "schedules pause morning"},
		{args: "schedules resume morning"},
		{args: "schedules trigger morning"},
		{args: "schedules delete morning"},
		{args: "links create ann"},
		{args: "links list"},
		{args: "links delete 7"},
		{args: "keys create bot"},
		{args: "keys list"},
		{args: "keys rotate aaaaaaaaaaaaaaaa"},
		{args: "keys revoke aaaaaaaaaaaaaaaa"},
		{args: "whoami"},
		{args: "audit"},
		{args: "usage"},
		{args: "retention"},
		{args: "retention run"},
		{args: "retention pause"},
		{args: "retention resume"},
		{args: "erase --user ann --reason ticket --yes"},
		{args: "erase --user ann --reason ticket --yes --wait"},
		{args: "erasures list"},
		{args: "erasures get e2"},
		{args: "erasures verify e2"},
	} {
		args := strings.Fields(c.args)
		for i := range args {
			if strings.HasPrefix(args[i], "replace_") { // a word with spaces in it
				args[i] = strings.ReplaceAll(args[i], "_", " ")
			}
		}
		t.Run(c.args, func(t *testing.T) {
			b.screen = &terminal{}
			require.Equal(t, c.want, b.run(strings.NewReader(c.in), append(args, "-o", "json")...), b.screen.String())
			requireJSON(t, b.screen.out())
		})
		cmd, _, err := (&app{}).rootCommand().Find(args)
		require.NoError(t, err)
		covered = append(covered, strings.TrimPrefix(cmd.CommandPath(), "starter "))
	}
	for path, cmd := range commands(b) {
		if !cmd.HasSubCommands() || path == "agents" || path == "nodes" { // other commands with subcommands print their help
			require.Contains(t, covered, path, "every command is run here")
		}
	}
}

// requireJSON checks that text is one or more JSON values and nothing else.
func requireJSON(t *testing.T, text string) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	for n := 0; ; n++ {
		var v any
		err := d.Decode(&v)
		if errors.Is(err, io.EOF) {
			require.Positive(t, n, "it prints nothing")
			return
		}
		require.NoError(t, err, text)
		require.NotNil(t, v, "null is no answer")
	}
}
