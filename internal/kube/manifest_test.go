package kube_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/kube"
)

var update = flag.Bool("update", false, "write the golden files anew")

// startedObjects runs a call until its container may run, and returns what is on the cluster.
func startedObjects(t *testing.T, change func(*kube.Config), in func(*agent.Container)) (*batchv1.Job, *corev1.Secret) {
	t.Helper()
	w := newWorld(t, change)
	ask := w.container()
	in(&ask)
	done := w.run(t.Context(), ask)
	job, _ := w.started()
	secret, err := w.CoreV1().Secrets(namespace).Get(t.Context(), job.Name, metav1.GetOptions{})
	require.NoError(t, err)
	w.finish(job.DeepCopy(), batchv1.JobFailed, "")
	w.wait(done)
	job.ManagedFields, secret.ManagedFields = nil, nil // the fake's own
	return job, secret
}

// golden compares the manifests with the file of a name.
func golden(t *testing.T, name string, objects ...any) {
	t.Helper()
	var got bytes.Buffer
	e := json.NewEncoder(&got)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	require.NoError(t, e.Encode(objects))
	path := filepath.Join("testdata", name+".json")
	if *update {
		require.NoError(t, os.WriteFile(path, got.Bytes(), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got.String())
}

func TestManifests(t *testing.T) {
	job, secret := startedObjects(t, nil, func(*agent.Container) {})
	golden(t, "custom", job, secret)

	job, secret = startedObjects(t, func(c *kube.Config) {
		c.CPU, c.Memory, c.EphemeralStorage = "2", "1Gi", "2Gi"
		c.TTL, c.Deadline, c.RuntimeClass, c.PullSecrets = time.Minute, time.Minute, "gvisor", []string{"registry"}
	}, func(c *agent.Container) {
		c.Image, c.Language, c.Code = "", "python", "print(1)\n"
		c.CPU, c.Memory, c.Timeout = "500m", "64Mi", 30*time.Second
		c.Env = map[string]string{"B": "2", "A": "$(B) $HOME $$"}
	})
	golden(t, "interpreter", job, secret)
}

// Whatever a tenant, a turn or a model is called, what reaches the cluster is a manifest that it takes.
func TestHostileNames(t *testing.T) {
	for _, name := range []string{
		"", strings.Repeat("x", 5000), "../../etc", "a\nb: c", "--", "\xff\xfe", "Ümlaut/…", "a=b,c!=d", "\x00", "'; DROP TABLE", strings.Repeat("-", 70) + "a",
	} {
		job, secret := startedObjects(t, nil, func(c *agent.Container) {
			c.Tenant, c.TurnID, c.Key = name, agent.TurnID(name), name+"/1"
			c.Command, c.Args = []string{"sh", "-c", "echo $(A) $A"}, []string{"--x=$(TURNSTONE_INPUT)"}
		})
		require.Regexp(t, `^turnstone-[0-9a-f]{32}$`, job.Name)
		require.Equal(t, job.Name, secret.Name)
		for _, value := range job.Labels {
			require.Regexp(t, `^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`, value)
		}
		for _, value := range job.Annotations {
			require.LessOrEqual(t, len(value), 256)
		}
		require.Equal(t, []string{"sh", "-c", "echo $$(A) $$A"}, job.Spec.Template.Spec.Containers[0].Command)
		require.Equal(t, []string{"--x=$$(TURNSTONE_INPUT)"}, job.Spec.Template.Spec.Containers[0].Args)
	}
	names := map[string]bool{}
	for _, c := range [][2]string{{"a", "b/1"}, {"a", "b/2"}, {"b", "b/1"}, {"ab", "/1"}, {"a\x00b", "/1"}, {"a", "b\x00/1"}} {
		job, _ := startedObjects(t, nil, func(in *agent.Container) { in.Tenant, in.Key = c[0], c[1] })
		names[job.Name] = true
	}
	require.Len(t, names, 5, "another tenant's or another call's job is another job") // the last two are one: no name has a NUL byte
}

func TestRefused(t *testing.T) {
	many := func(n int) map[string]string {
		m := map[string]string{}
		for i := range n {
			m["V"+strings.Repeat("x", i)] = ""
		}
		return m
	}
	code := func(c *agent.Container) { c.Image, c.Code = "", "1" }
	tests := map[string]struct {
		in          func(*agent.Container)
		code, field string
		message     string
	}{
		"image":             {func(c *agent.Container) { c.Image = "registry.example/other" }, "denied", "image", "not an image that may be run"},
		"image of another":  {func(c *agent.Container) { c.Image = "registry.example.evil/tool" }, "denied", "image", "not an image that may be run"},
		"image below":       {func(c *agent.Container) { c.Image = "registry.example/tool/x" }, "denied", "image", "not an image that may be run"},
		"no image":          {func(c *agent.Container) { c.Image = "registry.example/tool:1 --privileged" }, "invalid", "image", "is no image"},
		"an option":         {func(c *agent.Container) { c.Image = "-v" }, "invalid", "image", "is no image"},
		"long image":        {func(c *agent.Container) { c.Image = strings.Repeat("a", 1000) }, "invalid", "image", "is no image"},
		"cpu":               {func(c *agent.Container) { c.CPU = "lots" }, "invalid", "cpu", "is no quantity"},
		"too much cpu":      {func(c *agent.Container) { c.CPU = "1001m" }, "denied", "cpu", "1001m: at most 1"},
		"no cpu":            {func(c *agent.Container) { c.CPU = "0" }, "invalid", "cpu", "more than 0"},
		"negative memory":   {func(c *agent.Container) { c.Memory = "-1Mi" }, "invalid", "memory", "more than 0"},
		"too much memory":   {func(c *agent.Container) { c.Memory = "1Gi" }, "denied", "memory", "at most 512Mi"},
		"endless memory":    {func(c *agent.Container) { c.Memory = strings.Repeat("9", 1000) }, "invalid", "memory", "is no quantity"},
		"time":              {func(c *agent.Container) { c.Timeout = time.Hour }, "denied", "timeout", "at most 7m0s"},
		"negative time":     {func(c *agent.Container) { c.Timeout = -1 }, "invalid", "timeout", "at least 1s"},
		"env name":          {func(c *agent.Container) { c.Env = map[string]string{"A=B\nC": "x"} }, "invalid", "env", "is no name"},
		"long env name":     {func(c *agent.Container) { c.Env = map[string]string{strings.Repeat("A", 200): "x"} }, "invalid", "env", "is no name"},
		"env of ours":       {func(c *agent.Container) { c.Env = map[string]string{"TURNSTONE_INPUT": "x"} }, "denied", "env.TURNSTONE_INPUT", "set by the runtime"},
		"env of the linker": {func(c *agent.Container) { c.Env = map[string]string{"LD_PRELOAD": "x"} }, "denied", "env.LD_PRELOAD", "set by the runtime"},
		"NUL in env":        {func(c *agent.Container) { c.Env = map[string]string{"A": "x\x00"} }, "invalid", "env.A", "NUL"},
		"much env":          {func(c *agent.Container) { c.Env = map[string]string{"A": strings.Repeat("x", 33<<10)} }, "overflow", "env", "more than 32768 bytes"},
		"many env":          {func(c *agent.Container) { c.Env = many(65) }, "overflow", "env", "at most 64"},
		"many args":         {func(c *agent.Container) { c.Args = make([]string, 129) }, "overflow", "args", "at most 128"},
		"long args":         {func(c *agent.Container) { c.Args = []string{strings.Repeat("x", 33<<10)} }, "overflow", "args", "more than 32768 bytes"},
		"bad args":          {func(c *agent.Container) { c.Args = []string{"x", "\xff"} }, "invalid", "args[1]", "no UTF-8"},
		"giant input": {func(c *agent.Container) {
			c.Input = json.RawMessage(`{"a":"` + strings.Repeat("x", kube.MaxInput) + `"}`)
		}, "overflow", "input", "at most 921600"},
		"no object":      {func(c *agent.Container) { c.Input = json.RawMessage(`[]`) }, "invalid", "input", "want an object"},
		"language":       {func(c *agent.Container) { code(c); c.Language = "cobol" }, "invalid", "language", "want one of python"},
		"no code":        {func(c *agent.Container) { c.Image = "" }, "invalid", "code", "is required"},
		"code and image": {func(c *agent.Container) { c.Code = "1" }, "invalid", "code", "for the interpreter alone"},
		"own command":    {func(c *agent.Container) { code(c); c.Command = []string{"sh"} }, "invalid", "command", "configured"},
		"giant code":     {func(c *agent.Container) { code(c); c.Code = strings.Repeat("x", kube.MaxInput) }, "overflow", "input", "at most"},
		"no key":         {func(c *agent.Container) { c.Key = "" }, "internal", "", "no idempotency key"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			in := w.container()
			tt.in(&in)
			_, err := w.Run(t.Context(), in)
			var e *agent.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, tt.code, string(e.Code), "%v", err)
			require.Equal(t, tt.field, e.Field)
			require.ErrorContains(t, err, tt.message)
			require.Less(t, len(err.Error()), 1000)
			require.Empty(t, w.Actions(), "nothing reaches the cluster")
		})
	}
	w := newWorld(t, func(c *kube.Config) { c.Interpreter = "" })
	in := w.container()
	code(&in)
	_, err := w.Run(t.Context(), in)
	require.ErrorContains(t, err, "no code interpreter is configured")
	require.Equal(t, agent.CodeDenied, agent.CodeOf(err))
}
