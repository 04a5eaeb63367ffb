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

// Bounds of a table. Its document is bounded when it is read (internal/catalog/manifest).
const (
	maxValues = 1_000   // in one list of metadata
	maxFaults = 100     // of one table; then the check ends
	maxSource = 1 << 20 // bytes of all different expressions of a table: compiling them takes seconds
)

// rule is one rule, ready to be evaluated.
type rule struct {
	table      string // tenant/name
	name       string
	agent      string
	model      string
	priority   int
	disabled   bool
	conditions []condition // all must hold; cheap ones first
}

// check collects the faults of one table.
type check struct {
	compiler *Compiler
	sources  map[string]struct{} // different expressions
	source   int                 // their bytes
	found    agent.Faults
}

// fault adds a fault, up to a bound. The last one says that there are more.
func (k *check) fault(path, format string, args ...any) {
	switch {
	case len(k.found) < maxFaults:
		k.found = append(k.found, agent.Fault{Path: path, Message: fmt.Sprintf(format, args...)})
	case len(k.found) == maxFaults:
		k.found = append(k.found, agent.Fault{Path: path, Message: "there are more faults from here on"})
	}
}

// table compiles a table. Check and Engine both call it, so that they cannot disagree.
func (c *Compiler) table(t *agent.RouteTable) ([]rule, agent.Faults) {
	k := &check{compiler: c, sources: map[string]struct{}{}}
	name := tableName(t)
	rules := make([]rule, 0, len(t.Rules))
	for i := range t.Rules {
		if len(k.found) > maxFaults {
			break
		}
		r := &t.Rules[i]
		rules = append(rules, rule{
			table: name, name: r.Name, agent: r.Agent, model: r.Model, priority: r.Priority, disabled: r.Disabled,
			conditions: k.conditions(fmt.Sprintf("rules[%d].when", i), &r.When),
		})
	}
	return rules, k.found
}

// conditions compiles conditions, the cheap ones first.
func (k *check) conditions(path string, w *agent.RouteWhen) []condition {
	var out []condition
	for _, list := range []struct {
		word    word
		entries []string
	}{{role, w.Role}, {page, w.Page}, {channel, w.Channel}, {tenant, w.Tenant}} {
		if len(list.entries) > 0 {
			out = append(out, k.oneOf(path+"."+list.word.String(), list.word, list.entries))
		}
	}
	for _, name := range k.sortedNames(path+".flags", w.Flags) {
		if want, ok := k.value(path+".flags."+name, w.Flags[name]); ok {
			out = append(out, &flagIs{name: name, want: want})
		}
	}
	for _, name := range k.sortedNames(path+".metadata", w.Metadata) {
		if want, ok := k.values(path+".metadata."+name, w.Metadata[name]); ok {
			out = append(out, &metadataIs{path: name, want: want})
		}
	}
	if w.Expression != "" {
		if e, ok := k.expression(path+".expression", w.Expression); ok {
			out = append(out, e)
		}
	}
	return out
}

func (k *check) expression(path, source string) (*expression, bool) {
	if _, seen := k.sources[source]; !seen {
		k.sources[source] = struct{}{}
		k.source += len(source)
	}
	if k.source > maxSource {
		k.fault(path, "the table's expressions have more than %d bytes", maxSource)
		return nil, false
	}
	e, problems := k.compiler.expression(source)
	for _, p := range problems {
		k.fault(path, "%s", p)
	}
	return e, len(problems) == 0
}

// oneOf compiles a list of words.
func (k *check) oneOf(path string, w word, entries []string) *oneOf {
	o := &oneOf{word: w, entries: slices.Clone(entries)}
	for i, e := range entries {
		before, wildcard := strings.CutSuffix(e, "*")
		switch {
		case strings.Contains(before, "*"):
			k.fault(fmt.Sprintf("%s[%d]", path, i), "%q: a * stands for anything at the end alone", clip.Bytes(e, maxShown))
		case wildcard:
			o.prefixes = append(o.prefixes, before)
		default:
			o.exact = append(o.exact, e)
		}
	}
	o.index()
	return o
}

// sortedNames returns the names of flags or metadata in order, so that faults and explanations keep theirs. An empty name is a fault.
func (k *check) sortedNames(path string, m map[string]json.RawMessage) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(m)), func(name string) bool {
		empty := strings.TrimSpace(name) == ""
		if empty {
			k.fault(path, "a name is empty")
		}
		return empty
	})
}

// value decodes one expected value: nil, a bool, a float64 or a string.
func (k *check) value(path string, raw json.RawMessage) (any, bool) {
	v, ok := k.decode(path, raw)
	if !ok {
		return nil, false
	}
	if !isScalar(v) {
		k.fault(path, "is %s; want a text, a number, true, false or null", show(v))
		return nil, false
	}
	return v, true
}

// values decodes the expected values of metadata: one value, or a list of alternatives.
func (k *check) values(path string, raw json.RawMessage) ([]any, bool) {
	v, ok := k.decode(path, raw)
	if !ok {
		return nil, false
	}
	list, isList := v.([]any)
	switch {
	case !isList && isScalar(v):
		return []any{v}, true
	case !isList:
		k.fault(path, "is %s; want a text, a number, true, false or null, or a list of them", show(v))
		return nil, false
	case len(list) == 0:
		k.fault(path, "is an empty list, which nothing matches")
		return nil, false
	case len(list) > maxValues:
		k.fault(path, "has %d entries, at most %d", len(list), maxValues)
		return nil, false
	}
	for i, v := range list {
		if !isScalar(v) {
			k.fault(fmt.Sprintf("%s[%d]", path, i), "is %s; want a text, a number, true, false or null", show(v))
			ok = false
		}
	}
	return list, ok
}

func (k *check) decode(path string, raw json.RawMessage) (v any, ok bool) {
	if err := json.Unmarshal(raw, &v); err != nil {
		k.fault(path, "is no JSON value: %v", err)
		return nil, false
	}
	return v, true
}
