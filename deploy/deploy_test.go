// Package deploy_test compares the dashboard, the alerts and docs/reference/metrics.md with the metrics that a process registers.
package deploy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/VictoriaMetrics/metricsql"
	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the table of docs/reference/metrics.md anew")

// expression is a PromQL expression in a panel or an alert.
type expression struct{ where, promql string }

// dashboard has the fields of the Grafana dashboard that the tests check.
type dashboard struct {
	Panels []struct {
		ID      int    `json:"id"`
		Type    string `json:"type"`
		Title   string `json:"title"`
		GridPos struct{ H, W, X, Y int }
		Targets []struct {
			Expr string `json:"expr"`
		} `json:"targets"`
	} `json:"panels"`
	Templating struct {
		List []struct {
			Name       string `json:"name"`
			Definition string `json:"definition"`
		} `json:"list"`
	} `json:"templating"`
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	var d dashboard
	body, err := os.ReadFile("grafana/turnstone.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(body, &d))
	return d
}

// panels returns the dashboard's expressions, with values in place of Grafana's variables.
func panels(t *testing.T) []expression {
	t.Helper()
	var out []expression
	for _, p := range readDashboard(t).Panels {
		if p.Type != "row" {
			require.NotEmpty(t, p.Targets, p.Title)
		}
		for _, q := range p.Targets {
			promql := strings.ReplaceAll(q.Expr, "$__rate_interval", "5m")
			out = append(out, expression{"panel " + p.Title, regexp.MustCompile(`"\$\w+"`).ReplaceAllString(promql, `".*"`)})
		}
	}
	return out
}

type rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func rules(t *testing.T) []rule {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []rule `yaml:"rules"`
		} `yaml:"groups"`
	}
	body, err := os.ReadFile("prometheus/alerts.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(body, &file))
	var out []rule
	for _, g := range file.Groups {
		out = append(out, g.Rules...)
	}
	require.NotEmpty(t, out)
	return out
}

func alerts(t *testing.T) []expression {
	t.Helper()
	var out []expression
	for _, r := range rules(t) {
		out = append(out, expression{"alert " + r.Alert, r.Expr})
	}
	return out
}

// selectors returns the metrics of an expression with the labels by which it filters them, and the labels by which it groups.
func selectors(t *testing.T, e expression) (metrics map[string][]string, grouped []string) {
	t.Helper()
	parsed, err := metricsql.Parse(e.promql)
	require.NoError(t, err, "%s: %s", e.where, e.promql)
	metrics = map[string][]string{}
	metricsql.VisitAll(parsed, func(one metricsql.Expr) {
		switch one := one.(type) {
		case *metricsql.MetricExpr:
			for _, filters := range one.LabelFilterss {
				require.Equal(t, "__name__", filters[0].Label, e.where)
				name := filters[0].Value
				metrics[name] = append(metrics[name], "") // also without a label
				for _, f := range filters[1:] {
					metrics[name] = append(metrics[name], f.Label)
				}
			}
		case *metricsql.AggrFuncExpr:
			grouped = append(grouped, one.Modifier.Args...)
		}
	})
	return metrics, grouped
}

// TestExpressionsNameWhatThereIs checks that the metrics and labels in panels and alerts exist.
func TestExpressionsNameWhatThereIs(t *testing.T) {
	registered := registered(t)
	for _, e := range append(panels(t), alerts(t)...) {
		metrics, grouped := selectors(t, e)
		var known []string
		for name, asked := range metrics {
			m, ok := find(registered, name)
			require.True(t, ok, "%s: nobody registers %s", e.where, name)
			labels := append([]string{"", "job", "instance"}, m.labels...)
			if strings.HasSuffix(name, "_bucket") {
				labels = append(labels, "le")
			}
			for _, l := range asked {
				require.True(t, m.sdk || slices.Contains(labels, l), "%s: %s has no label %s", e.where, name, l)
			}
			if m.sdk {
				labels = append(labels, sdkLabels()...)
			}
			known = append(known, labels...)
		}
		for _, l := range grouped {
			require.Contains(t, known, l, e.where)
		}
	}
}

