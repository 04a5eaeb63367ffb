// Package schema checks documents against JSON Schemas of users: edited tool arguments, structured output of models, catalog documents. It supports
// drafts 4 to 2020-12. The default is 2020-12.
//
// Neither schemas nor documents are trusted. Their size and depth are bounded, schemas must not refer to other documents, patterns are RE2, and the
// work of a check is estimated in advance (work.go), because some small schemas would take years. Documents are read strictly, and numbers keep their
// notation.
//
// Errors are for the author of the document, often a model. They describe the expected values of up to five fields and never quote the schema.
package schema

import (
	"encoding/json"

	"github.com/turnstone-run/turnstone/agent"
)

// Bounds of a schema and of a document.
const (
	MaxSchema   = 256 << 10 // bytes
	MaxDocument = 1 << 20   // bytes
	maxDepth    = 100       // of nested objects and arrays

	maxSchemaValues   = 5_000 // the time to compile grows with the square
	maxDocumentValues = 100_000
)

// Bounds of the cache of compiled schemas.
const (
	cachedSchemas = 512
	cachedBytes   = 64 << 20 // estimated memory
)

// Checker checks documents and caches compiled schemas. It is safe for concurrent use.
type Checker struct{ cache *cache }

// New returns a checker with an empty cache.
func New() *Checker { return &Checker{cache: newCache(cachedSchemas, cachedBytes)} }

// Check returns nil if the document satisfies the schema. Its error is [agent.CodeInvalid] with at most 1 KiB of text. Field is path followed by the
// path of the first fault (args.filters[0].op), and the message has up to five faults. An unusable schema is an error about path; unlike for
// [Checker.CheckSchema], the schema need not describe an object.
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

// CheckSchema returns nil if the schema is usable and describes an object. Its error is [agent.CodeInvalid]. Field is path followed by the path in the
// schema (output_schema.properties.op.type).
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

// faultsError returns faults as an error, nil if there are none.
func faultsError(path string, faults []Fault) error {
	if len(faults) == 0 {
		return nil
	}
	field, message := summarize(path, faults)
	return agent.Invalid(field, "%s", message)
}
