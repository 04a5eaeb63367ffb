package delegate

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnstone-run/turnstone/agent"
)

// Containers runs containers.
type Containers interface {
	Manifests
	// Run runs a container and returns its result, also if the container failed. The error is [agent.CodeInvalid], [agent.CodeDenied] or
	// [agent.CodeOverflow] if the request is refused; its Field is then the member of [agent.Container] in snake case. After any other error the
	// runtime repeats the call, with the same Key for the same container.
	Run(ctx context.Context, c agent.Container) (agent.ContainerResult, error)
	// Status returns the state of a Job of the tenant. The error is [agent.CodeNotFound] if there is no such Job.
	Status(ctx context.Context, tenant, job string) (agent.ContainerStatus, error)
}

// Manifests returns the manifests of containers without sending them. Its errors are those of [Containers].
type Manifests interface {
	Render(c agent.Container) (agent.ContainerManifest, error)
}

// resources are the members of config for all containers. The cluster's configuration bounds them.
type resources struct {
	CPU        amount            `json:"cpu"`
	Memory     amount            `json:"memory"`
	TimeoutSec *int32            `json:"timeout_sec"`
	Env        map[string]string `json:"env"`
	DryRun     bool              `json:"dry_run"`
}

// amount is a quantity of Kubernetes, as a string or a number.
type amount string

// UnmarshalJSON takes a string, a number or null.
func (a *amount) UnmarshalJSON(raw []byte) error {
	switch jsontext.Value(raw).Kind() {
	case jsontext.KindNull:
		return nil
	case jsontext.KindNumber:
		*a = amount(raw)
		return nil
	case jsontext.KindString:
		text, err := jsontext.AppendUnquote(nil, raw)
		*a = amount(text)
		return err
	default:
		return errAmount
	}
}

var errAmount = errors.New("want a quantity such as 1, 500m or 256Mi")

// parseContainer reads the container from the image, inputs and config.
func (a *arguments) parseContainer(image string, raw json.RawMessage) error {
	var in struct {
		resources

		Command []string `json:"command"`
		Args    []string `json:"args"`
	}
	a.container.Image, a.container.Input = image, a.inputs
	var err error
	switch {
	case isMissing(raw):
	case a.agentType == codeInterpreter:
		err = decodeConfig(raw, &in.resources)
	default:
		err = decodeConfig(raw, &in)
	}
	if err != nil {
		return err
	}
	a.dryRun = in.DryRun
	c := &a.container
	c.CPU, c.Memory, c.Env, c.Command, c.Args = string(in.CPU), string(in.Memory), in.Env, in.Command, in.Args
	if in.TimeoutSec != nil {
		if *in.TimeoutSec < 1 {
			return agent.Invalid("config.timeout_sec", "want at least 1")
		}
		c.Timeout = time.Duration(*in.TimeoutSec) * time.Second
	}
	if a.agentType == codeInterpreter {
		return a.parseCode()
	}
	return nil
}

// parseCode moves code and language from the inputs to the container. The other inputs are the input of the code.
func (a *arguments) parseCode() error {
	members := readMembers(a.inputs)
	for _, text := range []struct {
		name   string
		target *string
	}{{"code", &a.container.Code}, {"language", &a.container.Language}} {
		i := slices.IndexFunc(members, func(m member) bool { return m.name == text.name })
		if i < 0 {
			continue
		}
		switch members[i].value.Kind() {
		case jsontext.KindNull:
		case jsontext.KindString:
			*text.target = members[i].text()
		default:
			return agent.Invalid("inputs."+text.name, "want a string")
		}
		members = slices.Delete(members, i, i+1)
	}
	if strings.TrimSpace(a.container.Code) == "" {
		return agent.Invalid("inputs.code", "is required")
	}
	a.container.Input = json.RawMessage("{}")
	if len(members) > 0 {
		a.container.Input = json.RawMessage(encodeMembers(members))
	}
	return nil
}

// run runs the container of a call.
func (d delegate) run(ctx context.Context, inv agent.Invocation, in *arguments) (agent.ToolResult, error) {
	result, err := d.cfg.Containers.Run(ctx, in.containerFor(&inv))
	if err != nil {
		return in.refusedResult(err)
	}
	if result.Failure != nil {
		f := *result.Failure
		f.Field = in.argumentName(f.Field)
		return failed(&f)
	}
	return d.answer(ctx, inv, &result)
}

// containerFor returns the container of a call.
func (a *arguments) containerFor(inv *agent.Invocation) agent.Container {
	c := a.container
	c.Tenant, c.TurnID, c.Key, c.Attempt, c.Report = inv.Tenant, inv.TurnID, inv.IdempotencyKey, inv.Attempt, inv.Report
	return c
}

