package definition

import (
	"encoding/json"
	"io"
	"regexp"
	"strings"

	"github.com/valyala/fasttemplate"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// placeholder is what may be meant as the name of a parameter.
var placeholder = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

func (d *document) node(n *agent.NodeDefinition) {
	d.nodeFields(n)
	if len(n.Properties) > 0 {
		d.within("properties", CheckSchema(n.Properties))
	}
	if n.Type != agent.NodeAgent {
		return
	}
	d.prompt("prompt", n.Prompt)
	if n.Ask != nil {
		d.ask(n.Ask)
	}
}

// ask checks the prompts of an ask agent.
func (d *document) ask(a *agent.AskPrompts) {
	if d.root.member("prompt") != nil {
		d.fault("prompt", "belongs to a node without ask, whose prompts take its place")
	}
	if given := d.root.member("ask"); a.Classify != "" && given.member("code") == nil && given.member("conversational") == nil {
		d.fault("ask.classify", "has nothing to choose: give code or conversational as well")
	}
	d.prompt("ask.classify", a.Classify)
	d.prompt("ask.reformulate", a.Reformulate)
	d.prompt("ask.retrieval", a.Retrieval)
	d.prompt("ask.code", a.Code)
	d.prompt("ask.conversational", a.Conversational)
}

// prompt checks that what stands in {{…}} is among the properties.
func (d *document) prompt(path, text string) {
	names, ok := Placeholders(text)
	if !ok {
		d.fault(path, "a {{ has no }} behind it")
		return
	}
	properties := d.root.member("properties")
	if properties.isBad() {
		return
	}
	var problems []string
	for _, name := range names {
		if properties.member("properties").member(name) == nil && len(problems) < maxListed {
			problems = append(problems, placeholderProblem(name))
		}
	}
	if problems != nil {
		d.fault(path, "%s", strings.Join(problems, "; "))
	}
}

// placeholderProblem says what is wrong with a name that is not among the properties.
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

// nodeFields refuses fields that belong to another type of node.
func (d *document) nodeFields(n *agent.NodeDefinition) {
	only := func(path string, types ...agent.NodeType) {
		words := make([]string, len(types))
		for i, t := range types {
			if t == n.Type {
				return
			}
			words[i] = string(t)
		}
		if d.root.member(path) != nil && n.Type != "" {
			d.fault(path, "belongs to a node of type %s", strings.Join(words, " or "))
		}
	}
	only("prompt", agent.NodeAgent)
	only("ask", agent.NodeAgent)
	only("middleware", agent.NodeAgent)
	only("toolkit", agent.NodeTool, agent.NodeToolkit)
	only("tool", agent.NodeTool)
	if n.Type == agent.NodeTool && n.Toolkit != "" {
		d.need("tool", n.Tool, "is required when toolkit is given: which of its tools it is")
	}
}

// Placeholders lists the names that stand in {{…}} in a prompt, each once and as written. ok is false when a {{ has no }} behind it.
func Placeholders(prompt string) (names []string, ok bool) {
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

// isNull reports whether JSON says nothing.
func isNull(raw json.RawMessage) bool {
	text := strings.TrimSpace(string(raw))
	return text == "" || text == "null"
}
