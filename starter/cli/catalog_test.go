package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

const analystDoc = `kind: AgentInstance
tenant: default
name: analyst
node_id: agent
node_version: "1"
models:
  - offline
`

const clerkDoc = "kind: AgentInstance\nname: clerk\nnode_id: agent\nnode_version: \"1\"\n"

// writeFiles creates a folder of catalog files and returns its path.
func writeFiles(t *testing.T, texts ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i, text := range texts {
		writeFile(t, text, dir, fmt.Sprintf("%c.yaml", 'a'+i))
	}
	return dir
}

// applyDocuments adds documents to the catalog.
func (b *bench) applyDocuments(texts ...string) {
	b.t.Helper()
	b.show(0, "catalog", "apply", writeFiles(b.t, texts...))
}

func TestCatalogApply(t *testing.T) {
	b := setup(t)
	b.applyDocuments(analystDoc)
	dir := writeFiles(t, strings.Replace(analystDoc, "offline", "big", 1), clerkDoc)
	var all strings.Builder
	for _, flags := range []string{"--dry-run", "--publish --by ann --comment why --base-revision 2", "--prune"} {
		all.WriteString(b.show(0, append([]string{"catalog", "apply", dir}, strings.Fields(flags)...)...))
	}
	got := b.catalog.Applied()
	require.Len(t, got, 4)
	require.True(t, got[1].DryRun)
	require.Equal(t, "ann why 2 true", fmt.Sprint(got[2].By, " ", got[2].Comment, " ", got[2].BaseRevision, " ", got[2].Publish))
	require.True(t, got[3].Prune)
	require.Equal(t, filepath.Join(dir, "a.yaml"), got[1].Files[0].Name, "faults name the file as the command line does")

	all.WriteString(b.showInput(clerkDoc, 0, "catalog", "apply", "-"))
	all.WriteString(b.showInput(clerkDoc, 0, "catalog", "apply", "-", "--prune"))
	golden(t, "catalog_apply", all.String())

	var r agent.ApplyResult
	require.NoError(t, json.Unmarshal([]byte(b.showInput(analystDoc, 0, "catalog", "apply", "-", "--dry-run", "-o", "json")), &r))
	require.Equal(t, agent.ActionCreated, r.Changes[0].Action)
}

func TestCatalogFaults(t *testing.T) {
	b := setup(t)
	b.catalog.Refuse = func(agent.ApplyRequest) error {
		return fmt.Errorf("apply: %w", agent.Faults{
			{File: "a.yaml", Line: 3, Column: 7, Document: "AgentInstance default/analyst", Path: "models[0]", Message: "there is no model\n\x1b[2J\"big\""},
			{Message: "second"},
		}.Err())
	}
	dir := writeFiles(t, analystDoc)
	for _, command := range []string{"apply", "diff"} {
		require.Equal(t, "a.yaml:3:7: AgentInstance default/analyst: models[0]: there is no model \uFFFD[2J\"big\"\nsecond\nError: refused; nothing was changed\n",
			b.show(exitUsage, "catalog", command, dir))
		require.Empty(t, b.screen.out(), "faults go to standard error")
	}
	b.catalog.Refuse = func(agent.ApplyRequest) error {
		return agent.Errorf(agent.CodeConflict, "", "AgentInstance default/analyst changed at revision 9")
	}
	require.Contains(t, b.show(exitUsage, "catalog", "apply", dir), "Error: AgentInstance default/analyst changed at revision 9")
	var many agent.Faults
	for i := range maxFaults + 7 {
		many = append(many, agent.Fault{Message: fmt.Sprint(i)})
	}
	b.catalog.Refuse = func(agent.ApplyRequest) error { return many.Err() }
	require.Contains(t, b.show(exitUsage, "catalog", "apply", dir), "\n199\n… and 7 more\nError: refused; nothing was changed\n")
	b.catalog.Refuse = func(agent.ApplyRequest) error { return errors.New("secret") }
	require.NotContains(t, b.show(exitFailed, "catalog", "apply", dir), "secret")
	require.Contains(t, b.show(exitTrouble, "catalog", "diff", dir), "internal error", "1 would mean differences")
	b.server = "http://127.0.0.1:1"
	require.Contains(t, b.show(exitUnreachable, "catalog", "diff", dir), "cannot reach the server")
}

