package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/schema"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

// checker checks a draft and collects its faults.
type checker struct {
	*draft

	file   string
	tenant string // of a document that names none
	kind   agent.Kind
	known  map[string]bool // paths with a fault: one for each is enough
}

// check returns the document, or all its faults. A value with a fault is left out of further checks, so that one mistake makes one fault.
func (c *checker) check() (*Document, agent.Faults) {
	c.known = make(map[string]bool, len(c.faults))
	for _, f := range c.faults {
		c.known[f.path] = true
	}
	if !c.readKind() {
		return nil, c.faultList()
	}
	c.normalize()
	s, err := schemaOf(c.kind)
	if err != nil {
		c.addFault("", "cannot be checked: %s", err)
		return nil, c.faultList()
	}
	valid := c.checkSchema(s)
	key := c.key()
	body, err := c.root.canonical()
	if err != nil {
		c.addFault("", "cannot be written as JSON: %s", err)
		return nil, c.faultList()
	}
	value := kinds()[c.kind].value
	if err := strictjson.Decode(body, value); err != nil {
		c.addDecodeFault(err)
		return nil, c.faultList()
	}
	c.checkRules(value)
	if !valid && len(c.faults) == 0 {
		c.addFault("", schema.NotSatisfied)
	}
	if len(c.faults) > 0 {
		return nil, c.faultList()
	}
	return &Document{Key: key, Body: body, Value: value, File: c.file, Line: c.root.at.line, root: c.root}, nil
}

// addDecodeFault adds the fault of a document that satisfies its schema but not its Go type, which differ by mistake.
func (c *checker) addDecodeFault(err error) {
	path, message := "", err.Error()
	if e, ok := errors.AsType[*agent.Error](err); ok {
		path, message = e.Field, e.Err.Error()
	}
	c.addFault(path, "%s", message)
}

// readKind sets the kind, or adds a fault and returns false.
func (c *checker) readKind() bool {
	switch {
	case c.root.bad:
		return false
	case c.root.form != formObject:
		c.addFault("", "want an object with kind and name, got %s", c.root.form)
		return false
	}
	var kinds []string
	for _, k := range agent.Kinds() {
		kinds = append(kinds, string(k))
	}
	want := "want one of " + strings.Join(kinds, ", ")
	n := c.root.member("kind")
	switch {
	case n == nil || n.form == formNull && !n.bad:
		c.addFault("kind", "is required: %s", want)
	case n.bad:
	case n.form != formText:
		c.addFault("kind", "%s, got %s", want, n.form)
	default:
		if slices.Contains(kinds, n.text) {
			c.kind = agent.Kind(n.text)
			return true
		}
		c.addFault("kind", "unknown kind %q: %s", clip.Bytes(n.text, maxQuoted), want)
	}
	return false
}

// maxQuoted is how much of a name a fault repeats, in bytes.
const maxQuoted = 64

// normalize turns all ways to write a document into one.
func (c *checker) normalize() {
	kept := c.root.members[:0]
	for _, m := range c.root.members {
		if m.value.form == formNull && !m.value.bad && hasField(c.kind, m.name) {
			continue // a field without a value is absent
		}
		kept = append(kept, m)
	}
	c.root.members = kept
	for _, name := range []string{"version", "node_version"} {
		n := c.root.member(name)
		if n == nil || n.form != formNumber || n.bad {
			continue
		}
		if !n.whole || strings.HasPrefix(n.text, "-") {
			c.addFault(name, `want a string such as "1" or "1.2.0": put it in quotes`)
			n.bad = true
			continue
		}
		n.form = formText
	}
	if c.kind != agent.KindNode {
		c.fillTenant()
	}
	if c.kind == agent.KindAgent {
		c.normalizeGrants()
	}
}

// fillTenant sets the tenant of a document that names none.
func (c *checker) fillTenant() {
	n := c.root.member("tenant")
	switch {
	case n == nil:
		c.root.members = append(c.root.members, member{"tenant", textNode(cmp.Or(c.tenant, agent.DefaultTenant), c.root.at)})
	case n.form == formText && n.text == "":
		n.text = cmp.Or(c.tenant, agent.DefaultTenant)
	}
}

// normalizeGrants turns bare names in tools into objects.
func (c *checker) normalizeGrants() {
	tools := c.root.member("tools")
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

// key returns the document's key, without the parts that are invalid.
func (c *checker) key() agent.DocumentKey {
	read := func(name string, pattern *regexp.Regexp) string {
		if n := c.root.member(name); n != nil && n.form == formText && pattern.MatchString(n.text) {
			return n.text
		}
		return ""
	}
	if c.kind == agent.KindNode {
		return agent.DocumentKey{Kind: c.kind, Name: read("node_id", namePattern), Version: read("version", namePattern)}
	}
	return agent.DocumentKey{Kind: c.kind, Tenant: read("tenant", tenantPattern), Name: read("name", namePattern)}
}

// addFault adds a fault about the field at path, unless the field or a value around it has one.
func (c *checker) addFault(path, format string, args ...any) {
	n, bad := c.root.find(path)
	if !bad {
		c.addFaultAt(n.where(), path, fmt.Sprintf(format, args...))
	}
}

func (c *checker) addFaultAt(at place, path, message string) {
	if c.known[path] {
		return
	}
	c.known[path] = true
	c.faults = append(c.faults, locatedFault{at, path, message})
}

// faultList returns the faults in the order of the text.
func (c *checker) faultList() agent.Faults {
	label := string(c.kind)
	if key := c.key(); key.Kind != "" && key.Name != "" {
		label = key.String()
	}
	faults := sorted(c.faults)
	out := make(agent.Faults, 0, min(len(faults), maxDocumentFaults+1))
	for i, f := range faults {
		if i == maxDocumentFaults {
			out = append(out, agent.Fault{File: c.file, Document: label, Message: fmt.Sprintf("and %d more faults", len(faults)-i+c.more)})
			break
		}
		out = append(out, agent.Fault{File: c.file, Line: f.at.line, Column: f.at.column, Document: label, Path: f.path, Message: f.message})
	}
	return out
}
