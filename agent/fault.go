package agent

import (
	"fmt"
	"strings"
)

// Fault is one thing that is wrong with a catalog document.
type Fault struct {
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"` // from 1; 0: not known
	Column   int    `json:"column,omitempty"`
	Document string `json:"document,omitempty"` // its key, as [DocumentKey.String] writes it
	Path     string `json:"path,omitempty"`     // of the field, e.g. rules[2].when.expression
	Message  string `json:"message"`
}

// String returns "file:line:column: document: path: message", without the parts that are not known.
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

// Faults is a list of faults as one error.
type Faults []Fault

// Error returns the faults, one a line.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i := range f {
		lines[i] = f[i].String()
	}
	return strings.Join(lines, "\n")
}

// Err returns nil when there are none, else a [CodeInvalid] error that wraps them.
func (f Faults) Err() error {
	if len(f) == 0 {
		return nil
	}
	return &Error{Code: CodeInvalid, Err: f}
}