func TestCatalogDiff(t *testing.T) {
	b := setup(t)
	b.applyDocuments(analystDoc, clerkDoc)
	changed := writeFiles(t, strings.Replace(analystDoc, "  - offline\n", "  - offline\n  - big\ndescription: \"Now\\e[2Jbetter.\"\n", 1),
		"kind: ModelProfile\nname: big\nprovider: openai\nmodel: gpt\n")
	golden(t, "catalog_diff", b.show(exitDifferent, "catalog", "diff", changed, "--prune"))
	b.color = true
	golden(t, "catalog_diff_color", b.show(exitDifferent, "catalog", "diff", changed))
	require.Empty(t, b.show(0, "catalog", "diff", writeFiles(t, clerkDoc, analystDoc)))
	for _, r := range b.catalog.Applied()[1:] {
		require.True(t, r.DryRun, "a diff changes nothing")
	}
	r := answerWith[agent.ApplyResult](b, exitDifferent, "catalog", "diff", changed)
	require.Len(t, r.Changes, 2)
	require.JSONEq(t, `[]`, b.jq("changes", 0, "catalog", "diff", "--prune=false", writeFiles(t)+"/../"+filepath.Base(writeFiles(t, ""))))
}

func TestWantsColor(t *testing.T) {
	require.True(t, wantsColor([]string{"TERM=xterm", "NO_COLOR="}))
	require.False(t, wantsColor([]string{"NO_COLOR=1"}))
	require.False(t, wantsColor([]string{"TERM=dumb"}))
}

func TestCatalogGet(t *testing.T) {
	b := setup(t)
	b.applyDocuments(analystDoc)
	out := b.show(0, "catalog", "get", "Agents", "analyst")
	require.Equal(t, analystDoc, out)
	require.Equal(t, "unchanged  AgentInstance default/analyst\nrevision 2: 1 unchanged\n", b.showInput(out, 0, "catalog", "apply", "-"))
	d := answer[agent.Document](b, "catalog", "get", "agent", "analyst")
	require.Equal(t, int64(2), d.Revision)
	require.Contains(t, b.show(exitUsage, "catalog", "get", "agent", "nobody"), "there is no AgentInstance default/nobody")
	require.Contains(t, b.show(exitUsage, "catalog", "get", "agent", "analyst", "--tenant", "acme"), "there is no AgentInstance acme/analyst")
	require.Contains(t, b.show(exitUsage, "catalog", "get", "agent", "analyst", "--version", "1"), "--version is for nodes")

	b.showInput("kind: NodeDefinition\nnode_id: n\nversion: \"1\"\ntype: agent\n", 0, "catalog", "apply", "-")
	for _, flags := range []string{"", "--version 1", "--tenant acme", "--tenant *"} {
		require.Contains(t, b.show(0, append([]string{"catalog", "get", "node", "n"}, strings.Fields(flags)...)...), "node_id: \"n\"\n")
	}
	b.showInput(strings.Replace(clerkDoc, "name: clerk", "name: clerk\ntenant: '*'", 1), 0, "catalog", "apply", "-")
	for _, tenant := range []string{"*", "acme", ""} {
		require.Contains(t, b.show(0, "catalog", "get", "agent", "clerk", "--tenant", tenant), "tenant: '*'\n", "the shared one")
	}
}

func TestCatalogListDeleteHistory(t *testing.T) {
	b := setup(t)
	b.catalog.DocumentList = []agent.Document{
		{DocumentKey: agent.DocumentKey{Kind: agent.KindNode, Name: "mail", Version: "2"}, Source: "builtin"},
		{DocumentKey: agent.DocumentKey{Kind: agent.KindModel, Tenant: "*", Name: "offline"}, Source: "config"},
	}
	b.show(0, "catalog", "apply", writeFiles(t, analystDoc), "--by", "ann", "--comment", "the first")
	b.screen = &terminal{}
	b.succeeds("catalog", "list", "list --all-tenants", "list nodes", "list node --name mail --version 2", "list --source api", "list --tenant acme",
		"history", "delete agent analyst --dry-run", "delete agent analyst --by bob --comment gone --base-revision 2", "history AgentInstance analyst",
		"history models", "delete node mail --version 2", "list --all-tenants --limit 1")
	golden(t, "catalog_list", b.screen.String())
	require.Contains(t, b.show(exitUsage, "catalog", "delete", "agent", "analyst"), "there is no AgentInstance default/analyst")
	require.Contains(t, b.show(exitUsage, "catalog", "delete", "node", "mail"), "version")
	entries := answer[[]agent.AuditEntry](b, "catalog", "history", "--all-tenants")
	require.Len(t, entries, 3)
}

