package cli

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/cmdline"
)

// Limits of a diagram. Mermaid refuses more than 500 edges or 50,000 characters.
const (
	maxDrawn = 20 // nodes of one kind
	maxLabel = 60 // characters of a line of a label
)

// chart is the text of a flowchart. Its node ids are not names of a plan, which could be keywords of Mermaid.
type chart struct {
	b      strings.Builder
	indent string
}

// flowchart returns a plan as a Mermaid flowchart: input, preparation, middleware from the outermost to the innermost, models with the tools that
// they call, and output. The same plan always has the same text.
func flowchart(p *agent.Plan) string {
	c := chart{indent: "  "}
	c.b.WriteString("flowchart TD\n")
	c.node("input", "([%s])", "input")
	last := "input"
	chain := func(id, shape string, lines ...string) {
		c.node(id, shape, lines...)
		c.line("%s --> %s", last, id)
		last = id
	}
	for i, more := range drawnIndices(len(p.Prepare)) {
		id, s := fmt.Sprintf("step%d", i+1), &p.Prepare[i]
		if more > 0 {
			chain(id, "[%s]", fmt.Sprintf("and %d more steps", more))
		} else {
			chain(id, "[/%s/]", s.Kind+" "+s.Collection, fmt.Sprintf("top %d", s.TopK))
		}
	}
	for i, more := range drawnIndices(len(p.Middleware)) {
		text := p.Middleware[i].Name
		if more > 0 {
			text = fmt.Sprintf("and %d more", more)
		}
		chain(fmt.Sprintf("middleware%d", i+1), "[[%s]]", text)
	}
	c.models(p)
	c.line("%s --> models", last)
	c.tools(p)
	c.delegates(p)
	output := []string{"output"}
	if len(p.OutputSchema) > 0 {
		output = append(output, "by a schema")
	}
	c.node("output", "([%s])", output...)
	c.line("models --> output")
	if bounds := limitTexts(&p.Limits, &p.RateLimits); len(bounds) > 0 {
		c.node("limits", ">%s]", append([]string{"limits"}, bounds...)...)
		c.line("limits -.- models")
	}
	return c.b.String()
}

// drawnIndices yields the indices of a list that get a node. If the list has more than maxDrawn elements, the last node stands for all remaining
// ones, and more is their number.
func drawnIndices(n int) func(yield func(i, more int) bool) {
	return func(yield func(i, more int) bool) {
		for i := range min(n, maxDrawn) {
			more := 0
			if i == maxDrawn-1 && n > maxDrawn {
				more = n - i
			}
			if !yield(i, more) {
				return
			}
		}
	}
}

// models draws the models in the order of fallback. The first is the default.
func (c *chart) models(p *agent.Plan) {
	c.beginSubgraph("models", joinNames(p.Agent, p.Node))
	if len(p.Models) == 0 {
		c.node("model1", "{{%s}}", "no model")
	}
	for i, more := range drawnIndices(len(p.Models)) {
		id := fmt.Sprintf("model%d", i+1)
		m := &p.Models[i]
		switch {
		case more > 0:
			c.node(id, "{{%s}}", fmt.Sprintf("and %d more models", more))
		case i == 0:
			c.node(id, "{{%s}}", m.Profile, m.Provider+" "+m.Model, "default")
		default:
			c.node(id, "{{%s}}", m.Profile, m.Provider+" "+m.Model)
		}
		if i > 0 {
			c.line("model%d -.-> %s", i, id)
		}
	}
	c.endSubgraph()
}

// tools draws the tools, grouped by their binding or toolkit, in the order of the plan.
func (c *chart) tools(p *agent.Plan) {
	kits, toolsByKit := []string{}, map[string][]*agent.PlanTool{}
	for i := range p.Tools {
		t := &p.Tools[i]
		kit := cmp.Or(t.Binding, t.Toolkit)
		if toolsByKit[kit] == nil {
			kits = append(kits, kit)
		}
		toolsByKit[kit] = append(toolsByKit[kit], t)
	}
	for k, kit := range kits {
		id := fmt.Sprintf("kit%d", k+1)
		if k == maxDrawn {
			c.node(id, "[%s]", fmt.Sprintf("and %d more toolkits", len(kits)-k))
			c.line("models <--> %s", id)
			return
		}
		tools := toolsByKit[kit]
		c.beginSubgraph(id, joinNames(kit, tools[0].Node))
		for i, more := range drawnIndices(len(tools)) {
			tool := fmt.Sprintf("%stool%d", id, i+1)
			if more > 0 {
				c.node(tool, "[%s]", fmt.Sprintf("and %d more tools", more))
				continue
			}
			c.node(tool, "[%s]", toolLines(tools[i])...)
		}
		c.endSubgraph()
		c.line("models <--> %s", id)
	}
}

// joinNames joins two names, either of which may be empty.
func joinNames(name, node string) string { return strings.Trim(name+" · "+node, " ·") }

func toolLines(t *agent.PlanTool) []string {
	lines := []string{t.Spec.Name}
	switch {
	case t.Approval == agent.ApproveAlways:
		lines = append(lines, "✋ needs approval")
	case t.Approval != agent.ApproveNever && !t.Spec.InherentlySafe:
		lines = append(lines, "✋ needs approval unless a call is harmless")
	}
	if t.Spec.ClientSide {
		lines = append(lines, "runs at the caller")
	}
	return lines
}

func (c *chart) delegates(p *agent.Plan) {
	for i, more := range drawnIndices(len(p.Delegates)) {
		id := fmt.Sprintf("delegate%d", i+1)
		if more > 0 {
			c.node(id, "[%s]", fmt.Sprintf("and %d more agents", more))
		} else {
			c.node(id, "[%s]", "agent "+p.Delegates[i])
		}
		c.line("models -.-> %s", id)
	}
}

func (c *chart) beginSubgraph(id, title string) {
	c.line("subgraph %s [%s]", id, label(title))
	c.indent += "  "
}

func (c *chart) endSubgraph() {
	c.indent = c.indent[2:]
	c.line("end")
}

// node draws a node. shape is a format with one %s for the label.
func (c *chart) node(id, shape string, lines ...string) { c.line("%s"+shape, id, label(lines...)) }

func (c *chart) line(format string, args ...any) { fmt.Fprintf(&c.b, c.indent+format+"\n", args...) }

// label returns lines of text as a quoted label. It escapes all characters but letters, digits and a few others, so that the text can neither end the
// label nor be HTML, Markdown or a directive.
func label(lines ...string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i, line := range lines {
		if i > 0 {
			b.WriteString("<br/>")
		}
		runes := []rune(cmdline.OneLine(cmdline.Printable(line), maxLabel))
		for j, r := range runes {
			startsList := (r == '.' || r == '-') && j+1 < len(runes) && runes[j+1] == ' ' // "1. x" or "- x"
			if unicode.IsLetter(r) || unicode.IsDigit(r) || (strings.ContainsRune(" .-/,:_@·✋", r) && !startsList) {
				b.WriteRune(r)
			} else {
				fmt.Fprintf(&b, "#%d;", r)
			}
		}
	}
	b.WriteByte('"')
	return b.String()
}
