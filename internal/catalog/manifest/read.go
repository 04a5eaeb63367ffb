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

// draft is a document that is read but not checked.
type draft struct {
	root          *node
	faults        []locatedFault
	omittedFaults int // the number of faults beyond maxDraftFaults
}

// maxDraftFaults bounds the faults that are kept while a document is read.
const maxDraftFaults = 1000

// locatedFault is a fault and its position. It becomes an [agent.Fault].
type locatedFault struct {
	pos           position
	path, message string
}

// reader reads the documents of one file.
type reader struct {
	drafts    []*draft
	remaining *int // number of documents that the call may still read
	doc       *draft
	values    int // number of values of doc
}

// begin starts a document. It returns false if there are too many.
func (r *reader) begin() bool {
	if *r.remaining == 0 {
		return false
	}
	*r.remaining--
	r.doc, r.values = &draft{}, 0
	return true
}

// end finishes the document that begin has started.
func (r *reader) end(root *node) {
	r.doc.root = root
	r.drafts = append(r.drafts, r.doc)
}

func tooMany() *locatedFault {
	return &locatedFault{message: "more than " + strconv.Itoa(maxDocuments) + " documents: the rest is not read"}
}

// valuePath is the path of a value as a linked list. It is formatted only for faults.
type valuePath struct {
	parent *valuePath
	name   string
	index  int // of an item
	isItem bool
}

func (p *valuePath) String() string {
	switch {
	case p == nil:
		return ""
	case p.isItem:
		return item(p.parent.String(), p.index)
	default:
		return child(p.parent.String(), p.name)
	}
}

func (r *reader) addFault(pos position, path, message string) {
	if len(r.doc.faults) == maxDraftFaults {
		r.doc.omittedFaults++
		return
	}
	r.doc.faults = append(r.doc.faults, locatedFault{pos, path, message})
}

// refuse adds a fault and returns a faulty node in place of the value.
func (r *reader) refuse(pos position, path *valuePath, message string) *node {
	r.addFault(pos, path.String(), message)
	return &node{pos: pos, keyPos: pos, hasFault: true}
}

// enter counts a value and checks the number of values and the depth. If a bound is exceeded it returns false and a faulty node, and the value
// must not be read.
func (r *reader) enter(pos position, path *valuePath, isContainer bool, depth int) (refused *node, ok bool) {
	r.values++
	switch {
	case r.values == maxValues+1:
		return r.refuse(pos, path, "the document has more than "+strconv.Itoa(maxValues)+" values"), false
	case r.values > maxValues:
		return &node{pos: pos, keyPos: pos, hasFault: true}, false
	case isContainer && depth >= maxDepth:
		return r.refuse(pos, path, "is nested deeper than "+strconv.Itoa(maxDepth)+" levels"), false
	}
	return nil, true
}

// nameProblem returns why the name of a member is not allowed, empty if it is.
func nameProblem(name string) (problem string) {
	switch {
	case len(name) > maxNameBytes:
		return "a name is longer than " + strconv.Itoa(maxNameBytes) + " bytes"
	case strings.ContainsFunc(name, unicode.IsControl):
		return "a name holds a control character"
	}
	return ""
}

// addMember adds a member to an object. A second value of a name is a fault. names has the names of the members so far.
func (r *reader) addMember(n *node, names map[string]bool, name string, key position, path *valuePath, value *node) {
	if names[name] {
		r.addFault(key, path.String(), "is given twice")
		return
	}
	names[name] = true
	value.keyPos = key
	n.members = append(n.members, member{name, value})
}

// scalarProblem returns why a database cannot store a text, empty if it can.
func scalarProblem(s string) string {
	if strings.IndexByte(s, 0) >= 0 {
		return "holds a NUL character"
	}
	return ""
}

// positioner converts increasing offsets to positions. Columns count characters.
type positioner struct {
	data   []byte
	offset int
	pos    position // of offset
}

func newPositioner(data []byte) *positioner { return &positioner{data: data, pos: position{1, 1}} }

// positionOf returns the position of an offset, which must not be less than that of the last call.
func (p *positioner) positionOf(offset int) position {
	part := p.data[p.offset:max(min(offset, len(p.data)), p.offset)]
	p.offset += len(part)
	if lines := bytes.Count(part, []byte{'\n'}); lines > 0 {
		p.pos.line += lines
		p.pos.column = 1
		part = part[bytes.LastIndexByte(part, '\n')+1:]
	}
	p.pos.column += utf8.RuneCount(part)
	return p.pos
}
