package manifest

import (
	"bytes"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of texts and documents.
const (
	maxFileBytes = 1 << 20
	maxBytes     = 64 << 20 // of one call
	maxDocuments = 10_000   // of one call, empty ones included
	maxDepth     = 64
	maxValues    = 50_000 // of one document
	maxNameBytes = 256    // of a member's name
)

// draft is a document that was read but not checked: a tree, and the faults of its text.
type draft struct {
	root   *node
	faults []locatedFault
	more   int // faults beyond maxDraftFaults
}

// maxDraftFaults bounds the faults that reading keeps of one document.
const maxDraftFaults = 1000

// locatedFault is a fault with its place, which becomes an [agent.Fault].
type locatedFault struct {
	at            place
	path, message string
}

// reader reads the documents of one file.
type reader struct {
	drafts []*draft
	left   *int // documents that the call may still read
	doc    *draft
	values int // of doc
}

// begin starts a document, or returns false if there are too many.
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

func tooMany() *locatedFault {
	return &locatedFault{message: "more than " + strconv.Itoa(maxDocuments) + " documents: the rest is not read"}
}

// trail is the way to a value, a list on the stack. Only faults turn it into a path.
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
	if len(r.doc.faults) == maxDraftFaults {
		r.doc.more++
		return
	}
	r.doc.faults = append(r.doc.faults, locatedFault{at, path, message})
}

// refuse adds a fault and returns a bad node for a value that is not read.
func (r *reader) refuse(at place, t *trail, message string) *node {
	r.fault(at, t.String(), message)
	return &node{at: at, key: at, bad: true}
}

// enter counts a value and checks its depth and the number of values. ok is false if the value must not be read.
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

// nameProblem says what is wrong with the name of a member, empty if nothing is.
func nameProblem(name string) (problem string) {
	switch {
	case len(name) > maxNameBytes:
		return "a name is longer than " + strconv.Itoa(maxNameBytes) + " bytes"
	case strings.ContainsFunc(name, unicode.IsControl):
		return "a name holds a control character"
	}
	return ""
}

// add adds a member to an object; seen has the names of its members. A second value of a name is a fault.
func (r *reader) add(n *node, seen map[string]struct{}, name string, key place, t *trail, value *node) {
	if _, twice := seen[name]; twice {
		r.fault(key, t.String(), "is given twice")
		return
	}
	seen[name] = struct{}{}
	value.key = key
	n.members = append(n.members, member{name, value})
}

// scalarProblem says why a database cannot store a text, empty if it can.
func scalarProblem(s string) string {
	if strings.IndexByte(s, 0) >= 0 {
		return "holds a NUL character"
	}
	return ""
}

// placer returns the places of growing offsets. Columns count characters.
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
