// Package openapi makes HTTP requests of OpenAPI 3.0 and 3.1 documents: it finds an operation, places parameters in path, query, headers,
// cookies and body, and checks requests and responses against their schemas. It sends nothing and fetches nothing: what another file holds
// it asks its caller for.
//
// Real documents have faults, most of them far from the operation that is wanted. So a [Document] is only indexed when it is read, and an
// [Operation] is made of the part of it that the operation reaches by references. That part is loaded with kin-openapi, whose model and rules
// of serialization are used. Schemas are checked by santhosh-tekuri/jsonschema as JSON Schema 2020-12, those of 3.0 after a translation
// (nullable, exclusive bounds, discriminators), compiled once: kin-openapi compiles a schema of 3.1 with each value and, where it cannot,
// quietly checks less.
//
// Documents are hostile until proven otherwise. Bytes, values, depth, aliases, references, files, patterns and the work of one validation are
// bounded; no document makes the process read a file.
package openapi
