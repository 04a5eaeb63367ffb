package delegate

import (
	"context"
	_ "embed"
	"encoding/json"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// The names under which the catalog finds us.
const (
	ToolkitName = "delegate"
	ToolName    = "delegate_to_agent"
)

// MaxArgs bounds the arguments, in bytes.
const MaxArgs = 256 << 10

//go:embed schema.json
var schema []byte // seed 004 §5.5, verbatim

// New makes the toolkit. It needs nothing.
func New() agent.Toolkit { return toolkit{} }

type toolkit struct{}

func (toolkit) Name() string { return ToolkitName }

// OnRequest keeps the toolkit out of "every toolkit": agents that need it are granted it.
func (toolkit) OnRequest() bool { return true }

func (toolkit) Tools() []agent.Tool { return []agent.Tool{delegate{}} }

// delegate is the tool delegate_to_agent.
type delegate struct{}

var (
	_ agent.Delegator  = delegate{}
	_ agent.EffectFree = delegate{}
	_ agent.Summarizer = delegate{}
)

func (delegate) Spec() agent.ToolSpec {
	return agent.ToolSpec{
		Name: ToolName, Description: "Delegate task to external agent (K8s job)", Parameters: append(json.RawMessage(nil), schema...), Strict: true,
	}
}

// EffectFree is true for the turn of another agent: asking for it changes nothing, and what its tools do passes that turn's own gates.
// A container may do anything.
func (delegate) EffectFree(args json.RawMessage) bool {
	in, err := parse(args)
	return err != nil || in.agentType == langchainAgent
}

// maxName is what a summary shows of a name, in bytes.
const maxName = 60

// Summarize names who is asked.
func (delegate) Summarize(args json.RawMessage) string {
	in, err := parse(args)
	if err != nil {
		return "invalid arguments"
	}
	name := in.config.Agent
	if in.agentType != langchainAgent || name == "" {
		return in.agentType
	}
	if len(name) > maxName {
		name = strings.ToValidUTF8(name[:maxName], "") + "…"
	}
	return name
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

// Call answers what the runtime does not run as a turn: there is nowhere to run it.
func (delegate) Call(ctx context.Context, _ agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
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
	default:
		return failed(&agent.Failure{
			Type: string(agent.CodeUnavailable), Message: "no cluster is configured to run agents of type " + in.agentType, Field: "agent_type",
		})
	}
}

func failed(f *agent.Failure) (agent.ToolResult, error) {
	f.Tool = ToolName
	out, err := json.Marshal(map[string]*agent.Failure{"error": f})
	if err != nil {
		return agent.ToolResult{}, agent.Errorf(agent.CodeInternal, "call "+ToolName, "encode failure: %w", err)
	}
	return agent.ToolResult{Output: out, Failure: f}, nil
}
