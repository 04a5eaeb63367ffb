package delegate

import (
	"context"
	_ "embed"
	"encoding/json"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// The names under which the catalog finds us.
const (
	ToolkitName = "delegate"
	ToolName    = "delegate_to_agent"
	StatusTool  = "get_delegated_job"
)

// MaxArgs bounds the arguments, in bytes.
const MaxArgs = 256 << 10

//go:embed schema.json
var schema []byte

// Config holds what the toolkit needs.
type Config struct {
	Containers Containers // nil: containers are not run, their manifests are answered
	Manifests  Manifests  // writes the manifests; nil: Containers does
	Blobs      tool.Blobs // takes what containers log; nil: the end of it is in the answer, and that is all
}

// New makes the toolkit without a cluster.
func New() agent.Toolkit { return With(Config{}) }

// With makes the toolkit.
func With(cfg Config) agent.Toolkit { return toolkit{cfg} }

// Factory makes the toolkit out of the runtime's dependencies, which take the place of those in cfg.
func Factory(cfg Config) tool.Factory {
	return tool.Factory{
		Name: ToolkitName, Needs: []tool.Need{tool.NeedBlobs},
		New: func(d tool.Dependencies) (agent.Toolkit, error) {
			cfg.Blobs = d.Blobs
			return With(cfg), nil
		},
	}
}

type toolkit struct{ cfg Config }

func (toolkit) Name() string { return ToolkitName }

// OnRequest keeps the toolkit out of "every toolkit": agents that need it are granted it.
func (toolkit) OnRequest() bool { return true }

func (k toolkit) Tools() []agent.Tool { return []agent.Tool{delegate(k), status(k)} }

// delegate is the tool delegate_to_agent.
type delegate struct{ cfg Config }

var (
	_ agent.Delegator  = delegate{}
	_ agent.EffectFree = delegate{}
	_ agent.Summarizer = delegate{}
)

// Spec is given by the requirements (docs/requirements.md). The tool is idempotent: the turn of another agent is one child of the
// call, and a container one Job of its name, however often the call is made.
func (delegate) Spec() agent.ToolSpec {
	return agent.ToolSpec{
		Name: ToolName, Description: "Delegate task to external agent (K8s job)", Parameters: append(json.RawMessage(nil), schema...), Strict: true,
		Idempotent: true,
	}
}

// EffectFree is true for the turn of another agent: asking for it changes nothing, and what its tools do passes that turn's own gates.
// A container may do anything when it runs: without a cluster, and with dry_run, it does not.
func (d delegate) EffectFree(args json.RawMessage) bool {
	in, err := parse(args)
	return err != nil || in.agentType == langchainAgent || in.dryRun || d.cfg.Containers == nil
}

// maxName is what a summary shows of a name, in bytes.
const maxName = 60

// Summarize names who is asked, or what runs.
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

// Delegate says which of the delegates is asked. Its error is [agent.CodeInvalid], [agent.CodeOverflow] beyond a bound, or
// [agent.CodeDenied] for an agent that is not a delegate; it names the field.
func (delegate) Delegate(args json.RawMessage, delegates []string) (agent.DelegateRequest, bool, error) {
	in, err := parse(args)
	if err != nil || in.agentType != langchainAgent {
		return agent.DelegateRequest{}, false, err
	}
	r, err := in.request(delegates)
	return r, err == nil, err
}

// Call runs a container, or answers its manifest. What the runtime runs as a turn does not come here.
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

func failed(f *agent.Failure) (agent.ToolResult, error) { return failedAs(ToolName, f) }

func failedAs(tool string, f *agent.Failure) (agent.ToolResult, error) {
	f.Tool = tool
	out, err := json.Marshal(map[string]*agent.Failure{"error": f})
	if err != nil {
		return agent.ToolResult{}, agent.Errorf(agent.CodeInternal, "call "+tool, "encode failure: %w", err)
	}
	return agent.ToolResult{Output: out, Failure: f}, nil
}
