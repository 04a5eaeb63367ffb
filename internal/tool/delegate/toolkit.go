package delegate

import (
	"context"
	_ "embed"
	"encoding/json"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// The names of the toolkit and its tools in the catalog.
const (
	ToolkitName = "delegate"
	ToolName    = "delegate_to_agent"
	StatusTool  = "get_delegated_job"
)

// MaxArgs is the maximum length of the arguments, in bytes.
const MaxArgs = 256 << 10

//go:embed schema.json
var schema []byte

// Config holds what the toolkit needs.
type Config struct {
	Containers Containers // nil: containers do not run, and the result is their manifest
	Manifests  Manifests  // used if Containers is nil
	Blobs      tool.Blobs // stores long logs of containers; nil: only their end is in the answer
}

// New returns the toolkit.
func New(cfg Config) agent.Toolkit { return toolkit{cfg} }

// Factory returns the factory of the toolkit. The runtime's blob store replaces the one in cfg.
func Factory(cfg Config) tool.Factory {
	return tool.Factory{
		Name: ToolkitName, Needs: []tool.Need{tool.NeedBlobs},
		New: func(d tool.Dependencies) (agent.Toolkit, error) {
			cfg.Blobs = d.Blobs
			return New(cfg), nil
		},
	}
}

type toolkit struct{ cfg Config }

func (toolkit) Name() string { return ToolkitName }

// OnRequest returns true: agents with "every toolkit" do not get this one.
func (toolkit) OnRequest() bool { return true }

func (k toolkit) Tools() []agent.Tool { return []agent.Tool{delegate(k), status(k)} }

// delegate is the tool delegate_to_agent.
type delegate struct{ cfg Config }

var (
	_ agent.Delegator  = delegate{}
	_ agent.EffectFree = delegate{}
	_ agent.Summarizer = delegate{}
)

// Spec returns the specification in docs/reference/requirements.md. The tool is idempotent: however often a call is made, it has one turn of
// another agent, or one Job.
func (delegate) Spec() agent.ToolSpec {
	return agent.ToolSpec{
		Name: ToolName, Description: "Delegate task to external agent (K8s job)", Parameters: append(json.RawMessage(nil), schema...), Strict: true,
		Idempotent: true,
	}
}

// EffectFree reports whether the call itself changes nothing. The turn of another agent asks for approval of its own tool calls. A container
// may have effects unless it only returns a manifest.
func (d delegate) EffectFree(args json.RawMessage) bool {
	in, err := parse(args)
	return err != nil || in.agentType == langchainAgent || in.dryRun || d.cfg.Containers == nil
}

// maxName is the maximum number of bytes of a name in a summary.
const maxName = 60

// Summarize returns the agent that is asked, or the image that runs.
func (delegate) Summarize(args json.RawMessage) string {
	in, err := parse(args)
	if err != nil {
		return "invalid arguments"
	}
	name := in.config.Agent
	if in.agentType == customContainer {
		name = in.container.Image
	}
	if name == "" {
		return in.agentType
	}
	return clip.Bytes(name, maxName)
}

// Delegate returns the request for another agent's turn, and whether the call asks for one. Its error names the field. It is
// [agent.CodeInvalid], [agent.CodeOverflow], or [agent.CodeDenied] for an agent that is not a delegate.
func (delegate) Delegate(args json.RawMessage, delegates []string) (agent.DelegateRequest, bool, error) {
	in, err := parse(args)
	if err != nil || in.agentType != langchainAgent {
		return agent.DelegateRequest{}, false, err
	}
	r, err := in.request(delegates)
	return r, err == nil, err
}

// Call runs a container, or returns its manifest. The runtime runs turns of other agents without this call.
func (d delegate) Call(ctx context.Context, inv agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
	if err := agent.Interrupted(ctx, "call "+ToolName); err != nil {
		return agent.ToolResult{}, err
	}
	in, err := parse(call.Args)
	switch {
	case err != nil:
		return failed(agent.FailureOf(err))
	case in.agentType == langchainAgent:
		return failed(&agent.Failure{
			Type: string(agent.CodeUnavailable), Message: "this runtime does not run turns of other agents", Field: "agent_type",
		})
	case in.dryRun, d.cfg.Containers == nil:
		return d.render(inv, in)
	default:
		return d.run(ctx, inv, in)
	}
}

func failed(f *agent.Failure) (agent.ToolResult, error) { return tool.FailedResult(ToolName, f) }
