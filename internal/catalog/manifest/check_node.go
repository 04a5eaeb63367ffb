package manifest

import (
	"encoding/json"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/valyala/fasttemplate"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// placeholder matches a possible name of a parameter.
var placeholder = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

func (c *checker) checkNode(n *agent.NodeDefinition) {
	c.checkNodeFields(n)
	if len(n.Properties) > 0 {
		c.addFaultsWithin("properties", CheckSchema(n.Properties))
	}
	if n.Type != agent.NodeAgent {
		return
	}
	c.checkPrompt("prompt", n.Prompt)
	if n.Ask != nil {
		c.checkAskPrompts(n.Ask)
	}
}

// checkAskPrompts checks the prompts of an ask agent.
func (c *checker) checkAskPrompts(a *agent.AskPrompts) {
	if c.root.member("prompt") != nil {
		c.addFault("prompt", "belongs to a node without ask, whose prompts take its place")
	}
	ask := c.root.member("ask")
	if a.Classify != "" && ask.member("code") == nil && ask.member("conversational") == nil {
		c.addFault("ask.classify", "has nothing to choose: give code or conversational as well")
	}
	c.checkPrompt("ask.classify", a.Classify)
	c.checkPrompt("ask.reformulate", a.Reformulate)
	c.checkPrompt("ask.retrieval", a.Retrieval)
	c.checkPrompt("ask.code", a.Code)
	c.checkPrompt("ask.conversational", a.Conversational)
}

// checkPrompt checks that the names in {{…}} are properties.
func (c *checker) checkPrompt(path, text string) {
	names, ok := placeholders(text)
	if !ok {
		c.addFault(path, "a {{ has no }} behind it")
		return
	}
	properties := c.root.member("properties")
	if properties.isFaulty() {
		return
	}
	const maxListed = 20
	var problems []string
	for _, name := range names {
		if properties.member("properties").member(name) == nil && len(problems) < maxListed {
			problems = append(problems, placeholderProblem(name))
		}
	}
	if problems != nil {
		c.addFault(path, "%s", strings.Join(problems, "; "))
	}
}

// placeholderProblem describes the fault of a name that is not a property.
func placeholderProblem(name string) string {
	trimmed := strings.TrimSpace(name)
	switch {
	case !placeholder.MatchString(trimmed):
		return "{{…}} holds no name of a parameter"
	case trimmed != name:
		return "write {{" + clip.Bytes(trimmed, maxQuoted) + "}} without spaces"
	default:
		return "{{" + clip.Bytes(name, maxQuoted) + "}} is not among the properties"
	}
}

// checkNodeFields adds faults for fields that belong to another type of node.
func (c *checker) checkNodeFields(n *agent.NodeDefinition) {
	c.requireNodeType("prompt", n.Type, agent.NodeAgent)
	c.requireNodeType("ask", n.Type, agent.NodeAgent)
	c.requireNodeType("middleware", n.Type, agent.NodeAgent)
	c.requireNodeType("toolkit", n.Type, agent.NodeTool, agent.NodeToolkit)
	c.requireNodeType("tool", n.Type, agent.NodeTool)
	if n.Type == agent.NodeTool && n.Toolkit != "" {
		c.require("tool", n.Tool, "is required when toolkit is given: which of its tools it is")
	}
}

// requireNodeType adds a fault if a node has a field and none of the types that the field belongs to.
func (c *checker) requireNodeType(field string, t agent.NodeType, types ...agent.NodeType) {
	if t == "" || c.root.member(field) == nil || slices.Contains(types, t) {
		return
	}
	names := make([]string, len(types))
	for i := range types {
		names[i] = string(types[i])
	}
	c.addFault(field, "belongs to a node of type %s", strings.Join(names, " or "))
}

// placeholders returns the distinct names in {{…}} in a prompt, as written. ok is false if a }} is missing.
func placeholders(prompt string) (names []string, ok bool) {
	if i := strings.LastIndex(prompt, "{{"); i >= 0 && !strings.Contains(prompt[i:], "}}") {
		return nil, false
	}
	found := map[string]bool{}
	_, err := fasttemplate.ExecuteFunc(prompt, "{{", "}}", io.Discard, func(_ io.Writer, tag string) (int, error) {
		if !found[tag] {
			found[tag] = true
			names = append(names, strings.Clone(tag))
		}
		return 0, nil
	})
	return names, err == nil
}

// isNull reports whether JSON is absent or null.
func isNull(raw json.RawMessage) bool {
	text := strings.TrimSpace(string(raw))
	return text == "" || text == "null"
}
