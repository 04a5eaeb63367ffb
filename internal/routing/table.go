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

// Bounds of a table, far above what people write.
const (
	maxRules   = 10_000
	maxEntries = 1_000 // of one list
	maxPairs   = 100   // flags, and metadata, of one rule
	maxBytes   = 1_024 // of a name or an entry
	maxFaults  = 100   // of one table; then the check ends
	// maxSource bounds the text of all different expressions of a table, in bytes: compiling it takes seconds.
	maxSource = 1 << 20
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
	sources  map[string]struct{} // expressions seen
	source   int                 // their bytes
	found    agent.Faults
}

// fault adds a fault. Of a table that is wrong all over, the last one says that there are more.
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
	if len(t.Rules) > maxRules {
		k.fault("rules", "has %d rules, at most %d", len(t.Rules), maxRules)
		return nil, k.found
	}
	table := label(t)
	rules := make([]rule, 0, len(t.Rules))
	names := make(map[string]int, len(t.Rules))
	for i := range t.Rules {
		if len(k.found) > maxFaults {
			break
		}
		r, path := &t.Rules[i], fmt.Sprintf("rules[%d]", i)
		k.name(path+".name", r.Name)
		k.name(path+".agent", r.Agent)
		if first, twice := names[r.Name]; twice && r.Name != "" {
			k.fault(path+".name", "%q is the name of rules[%d] as well", clip.Bytes(r.Name, maxShown), first)
		} else {
			names[r.Name] = i
		}
		rules = append(rules, rule{
			table: table, name: r.Name, agent: r.Agent, model: r.Model, priority: r.Priority, disabled: r.Disabled,
			conditions: k.when(path+".when", &r.When),
		})
	}
	return rules, k.found
}

func (k *check) name(path, name string) {
	switch {
	case strings.TrimSpace(name) == "":
		k.fault(path, "is empty")
	case len(name) > maxBytes:
		k.fault(path, "is %d bytes, at most %d", len(name), maxBytes)
	}
}

// when compiles conditions, the cheap ones first.
func (k *check) when(path string, w *agent.RouteWhen) []condition {
	var out []condition
	for _, list := range []struct {
		word    word
		entries []string
	}{{role, w.Role}, {page, w.Page}, {channel, w.Channel}, {tenant, w.Tenant}} {
		if o, ok := k.list(path+"."+list.word.String(), list.word, list.entries); ok {
			out = append(out, o)
		}
	}
	for _, name := range k.pairs(path+".flags", w.Flags) {
		if want, ok := k.value(path+".flags."+name, w.Flags[name]); ok {
			out = append(out, &flagIs{name: name, want: want})
		}
	}
	for _, name := range k.pairs(path+".metadata", w.Metadata) {
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

// list compiles a list of words; an empty one is no condition.
func (k *check) list(path string, of word, entries []string) (*oneOf, bool) {
	if len(entries) > maxEntries {
		k.fault(path, "has %d entries, at most %d", len(entries), maxEntries)
		return nil, false
	}
	o := &oneOf{word: of, entries: slices.Clone(entries)}
	for i, e := range entries {
		before, wildcard := strings.CutSuffix(e, "*")
		switch {
		case len(e) > maxBytes:
			k.fault(fmt.Sprintf("%s[%d]", path, i), "is %d bytes, at most %d", len(e), maxBytes)
		case strings.Contains(before, "*"):
			k.fault(fmt.Sprintf("%s[%d]", path, i), "%q: a * stands for anything at the end alone", clip.Bytes(e, maxShown))
		case wildcard:
			o.prefixes = append(o.prefixes, before)
		default:
			o.exact = append(o.exact, e)
		}
	}
	o.index()
	return o, len(entries) > 0
}

// pairs checks the names of flags or metadata and returns them sorted, so that faults and explanations keep their order.
func (k *check) pairs(path string, m map[string]json.RawMessage) []string {
	if len(m) > maxPairs {
		k.fault(path, "has %d entries, at most %d", len(m), maxPairs)
		return nil
	}
	names := slices.Sorted(maps.Keys(m))
	return slices.DeleteFunc(names, func(name string) bool {
		switch {
		case strings.TrimSpace(name) == "":
			k.fault(path, "a name is empty")
		case len(name) > maxBytes:
			k.fault(path, "the name %q is %d bytes, at most %d", clip.Bytes(name, maxShown), len(name), maxBytes)
		default:
			return false
		}
		return true
	})
}

// value decodes one expected value: nil, a bool, a float64 or a string.
func (k *check) value(path string, raw json.RawMessage) (any, bool) {
	v, ok := k.decode(path, raw)
	if !ok {
		return nil, false
	}
	if !scalar(v) {
		k.fault(path, "is %s; want a text, a number, true, false or null", show(v))
		return nil, false
	}
	return v, true
}

// values decodes the expected values of metadata: one, or a list of which one must be equal.
func (k *check) values(path string, raw json.RawMessage) ([]any, bool) {
	v, ok := k.decode(path, raw)
	if !ok {
		return nil, false
	}
	list, isList := v.([]any)
	switch {
	case !isList && scalar(v):
		return []any{v}, true
	case !isList:
		k.fault(path, "is %s; want a text, a number, true, false or null, or a list of them", show(v))
		return nil, false
	case len(list) == 0:
		k.fault(path, "is an empty list, which nothing matches")
		return nil, false
	case len(list) > maxEntries:
		k.fault(path, "has %d entries, at most %d", len(list), maxEntries)
		return nil, false
	}
	for i, v := range list {
		if !scalar(v) {
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
