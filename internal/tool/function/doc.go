// Package function makes tools of Go functions. The JSON Schema of the arguments comes from the type of the function's input, so a tool
// needs no schema, no decoding and no encoding of its own:
//
//   - A member has the name of its json tag. It is required unless the tag says omitempty or omitzero, or the field is a pointer.
//   - The tags of github.com/invopop/jsonschema say more about it: jsonschema_description:"…" and jsonschema:"enum=a,enum=b,minimum=1".
//   - Arguments are checked against the schema and decoded strictly. What does not fit is a failed result that names the field.
package function
