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

// The names under which the catalog finds us.
const (
	ToolkitName = "patch"
	ToolName    = "patch_workflow"
)

//go:embed schema.json
var schema []byte

// description is that of the requirements (docs/requirements.md), then what a model must know to write a patch that is accepted.
const description = "Create persistent workflow changes (always/whenever/schedule). " +
	"The workflow is a document {description, nodes, edges, schedules}; append with the paths /nodes/-, /edges/- and /schedules/-. " +
	`A node is {id, type, config}: type "task" with config {"action":"email","to","subject","body"}, {"action":"webhook","url","method","body"} or ` +
	`{"action":"pipeline","pipeline":[steps of execute_pipeline]}; type "agent" with config {"agent","message"}; type "timer" with config ` +
	`{"duration":"24h"}; type "condition" with expr, a CEL expression over the fields of what came in, such as price < 500. ` +
	`An edge is {from, to} with ids of nodes, and from a condition also "condition":"true" or "false". ` +
	`A schedule is {id, cron} or {id, interval_sec}. Texts may hold {{field}}.`

// Factory makes the toolkit out of the runtime's dependencies.
func Factory() tool.Factory {
	return tool.Factory{
		Name:  ToolkitName,
		Needs: []tool.Need{tool.NeedWorkflows},
		New:   func(d tool.Dependencies) (agent.Toolkit, error) { return New(d.Workflows) },
	}
}

// New makes the toolkit. It refuses none.
func New(workflows tool.Workflows) (agent.Toolkit, error) {
	if workflows == nil {
		return nil, agent.Invalid("workflows", "is required")
	}
	return toolkit{workflows}, nil
}

type toolkit struct{ workflows tool.Workflows }

func (toolkit) Name() string { return ToolkitName }

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

// EffectFree is false for every call that can be read: it changes what happens from now on, without anybody asking.
func (patch) EffectFree(args json.RawMessage) bool {
	_, err := parse(args)
	return err != nil
}

// maxName is what a summary shows of a tag, in bytes.
const maxName = 60

// Summarize says which workflow is changed, e.g. "main: 4 operations".
func (patch) Summarize(args json.RawMessage) string {
	in, err := parse(args)
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

// answer is the output.
type answer struct {
	PatchID     string `json:"patch_id"`
	Version     int64  `json:"version"`
	BaseVersion int64  `json:"base_version"`
	Tag         string `json:"workflow_tag"`
	Owner       string `json:"workflow_owner"`
	Description string `json:"description"`
	Summary     string `json:"summary"`
	Unchanged   bool   `json:"unchanged,omitempty"`
}

// Call changes the workflow. Whoever keeps it and cannot be reached is an error, for the runtime to try again with the same key; all else
// that goes wrong is an answer to the model.
func (p patch) Call(ctx context.Context, inv agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
	const op = "call " + ToolName
	if err := agent.Interrupted(ctx, op); err != nil {
		return agent.ToolResult{}, err
	}
	in, err := parse(call.Args)
	if err != nil {
		return failed(err)
	}
	operations, err := json.Marshal(in.operations)
	if err != nil {
		return failed(agent.Invalid("patch_spec.operations", "%s", clip.Bytes(err.Error(), maxShown)))
	}
	key, err := p.workflow(ctx, &inv, in)
	if err != nil {
		return unreached(ctx, err)
	}
	in.tag = key.Tag
	made, err := p.workflows.PatchWorkflow(ctx, agent.WorkflowPatchRequest{
		WorkflowKey: key, Operations: operations, Description: in.description, By: inv.UserID, Idempotency: inv.IdempotencyKey,
	})
	if err != nil {
		return unreached(ctx, err)
	}
	out, err := json.Marshal(answer{
		PatchID: made.PatchID, Version: made.Version, BaseVersion: made.BaseVersion, Tag: cmp.Or(made.Tag, key.Tag), Owner: cmp.Or(made.Owner, key.Owner),
		Description: in.description, Summary: summary(in, &made), Unchanged: made.Unchanged,
	})
	if err != nil {
		return agent.ToolResult{}, agent.Errorf(agent.CodeInternal, op, "encode answer: %w", err)
	}
	return agent.ToolResult{Output: out}, nil
}

// workflow returns which workflow a call changes. A tag that the arguments leave out is that of the turn's job, and so is the owner of that
// workflow. Otherwise the owner is the turn's user when they have a workflow of the tag.
func (p patch) workflow(ctx context.Context, inv *agent.Invocation, in *arguments) (agent.WorkflowKey, error) {
	ofJob := inv.Workflow
	key := agent.WorkflowKey{Tenant: cmp.Or(inv.Tenant, agent.DefaultTenant), Owner: in.owner, Tag: cmp.Or(in.tag, ofJob.Tag)}
	if key.Tag == "" {
		return key, agent.Invalid("workflow_tag", "is required: this turn is no job that names a workflow")
	}
	if key.Owner == "" && (ofJob.Tag == "" || ofJob.Tag == key.Tag) {
		key.Owner = ofJob.Owner
	}
	if key.Owner != "" {
		return key, nil
	}
	var err error
	key.Owner, err = p.owner(ctx, key, inv.UserID)
	return key, err
}

// owner is the turn's user when they have a workflow of that tag; empty leaves it to whoever keeps them.
func (p patch) owner(ctx context.Context, key agent.WorkflowKey, user string) (string, error) {
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

// unreached makes an answer of an error, unless another attempt may do better.
func unreached(ctx context.Context, err error) (agent.ToolResult, error) {
	if interrupted := agent.Interrupted(ctx, "call "+ToolName); interrupted != nil {
		return agent.ToolResult{}, interrupted
	}
	switch agent.CodeOf(err) {
	case agent.CodeUnavailable, agent.CodeRateLimited, agent.CodeInternal:
		return agent.ToolResult{}, fmt.Errorf("patch workflow: %w", err)
	default:
	}
	if e, ok := errors.AsType[*agent.Error](err); ok && strings.HasPrefix(e.Field, "operations") {
		err = &agent.Error{Code: e.Code, Field: "patch_spec." + e.Field, Err: e.Err} // where the model wrote it
	}
	return failed(err)
}
