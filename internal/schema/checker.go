// Package schema checks documents against JSON Schemas that other people wrote: arguments that a person edited, the answer of a model
// that was asked for structured output, documents of the catalog. It knows drafts 4 to 2020-12; a schema that names none is 2020-12.
//
// Neither side is trusted. Both are bounded in size and depth, a schema refers to nothing outside itself, its patterns are RE2, and the
// work of a check is counted beforehand (work.go): a schema that would take long, such as one that refers to itself twice, costs no more
// than that count. Documents are read strictly, and numbers keep their notation.
//
// Errors are for the author of the document, often a model: they name the field and what it should be, for up to five fields, and
// never repeat the schema.
package schema

import (
	"encoding/json"

	"github.com/turnstone-run/turnstone/agent"
)

// Bounds of a schema and of a document.
const (
	MaxSchema   = 256 << 10 // bytes
	MaxDocument = 1 << 20   // bytes
	maxDepth    = 100       // of objects and arrays within each other

	maxSchemaValues   = 5_000 // compiling takes a time that grows with their square
	maxDocumentValues = 100_000
)

// Bounds of the cache of compiled schemas.
const (
	cachedSchemas = 512
	cachedBytes   = 64 << 20 // of memory, about
)

// Checker checks documents and caches compiled schemas. It is safe for concurrent use.
type Checker struct{ cache *cache }

// New returns a checker with an empty cache.
func New() *Checker { return &Checker{cache: newCache(cachedSchemas, cachedBytes)} }

// Check returns nil if the document satisfies the schema, else an [agent.CodeInvalid] error of up to 1 KiB. Its Field is path followed
// by the place of the first fault (args.filters[0].op), its message has up to five. A schema that [Checker.CheckSchema] refuses is such
// an error about path, except that the schema need not describe an object.
func (c *Checker) Check(path string, schema, document json.RawMessage) error {
	compiled, faults := c.cache.get(schema)
	if faults != nil {
		field, message := summarize("", faults)
		if field != "" {
			message = field + ": " + message
		}
		return faultsError(path, []Fault{{message: "cannot be checked: its schema is of no use: " + message}})
	}
	value, err := read(document, bounds{bytes: MaxDocument, values: maxDocumentValues})
	if err != nil {
		return faultsError(path, []Fault{*err})
	}
	if !compiled.isAffordable(value) {
		return faultsError(path, []Fault{{message: "is too large to be checked against its schema"}})
	}
	faults, _ = compiled.Faults(value, &Wording{})
	return faultsError(path, faults)
}

// CheckSchema returns nil if the schema can be used and describes an object, else an [agent.CodeInvalid] error as Check does, whose
// Field is path followed by the place within the schema (output_schema.properties.op.type).
func (c *Checker) CheckSchema(path string, schema json.RawMessage) error {
	compiled, faults := c.cache.get(schema)
	if faults != nil {
		return faultsError(path, faults)
	}
	if t := compiled.root.Types; t == nil || len(t.ToStrings()) != 1 || t.ToStrings()[0] != "object" {
		return faultsError(path, []Fault{{Name: "type", message: `want "object": the schema is to describe an object`}})
	}
	return nil
}

// faultsError returns faults as an error, nil for none.
func faultsError(path string, faults []Fault) error {
	if len(faults) == 0 {
		return nil
	}
	field, message := summarize(path, faults)
	return agent.Invalid(field, "%s", message)
}
