package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
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

// commands are the command lines that there are, by their paths; those that cobra makes are not.
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
	walk(a.root())
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
		}
		require.Contains(t, cmd.Example, "starter ", path)
		require.NotNil(t, cmd.RunE, path)
		require.NotNil(t, cmd.Flag("output"), path)
	}
}

// The flags of the examples exist, and the arguments are as many as the command takes.
func TestExamplesParse(t *testing.T) {
	b := setup(t)
	for path, cmd := range commands(b) {
		for line := range strings.SplitSeq(cmd.Example, "\n") {
			line, _, _ = strings.Cut(line, "   #")
			words := strings.Fields(line)
			if len(words) == 0 || words[0] != "starter" || strings.ContainsAny(line, "$|\\'\"&") {
				continue // comments, pipes, and what a shell would have to read
			}
			root := (&app{program: standalone, in: noInput(), out: io.Discard, errOut: io.Discard}).root()
			target, rest, err := root.Find(words[1:])
			require.NoError(t, err, "%s: %s", path, line)
			for i, word := range rest {
				if word == ">" || word == "<" {
					rest = rest[:i]
					break
				}
			}
			require.NoError(t, target.ParseFlags(rest), "%s: %s", path, line)
			require.NoError(t, target.ValidateArgs(target.Flags().Args()), "%s: %s", path, line)
		}
	}
}

// equipped is a bench with everything that a server may have, and something of each.
func equipped(t *testing.T) (*bench, *miniredis.Miniredis) {
	t.Helper()
	const plan = `{"agent":"planner"}`
	_, book := linked(t)
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
	require.Eventually(t, func() bool { // the script runs beside us
		page, err := b.rt.Approvals(t.Context(), agent.ApprovalQuery{Tenant: "default", State: "pending", Limit: 10})
		return err == nil && len(page.Approvals) == 2
	}, 30*time.Second, time.Millisecond)
	b.rt.StoreRows("default", "turn-1", cheap)
	b.screen = &terminal{}
	return b, redis
}

// TestJSONEverywhere runs every command that there is with --output json: standard output is JSON and nothing besides.
func TestJSONEverywhere(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("clerk.yaml", []byte(clerkDoc), 0o600))
	require.NoError(t, os.WriteFile("trader.yaml", []byte(strings.Replace(clerkDoc, "clerk", "trader", 1)), 0o600))
	b, redis := equipped(t)
	_, err := redis.Push("agent:results:j1", doneJob)
	require.NoError(t, err)
	covered := []string{
		"setup",          // speaks to Temporal
		"catalog watch",  // has no end: see TestCatalogWatch
		"results export", // its -o is a file, and JSON is what it writes by itself
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
			if strings.HasPrefix(args[i], "replace_") { // one word of the command line with spaces in it
				args[i] = strings.ReplaceAll(args[i], "_", " ")
			}
		}
		t.Run(c.args, func(t *testing.T) {
			b.screen = &terminal{}
			require.Equal(t, c.want, b.run(strings.NewReader(c.in), append(args, "-o", "json")...), b.screen.String())
			requireJSON(t, b.screen.out())
		})
		cmd, _, err := (&app{}).root().Find(args)
		require.NoError(t, err)
		covered = append(covered, strings.TrimPrefix(cmd.CommandPath(), "starter "))
	}
	for path, cmd := range commands(b) {
		if !cmd.HasSubCommands() || path == "agents" || path == "nodes" { // others print their help
			require.Contains(t, covered, path, "every command is run here")
		}
	}
}

// requireJSON wants one or more JSON values and nothing else.
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

// Every command takes -o json, and refuses what is no format before it asks anybody.
func TestOutputEverywhere(t *testing.T) {
	b := setup(t)
	for path, cmd := range commands(b) {
		if cmd.HasSubCommands() || path == "results export" {
			continue
		}
		root := (&app{program: standalone, in: noInput(), out: io.Discard, errOut: io.Discard}).root()
		target, _, err := root.Find(strings.Fields(path))
		require.NoError(t, err)
		require.NoError(t, target.ParseFlags([]string{"-o", "json"}), path)
		require.Contains(t, target.Flag("output").Usage, "json", path)
	}
}

// offers are what a shell would be offered, without descriptions, and the directive behind them.
func (b *bench) offers(args ...string) (list []string, directive string) {
	b.t.Helper()
	b.screen = &terminal{}
	require.Equal(b.t, 0, b.run(noInput(), append([]string{"__complete"}, args...)...), b.screen.String())
	for line := range strings.Lines(b.screen.out()) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, ":") {
			return list, line
		}
		name, _, _ := strings.Cut(line, "\t")
		list = append(list, name)
	}
	return list, ""
}

