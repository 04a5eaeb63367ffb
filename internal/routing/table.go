package routing

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// Bounds of a table in addition to those of its document (internal/catalog/manifest).
const (
	maxValues = 1_000   // in a list of metadata values
	maxFaults = 100     // of a table
	maxSource = 1 << 20 // bytes of all distinct expressions of a table, which take seconds to compile
)

// rule is a compiled rule.
type rule struct {
	table      string // tenant/name
	name       string
	agent      string
	model      string
	priority   int
	disabled   bool
	conditions []condition // all must hold; cheap ones first
}

// tableCompiler compiles a table and collects its faults.
type tableCompiler struct {
	compiler    *Compiler
	sources     map[string]bool // distinct expressions
	sourceBytes int
	faults      agent.Faults
}

// addFault adds a fault. After maxFaults it adds one that says that there are more.
func (c *tableCompiler) addFault(path, format string, args ...any) {
	switch {
	case len(c.faults) < maxFaults:
		c.faults = append(c.faults, agent.Fault{Path: path, Message: fmt.Sprintf(format, args...)})
	case len(c.faults) == maxFaults:
		c.faults = append(c.faults, agent.Fault{Path: path, Message: "there are more faults from here on"})
	}
}

// compileTable returns the rules of a table, which are complete if there are no faults.
func (c *Compiler) compileTable(t *agent.RouteTable) ([]rule, agent.Faults) {
	tc := &tableCompiler{compiler: c, sources: map[string]bool{}}
	name := tableName(t)
	rules := make([]rule, 0, len(t.Rules))
	for i := range t.Rules {
		if len(tc.faults) > maxFaults {
			break
		}
		r := &t.Rules[i]
		rules = append(rules, rule{
			table: name, name: r.Name, agent: r.Agent, model: r.Model, priority: r.Priority, disabled: r.Disabled,
			conditions: tc.conditions(fmt.Sprintf("rules[%d].when", i), &r.When),
		})
	}
	return rules, tc.faults
}

// conditions compiles conditions. Cheap conditions come first.
func (c *tableCompiler) conditions(path string, w *agent.RouteWhen) []condition {
	var out []condition
	for i, entries := range [attributeCount][]string{role: w.Role, page: w.Page, channel: w.Channel, tenant: w.Tenant} {
		if a := attribute(i); len(entries) > 0 {
			out = append(out, c.listCondition(path+"."+a.String(), a, entries))
		}
	}
	for _, name := range c.sortedNames(path+".flags", w.Flags) {
		if want, ok := c.value(path+".flags."+name, w.Flags[name]); ok {
			out = append(out, &flagCondition{name: name, want: want})
		}
	}
	for _, name := range c.sortedNames(path+".metadata", w.Metadata) {
		if want, ok := c.values(path+".metadata."+name, w.Metadata[name]); ok {
			out = append(out, &metadataCondition{path: name, want: want})
		}
	}
	if w.Expression != "" {
		if e, ok := c.expression(path+".expression", w.Expression); ok {
			out = append(out, e)
		}
	}
	return out
}

func (c *tableCompiler) expression(path, source string) (*expression, bool) {
	if !c.sources[source] {
		c.sources[source] = true
		c.sourceBytes += len(source)
	}
	if c.sourceBytes > maxSource {
		c.addFault(path, "the table's expressions have more than %d bytes", maxSource)
		return nil, false
	}
	e, problems := c.compiler.compileExpression(source)
	for _, p := range problems {
		c.addFault(path, "%s", p)
	}
	return e, len(problems) == 0
}

func (c *tableCompiler) listCondition(path string, a attribute, entries []string) *listCondition {
	list := &listCondition{attribute: a, entries: slices.Clone(entries)}
	for i, e := range entries {
		prefix, isPrefix := strings.CutSuffix(e, "*")
		switch {
		case strings.Contains(prefix, "*"):
			c.addFault(fmt.Sprintf("%s[%d]", path, i), "%q: a * stands for anything at the end alone", clip.Bytes(e, maxShown))
		case isPrefix:
			list.prefixes = append(list.prefixes, prefix)
		default:
			list.exact = append(list.exact, e)
		}
	}
	list.index()
	return list
}

// sortedNames returns the sorted names of flags or metadata, so that faults and explanations have a fixed order. An empty name is a fault.
func (c *tableCompiler) sortedNames(path string, m map[string]json.RawMessage) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(m)), func(name string) bool {
		isEmpty := strings.TrimSpace(name) == ""
		if isEmpty {
			c.addFault(path, "a name is empty")
		}
		return isEmpty
	})
}

// value decodes an expected value: nil, a bool, a float64 or a string.
func (c *tableCompiler) value(path string, raw json.RawMessage) (any, bool) {
	v, ok := c.decode(path, raw)
	if !ok {
		return nil, false
	}
	if !isScalar(v) {
		c.addFault(path, "is %s; want a text, a number, true, false or null", formatValue(v))
		return nil, false
	}
	return v, true
}

// values decodes the expected values of metadata: a value or a list of values.
func (c *tableCompiler) values(path string, raw json.RawMessage) ([]any, bool) {
	v, ok := c.decode(path, raw)
	if !ok {
		return nil, false
	}
	list, isList := v.([]any)
	switch {
	case !isList && isScalar(v):
		return []any{v}, true
	case !isList:
		c.addFault(path, "is %s; want a text, a number, true, false or null, or a list of them", formatValue(v))
		return nil, false
	case len(list) == 0:
		c.addFault(path, "is an empty list, which nothing matches")
		return nil, false
	case len(list) > maxValues:
		c.addFault(path, "has %d entries, at most %d", len(list), maxValues)
		return nil, false
	}
	for i, v := range list {
		if !isScalar(v) {
			c.addFault(fmt.Sprintf("%s[%d]", path, i), "is %s; want a text, a number, true, false or null", formatValue(v))
			ok = false
		}
	}
	return list, ok
}

func (c *tableCompiler) decode(path string, raw json.RawMessage) (v any, ok bool) {
	if err := json.Unmarshal(raw, &v); err != nil {
		c.addFault(path, "is no JSON value: %v", err)
		return nil, false
	}
	return v, true
}
