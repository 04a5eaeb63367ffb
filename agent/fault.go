package agent

import (
	"fmt"
	"strings"
)

// Fault is a problem in a catalog document, with its position as far as it is known.
type Fault struct {
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"` // from 1; 0 if unknown
	Column   int    `json:"column,omitempty"`
	Document string `json:"document,omitempty"` // the result of [DocumentKey.String]
	Path     string `json:"path,omitempty"`     // of the field, e.g. rules[2].when.expression
	Message  string `json:"message"`
}

// String returns "file:line:column: document: path: message". Empty parts are left out.
func (f Fault) String() string {
	var b strings.Builder
	if f.File != "" || f.Line > 0 {
		b.WriteString(f.File)
		if f.Line > 0 {
			fmt.Fprintf(&b, ":%d", f.Line)
		}
		if f.Column > 0 {
			fmt.Fprintf(&b, ":%d", f.Column)
		}
		b.WriteString(": ")
	}
	for _, part := range []string{f.Document, f.Path} {
		if part != "" {
			b.WriteString(part + ": ")
		}
	}
	b.WriteString(f.Message)
	return b.String()
}

// Faults is an error that consists of several faults.
type Faults []Fault

// Error returns the faults, one per line.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i := range f {
		lines[i] = f[i].String()
	}
	return strings.Join(lines, "\n")
}

// Err returns a [CodeInvalid] error that wraps the faults, nil if there are none.
func (f Faults) Err() error {
	if len(f) == 0 {
		return nil
	}
	return &Error{Code: CodeInvalid, Err: f}
}
