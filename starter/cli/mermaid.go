package cli

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/cmdline"
)

// What a diagram shows at most: Mermaid refuses more than 500 edges or 50,000 characters.
const (
	maxDrawn = 20 // toolkits, tools of one, models, middleware, steps, delegates
	maxLabel = 60 // characters of one line of a label
)

// chart draws a flowchart. Its node ids are its own, so that no name of a plan can be one.
type chart struct {
	b      strings.Builder
	indent string
}

// flowchart draws a plan as a Mermaid flowchart: input, steps of preparation, middleware from the outermost, models and the tools
// that they call, output. The same plan is always the same text.
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
		if more > 0 {
			chain(fmt.Sprintf("step%d", i+1), "[%s]", fmt.Sprintf("and %d more steps", more))
			continue
		}
		s := &p.Prepare[i]
		chain(fmt.Sprintf("step%d", i+1), "[/%s/]", s.Kind+" "+s.Collection, fmt.Sprintf("top %d", s.TopK))
	}
	for i, more := range drawnIndices(len(p.Middleware)) {
		if more > 0 {
			chain(fmt.Sprintf("middleware%d", i+1), "[[%s]]", fmt.Sprintf("and %d more", more))
			continue
		}
		chain(fmt.Sprintf("middleware%d", i+1), "[[%s]]", p.Middleware[i].Name)
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

// drawnIndices yields the indices of a list that are drawn. Where the list is longer, the last one stands for the rest: more is how many
// that are.
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

// models draws the models in the order of fallback, the default first.
func (c *chart) models(p *agent.Plan) {
	c.open("models", join(p.Agent, p.Node))
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
	c.end()
}

// tools draws the tools by what granted them, in the order of the plan.
func (c *chart) tools(p *agent.Plan) {
	kits, of := []string{}, map[string][]*agent.PlanTool{}
	for i := range p.Tools {
		t := &p.Tools[i]
		kit := t.Binding
		if kit == "" {
			kit = t.Toolkit
		}
		if of[kit] == nil {
			kits = append(kits, kit)
		}
		of[kit] = append(of[kit], t)
	}
	for k, kit := range kits {
		id := fmt.Sprintf("kit%d", k+1)
		if k == maxDrawn {
			c.node(id, "[%s]", fmt.Sprintf("and %d more toolkits", len(kits)-k))
			c.line("models <--> %s", id)
			return
		}
		c.open(id, join(kit, of[kit][0].Node))
		for i, more := range drawnIndices(len(of[kit])) {
			tool := fmt.Sprintf("%stool%d", id, i+1)
			if more > 0 {
				c.node(tool, "[%s]", fmt.Sprintf("and %d more tools", more))
				continue
			}
			c.node(tool, "[%s]", toolLines(of[kit][i])...)
		}
		c.end()
		c.line("models <--> %s", id)
	}
}

// join is a title of two names, or of the one that there is.
func join(name, node string) string { return strings.Trim(name+" · "+node, " ·") }

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

// open begins a frame around nodes.
func (c *chart) open(id, title string) {
	c.line("subgraph %s [%s]", id, label(title))
	c.indent += "  "
}

func (c *chart) end() {
	c.indent = c.indent[2:]
	c.line("end")
}

// node draws a node; shape has one %s where the label goes.
func (c *chart) node(id, shape string, lines ...string) { c.line("%s"+shape, id, label(lines...)) }

func (c *chart) line(format string, args ...any) { fmt.Fprintf(&c.b, c.indent+format+"\n", args...) }

// label quotes lines of text. Whatever is neither letter, digit nor harmless is written as its number, so that a text can neither
// end the label nor be taken for HTML, Markdown or a directive.
func label(lines ...string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i, line := range lines {
		if i > 0 {
			b.WriteString("<br/>")
		}
		runes := []rune(cmdline.OneLine(cmdline.Printable(line), maxLabel))
		for j, r := range runes {
			// "1. x" and "- x" would be a list.
			mark := (r == '.' || r == '-') && j+1 < len(runes) && runes[j+1] == ' '
			if unicode.IsLetter(r) || unicode.IsDigit(r) || (strings.ContainsRune(" .-/,:_@·✋", r) && !mark) {
				b.WriteRune(r)
			} else {
				fmt.Fprintf(&b, "#%d;", r)
			}
		}
	}
	b.WriteByte('"')
	return b.String()
}
