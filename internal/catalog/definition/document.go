package definition

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

// document is a draft on its way to a [Definition]; it gathers what is wrong with it.
type document struct {
	*draft

	file   string
	tenant string // when the document names none
	kind   agent.Kind
	known  map[string]bool // paths that have a fault: one says enough
}

// definition checks the document from the outside in. What has a fault is left out of the checks that follow, so that one mistake makes
// one fault and yet all mistakes are found at once.
func (d *document) definition() (*Definition, agent.Faults) {
	d.known = make(map[string]bool, len(d.faults))
	for _, f := range d.faults {
		d.known[f.path] = true
	}
	if !d.classify() {
		return nil, d.report()
	}
	d.normalise()
	s, err := schemaOf(d.kind)
	if err != nil {
		d.fault("", "cannot be checked: %s", err)
		return nil, d.report()
	}
	refused := d.schema(s)
	key := d.key()
	body, err := d.root.canonical()
	if err != nil {
		d.fault("", "cannot be written as JSON: %s", err)
		return nil, d.report()
	}
	value := newValue(d.kind)
	if err := strictjson.Decode(body, value); err != nil {
		d.undecodable(err)
		return nil, d.report()
	}
	d.check(value)
	if refused && len(d.faults) == 0 {
		d.fault("", schemaRefuses)
	}
	if len(d.faults) > 0 {
		return nil, d.report()
	}
	return &Definition{Key: key, Body: body, Value: value, File: d.file, Line: d.root.at.line, root: d.root}, nil
}

// schemaRefuses is for what has no better words.
const schemaRefuses = "does not satisfy its schema"

// undecodable is for a document that satisfies its schema and not its Go type: the two have come apart.
func (d *document) undecodable(err error) {
	path, message := "", err.Error()
	if e, ok := errors.AsType[*agent.Error](err); ok {
		path, message = e.Field, e.Err.Error()
	}
	d.fault(path, "%s", message)
}

// classify finds the kind; without one nothing else can be said.
func (d *document) classify() bool {
	switch {
	case d.root.bad:
		return false
	case d.root.form != formObject:
		d.fault("", "want an object with kind and name, got %s", d.root.form)
		return false
	}
	kinds := make([]string, 0, len(agent.Kinds()))
	for _, k := range agent.Kinds() {
		kinds = append(kinds, string(k))
	}
	want := "want one of " + strings.Join(kinds, ", ")
	n := d.root.member("kind")
	switch {
	case n == nil || n.form == formNull && !n.bad:
		d.fault("kind", "is required: %s", want)
	case n.bad:
	case n.form != formText:
		d.fault("kind", "%s, got %s", want, n.form)
	default:
		for _, k := range kinds {
			if k == n.text {
				d.kind = agent.Kind(k)
				return true
			}
		}
		d.fault("kind", "unknown kind %q: %s", clip.Bytes(n.text, maxQuoted), want)
	}
	return false
}

// maxQuoted bounds what a fault repeats of a document, in bytes.
const maxQuoted = 64

// normalise gives one form to what may be written in several.
func (d *document) normalise() {
	kept := d.root.members[:0]
	for _, m := range d.root.members {
		if m.value.form == formNull && !m.value.bad && fieldOf(d.kind, m.name) {
			continue // a field with nothing behind it is one that is left out
		}
		kept = append(kept, m)
	}
	d.root.members = kept
	for _, name := range []string{"version", "node_version"} {
		n := d.root.member(name)
		if n == nil || n.form != formNumber || n.bad {
			continue
		}
		if !n.whole || strings.HasPrefix(n.text, "-") {
			d.fault(name, `want a string such as "1" or "1.2.0": put it in quotes`)
			n.bad = true
			continue
		}
		n.form = formText
	}
	if d.kind != agent.KindNode {
		d.fillTenant()
	}
	if d.kind == agent.KindAgent {
		d.grants()
	}
}

func (d *document) fillTenant() {
	n := d.root.member("tenant")
	switch {
	case n == nil:
		d.root.members = append(d.root.members, member{"tenant", textNode(cmp.Or(d.tenant, agent.DefaultTenant), d.root.at)})
	case n.form == formText && n.text == "":
		n.text = cmp.Or(d.tenant, agent.DefaultTenant)
	}
}

// grants turns a bare name in tools into an object.
func (d *document) grants() {
	tools := d.root.member("tools")
	if tools == nil || tools.form != formArray {
		return
	}
	for i, n := range tools.items {
		if n.form == formText && !n.bad {
			tools.items[i] = &node{form: formObject, at: n.at, key: n.at, members: []member{{"toolkit", textNode(n.text, n.at)}}}
		}
	}
}

var (
	namePattern   = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)
	tenantPattern = regexp.MustCompile(`^([A-Za-z0-9._-]{1,128}|\*)$`)
)

// key is the document's key as far as it is right.
func (d *document) key() agent.DocumentKey {
	read := func(name string, pattern *regexp.Regexp) string {
		if n := d.root.member(name); n != nil && n.form == formText && pattern.MatchString(n.text) {
			return n.text
		}
		return ""
	}
	if d.kind == agent.KindNode {
		return agent.DocumentKey{Kind: d.kind, Name: read("node_id", namePattern), Version: read("version", namePattern)}
	}
	return agent.DocumentKey{Kind: d.kind, Tenant: read("tenant", tenantPattern), Name: read("name", namePattern)}
}

// fault adds one about the field at path, unless one is known about that field or something around it.
func (d *document) fault(path, format string, args ...any) {
	n, bad := d.root.find(path)
	if !bad {
		d.faultAt(n.where(), path, fmt.Sprintf(format, args...))
	}
}

func (d *document) faultAt(at place, path, message string) {
	if d.known[path] {
		return
	}
	d.known[path] = true
	d.faults = append(d.faults, located{at, path, message})
}

// report is what was gathered, in the order of the text.
func (d *document) report() agent.Faults {
	label := string(d.kind)
	if key := d.key(); key.Kind != "" && key.Name != "" {
		label = key.String()
	}
	faults := sorted(d.faults)
	out := make(agent.Faults, 0, min(len(faults), maxDocumentFaults+1))
	for i, f := range faults {
		if i == maxDocumentFaults {
			out = append(out, agent.Fault{File: d.file, Document: label, Message: fmt.Sprintf("and %d more faults", len(faults)-i+d.more)})
			break
		}
		out = append(out, agent.Fault{File: d.file, Line: f.at.line, Column: f.at.column, Document: label, Path: f.path, Message: f.message})
	}
	return out
}

// newValue is an empty value of the kind's type.
func newValue(kind agent.Kind) any {
	switch kind {
	case agent.KindNode:
		return &agent.NodeDefinition{}
	case agent.KindAgent:
		return &agent.AgentInstance{}
	case agent.KindBinding:
		return &agent.ToolBinding{}
	case agent.KindModel:
		return &agent.ModelProfile{}
	case agent.KindRoutes:
		return &agent.RouteTable{}
	case agent.KindAuth:
		return &agent.AuthProfile{}
	case agent.KindKnowledge:
		return &agent.KnowledgeCollection{}
	default:
		return nil
	}
}
