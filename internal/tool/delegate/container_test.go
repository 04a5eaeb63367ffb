package delegate_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool"
	"github.com/turnstone-run/turnstone/internal/tool/delegate"
	"github.com/turnstone-run/turnstone/internal/tool/tooltest"
)

// dock is a [delegate.Containers] that returns configured results and records its calls.
type dock struct {
	result agent.ContainerResult
	err    error
	asked  []agent.Container

	status   agent.ContainerStatus
	rendered []string
}

func (d *dock) Run(_ context.Context, c agent.Container) (agent.ContainerResult, error) {
	c.Report = nil
	d.asked = append(d.asked, c)
	return d.result, d.err
}

func (d *dock) Render(c agent.Container) (agent.ContainerManifest, error) {
	d.rendered = append(d.rendered, c.Key+" "+c.Tenant+" "+c.Image)
	return agent.ContainerManifest{Job: "j", Manifest: json.RawMessage(`{"kind":"List"}`)}, d.err
}

func (d *dock) Status(_ context.Context, tenant, job string) (agent.ContainerStatus, error) {
	d.status.Job = tenant + "/" + job
	return d.status, d.err
}

// blobs is a blob store that keeps the last content.
type blobs struct{ tenant, content string }

func (v *blobs) Put(_ context.Context, tenant string, r io.Reader) (string, error) {
	b, err := io.ReadAll(r)
	v.tenant, v.content = tenant, string(b)
	return "cas://sha256:1", err
}

func (*blobs) Open(context.Context, string, string) (io.ReadCloser, error) {
	return nil, errors.ErrUnsupported
}

func invocation() agent.Invocation {
	return agent.Invocation{Tenant: "acme", TurnID: "t1", IdempotencyKey: "t1/1/a", Attempt: 2}
}

// callWith calls delegate_to_agent.
func callWith(t *testing.T, cfg delegate.Config, inv agent.Invocation, args string) (agent.ToolResult, error) {
	t.Helper()
	kit, err := delegate.Factory(cfg).New(tool.Dependencies{Blobs: cfg.Blobs})
	require.NoError(t, err)
	res, err := kit.Tools()[0].Call(t.Context(), inv, agent.ToolCall{Name: delegate.ToolName, Args: json.RawMessage(args)})
	if err == nil {
		tooltest.CheckResult(t, res)
	}
	return res, err
}

func TestToolkitWithContainers(t *testing.T) {
	tooltest.Exercise(t, delegate.New(delegate.Config{Containers: &dock{}}))
}

func TestRequestedContainers(t *testing.T) {
	call := agent.Container{Tenant: "acme", TurnID: "t1", Key: "t1/1/a", Attempt: 2}
	with := func(change func(*agent.Container)) agent.Container {
		c := call
		change(&c)
		return c
	}
	tests := map[string]struct {
		args string
		want agent.Container
	}{
		"image": {
			`{"agent_type":"custom_container","container_image":"r.example/x:1","inputs":{"n": 12345678901234567890}}`,
			with(func(c *agent.Container) {
				c.Image, c.Input = "r.example/x:1", json.RawMessage(`{"n": 12345678901234567890}`)
			}),
		},
		"config": {
			`{"agent_type":"custom_container","container_image":"x","inputs":{},"config":{"cpu":0.5,"memory":"64Mi","timeout_sec":9,"env":{"A":"b"},` +
				`"command":["run"],"args":["-x",""]}}`,
			with(func(c *agent.Container) {
				c.Image, c.Input, c.CPU, c.Memory, c.Timeout = "x", json.RawMessage(`{}`), "0.5", "64Mi", 9*time.Second
				c.Env, c.Command, c.Args = map[string]string{"A": "b"}, []string{"run"}, []string{"-x", ""}
			}),
		},
		"nulls of strict": {
			`{"agent_type":"code_interpreter","container_image":null,"inputs":{"code":"1"},"config":{"cpu":null,"memory":null,"timeout_sec":null,"env":null}}`,
			with(func(c *agent.Container) { c.Code, c.Input = "1", json.RawMessage(`{}`) }),
		},
		"code": {
			`{"agent_type":"code_interpreter","inputs":{"rows":[1, 2],"language":"python","code":"print(\"é\")\n","z":1.0}}`,
			with(func(c *agent.Container) {
				c.Code, c.Language, c.Input = "print(\"é\")\n", "python", json.RawMessage(`{"rows":[1,2],"z":1.0}`)
			}),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := &dock{}
			_, err := callWith(t, delegate.Config{Containers: d}, invocation(), tt.args)
			require.NoError(t, err)
			require.Equal(t, []agent.Container{tt.want}, d.asked)
		})
	}
}

