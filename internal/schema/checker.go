// Package schema checks documents against JSON Schemas that other people wrote: arguments that a person edited, the answer of a model
// that was asked for structured output. Drafts 4 to 2020-12 are known; a schema that names none is one of 2020-12.
//
// Neither side is trusted. Both are bounded in size and depth, a schema refers to nothing outside of itself, its patterns are RE2, and the
// work of a check is counted before it is done (work.go): a schema that would take long, such as one that refers to itself twice, costs
// no more than that count. Documents are read strictly, with numbers as they are written.
//
// Errors are for whoever wrote the document, most often a model: they name the field and what it should be, up to five of them, and
// never repeat the schema.
package schema

import (
	"encoding/json"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/turnstone-run/turnstone/agent"
)

// The bounds of a schema and of a document.
const (
	MaxSchema   = 256 << 10 // bytes
	MaxDocument = 1 << 20   // bytes
	MaxDepth    = 100       // of objects and arrays within each other

	maxSchemaValues   = 5_000 // compiling takes a time that grows with their square
	maxDocumentValues = 100_000
)

// The compiled schemas that are kept.
const (
	keptSchemas = 512
	keptBytes   = 64 << 20 // of memory, about
)

// Checker checks documents. Compiled schemas are kept, those used least go first. It is safe for concurrent use.
type Checker struct{ cache *cache }

// New returns a checker that has seen no schema.
func New() *Checker { return &Checker{cache: newCache(keptSchemas, keptBytes)} }

// Check returns nil when the document satisfies the schema, else an [agent.CodeInvalid] error of up to 1 KiB. Its Field is path followed
// by the place of the first fault (args.filters[0].op), its words are of up to five. A schema that [Checker.CheckSchema] would refuse is
// such an error about path; only that it describes an object is not asked for here.
func (c *Checker) Check(path string, schema, document json.RawMessage) error {
	compiled, problem := c.cache.get(schema)
	if problem != nil {
		return refuse(path, []fault{{message: "cannot be checked: its schema is of no use: " + problem.String()}})
	}
	value, err := read(document, bounds{bytes: MaxDocument, values: maxDocumentValues})
	if err != nil {
		return refuse(path, []fault{*err})
	}
	if !compiled.affordable(value) {
		return refuse(path, []fault{{message: "is too large to be checked against its schema"}})
	}
	return refuse(path, compiled.faults(value))
}

// CheckSchema returns nil when the schema can be used and describes an object, else an [agent.CodeInvalid] error as Check does, whose
// Field is path followed by the place within the schema (output_schema.properties.op.type).
func (c *Checker) CheckSchema(path string, schema json.RawMessage) error {
	compiled, problem := c.cache.get(schema)
	if problem != nil {
		return refuse(path, problem.faults)
	}
	if t := compiled.root.Types; t == nil || len(t.ToStrings()) != 1 || t.ToStrings()[0] != "object" {
		return refuse(path, []fault{{name: "type", message: `want "object": the schema is to describe an object`}})
	}
	return nil
}

// faults runs the validator.
func (c *compiled) faults(value any) []fault {
	err := c.root.Validate(value)
	if err == nil {
		return nil
	}
	return explain(err, c.byURL, value)
}

// explain turns what the validator says into faults, never into none.
func explain(err error, schemas map[string]*jsonschema.Schema, value any) []fault {
	e := &explainer{schemas: schemas, value: value}
	if found := e.all(err); len(found) > 0 {
		return found
	}
	return []fault{{message: "does not satisfy its schema"}}
}

// refuse makes the error of faults, nil of none.
func refuse(path string, faults []fault) error {
	if len(faults) == 0 {
		return nil
	}
	field, words := sentence(path, faults)
	return agent.Invalid(field, "%s", words)
}
