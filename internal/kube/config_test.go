package kube_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/kube"
)

func TestNewRefuses(t *testing.T) {
	for _, test := range []struct {
		field  string
		change func(*kube.Config)
	}{
		{"client", func(c *kube.Config) { c.Client = nil }},
		{"namespace", func(c *kube.Config) { c.Namespace = "A b" }},
		{"deadline", func(c *kube.Config) { c.Deadline = time.Millisecond }},
		{"ttl", func(c *kube.Config) { c.TTL = time.Second }},
		{"ttl", func(c *kube.Config) { c.TTL = 365 * 24 * time.Hour }},
		{"cpu", func(c *kube.Config) { c.CPU = "x" }},
		{"memory", func(c *kube.Config) { c.Memory = "0" }},
		{"ephemeral_storage", func(c *kube.Config) { c.EphemeralStorage = "1Zi" }},
		{"tmp", func(c *kube.Config) { c.EphemeralStorage = "100Mi" }},
		{"interpreter", func(c *kube.Config) { c.Interpreter = "UPPER" }},
		{"images[1]", func(c *kube.Config) { c.Images = []string{"ok", "*"} }},
	} {
		cfg := kube.Config{Client: &kube.Client{}}
		test.change(&cfg)
		_, err := kube.New(cfg)
		var e *agent.Error
		require.ErrorAs(t, err, &e, test.field)
		require.Equal(t, agent.CodeInvalid, e.Code)
		require.Equal(t, test.field, e.Field, "%v", err)
	}
	_, err := kube.New(kube.Config{Client: &kube.Client{}, Deadline: kube.MaxDeadline + time.Second})
	require.ErrorContains(t, err, "deadline: want at most 7m30s")
}

const digest = "@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func TestImages(t *testing.T) {
	tests := []struct {
		rule, image string
		ok          bool
	}{
		{"python", "python", true},
		{"python", "docker.io/library/python:3.13", true},
		{"docker.io/library/python", "python:3", true},
		{"python", "evil/python", false},
		{"python:3.13", "python:3.13", true},
		{"python:3.13", "python", false},
		{"python:3.13", "python:3.13" + digest, false},
		{"python" + digest, "python:3.13" + digest, true},
		{"python" + digest, "python:3.13", false},
		{"r.example:5000/team/tool", "r.example:5000/team/tool" + digest, true},
		{"r.example:5000/team/tool", "r.example/team/tool", false},
		{"r.example/team/*", "r.example/team/a/b:1", true},
		{"r.example/team/*", "r.example/teams/a", false},
		{"r.example/team/*", "r.example/team", false},
		{"r.example/*", "r.example/team/a", true},
		{"team/*", "team/a", true},
		{"team/*", "r.example/team/a", false},
	}
	for _, tt := range tests {
		w := newWorld(t, func(c *kube.Config) { c.Images = []string{"unrelated/x", tt.rule} })
		in := w.container()
		in.Image, in.CPU = tt.image, "never" // the image is checked first
		_, err := w.Run(t.Context(), in)
		var e *agent.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, map[bool]string{true: "cpu", false: "image"}[tt.ok], e.Field, "%s for %s: %v", tt.rule, tt.image, err)
	}
	for _, rule := range []string{"", "*", "/*", "a b", "r.example/team/*:1", "r.example/t*", "https://r.example/x", "R.example/X"} {
		_, err := kube.New(kube.Config{Client: &kube.Client{}, Images: []string{rule}})
		require.Error(t, err, rule)
	}
}

func TestConnect(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(file, []byte(`
apiVersion: v1
kind: Config
current-context: one
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts:
  - {name: one, context: {cluster: c, user: u, namespace: agents}}
  - {name: two, context: {cluster: c, user: u}}
`), 0o600))
	for _, context := range []string{"", "two"} {
		client, err := kube.Connect(file, context)
		require.NoError(t, err)
		require.NotNil(t, client)
	}
	for access, field := range map[[2]string]string{
		{file + "x", ""}: "kubeconfig", {file, "three"}: "kubeconfig", {"", ""}: "in_cluster", {"", "one"}: "in_cluster",
	} {
		_, err := kube.Connect(access[0], access[1])
		var e *agent.Error
		require.ErrorAs(t, err, &e, "%+v", access)
		require.Equal(t, agent.CodeInvalid, e.Code)
		require.Equal(t, field, e.Field)
	}
}
