package manifest

import (
	"bytes"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of what is read.
const (
	maxFileBytes = 1 << 20
	maxBytes     = 64 << 20 // of one call
	maxDocuments = 10_000   // of one call, empty ones included
	maxDepth     = 64
	maxValues    = 50_000 // of one document
	maxNameBytes = 256    // of a member's name
)

// draft is one document as it was read: a tree, and what was wrong with its text.
type draft struct {
	root   *node
	faults []located
	more   int // faults beyond maxDrafted
}

// maxDrafted bounds the faults that reading keeps of one document.
const maxDrafted = 1000

// located is a fault with its place, on the way to become an [agent.Fault].
type located struct {
	at            place
	path, message string
}

// reader builds the trees of one file.
type reader struct {
	drafts []*draft
	left   *int // documents that the call may still have
	doc    *draft
	values int // of doc
}

// begin starts a document; false when there are too many.
func (r *reader) begin() bool {
	if *r.left == 0 {
		return false
	}
	*r.left--
	r.doc, r.values = &draft{}, 0
	return true
}

func (r *reader) end(root *node) {
	r.doc.root = root
	r.drafts = append(r.drafts, r.doc)
}

func tooMany() *located {
	return &located{message: "more than " + strconv.Itoa(maxDocuments) + " documents: the rest is not read"}
}

// trail is the way to a value, kept on the stack: a path is written for faults only.
type trail struct {
	up    *trail
	name  string
	index int // of an item, when name is empty
	list  bool
}

func (t *trail) String() string {
	if t == nil {
		return ""
	}
	if t.list {
		return item(t.up.String(), t.index)
	}
	return child(t.up.String(), t.name)
}

func (r *reader) fault(at place, path, message string) {
	if len(r.doc.faults) == maxDrafted {
		r.doc.more++
		return
	}
	r.doc.faults = append(r.doc.faults, located{at, path, message})
}

// refuse is a value that cannot be read: its fault is known, and what would be said of its content is not.
func (r *reader) refuse(at place, t *trail, message string) *node {
	r.fault(at, t.String(), message)
	return &node{at: at, key: at, bad: true}
}

// enter counts a value and bounds depth, of containers, and number. ok is false when it is not to be read; one fault says so.
func (r *reader) enter(at place, t *trail, container bool, depth int) (refused *node, ok bool) {
	r.values++
	switch {
	case r.values == maxValues+1:
		return r.refuse(at, t, "the document has more than "+strconv.Itoa(maxValues)+" values"), false
	case r.values > maxValues:
		return &node{at: at, key: at, bad: true}, false
	case container && depth >= maxDepth:
		return r.refuse(at, t, "is nested deeper than "+strconv.Itoa(maxDepth)+" levels"), false
	}
	return nil, true
}

// named says what is wrong with the name of a member.
func named(name string) (problem string) {
	switch {
	case len(name) > maxNameBytes:
		return "a name is longer than " + strconv.Itoa(maxNameBytes) + " bytes"
	case strings.ContainsFunc(name, unicode.IsControl):
		return "a name holds a control character"
	}
	return ""
}

// add puts a member into an object; seen are the names that it has. A second value of a name is a fault and left out.
func (r *reader) add(n *node, seen map[string]struct{}, name string, key place, t *trail, value *node) {
	if _, twice := seen[name]; twice {
		r.fault(key, t.String(), "is given twice")
		return
	}
	seen[name] = struct{}{}
	value.key = key
	n.members = append(n.members, member{name, value})
}

// scalarProblem refuses text that a database cannot keep.
func scalarProblem(s string) string {
	if strings.IndexByte(s, 0) >= 0 {
		return "holds a NUL character"
	}
	return ""
}

// placer turns growing offsets into places. Columns count characters.
type placer struct {
	data []byte
	seen int
	at   place
}

func newPlacer(data []byte) *placer { return &placer{data: data, at: place{1, 1}} }

func (p *placer) place(offset int) place {
	part := p.data[p.seen:max(min(offset, len(p.data)), p.seen)]
	p.seen += len(part)
	if lines := bytes.Count(part, []byte{'\n'}); lines > 0 {
		p.at.line += lines
		p.at.column = 1
		part = part[bytes.LastIndexByte(part, '\n')+1:]
	}
	p.at.column += utf8.RuneCount(part)
	return p.at
}
