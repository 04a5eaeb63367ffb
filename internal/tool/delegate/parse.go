package delegate

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/strictjson"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// The agent types of the schema.
const (
	codeInterpreter = "code_interpreter"
	customContainer = "custom_container"
	langchainAgent  = "langchain_agent"
)

// arguments are the checked arguments of a call. Whether the agent may be asked is not checked.
type arguments struct {
	agentType string
	inputs    json.RawMessage // an object
	config    config          // of langchain_agent
	container agent.Container // of the other types, without the fields of the invocation
	dryRun    bool            // the call asks only for the manifest of the container
}

// config is the config of langchain_agent.
type config struct {
	Agent  string        `json:"agent"`
	Limits *agent.Limits `json:"limits"`
}

func parse(args json.RawMessage) (*arguments, error) {
	var in struct {
		AgentType      *string         `json:"agent_type"`
		ContainerImage string          `json:"container_image"`
		Inputs         json.RawMessage `json:"inputs"`
		Config         json.RawMessage `json:"config"`
	}
	if err := tool.DecodeArguments(args, MaxArgs, &in); err != nil {
		return nil, err
	}
	switch {
	case in.AgentType == nil:
		return nil, agent.Invalid("agent_type", "is required")
	case isMissing(in.Inputs):
		return nil, agent.Invalid("inputs", "is required")
	case in.Inputs[0] != '{':
		return nil, agent.Invalid("inputs", "want an object")
	case !isMissing(in.Config) && in.Config[0] != '{':
		return nil, agent.Invalid("config", "want an object")
	}
	out := &arguments{agentType: *in.AgentType, inputs: in.Inputs}
	switch out.agentType {
	case codeInterpreter, customContainer, langchainAgent:
	default:
		return nil, agent.Invalid("agent_type", "want one of %s, %s, %s, got %.50q", codeInterpreter, customContainer, langchainAgent, out.agentType)
	}
	switch {
	case out.agentType == customContainer && in.ContainerImage == "":
		return nil, agent.Invalid("container_image", "is required for %s", customContainer)
	case out.agentType != customContainer && in.ContainerImage != "":
		return nil, agent.Invalid("container_image", "is for %s alone", customContainer)
	}
	if out.agentType != langchainAgent {
		return out, out.parseContainer(in.ContainerImage, in.Config)
	}
	if !isMissing(in.Config) {
		return out, out.config.decode(in.Config)
	}
	return out, nil
}

func (c *config) decode(raw json.RawMessage) error {
	if err := decodeConfig(raw, c); err != nil {
		return err
	}
	if c.Limits != nil {
		return c.Limits.Validate("config.limits")
	}
	return nil
}

// decodeConfig decodes config strictly. Its errors name the field with its path in the arguments.
func decodeConfig(raw json.RawMessage, v any) error {
	err := strictjson.Decode(raw, v)
	if e, ok := errors.AsType[*agent.Error](err); ok {
		e.Field = strings.TrimSuffix("config."+e.Field, ".")
	}
	return err
}

func isMissing(raw json.RawMessage) bool { return len(raw) == 0 || raw[0] == 'n' }

// request returns the request for a turn of another agent, which must be one of the delegates.
func (a *arguments) request(delegates []string) (agent.DelegateRequest, error) {
	name, err := chooseDelegate(a.config.Agent, delegates)
	if err != nil {
		return agent.DelegateRequest{}, err
	}
	text, err := messageOf(a.inputs)
	if err != nil {
		return agent.DelegateRequest{}, err
	}
	return agent.DelegateRequest{Agent: name, Message: text, Limits: a.config.Limits}, nil
}

// chooseDelegate returns the delegate with the given name. An empty name means the only delegate.
func chooseDelegate(name string, delegates []string) (string, error) {
	const field = "config.agent"
	switch {
	case len(delegates) == 0:
		return "", agent.FieldErrorf(agent.CodeDenied, field, "this agent has no delegates")
	case name == "" && len(delegates) == 1:
		return delegates[0], nil
	case name == "":
		return "", agent.Invalid(field, "is required: want one of %s", listNames(delegates))
	case !slices.Contains(delegates, name):
		return "", agent.FieldErrorf(agent.CodeDenied, field, "%.100q is not a delegate of this agent: want one of %s", name, listNames(delegates))
	default:
		return name, nil
	}
}

// maxListed is the maximum number of names in an error.
const maxListed = 20

func listNames(names []string) string {
	if len(names) > maxListed {
		return strings.Join(names[:maxListed], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}
