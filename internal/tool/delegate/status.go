package delegate

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/tool"
)

//go:embed status_schema.json
var statusSchema []byte

// status is the tool get_delegated_job, which reads the Job of an earlier call.
type status struct{ cfg Config }

var _ agent.Summarizer = status{}

func (status) Spec() agent.ToolSpec {
	return agent.ToolSpec{
		Name: StatusTool, Description: "Get the status of a K8s job that delegate_to_agent started earlier and, once it has finished, its result",
		Parameters: append(json.RawMessage(nil), statusSchema...), Strict: true, Idempotent: true, InherentlySafe: true,
	}
}

func parseStatus(args json.RawMessage) (job string, err error) {
	var in struct {
		Job string `json:"job"`
	}
	if err := tool.DecodeArguments(args, MaxArgs, &in); err != nil {
		return "", err
	}
	if in.Job == "" {
		return "", agent.Invalid("job", "is required")
	}
	return in.Job, nil
}

// Summarize returns the name of the job.
func (status) Summarize(args json.RawMessage) string {
	job, err := parseStatus(args)
	if err != nil {
		return "invalid arguments"
	}
	return clip.Bytes(job, maxName)
}

// Call reads the state of the Job. It does not wait for the Job's end.
func (s status) Call(ctx context.Context, inv agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
	if err := agent.Interrupted(ctx, "call "+StatusTool); err != nil {
		return agent.ToolResult{}, err
	}
	job, err := parseStatus(call.Args)
	if err != nil {
		return tool.FailedResult(StatusTool, agent.FailureOf(err))
	}
	if s.cfg.Containers == nil {
		return tool.FailedResult(StatusTool, &agent.Failure{Type: string(agent.CodeUnavailable), Message: "no cluster is configured, so no jobs run"})
	}
	container, err := s.cfg.Containers.Status(ctx, inv.Tenant, job)
	switch agent.CodeOf(err) {
	case "":
		return s.answer(ctx, inv, &container)
	case agent.CodeInvalid, agent.CodeNotFound, agent.CodeDenied:
		f := agent.FailureOf(err)
		if e, ok := errors.AsType[*agent.Error](err); ok {
			f.Message = e.Err.Error()
		}
		return tool.FailedResult(StatusTool, f)
	default:
		return agent.ToolResult{}, err
	}
}

// answer returns the state of a Job. The failure of its container is not a failure of the call.
func (s status) answer(ctx context.Context, inv agent.Invocation, container *agent.ContainerStatus) (agent.ToolResult, error) {
	var out any = map[string]string{"job": container.Job, "status": container.State, "detail": container.Detail}
	if container.State != agent.ContainerRunning {
		shown, err := delegate(s).show(ctx, inv, &container.Result)
		if err != nil {
			return agent.ToolResult{}, err
		}
		out = struct {
			shownResult

			Status string         `json:"status"`
			Error  *agent.Failure `json:"error,omitempty"`
		}{shown, container.State, container.Result.Failure}
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return agent.ToolResult{}, agent.Errorf(agent.CodeInternal, "call "+StatusTool, "encode status: %w", err)
	}
	return agent.ToolResult{Output: raw}, nil
}
