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

// maxFaults bounds the faults of one call, maxDocumentFaults those of one document. One more fault has the number of the others.
const (
	maxFaults         = 1000
	maxDocumentFaults = 100
)

// Parse returns the documents of the files that are valid, and the faults of all others. A file is a YAML stream, JSON values, or a list of
// documents in either; it is read as JSON if its name ends in .json or its text is JSON. It may have 1 MiB; all files together 64 MiB and
// 10,000 documents.
func Parse(files []agent.ManifestFile) ([]*Document, agent.Faults) {
	total := 0
	for i := range files {
		if total += len(files[i].Data); total > maxBytes {
			return nil, agent.Faults{{File: files[i].Name, Message: fmt.Sprintf("the files have more than %d MiB in all", maxBytes>>20)}}
		}
	}
	p := &parser{left: maxDocuments}
	for i := range files {
		f := files[i]
		f.Name = cmp.Or(f.Name, fmt.Sprintf("files[%d]", i))
		p.file(&f)
	}
	return p.documents, p.all()
}

type parser struct {
	left      int // documents
	documents []*Document
	faults    agent.Faults
	more      int
}

func (p *parser) all() agent.Faults {
	if p.more > 0 {
		return append(p.faults, agent.Fault{Message: fmt.Sprintf("and %d more faults", p.more)})
	}
	return p.faults
}

func (p *parser) add(faults ...agent.Fault) {
	fits := min(len(faults), maxFaults-len(p.faults))
	p.faults = append(p.faults, faults[:fits]...)
	p.more += len(faults) - fits
}

func (p *parser) file(f *agent.ManifestFile) {
	if len(f.Data) > maxFileBytes {
		p.add(agent.Fault{File: f.Name, Message: fmt.Sprintf("the file has %d bytes, at most %d are read", len(f.Data), maxFileBytes)})
		return
	}
	data := bytes.TrimPrefix(f.Data, []byte("\ufeff"))
	if !utf8.Valid(data) {
		at := newPlacer(data).place(bytes.IndexRune(data, utf8.RuneError))
		p.add(agent.Fault{File: f.Name, Line: at.line, Column: at.column, Message: "is not UTF-8"})
		return
	}
	drafts, broken := p.read(f.Name, data)
	for _, d := range drafts {
		def, faults := (&checker{draft: d, file: f.Name, tenant: f.Tenant}).check()
		p.add(faults...)
		if def != nil {
			p.documents = append(p.documents, def)
		}
	}
	if broken != nil {
		p.add(agent.Fault{File: f.Name, Line: broken.at.line, Column: broken.at.column, Message: broken.message})
	}
}

// read reads a text that looks like JSON as JSON. It reads other texts, and those that are no valid JSON, as YAML.
func (p *parser) read(name string, data []byte) ([]*draft, *locatedFault) {
	left := p.left
	named := strings.HasSuffix(name, ".json")
	var asJSON *locatedFault
	if named || jsonStart.Match(data) {
		r := &reader{left: &left}
		if asJSON = r.json(data); asJSON == nil || named {
			p.left = left
			return r.drafts, asJSON
		}
	}
	r := &reader{left: &p.left}
	broken := r.yaml(data)
	if broken != nil && asJSON != nil && jsonOnly.Match(data) {
		broken = asJSON
	}
	return r.drafts, broken
}

// jsonStart matches a text that may be JSON, jsonOnly one that is meant as JSON: names in quotes are rare in YAML.
var (
	jsonStart = regexp.MustCompile(`^[ \t\r\n]*[\[{]`)
	jsonOnly  = regexp.MustCompile(`^[ \t\r\n]*(\[[ \t\r\n]*)?\{[ \t\r\n]*"`)
)

// read returns a checker for one JSON document that does not come from a file.
func read(body []byte) (*checker, agent.Faults) {
	if len(body) > maxFileBytes {
		return nil, agent.Faults{{Message: fmt.Sprintf("the document has %d bytes, at most %d are read", len(body), maxFileBytes)}}
	}
	left := maxDocuments
	r := &reader{left: &left}
	broken := r.json(body)
	switch {
	case broken != nil:
		return nil, agent.Faults{{Message: broken.message}}
	case len(r.drafts) != 1:
		return nil, agent.Faults{{Message: "want one document"}}
	}
	return &checker{draft: r.drafts[0]}, nil
}

// sorted sorts faults in the order of the text.
func sorted(faults []locatedFault) []locatedFault {
	slices.SortStableFunc(faults, func(a, b locatedFault) int {
		return cmp.Or(cmp.Compare(a.at.line, b.at.line), cmp.Compare(a.at.column, b.at.column), cmp.Compare(a.path, b.path))
	})
	return faults
}
