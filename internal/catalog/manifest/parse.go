package manifest

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/turnstone-run/turnstone/agent"
)

// maxFaults bounds the faults of one call, maxDocumentFaults those of one document. An additional last fault counts the omitted ones.
const (
	maxFaults         = 1000
	maxDocumentFaults = 100
)

// Parse returns the valid documents of the files, and the faults of all others. A file is a stream of YAML documents or JSON values, or a
// list of documents in either format. It is read as JSON if its name ends in .json or its text is JSON. A file may have 1 MiB, all files
// together 64 MiB and 10,000 documents.
func Parse(files []agent.ManifestFile) ([]*Document, agent.Faults) {
	total := 0
	for i := range files {
		total += len(files[i].Data)
		if total > maxBytes {
			return nil, agent.Faults{{File: files[i].Name, Message: fmt.Sprintf("the files have more than %d MiB in all", maxBytes>>20)}}
		}
	}
	p := &parser{remaining: maxDocuments}
	for i := range files {
		f := files[i]
		f.Name = cmp.Or(f.Name, fmt.Sprintf("files[%d]", i))
		p.parseFile(&f)
	}
	if p.omittedFaults > 0 {
		p.faults = append(p.faults, agent.Fault{Message: fmt.Sprintf("and %d more faults", p.omittedFaults)})
	}
	return p.documents, p.faults
}

// parser collects the documents and faults of several files.
type parser struct {
	remaining     int // number of documents that may still be read
	documents     []*Document
	faults        agent.Faults
	omittedFaults int // the number of faults beyond maxFaults
}

func (p *parser) addFaults(faults ...agent.Fault) {
	kept := min(len(faults), maxFaults-len(p.faults))
	p.faults = append(p.faults, faults[:kept]...)
	p.omittedFaults += len(faults) - kept
}

func (p *parser) parseFile(f *agent.ManifestFile) {
	if len(f.Data) > maxFileBytes {
		p.addFaults(agent.Fault{File: f.Name, Message: fmt.Sprintf("the file has %d bytes, at most %d are read", len(f.Data), maxFileBytes)})
		return
	}
	data := bytes.TrimPrefix(f.Data, []byte("\ufeff"))
	if !utf8.Valid(data) {
		pos := newPositioner(data).positionOf(bytes.IndexRune(data, utf8.RuneError))
		p.addFaults(agent.Fault{File: f.Name, Line: pos.line, Column: pos.column, Message: "is not UTF-8"})
		return
	}
	drafts, syntaxFault := p.readDrafts(f.Name, data)
	for _, d := range drafts {
		doc, faults := (&checker{draft: d, file: f.Name, tenant: f.Tenant}).check()
		p.addFaults(faults...)
		if doc != nil {
			p.documents = append(p.documents, doc)
		}
	}
	if syntaxFault != nil {
		p.addFaults(agent.Fault{File: f.Name, Line: syntaxFault.pos.line, Column: syntaxFault.pos.column, Message: syntaxFault.message})
	}
}

// readDrafts reads a text that looks like JSON as JSON. It reads other texts, and invalid JSON, as YAML.
func (p *parser) readDrafts(name string, data []byte) ([]*draft, *locatedFault) {
	isJSONFile := strings.HasSuffix(name, ".json")
	var jsonFault *locatedFault
	if isJSONFile || jsonStart.Match(data) {
		remaining := p.remaining
		r := &reader{remaining: &remaining}
		jsonFault = r.readJSON(data)
		if jsonFault == nil || isJSONFile {
			p.remaining = remaining
			return r.drafts, jsonFault
		}
	}
	r := &reader{remaining: &p.remaining}
	yamlFault := r.readYAML(data)
	if yamlFault != nil && jsonFault != nil && jsonLikely.Match(data) {
		return r.drafts, jsonFault
	}
	return r.drafts, yamlFault
}

// jsonStart matches a text that may be JSON, jsonLikely a text that begins with a quoted name, which is rare in YAML.
var (
	jsonStart  = regexp.MustCompile(`^[ \t\r\n]*[\[{]`)
	jsonLikely = regexp.MustCompile(`^[ \t\r\n]*(\[[ \t\r\n]*)?\{[ \t\r\n]*"`)
)

// readSingle returns a checker of a JSON text that must hold one document.
func readSingle(body []byte) (*checker, agent.Faults) {
	if len(body) > maxFileBytes {
		return nil, agent.Faults{{Message: fmt.Sprintf("the document has %d bytes, at most %d are read", len(body), maxFileBytes)}}
	}
	remaining := maxDocuments
	r := &reader{remaining: &remaining}
	fault := r.readJSON(body)
	switch {
	case fault != nil:
		return nil, agent.Faults{{Message: fault.message}}
	case len(r.drafts) != 1:
		return nil, agent.Faults{{Message: "want one document"}}
	}
	return &checker{draft: r.drafts[0]}, nil
}

// sortByPosition sorts faults in place, in the order of the text, and returns them.
func sortByPosition(faults []locatedFault) []locatedFault {
	slices.SortStableFunc(faults, func(a, b locatedFault) int {
		return cmp.Or(cmp.Compare(a.pos.line, b.pos.line), cmp.Compare(a.pos.column, b.pos.column), cmp.Compare(a.path, b.path))
	})
	return faults
}