func TestCompletion(t *testing.T) {
	b, _ := equipped(t)
	files, nothing := ":0", ":4"
	for _, c := range []struct {
		args      string // the last word is what is typed so far, "" for _
		want      []string
		directive string
	}{
		{"catalog list _", []string{"node", "agent", "tool", "model", "route", "auth", "knowledge"}, nothing},
		{"catalog list agent _", nil, nothing},
		{"catalog get agent _", []string{"analyst", "clerk"}, nothing},
		{"catalog get agent c", []string{"clerk"}, nothing},
		{"catalog get odd _", nil, nothing},
		{"catalog apply _", nil, files},
		{"knowledge add handbook _", nil, files},
		{"chat --agent _", []string{"analyst", "planner", "clerk"}, nothing},
		{"start -a an", []string{"analyst"}, nothing},
		{"doctor --agent _", []string{"analyst", "planner", "clerk"}, nothing},
		{"schedules create x --agent cl", []string{"clerk"}, nothing},
		{"catalog publish analyst _", []string{"analyst", "planner", "clerk"}, nothing},
		{"plan show p", []string{"planner"}, nothing},
		{"schedules show _", []string{"morning"}, nothing}, // the first page alone: nobody waits for all of them
		{"schedules delete morning _", nil, nothing},
		{"keys rotate _", []string{"aaaaaaaaaaaaaaaa", "cccccccccccccccc", "dddddddddddddddd"}, nothing},
		{"keys revoke c", []string{"cccccccccccccccc"}, nothing},
		{"keys create x --scope audit", []string{"audit.read"}, nothing},
		{"workflows get _", []string{"main"}, nothing},
		{"tools rename f", []string{"fetch_flights"}, nothing},
		{"links delete _", []string{"-1001", "7", "8"}, nothing},
		{"approvals decide _", []string{"a1", "a2"}, nothing},
		{"approvals decide a1 _", []string{"approve", "edit", "reject", "respond"}, nothing},
		{"approvals decide a1 approve _", nil, nothing},
		{"message t x --on-busy _", []string{"queue", "interrupt", "reject"}, nothing},
		{"audit --outcome d", []string{"denied"}, nothing},
		{"usage --group _", []string{"day", "tenant", "user", "agent", "model", "session", "turn", "step", "epoch", "channel"}, nothing},
		{"usage -o _", []string{"text", "json", "csv"}, nothing},
		{"results get -o _", []string{"text", "json", "yaml", "raw"}, nothing},
		{"agents -o _", []string{"text", "json"}, nothing},
		{"tail _", []string{"turn-2", "turn-1"}, nothing},
		{"turns show _", []string{"turn-2", "turn-1"}, nothing},
		{"decide _", []string{"turn-2"}, nothing},
		{"cancel turn-1 _", nil, nothing},
		{"results get turn-1", []string{"turn-1"}, nothing},
		{"results export turn-1 -o _", nil, files},
	} {
		args := strings.Fields(c.args)
		if args[len(args)-1] == "_" {
			args[len(args)-1] = ""
		}
		list, directive := b.offers(args...)
		require.Equal(t, c.want, list, c.args)
		require.Equal(t, c.directive, directive, c.args)
	}
	_, _ = b.offers("chat", "--agent", "")
	require.Contains(t, b.screen.out(), "planner\tMakes plans. All of them.\n", "what it is stands beside it, on one line")
}

// A server that is away, or that does not know the caller, or that is slow, offers nothing, and nothing is said about it.
func TestCompletionIsSilent(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) }) // it listens, and never answers
	b, _, _ := guarded(t)
	b.key = ""
	for _, server := range []string{b.server, "http://" + l.Addr().String(), "nowhere"} {
		list, directive := b.offers("--server", server, "keys", "revoke", "")
		require.Empty(t, list)
		require.Equal(t, ":4", directive)
		require.NotContains(t, b.screen.String(), "Error")
	}
}

func TestCompletionScripts(t *testing.T) {
	b := setup(t)
	for shell, text := range map[string]string{"bash": "__start_starter", "zsh": "#compdef starter", "fish": "complete -c starter", "powershell": "Register-ArgumentCompleter"} {
		b.show(0, "completion", shell)
		require.Contains(t, b.screen.out(), text)
	}
}
