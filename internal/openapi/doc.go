// Package openapi builds HTTP requests from OpenAPI 3.0 and 3.1 documents. It finds an operation, writes parameters into path, query, headers,
// cookies and body, and checks requests and responses against their schemas. It does not send requests or fetch files; its caller does.
//
// Real documents have faults, but usually not in the requested operation. So reading a [Document] only indexes its operations, and reading an
// [Operation] uses only the part of the document that the operation refers to. Schemas are translated to JSON Schema 2020-12 (nullable, exclusive
// bounds, discriminators), compiled once, and checked by santhosh-tekuri/jsonschema. Libraries that load whole documents refuse documents with a
// fault anywhere, and kin-openapi silently skips checks of 3.1 schemas that it cannot compile.
//
// Documents are not trusted. Bytes, values, depth, aliases, references, files, patterns and the work of a validation are bounded, and no document
// can make the process read a local file.
package openapi