func TestKinds(t *testing.T) {
	for text, want := range map[string]agent.Kind{
		"node": agent.KindNode, "NODES": agent.KindNode, "agent": agent.KindAgent, "Agents": agent.KindAgent, "binding": agent.KindBinding,
		"bindings": agent.KindBinding, "tool": agent.KindBinding, "tools": agent.KindBinding, "model": agent.KindModel, "models": agent.KindModel,
		"route": agent.KindRoutes, "routes": agent.KindRoutes, "auth": agent.KindAuth, "knowledge": agent.KindKnowledge,
	} {
		got, err := readKind(text)
		require.NoError(t, err)
		require.Equal(t, want, got, text)
	}
	for _, kind := range agent.Kinds() {
		got, err := readKind(strings.ToLower(string(kind)))
		require.NoError(t, err)
		require.Equal(t, kind, got)
	}
	_, err := readKind("gadget")
	require.ErrorContains(t, err, `unknown kind "gadget"`)
}

func TestCatalogPublish(t *testing.T) {
	b := setup(t)
	b.catalog.AgentList = []agent.AgentInfo{{Name: "analyst", PlanHash: "sha256:aa"}, {Name: "clerk", PlanHash: "sha256:bb"}, {Name: "x", Tenant: "acme"}}
	require.Equal(t, "published  analyst  sha256:aa\n", b.show(0, "catalog", "publish", "analyst"))
	require.Equal(t, "published  analyst  sha256:aa\npublished  clerk  sha256:bb\n", b.show(0, "catalog", "publish", "--all"))
	require.Equal(t, "published  x\n", strings.ReplaceAll(b.show(0, "catalog", "publish", "x", "--tenant", "acme"), "  \n", "\n"))
	out := b.show(exitUsage, "catalog", "publish", "nobody", "clerk", "none")
	require.Contains(t, out, "published  clerk  sha256:bb\n")
	require.Contains(t, out, `publish agent "nobody": agent: there is no agent "nobody"`)
	require.Contains(t, out, `publish agent "none"`)
	require.Contains(t, b.show(exitUsage, "catalog", "publish"), "name the agents, or say --all")
	require.Contains(t, b.show(exitUsage, "catalog", "publish", "--all", "x"), "name the agents, or say --all")
	published := answer[[]agent.AgentInfo](b, "catalog", "publish", "clerk")
	require.Equal(t, "cas://sha256:bb", published[0].Artifact.URI)
}

func TestCatalogStatus(t *testing.T) {
	b := setup(t)
	b.applyDocuments(analystDoc)
	b.catalog.Sources = []agent.SourceStatus{{Name: "store", OK: true, At: gatewaytest.Epoch(), Detail: "12 documents"}}
	well := b.show(0, "catalog", "status")
	b.catalog.Sources = append(b.catalog.Sources, agent.SourceStatus{
		Name: "folder", Detail: "revision 2 is served", Faults: []agent.Fault{{File: "a.yaml", Line: 1, Message: "unknown field"}},
	})
	golden(t, "catalog_status", well+b.show(exitFailed, "catalog", "status"))
	require.Contains(t, b.jq("sources", exitFailed, "catalog", "status"), "unknown field")
}

func TestCatalogWatch(t *testing.T) {
	for _, output := range []string{"text", "json"} {
		b := setup(t)
		b.applyDocuments(analystDoc)
		b.screen = &terminal{}
		done := make(chan int, 1)
		go func() { done <- b.run(noInput(), "catalog", "watch", "-o", output) }()
		lines := func(n int) {
			t.Helper()
			require.Eventually(t, func() bool { return strings.Count(b.screen.out(), "\n") == n }, 10*time.Second, time.Millisecond)
		}
		lines(1)
		b.catalog.Change(agent.CatalogEvent{
			Nodes:  []agent.NodeInfo{{NodeID: "n", Version: "1"}},
			Agents: []agent.AgentInfo{{Name: "clerk", Tenant: "default", Fault: "no\x1b[2J model"}},
		})
		lines(2)
		b.catalog.Change(agent.CatalogEvent{Removed: []agent.RemovedEntry{{Kind: agent.KindAgent, Tenant: "default", Name: "clerk"}}})
		lines(3)
		b.interrupts <- os.Interrupt
		require.Equal(t, exitInterrupted, <-done)
		if output == "text" {
			golden(t, "catalog_watch", b.screen.out())
			continue
		}
		for line := range strings.Lines(b.screen.out()) {
			var e agent.CatalogEvent
			require.NoError(t, json.Unmarshal([]byte(line), &e))
			require.NotZero(t, e.Revision)
		}
	}
}

