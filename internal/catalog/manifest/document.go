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

	file     string
	tenant   string // of documents that name none
	kind     agent.Kind
	reported map[string]bool // paths that have a fault; a path has at most one
}

// check returns the document, or all its faults. Further checks ignore a value with a fault, so that one mistake causes one fault.
func (c *checker) check() (*Document, agent.Faults) {
	c.reported = make(map[string]bool, len(c.faults))
	for _, f := range c.faults {
		c.reported[f.path] = true
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
	return &Document{Key: key, Body: body, Value: value, File: c.file, Line: c.root.pos.line, root: c.root}, nil
}

// addDecodeFault adds the fault of a document that satisfies its schema but not its Go type. It means that schema and type do not match.
func (c *checker) addDecodeFault(err error) {
	path, message := "", err.Error()
	if e, ok := errors.AsType[*agent.Error](err); ok {
		path, message = e.Field, e.Err.Error()
	}
	c.addFault(path, "%s", message)
}

// readKind sets the kind of the document. It returns false after adding a fault.
func (c *checker) readKind() bool {
	switch {
	case c.root.hasFault:
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
	case n == nil || (n.form == formNull && !n.hasFault):
		c.addFault("kind", "is required: %s", want)
	case n.hasFault:
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

// maxQuoted bounds a name that a fault quotes, in bytes.
const maxQuoted = 64

// normalize converts alternative spellings: it removes fields without a value, turns versions into strings, fills in the tenant, and turns
// names of tool grants into objects.
func (c *checker) normalize() {
	c.root.members = slices.DeleteFunc(c.root.members, func(m member) bool {
		return m.value.form == formNull && !m.value.hasFault && hasField(c.kind, m.name)
	})
	for _, name := range []string{"version", "node_version"} {
		n := c.root.member(name)
		if n == nil || n.form != formNumber || n.hasFault {
			continue
		}
		if !n.isInteger || strings.HasPrefix(n.text, "-") {
			c.addFault(name, `want a string such as "1" or "1.2.0": put it in quotes`)
			n.hasFault = true
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

// fillTenant sets the tenant of a document without one.
func (c *checker) fillTenant() {
	n := c.root.member("tenant")
	switch {
	case n == nil:
		c.root.members = append(c.root.members, member{"tenant", textNode(cmp.Or(c.tenant, agent.DefaultTenant), c.root.pos)})
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
		if n.form == formText && !n.hasFault {
			tools.items[i] = &node{form: formObject, pos: n.pos, keyPos: n.pos, members: []member{{"toolkit", textNode(n.text, n.pos)}}}
		}
	}
}

var (
	namePattern   = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)
	tenantPattern = regexp.MustCompile(`^([A-Za-z0-9._-]{1,128}|\*)$`)
)

// key returns the document's key. Invalid parts of it are empty.
func (c *checker) key() agent.DocumentKey {
	if c.kind == agent.KindNode {
		return agent.DocumentKey{Kind: c.kind, Name: c.keyField("node_id", namePattern), Version: c.keyField("version", namePattern)}
	}
	return agent.DocumentKey{Kind: c.kind, Tenant: c.keyField("tenant", tenantPattern), Name: c.keyField("name", namePattern)}
}

func (c *checker) keyField(name string, pattern *regexp.Regexp) string {
	n := c.root.member(name)
	if n == nil || n.form != formText || !pattern.MatchString(n.text) {
		return ""
	}
	return n.text
}

// addFault adds a fault of the field at path, unless the field or an enclosing value already has a fault.
func (c *checker) addFault(path, format string, args ...any) {
	n, hasFault := c.root.find(path)
	if !hasFault {
		c.addFaultAt(n.faultPosition(), path, fmt.Sprintf(format, args...))
	}
}

func (c *checker) addFaultAt(pos position, path, message string) {
	if c.reported[path] {
		return
	}
	c.reported[path] = true
	c.faults = append(c.faults, locatedFault{pos, path, message})
}

// faultList returns the faults in the order of the text.
func (c *checker) faultList() agent.Faults {
	label := string(c.kind)
	if key := c.key(); key.Kind != "" && key.Name != "" {
		label = key.String()
	}
	faults := sortByPosition(c.faults)
	out := make(agent.Faults, 0, min(len(faults), maxDocumentFaults+1))
	for i, f := range faults {
		if i == maxDocumentFaults {
			out = append(out, agent.Fault{File: c.file, Document: label, Message: fmt.Sprintf("and %d more faults", len(faults)-i+c.omittedFaults)})
			break
		}
		out = append(out, agent.Fault{File: c.file, Line: f.pos.line, Column: f.pos.column, Document: label, Path: f.path, Message: f.message})
	}
	return out
}
