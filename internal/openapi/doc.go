// Package openapi makes HTTP requests from OpenAPI 3.0 and 3.1 documents. It finds an operation, writes parameters into path, query,
// headers, cookies and body, and checks requests and responses against their schemas. It sends and fetches nothing: its caller reads
// other files.
//
// Real documents have faults, most of them far from the operation that is wanted. So a [Document] is only indexed when it is read, and an
// [Operation] is read from the part of the document that it reaches by references. Schemas are translated to JSON Schema 2020-12 (nullable,
// exclusive bounds, discriminators), compiled once, and checked by santhosh-tekuri/jsonschema. A library that loads whole documents would
// refuse those with a fault anywhere, and kin-openapi silently checks less where it cannot compile a schema of 3.1.
//
// Documents are not trusted. Bytes, values, depth, aliases, references, files, patterns and the work of one validation are bounded, and no
// document makes the process read a file.
package openapi
