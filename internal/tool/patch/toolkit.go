package patch

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// The names of the toolkit and its tool in the catalog.
const (
	toolkitName = "patch"
	ToolName    = "patch_workflow"
)

//go:embed schema.json
var schema []byte

// description is the description in docs/reference/requirements.md, followed by what a model must know to write a valid patch.
const description = "Create persistent workflow changes (always/whenever/schedule). " +
	"The workflow is a document {description, nodes, edges, schedules}; append with the paths /nodes/-, /edges/- and /schedules/-. " +
	`A node is {id, type, config}: type "task" with config {"action":"email","to","subject","body"}, {"action":"webhook","url","method","body"} or ` +
	`{"action":"pipeline","pipeline":[steps of execute_pipeline]}; type "agent" with config {"agent","message"}; type "timer" with config ` +
	`{"duration":"24h"}; type "condition" with expr, a CEL expression over the fields of what came in, such as price < 500. ` +
	`An edge is {from, to} with ids of nodes, and from a condition also "condition":"true" or "false". ` +
	`A schedule is {id, cron} or {id, interval_sec}. Texts may hold {{field}}.`

// Factory returns the factory of the toolkit.
func Factory() tool.Factory {
	return tool.Factory{
		Name:  toolkitName,
		Needs: []tool.Need{tool.NeedWorkflows},
		New:   func(d tool.Dependencies) (agent.Toolkit, error) { return New(d.Workflows) },
	}
}

// New returns the toolkit. workflows must not be nil.
func New(workflows tool.Workflows) (agent.Toolkit, error) {
	if workflows == nil {
		return nil, agent.Invalid("workflows", "is required")
	}
	return toolkit{workflows}, nil
}

type toolkit struct{ workflows tool.Workflows }

func (toolkit) Name() string { return toolkitName }

func (k toolkit) Tools() []agent.Tool { return []agent.Tool{patch(k)} }

// patch is the tool patch_workflow.
type patch struct{ workflows tool.Workflows }

var (
	_ agent.EffectFree = patch{}
	_ agent.Summarizer = patch{}
)

func (patch) Spec() agent.ToolSpec {
	return agent.ToolSpec{
		Name: ToolName, Description: description, Parameters: append(json.RawMessage(nil), schema...), Strict: true, Idempotent: true,
	}
}

// EffectFree reports whether the arguments are invalid: every valid call changes a workflow.
func (patch) EffectFree(args json.RawMessage) bool {
	_, err := parseArguments(args)
	return err != nil
}

// maxName is the maximum number of bytes of a tag in a summary.
const maxName = 60

// Summarize returns the workflow and the number of operations, e.g. "main: 4 operations".
func (patch) Summarize(args json.RawMessage) string {
	in, err := parseArguments(args)
	if err != nil {
		return "invalid arguments"
	}
	tag := cmp.Or(in.tag, "the workflow of the job")
	tag = clip.Bytes(tag, maxName)
	if n := len(in.operations); n != 1 {
		return fmt.Sprintf("%s: %d operations", tag, n)
	}
	return tag + ": 1 operation"
}

// output is the output of the tool.
type output struct {
	PatchID     string `json:"patch_id"`
	Version     int64  `json:"version"`
	BaseVersion int64  `json:"base_version"`
	Tag         string `json:"workflow_tag"`
	Owner       string `json:"workflow_owner"`
	Description string `json:"description"`
	Summary     string `json:"summary"`
	Unchanged   bool   `json:"unchanged,omitempty"`
}

// Call patches the workflow. If the keeper of the definitions is unavailable, it returns an error, which the runtime retries with the same key. Any
// other failure is a result for the model.
func (p patch) Call(ctx context.Context, inv agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
	const op = "call " + ToolName
	if err := agent.Interrupted(ctx, op); err != nil {
		return agent.ToolResult{}, err
	}
	in, err := parseArguments(call.Args)
	if err != nil {
		return failureResult(err)
	}
	operations, err := json.Marshal(in.operations)
	if err != nil {
		return failureResult(agent.Invalid("patch_spec.operations", "%s", clip.Bytes(err.Error(), maxQuoted)))
	}
	key, err := p.workflowKey(ctx, &inv, in)
	if err != nil {
		return errorResult(ctx, err)
	}
	in.tag = key.Tag
	result, err := p.workflows.PatchWorkflow(ctx, agent.WorkflowPatchRequest{
		WorkflowKey: key, Operations: operations, Description: in.description, By: inv.UserID, Idempotency: inv.IdempotencyKey,
	})
	if err != nil {
		return errorResult(ctx, err)
	}
	out, err := json.Marshal(output{
		PatchID: result.PatchID, Version: result.Version, BaseVersion: result.BaseVersion, Tag: cmp.Or(result.Tag, key.Tag), Owner: cmp.Or(result.Owner, key.Owner),
		Description: in.description, Summary: summary(in, &result), Unchanged: result.Unchanged,
	})
	if err != nil {
		return agent.ToolResult{}, agent.Errorf(agent.CodeInternal, op, "encode answer: %w", err)
	}
	return agent.ToolResult{Output: out}, nil
}

// workflowKey returns the key of the workflow to change. Without a tag in the arguments it is the workflow of the turn's job, with its owner.
// Otherwise the owner is the turn's user if they have a workflow of the tag.
func (p patch) workflowKey(ctx context.Context, inv *agent.Invocation, in *arguments) (agent.WorkflowKey, error) {
	job := inv.Workflow
	key := agent.WorkflowKey{Tenant: cmp.Or(inv.Tenant, agent.DefaultTenant), Owner: in.owner, Tag: cmp.Or(in.tag, job.Tag)}
	if key.Tag == "" {
		return key, agent.Invalid("workflow_tag", "is required: this turn is no job that names a workflow")
	}
	if key.Owner == "" && (job.Tag == "" || job.Tag == key.Tag) {
		key.Owner = job.Owner
	}
	if key.Owner != "" {
		return key, nil
	}
	var err error
	key.Owner, err = p.findOwner(ctx, key, inv.UserID)
	return key, err
}

// findOwner returns the turn's user if they have a workflow of the tag, otherwise an empty owner, which means the only owner of the tag.
func (p patch) findOwner(ctx context.Context, key agent.WorkflowKey, user string) (string, error) {
	if user == "" {
		return "", nil
	}
	page, err := p.workflows.ListWorkflows(ctx, agent.WorkflowQuery{Tenant: key.Tenant, Owner: user, Tag: key.Tag, Page: agent.Page{Size: 1}})
	if err != nil {
		return "", err
	}
	for i := range page.Workflows {
		if w := &page.Workflows[i]; w.Owner == user && w.Tag == key.Tag {
			return user, nil
		}
	}
	return "", nil
}

// errorResult returns an error as a result for the model, unless another attempt may succeed.
func errorResult(ctx context.Context, err error) (agent.ToolResult, error) {
	if interrupted := agent.Interrupted(ctx, "call "+ToolName); interrupted != nil {
		return agent.ToolResult{}, interrupted
	}
	switch agent.CodeOf(err) {
	case agent.CodeUnavailable, agent.CodeRateLimited, agent.CodeInternal:
		return agent.ToolResult{}, fmt.Errorf("patch workflow: %w", err)
	default:
	}
	if e, ok := errors.AsType[*agent.Error](err); ok && strings.HasPrefix(e.Field, "operations") {
		err = &agent.Error{Code: e.Code, Field: "patch_spec." + e.Field, Err: e.Err} // the path in the arguments
	}
	return failureResult(err)
}