// TestDashboardShowsEverything checks that there is a panel for each of our metrics.
func TestDashboardShowsEverything(t *testing.T) {
	shown := map[string]bool{}
	all := registered(t)
	for _, e := range panels(t) {
		metrics, _ := selectors(t, e)
		for name := range metrics {
			m, _ := find(all, name)
			shown[m.name] = true
		}
	}
	for _, m := range all {
		if !m.sdk && !m.runtime {
			require.True(t, shown[m.name], "no panel shows %s", m.name)
		}
	}
}

func TestDashboardIsWhole(t *testing.T) {
	d := readDashboard(t)
	ids, places := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		require.False(t, ids[p.ID], "id %d twice", p.ID)
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				require.Empty(t, places[[2]int{x, y}], "%s lies on it", p.Title)
				places[[2]int{x, y}] = p.Title
			}
		}
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24)
	}
	body, err := os.ReadFile("grafana/turnstone.json")
	require.NoError(t, err)
	known := []string{"__rate_interval", "__all"}
	all := registered(t)
	for _, v := range d.Templating.List {
		known = append(known, v.Name)
		if parts := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`).FindStringSubmatch(v.Definition); parts != nil {
			m, ok := find(all, parts[1])
			require.True(t, ok, v.Definition)
			require.Contains(t, append([]string{"job"}, m.labels...), parts[2], v.Definition)
		}
	}
	for _, v := range regexp.MustCompile(`\$\{?(\w+)`).FindAllStringSubmatch(string(body), -1) {
		require.Contains(t, known, v[1])
	}
}

// anchors returns the anchors of the runbooks in docs/guides/operations.md.
func anchors() []string {
	return []string{
		"turns-fail", "model-provider-fails", "turns-are-slow", "approvals-wait", "queues-grow", "event-log-lags", "budget-nearly-used",
		"catalog-does-not-load", "worker-gone", "temporal-slow", "database-away", "retention-late",
	}
}

func TestAlertsSayWhatToDo(t *testing.T) {
	const docs = "https://github.com/turnstone-run/turnstone/blob/main/docs/"
	tests, err := os.ReadFile("prometheus/alerts_test.yaml")
	require.NoError(t, err)
	used := map[string]bool{}
	for _, r := range rules(t) {
		require.NotEmpty(t, r.For, r.Alert)
		require.Contains(t, []string{"page", "ticket"}, r.Labels["severity"], r.Alert)
		require.NotEmpty(t, r.Annotations["summary"], r.Alert)
		require.NotEmpty(t, r.Annotations["description"], r.Alert)
		page, anchor, _ := strings.Cut(strings.TrimPrefix(r.Annotations["runbook_url"], docs), "#")
		if page == "reference/metrics.md" {
			body, err := os.ReadFile("../docs/reference/metrics.md")
			require.NoError(t, err)
			require.Contains(t, strings.ToLower(string(body)), "\n## "+anchor+"\n")
		} else {
			require.Equal(t, "guides/operations.md", page, r.Alert)
			require.Contains(t, anchors(), anchor, r.Alert)
			used[anchor] = true
		}
		require.Contains(t, string(tests), fmt.Sprintf(`alertname=%q`, r.Alert), "alerts_test.yaml does not make it fire")
	}
	require.Len(t, used, len(anchors()))
}

// promtool runs Prometheus's promtool, which must succeed.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	require.NoError(t, err, "promtool is not there: apt-get install --no-install-recommends prometheus (the service need not run)")
	out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func TestPromtool(t *testing.T) {
	promtool(t, "check", "rules", "prometheus/alerts.yaml")
	promtool(t, "check", "config", "--syntax-only", "prometheus/prometheus.yaml")
	promtool(t, "test", "rules", "prometheus/alerts_test.yaml")

	// promtool checks the panels as recording rules, because metricsql accepts more than Prometheus.
	var file struct {
		Groups []map[string]any `yaml:"groups"`
	}
	group := map[string]any{"name": "panels"}
	var recorded []map[string]string
	for i, e := range panels(t) {
		recorded = append(recorded, map[string]string{"record": fmt.Sprintf("panel:%d", i), "expr": e.promql})
	}
	group["rules"] = recorded
	file.Groups = append(file.Groups, group)
	body, err := yaml.Marshal(file)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "panels.yaml")
	require.NoError(t, os.WriteFile(path, body, 0o600))
	promtool(t, "check", "rules", path)
}

const (
	tableBegins = "<!-- metrics: go test ./deploy -update -->\n"
	tableEnds   = "<!-- end -->\n"
)

// TestDocumentationIsComplete checks that the table in docs/reference/metrics.md has all metrics, with their types, labels and help.
func TestDocumentationIsComplete(t *testing.T) {
	var want bytes.Buffer
	want.WriteString("| metric | type | labels | |\n|---|---|---|---|\n")
	for _, m := range registered(t) {
		if m.sdk || m.runtime {
			continue
		}
		labels := "–"
		if len(m.labels) > 0 {
			labels = "`" + strings.Join(m.labels, "`, `") + "`"
		}
		fmt.Fprintf(&want, "| `%s` | %s | %s | %s |\n", m.name, m.kind, labels, m.help)
	}
	const path = "../docs/reference/metrics.md"
	body, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(body), tableBegins)
	require.True(t, ok, "%s lacks %s", path, tableBegins)
	got, after, ok := strings.Cut(rest, tableEnds)
	require.True(t, ok)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(before+tableBegins+want.String()+tableEnds+after), 0o600))
		return
	}
	require.Equal(t, want.String(), got)
}

// TestNoMetricIsMissing checks that registered returns all metrics in the source code.
func TestNoMetricIsMissing(t *testing.T) {
	declaration := regexp.MustCompile(`(?:Name: |\b(?:newCounters?|newGauge|newHistograms|describe)\(\s*)"([a-z_]+)",\s+(?:Help: )?"[A-Z]`)
	var declared, documented []string
	require.NoError(t, filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		if strings.Contains(string(source), "prometheus/client_golang/prometheus") {
			for _, m := range declaration.FindAllStringSubmatch(string(source), -1) {
				declared = append(declared, m[1])
			}
		}
		return err
	}))
	for _, m := range registered(t) {
		if !m.sdk && !m.runtime {
			documented = append(documented, m.name)
		}
	}
	require.ElementsMatch(t, documented, declared)
}

// sdkNames reads the names of the Temporal SDK's metrics from its source code, because they are not in its API.
func sdkNames(t *testing.T) []string {
	t.Helper()
	dir, err := exec.CommandContext(context.WithoutCancel(t.Context()), "go", "list", "-m", "-f", "{{.Dir}}", "go.temporal.io/sdk").Output()
	require.NoError(t, err)
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "internal/common/metrics/constants.go"))
	require.NoError(t, err)
	values := map[string]string{}
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^\s+(\w+)\s+= (?:(\w+) \+ )?"(\w+)"`).FindAllStringSubmatch(string(source), -1) {
		values[m[1]] = values[m[2]] + m[3]
		if strings.HasPrefix(values[m[1]], "temporal_") && m[2] != "" {
			names = append(names, values[m[1]])
		} else if m[1] == "TemporalMetricsPrefix" {
			require.Equal(t, "temporal_", m[3])
		}
	}
	require.Greater(t, len(names), 40)
	return names
}

// sdkLabels returns the labels of the SDK's metrics by which expressions may group.
func sdkLabels() []string {
	return []string{"operation", "worker_type", "workflow_type", "activity_type", "poller_type", "namespace", "task_queue", "status_code"}
}
