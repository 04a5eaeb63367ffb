package manifest

import (
	"encoding/json"
	"io"
	"regexp"
	"strings"

	"github.com/valyala/fasttemplate"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// placeholder matches what may be the name of a parameter.
var placeholder = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

func (c *checker) checkNode(n *agent.NodeDefinition) {
	c.checkNodeFields(n)
	if len(n.Properties) > 0 {
		c.addFaultsOf("properties", CheckSchema(n.Properties))
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
	if given := c.root.member("ask"); a.Classify != "" && given.member("code") == nil && given.member("conversational") == nil {
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
	if properties.isBad() {
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

// placeholderProblem says what is wrong with a name that is no property.
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
	only := func(path string, types ...agent.NodeType) {
		words := make([]string, len(types))
		for i, t := range types {
			if t == n.Type {
				return
			}
			words[i] = string(t)
		}
		if c.root.member(path) != nil && n.Type != "" {
			c.addFault(path, "belongs to a node of type %s", strings.Join(words, " or "))
		}
	}
	only("prompt", agent.NodeAgent)
	only("ask", agent.NodeAgent)
	only("middleware", agent.NodeAgent)
	only("toolkit", agent.NodeTool, agent.NodeToolkit)
	only("tool", agent.NodeTool)
	if n.Type == agent.NodeTool && n.Toolkit != "" {
		c.require("tool", n.Tool, "is required when toolkit is given: which of its tools it is")
	}
}

// placeholders returns the names in {{…}} in a prompt, each once and as written. ok is false if a {{ has no }} behind it.
func placeholders(prompt string) (names []string, ok bool) {
	if i := strings.LastIndex(prompt, "{{"); i >= 0 && !strings.Contains(prompt[i:], "}}") {
		return nil, false
	}
	seen := map[string]bool{}
	_, err := fasttemplate.ExecuteFunc(prompt, "{{", "}}", io.Discard, func(_ io.Writer, tag string) (int, error) {
		if !seen[tag] {
			seen[tag] = true
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