// refusedResult returns the failed result of a refused request. It returns any other error as it is, for the runtime.
func (a *arguments) refusedResult(err error) (agent.ToolResult, error) {
	switch agent.CodeOf(err) {
	case agent.CodeInvalid, agent.CodeDenied, agent.CodeOverflow:
		f := agent.FailureOf(err)
		f.Field = a.argumentName(f.Field)
		f.Message = err.Error()
		if e, ok := errors.AsType[*agent.Error](err); ok {
			f.Message = e.Err.Error()
		}
		return failed(f)
	default:
		return agent.ToolResult{}, err
	}
}

// render returns the manifest of a call's container without running it.
func (d delegate) render(inv agent.Invocation, in *arguments) (agent.ToolResult, error) {
	manifests, message := d.cfg.Manifests, "no cluster is configured: nothing was run"
	if d.cfg.Containers != nil {
		manifests, message = d.cfg.Containers, "dry_run was asked for: nothing was run"
	}
	if manifests == nil {
		return failed(&agent.Failure{
			Type: string(agent.CodeUnavailable), Message: "no cluster is configured to run agents of type " + in.agentType, Field: "agent_type",
		})
	}
	manifest, err := manifests.Render(in.containerFor(&inv))
	if err != nil {
		return in.refusedResult(err)
	}
	out, err := json.Marshal(map[string]any{"dry_run": true, "message": message, "job": manifest.Job, "manifest": manifest.Manifest})
	if err != nil {
		return agent.ToolResult{}, agent.Errorf(agent.CodeInternal, "call "+ToolName, "encode manifest: %w", err)
	}
	return agent.ToolResult{Output: out}, nil
}

// argumentName returns the name of the argument that sets a member of [agent.Container].
func (a *arguments) argumentName(field string) string {
	name, _, _ := strings.Cut(field, ".")
	name, _, _ = strings.Cut(name, "[")
	switch name {
	case "cpu", "memory", "env", "command", "args":
		return "config." + field
	case "timeout":
		return "config.timeout_sec"
	case "code", "language":
		return "inputs." + field
	case "input":
		return "inputs"
	case "image":
		if a.agentType == customContainer {
			return "container_image"
		}
		return "agent_type"
	default:
		return field
	}
}

// The maximum number of bytes that the model sees of a container's logs.
const (
	maxLogsBesideResult = 2 << 10
	maxLogsAlone        = 16 << 10
)

// shownResult is the result of a container that the model sees.
type shownResult struct {
	Result  json.RawMessage `json:"result"`
	Logs    string          `json:"logs,omitempty"`
	LogsRef string          `json:"logs_ref,omitempty"`
	Job     string          `json:"job"`
}

// show returns the result for the model, with the end of the logs. It stores logs that are too long to show.
func (d delegate) show(ctx context.Context, inv agent.Invocation, r *agent.ContainerResult) (shownResult, error) {
	maxLogs := maxLogsBesideResult
	if r.Result == nil {
		maxLogs = maxLogsAlone
	}
	out := shownResult{r.Result, r.Logs, "", r.Job}
	if len(r.Logs) <= maxLogs && !r.LogsCut {
		return out, nil
	}
	out.Logs = "…" + strings.ToValidUTF8(r.Logs[max(0, len(r.Logs)-maxLogs):], "")
	var err error
	out.LogsRef, err = d.storeLogs(ctx, inv, r)
	return out, err
}

// answer returns the result of a container that has succeeded.
func (d delegate) answer(ctx context.Context, inv agent.Invocation, r *agent.ContainerResult) (agent.ToolResult, error) {
	out, err := d.show(ctx, inv, r)
	if err != nil {
		return agent.ToolResult{}, err
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return agent.ToolResult{}, agent.Errorf(agent.CodeInternal, "call "+ToolName, "encode result: %w", err)
	}
	return agent.ToolResult{Output: raw}, nil
}

// storeLogs stores logs as {"job","logs"}, and returns their reference.
func (d delegate) storeLogs(ctx context.Context, inv agent.Invocation, r *agent.ContainerResult) (string, error) {
	if d.cfg.Blobs == nil {
		return "", nil
	}
	raw, err := json.Marshal(map[string]string{"job": r.Job, "logs": r.Logs})
	if err != nil {
		return "", agent.Errorf(agent.CodeInternal, "call "+ToolName, "encode logs: %w", err)
	}
	if inv.Redact != nil {
		if raw, err = inv.Redact(raw); err != nil {
			return "", nil //nolint:nilerr // logs that may not be stored are left out
		}
	}
	return d.cfg.Blobs.Put(ctx, inv.Tenant, strings.NewReader(string(raw)))
}
