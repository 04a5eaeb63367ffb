package app_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/turnstone-run/turnstone/internal/app"
)

// operations is docs/guides/operations.md.
func operations(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile("../../docs/guides/operations.md")
	require.NoError(t, err)
	return string(content)
}

// runbookParts begin the paragraphs of a runbook, in this order.
var runbookParts = []string{"**Symptom.**", "**Look.**", "**Likely causes.**", "**Do.**", "**Afterwards.**"}

// TestRunbooks: whoever follows an alert finds the runbook it names, with all its parts and something to type.
func TestRunbooks(t *testing.T) {
	_, text, ok := strings.Cut(operations(t), "\n## Runbooks\n")
	require.True(t, ok)
	text, _, _ = strings.Cut(text, "\n## ")
	runbooks := map[string]string{} // by anchor
	for _, section := range strings.Split(text, "\n### ")[1:] {
		title, body, _ := strings.Cut(section, "\n")
		runbooks[strings.ReplaceAll(strings.ToLower(strings.TrimSpace(title)), " ", "-")] = body
	}
	for anchor, body := range runbooks {
		last := -1
		for _, part := range runbookParts {
			at := strings.Index(body, part)
			require.Greater(t, at, last, "%s: %s", anchor, part)
			last = at
		}
		require.Contains(t, body, "```sh\n", anchor)
	}
	alerts, err := os.ReadFile("../../deploy/prometheus/alerts.yaml")
	require.NoError(t, err)
	named := regexp.MustCompile(`docs/guides/operations\.md#([\w-]+)`).FindAllStringSubmatch(string(alerts), -1)
	require.NotEmpty(t, named)
	asked := map[string]bool{}
	for _, m := range named {
		require.Contains(t, runbooks, m[1], "an alert leads there")
		asked[m[1]] = true
	}
	for anchor := range runbooks {
		require.True(t, asked[anchor], "no alert leads to %s", anchor)
	}
	names := regexp.MustCompile(`(?m)^\s*- alert: (\w+)$`).FindAllStringSubmatch(string(alerts), -1)
	for _, m := range regexp.MustCompile("[Aa]lerts? (`\\w+`(, `\\w+`)*)").FindAllStringSubmatch(text, -1) {
		for _, name := range regexp.MustCompile(`\w+`).FindAllString(m[1], -1) {
			require.True(t, slices.ContainsFunc(names, func(n []string) bool { return n[1] == name }), "there is no alert %s", name)
		}
	}
}

// TestDeploymentExamples: each manifest of the page is one that a cluster takes, and every variable in it is a setting's or another library's.
func TestDeploymentExamples(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```yaml\n(apiVersion: apps/v1\n.*?)```").FindAllStringSubmatch(operations(t), -1)
	require.Len(t, blocks, 2)
	seen := map[string]bool{}
	for i, worker := range []bool{true, false} {
		cfg, labels := deployed(t, blocks[i][1])
		require.Equal(t, worker, cfg.Worker.Enabled)
		require.True(t, cfg.Gateway.Enabled)
		require.False(t, seen[labels["app"]], "a Deployment selects the pods of another")
		seen[labels["app"]] = true
	}
}

// deployed returns the settings of a Deployment and the labels that it selects its pods by.
func deployed(t *testing.T, manifest string) (*app.Config, map[string]string) {
	t.Helper()
	type container struct {
		Ports []struct {
			Name          string `yaml:"name"`
			ContainerPort int    `yaml:"containerPort"`
		} `yaml:"ports"`
		Env []struct {
			Name  string `yaml:"name"`
			Value string `yaml:"value"`
		} `yaml:"env"`
		ReadinessProbe struct {
			HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
		} `yaml:"readinessProbe"`
		LivenessProbe any `yaml:"livenessProbe"`
	}
	var d struct {
		Spec struct {
			Selector struct {
				MatchLabels map[string]string `yaml:"matchLabels"`
			} `yaml:"selector"`
			Template struct {
				Metadata struct {
					Labels map[string]string `yaml:"labels"`
				} `yaml:"metadata"`
				Spec struct {
					Grace      int         `yaml:"terminationGracePeriodSeconds"`
					Containers []container `yaml:"containers"`
				} `yaml:"spec"`
			} `yaml:"template"`
		} `yaml:"spec"`
	}
	require.NoError(t, yaml.Unmarshal([]byte(manifest), &d))
	require.Equal(t, d.Spec.Selector.MatchLabels, d.Spec.Template.Metadata.Labels)
	require.Len(t, d.Spec.Template.Spec.Containers, 1)
	c := d.Spec.Template.Spec.Containers[0]
	require.Equal(t, "/health", c.ReadinessProbe.HTTPGet.Path)
	require.Equal(t, c.Ports[0].Name, c.ReadinessProbe.HTTPGet.Port)
	require.Nil(t, c.LivenessProbe, "an outage of the database is no reason to restart everything")

	env := []string{"DATABASE_URL=postgres://x", "OPENAI_API_KEY=x", "TURNSTONE_AUTH_OPERATOR_KEY=" + strings.Repeat("k", 40)} // of the Secret
	for _, v := range c.Env {
		require.Contains(t, app.Variables(), v.Name, "nobody reads this variable")
		env = append(env, v.Name+"="+v.Value)
	}
	cfg, err := app.Load(sources(t, "", env))
	require.NoError(t, err)
	require.Empty(t, cfg.Warnings())
	require.Greater(t, time.Duration(d.Spec.Template.Spec.Grace)*time.Second, cfg.Jobs.DrainTimeout+cfg.ShutdownTimeout, "a drain is not cut off")
	require.Equal(t, ":8080", cfg.HTTP.Addr)
	require.Equal(t, 8080, c.Ports[0].ContainerPort)
	return cfg, d.Spec.Selector.MatchLabels
}