func TestBadContainers(t *testing.T) {
	custom := func(config string) string {
		return `{"agent_type":"custom_container","container_image":"x","inputs":{},"config":` + config + `}`
	}
	code := func(inputs, config string) string {
		return `{"agent_type":"code_interpreter","inputs":` + inputs + `,"config":` + config + `}`
	}
	tests := map[string]struct{ args, field, message string }{
		"no code":             {code(`{"x":1}`, `{}`), "inputs.code", "is required"},
		"blank code":          {code(`{"code":" \n"}`, `{}`), "inputs.code", "is required"},
		"code is no string":   {code(`{"code":["x"]}`, `{}`), "inputs.code", "want a string"},
		"language":            {code(`{"code":"x","language":1}`, `{}`), "inputs.language", "want a string"},
		"unknown":             {custom(`{"privileged":true}`), "config.privileged", "unknown field"},
		"the other's":         {code(`{"code":"x"}`, `{"command":["sh"]}`), "config.command", "unknown field"},
		"cpu":                 {custom(`{"cpu":true}`), "config.cpu", "want a quantity"},
		"time":                {custom(`{"timeout_sec":0}`), "config.timeout_sec", "at least 1"},
		"a fraction":          {custom(`{"timeout_sec":1.5}`), "config.timeout_sec", "whole number"},
		"no time at all":      {custom(`{"timeout_sec":1e99}`), "config.timeout_sec", ""},
		"env":                 {custom(`{"env":{"A":1}}`), "config.env.A", "want a string"},
		"env twice":           {custom(`{"env":{"A":"1","A":"2"}}`), "config.env.A", "given twice"},
		"args":                {custom(`{"args":"-x"}`), "config.args", "want an array"},
		"args of other types": {custom(`{"args":[1]}`), "config.args[0]", "want a string"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := &dock{}
			res, err := callWith(t, delegate.Config{Containers: d}, invocation(), tt.args)
			require.NoError(t, err)
			require.NotNil(t, res.Failure)
			require.Equal(t, "invalid", res.Failure.Type)
			require.Equal(t, tt.field, res.Failure.Field)
			require.Contains(t, res.Failure.Message, tt.message)
			require.Empty(t, d.asked)
		})
	}
}

const image = `{"agent_type":"custom_container","container_image":"x","inputs":{}}`