func TestCatalogWatchGoesOn(t *testing.T) {
	b := setup(t)
	b.applyDocuments(analystDoc)
	b.applyDocuments(clerkDoc)
	b.screen = &terminal{}
	done := make(chan int, 1)
	go func() { done <- b.run(noInput(), "catalog", "watch", "--after", "2", "--all-tenants") }()
	require.Eventually(t, func() bool { return strings.Contains(b.screen.out(), "revision 3: agent clerk\n") }, 10*time.Second, time.Millisecond)
	b.interrupts <- os.Interrupt
	require.Equal(t, exitInterrupted, <-done)
	require.NotContains(t, b.screen.out(), "snapshot")
}

func TestCatalogValidate(t *testing.T) {
	b := setup(t)
	b.server = "http://127.0.0.1:1" // the command needs no server
	good := writeFiles(t, analystDoc, clerkDoc+"---\n"+strings.Replace(clerkDoc, "clerk", "other", 1))
	require.Equal(t, "3 documents in 2 files: no faults\n", b.show(0, "catalog", "validate", good))
	require.JSONEq(t, `[]`, b.jq("faults", 0, "catalog", "validate", good))
	require.Equal(t, "1 document in 1 file: no faults\n", b.showInput(clerkDoc, 0, "catalog", "validate", "-"))

	bad := writeFiles(t, clerkDoc, "# again\n"+clerkDoc, clerkDoc+"nonsense: 1\n")
	out := b.show(exitUsage, "catalog", "validate", bad)
	require.Contains(t, out, filepath.Join(bad, "b.yaml")+":2")
	require.Contains(t, out, "AgentInstance default/clerk: is there twice: first at "+filepath.Join(bad, "a.yaml")+":1")
	require.Contains(t, out, filepath.Join(bad, "c.yaml")+":5")
	require.Contains(t, out, "nonsense")
	require.Contains(t, out, "Error: 2 faults\n")
	require.Contains(t, b.jq("faults", exitUsage, "catalog", "validate", bad), "is there twice")
}

func TestCatalogUsage(t *testing.T) {
	b := setup(t)
	dir := writeFiles(t, clerkDoc)
	for args, want := range map[string]string{
		"apply":                                "requires at least 1 arg",
		"apply " + dir + "/nope.yaml":          "no such file",
		"apply " + dir + " --base-revision -1": "--base-revision",
		"delete agent x --base-revision -1":    "--base-revision",
		"validate " + dir + "/nope.yaml":       "no such file",
		"diff":                                 "requires at least 1 arg",
		"get agent":                            "accepts 2 arg",
		"get gadget x":                         "unknown kind",
		"get agent a/b":                        "is no name",
		"get agent ..":                         "is no name",
		"list gadget":                          "unknown kind",
		"list --limit -1":                      "--limit",
		"list --all-tenants --tenant acme":     "exclude each other",
		"list --source moon":                   "source",
		"history agent a/b":                    "is no name",
		"publish a/b":                          "is no name",
		"watch --after -1":                     "--after",
		"watch extra":                          "unknown command",
		"nonsense":                             "unknown command",
	} {
		require.Contains(t, b.show(exitUsage, append([]string{"catalog"}, strings.Fields(args)...)...), want, args)
	}
	require.Empty(t, b.catalog.Applied())
	for args, want := range map[string]string{
		"agents nope": "unknown command", "agents list --label x": "--label", "agents --label a=1 --label a=2": "--label a", "nodes --limit -1": "--limit",
		"nodes --type gadget": "type", "plan show": "accepts 1 arg",
	} {
		require.Contains(t, b.show(exitUsage, strings.Fields(args)...), want, args)
	}
}