// TestErrorsOfContainers checks that a refused request is a failed result that names an argument, and that other errors are for the runtime.
func TestErrorsOfContainers(t *testing.T) {
	for field, want := range map[string]string{
		"cpu": "config.cpu", "memory": "config.memory", "timeout": "config.timeout_sec", "env.A": "config.env.A", "args[3]": "config.args[3]",
		"image": "container_image", "input": "inputs", "code": "inputs.code", "language": "inputs.language", "": "",
	} {
		d := &dock{err: agent.FieldErrorf(agent.CodeDenied, field, "too much")}
		res, err := callWith(t, delegate.Config{Containers: d}, invocation(), image)
		require.NoError(t, err)
		require.Equal(t, &agent.Failure{Type: "denied", Message: "too much", Field: want, Tool: delegate.ToolName}, res.Failure)
	}
	for _, err := range []error{agent.Errorf(agent.CodeUnavailable, "", "away"), agent.ErrFenced, context.Canceled} {
		_, got := callWith(t, delegate.Config{Containers: &dock{err: err}}, invocation(), image)
		require.ErrorIs(t, got, err)
	}
	d := &dock{result: agent.ContainerResult{Failure: &agent.Failure{Type: agent.OutcomeUnknown, Message: "gone", Field: "image"}}}
	for args, field := range map[string]string{image: "container_image", `{"agent_type":"code_interpreter","inputs":{"code":"1"}}`: "agent_type"} {
		res, err := callWith(t, delegate.Config{Containers: d}, invocation(), args)
		require.NoError(t, err)
		require.Equal(t, &agent.Failure{Type: agent.OutcomeUnknown, Message: "gone", Field: field, Tool: delegate.ToolName}, res.Failure)
	}
}

func TestResultsAndLogs(t *testing.T) {
	result := func(r, logs string, cut bool) *dock {
		return &dock{result: agent.ContainerResult{Job: "j", Result: json.RawMessage(r), Logs: logs, LogsCut: cut}}
	}
	long := strings.Repeat("é", 3000) + "end"

	res, err := callWith(t, delegate.Config{Containers: result(`{"n":12345678901234567890}`, "hi\n", false)}, invocation(), image)
	require.NoError(t, err)
	require.JSONEq(t, `{"result":{"n":12345678901234567890},"logs":"hi\n","job":"j"}`, string(res.Output))
	require.Contains(t, string(res.Output), `12345678901234567890`, "numbers keep their digits")

	d := &dock{result: agent.ContainerResult{Job: "j", Logs: long}}
	res, err = callWith(t, delegate.Config{Containers: d}, invocation(), image)
	require.NoError(t, err)
	require.JSONEq(t, `{"result":null,"logs":"`+long+`","job":"j"}`, string(res.Output), "without a result, more of the logs is shown")

	stored := &blobs{}
	inv := invocation()
	inv.Redact = func(raw json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(strings.ReplaceAll(string(raw), "end", "END")), nil
	}
	var out struct {
		Result  int
		Logs    string
		LogsRef string `json:"logs_ref"`
	}
	res, err = callWith(t, delegate.Config{Containers: result(`7`, long, false), Blobs: stored}, inv, image)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(res.Output, &out))
	require.Equal(t, 7, out.Result)
	require.Less(t, len(out.Logs), 2100)
	require.True(t, strings.HasPrefix(out.Logs, "…é") && strings.HasSuffix(out.Logs, "end"), out.Logs)
	require.Equal(t, "cas://sha256:1", out.LogsRef)
	require.Equal(t, "acme", stored.tenant)
	require.JSONEq(t, `{"job":"j","logs":"`+strings.Replace(long, "end", "END", 1)+`"}`, stored.content)

	inv.Redact = func(json.RawMessage) (json.RawMessage, error) { return nil, errors.ErrUnsupported }
	*stored = blobs{}
	res, err = callWith(t, delegate.Config{Containers: result(`7`, long, true), Blobs: stored}, inv, image)
	require.NoError(t, err)
	require.NotContains(t, string(res.Output), "logs_ref")
	require.Empty(t, stored.content, "logs that must not be stored are not")
}

// TestDryRun checks that a dry run, and every call without a cluster, returns the manifest, runs nothing, and has no effects.
func TestDryRun(t *testing.T) {
	dryRun := `{"agent_type":"custom_container","container_image":"x","inputs":{},"config":{"dry_run":true}}`
	for name, tt := range map[string]struct {
		cfg  func(d *dock) delegate.Config
		args string
		says string
	}{
		"asked for":                    {func(d *dock) delegate.Config { return delegate.Config{Containers: d} }, dryRun, "dry_run was asked for: nothing was run"},
		"no cluster":                   {func(d *dock) delegate.Config { return delegate.Config{Manifests: d} }, image, "no cluster is configured: nothing was run"},
		"asked for, without a cluster": {func(d *dock) delegate.Config { return delegate.Config{Manifests: d} }, dryRun, "no cluster is configured: nothing was run"},
	} {
		t.Run(name, func(t *testing.T) {
			d := &dock{}
			res, err := callWith(t, tt.cfg(d), invocation(), tt.args)
			require.NoError(t, err)
			require.Nil(t, res.Failure)
			require.JSONEq(t, `{"dry_run":true,"message":"`+tt.says+`","job":"j","manifest":{"kind":"List"}}`, string(res.Output))
			require.Empty(t, d.asked)
			require.Equal(t, []string{"t1/1/a acme x"}, d.rendered)
			free, ok := delegate.New(tt.cfg(d)).Tools()[0].(agent.EffectFree)
			require.True(t, ok)
			require.True(t, free.EffectFree(json.RawMessage(tt.args)))
		})
	}
	d := &dock{err: agent.FieldErrorf(agent.CodeDenied, "image", "not here")}
	res, err := callWith(t, delegate.Config{Manifests: d}, invocation(), image)
	require.NoError(t, err)
	require.Equal(t, &agent.Failure{Type: "denied", Message: "not here", Field: "container_image", Tool: delegate.ToolName}, res.Failure)
}

func TestStatusOfAJob(t *testing.T) {
	ask := func(cfg delegate.Config, args string) (agent.ToolResult, error) {
		res, err := delegate.New(cfg).Tools()[1].Call(t.Context(), invocation(), agent.ToolCall{Name: delegate.StatusTool, Args: json.RawMessage(args)})
		if err == nil {
			tooltest.CheckResult(t, res)
		}
		return res, err
	}
	for want, status := range map[string]agent.ContainerStatus{
		`{"job":"acme/j","status":"running","detail":"pending"}`: {State: "running", Detail: "pending"},
		`{"job":"j","status":"succeeded","result":7,"logs":"hi"}`: {
			State: "succeeded", Result: agent.ContainerResult{Job: "j", Result: json.RawMessage(`7`), Logs: "hi"},
		},
		`{"job":"j","status":"failed","result":null,"error":{"type":"invalid","message":"exit 1","retryable":false}}`: {
			State: "failed", Result: agent.ContainerResult{Job: "j", Failure: &agent.Failure{Type: "invalid", Message: "exit 1"}},
		},
	} {
		res, err := ask(delegate.Config{Containers: &dock{status: status}}, `{"job":"j"}`)
		require.NoError(t, err)
		require.Nil(t, res.Failure)
		require.JSONEq(t, want, string(res.Output))
	}
	for args, field := range map[string]string{`{}`: "job", `{"job":1}`: "job", `{"job":"x","y":1}`: "y"} {
		res, err := ask(delegate.Config{Containers: &dock{}}, args)
		require.NoError(t, err)
		require.Equal(t, field, res.Failure.Field)
		require.Equal(t, delegate.StatusTool, res.Failure.Tool)
	}
	res, err := ask(delegate.Config{}, `{"job":"j"}`)
	require.NoError(t, err)
	require.Equal(t, "unavailable", res.Failure.Type)
	res, err = ask(delegate.Config{Containers: &dock{err: agent.FieldErrorf(agent.CodeNotFound, "job", "there is no job")}}, `{"job":"j"}`)
	require.NoError(t, err)
	require.Equal(t, &agent.Failure{Type: "not_found", Message: "there is no job", Field: "job", Tool: delegate.StatusTool}, res.Failure)
	_, err = ask(delegate.Config{Containers: &dock{err: agent.Errorf(agent.CodeUnavailable, "", "away")}}, `{"job":"j"}`)
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err), "the runtime tries again")
}
