package openapi

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// bodyDocumentText returns a document with one operation; its request and its response have the given schema.
func bodyDocumentText(version, schema, components string) string {
	return documentText(version, "/x", `{"post":{"operationId":"op","requestBody":{"content":{"application/json":{"schema":`+schema+`}}},
		"responses":{"200":{"description":"","content":{"application/json":{"schema":`+schema+`}}}}}}`, `,"components":{"schemas":{`+components+`}}`)
}

const pets = `"Pet":{"type":"object","required":["kind"],"properties":{"kind":{"type":"string"},"name":{"type":"string"}}},
"Cat":{"allOf":[{"$ref":"#/components/schemas/Pet"},{"type":"object","required":["lives"],"properties":{"lives":{"type":"integer"}}}]},
"Dog":{"allOf":[{"$ref":"#/components/schemas/Pet"},{"type":"object","properties":{"barks":{"type":"boolean"}}}]},
"AnyPet":{"oneOf":[{"$ref":"#/components/schemas/Cat"},{"$ref":"#/components/schemas/Dog"}],
 "discriminator":{"propertyName":"kind","mapping":{"kitty":"#/components/schemas/Cat","puppy":"Dog"}}},
"PlainPet":{"oneOf":[{"$ref":"#/components/schemas/Cat"},{"$ref":"#/components/schemas/Dog"}],"discriminator":{"propertyName":"kind"}}`

// taggedUnions has the form of OpenAI's document: there is no mapping, the discriminator value is the const or enum of an alternative,
// and some alternatives share a value or do not require it.
const taggedUnions = `"Tool":{"oneOf":[{"$ref":"#/components/schemas/FunctionTool"},{"$ref":"#/components/schemas/SearchTool"}],"discriminator":{"propertyName":"type"}},
"FunctionTool":{"type":"object","required":["type","name"],"properties":{"type":{"type":"string","enum":["function"]},"name":{"type":"string"}}},
"SearchTool":{"type":"object","required":["type"],"properties":{"type":{"type":"string","enum":["search","search_preview"]}}},
"Input":{"oneOf":[{"$ref":"#/components/schemas/Easy"},{"$ref":"#/components/schemas/Item"},{"$ref":"#/components/schemas/Reference"}],"discriminator":{"propertyName":"type"}},
"Item":{"oneOf":[{"$ref":"#/components/schemas/Message"},{"$ref":"#/components/schemas/Output"}],"discriminator":{"propertyName":"type"}},
"Easy":{"type":"object","required":["role","content"],"properties":{"type":{"enum":["message"]},"role":{"type":"string"},"content":{"type":["string","array"]}}},
"Message":{"type":"object","required":["role","content"],"properties":{"type":{"const":"message"},"role":{"type":"string"},"content":{"type":"array"}}},
"Output":{"type":"object","required":["type","output"],"properties":{"type":{"allOf":[{"$ref":"#/components/schemas/OutputType"}]},"output":{"type":"string"}}},
"OutputType":{"type":"string","const":"output"},
"Reference":{"type":"object","required":["id"],"properties":{"id":{"type":"string"},"type":{"anyOf":[{"type":"string","enum":["reference"]},{"type":"null"}]}}},
"Based":{"oneOf":[{"$ref":"#/components/schemas/Left"},{"$ref":"#/components/schemas/Right"}],"discriminator":{"propertyName":"side","mapping":{"l":"Left"}}},
"Base":{"type":"object","required":["side"],"properties":{"side":{"type":"string"}}},
"Left":{"allOf":[{"$ref":"#/components/schemas/Base"},{"properties":{"left":{"type":"integer"}}}]},
"Right":{"allOf":[{"$ref":"#/components/schemas/Base"},{"properties":{"side":{"enum":["r"]},"right":{"type":"integer"}}}]},
"Endless":{"oneOf":[{"$ref":"#/components/schemas/Endless"},{"$ref":"#/components/schemas/Tool"}],"discriminator":{"propertyName":"type"}}`

// readOnlyReference has the form of PagerDuty's document: one part of an allOf marks properties as read-only that another part
// requires or redeclares.
const readOnlyReference = `"Tag":{"type":"object","properties":{"id":{"type":"string","readOnly":true},"type":{"type":"string","readOnly":true},"summary":{"type":"string","readOnly":true}}},
"Reference":{"allOf":[{"$ref":"#/components/schemas/Tag"},{"type":"object","required":["type","id"]}]},
"UserReference":{"allOf":[{"$ref":"#/components/schemas/Reference"},{"properties":{"type":{"type":"string","enum":["user_reference"]}}}]},
"Either":{"oneOf":[{"$ref":"#/components/schemas/UserReference"},{"type":"string"}]},
"Alone":{"$ref":"#/components/schemas/Tag"}`

const tree = `"Tree":{"type":"object","required":["value"],"properties":{"value":{"type":"integer"},
"children":{"type":"array","items":{"$ref":"#/components/schemas/Tree"}},"owner":{"$ref":"#/components/schemas/Owner"}}},
"Owner":{"type":"object","properties":{"trees":{"type":"array","items":{"$ref":"#/components/schemas/Tree"}},"boss":{"$ref":"#/components/schemas/Owner"}}}`

// want is the error; empty: the value is valid.
func TestSchemas(t *testing.T) {
	t.Parallel()
	ref := func(name string) string { return `{"$ref":"#/components/schemas/` + name + `"}` }
	for _, c := range []struct{ version, schema, components, value, want string }{
		// 3.0
		{"3.0.3", `{"type":"string","nullable":true}`, "", `null`, ""},
		{"3.0.3", `{"type":"string","nullable":true}`, "", `5`, "params.body: want null or a string, got a number"},
		{"3.0.3", `{"type":"string","nullable":true,"enum":["a","b"]}`, "", `null`, ""},
		{"3.0.3", `{"nullable":true,"allOf":[` + ref("Owner") + `]}`, tree, `null`, ""},
		{"3.0.3", `{"type":"object","properties":{"o":{"$ref":"#/components/schemas/Owner","nullable":true}}}`, tree, `{"o":null}`, ""},
		{"3.0.3", `{"type":"object","properties":{"o":` + ref("Owner") + `}}`, tree, `{"o":null}`, "params.body.o: want an object, got null"},
		{"3.0.3", `{"type":"integer","minimum":1,"exclusiveMinimum":true}`, "", `1`, "params.body: want more than 1, got 1"},
		{"3.0.3", `{"type":"integer","minimum":1,"exclusiveMinimum":false}`, "", `1`, ""},
		{"3.0.3", `{"type":"integer","format":"int32"}`, "", `2147483648`, "params.body: is no int32"},
		{"3.0.3", `{"type":"integer","format":"int64"}`, "", `9223372036854775807`, ""},
		{"3.0.3", `{"type":"string","format":"date-time"}`, "", `"2024-01-02T03:04:05Z"`, ""},
		{"3.0.3", `{"type":"string","format":"date-time"}`, "", `"yesterday"`, "params.body: is no date-time"},
		{"3.0.3", `{"type":"string","format":"uuid"}`, "", `"x"`, "is no uuid"},
		{"3.0.3", `{"type":"string","format":"made-up"}`, "", `"x"`, ""},
		{"3.0.3", `{"type":"string","pattern":"^(?!a)b$"}`, "", `"anything"`, ""},
		{"3.0.3", `{"type":"string","pattern":"^b$"}`, "", `"a"`, "does not match the pattern ^b$"},
		{"3.0.3", `{"type":"array","items":{"type":"string"},"maxItems":1,"uniqueItems":true}`, "", `["a","a"]`, "params.body: "},
		{"3.0.3", `{"type":"object","properties":{"id":{"type":"integer","readOnly":true},"n":{"type":"string"}},"required":["id","n"]}`, "", `{"n":"x"}`, ""},
		{"3.0.3", `{"type":"object","properties":{"id":{"type":"integer","readOnly":true}}}`, "", `{"id":1}`, "params.body.id: is not allowed here"},
		{"3.0.3", `{"type":"object","properties":{"id":` + ref("Id") + `}}`, `"Id":{"type":"integer","readOnly":true}`, `{"id":1}`, "params.body.id: is not allowed here"},
		{"3.0.3", `{"type":"object","additionalProperties":false,"properties":{"a":{}}}`, "", `{"b":1}`, "params.body.b: unknown field"},
		{"3.0.3", `{"type":"object","additionalProperties":{"type":"integer"}}`, "", `{"b":"x"}`, "params.body.b: want a whole number, got a string"},
		{"3.0.3", `{"not":{"type":"string"}}`, "", `"x"`, "params.body: "},
		{"3.0.3", `{"type":"string","enum":["a","b"]}`, "", `"c"`, `params.body: want one of "a", "b"`},

		// discriminator with a mapping
		{"3.0.3", ref("AnyPet"), pets, `{"kind":"kitty","lives":9}`, ""},
		{"3.0.3", ref("AnyPet"), pets, `{"kind":"kitty"}`, "params.body.lives: is required"},
		{"3.0.3", ref("AnyPet"), pets, `{"kind":"puppy","barks":1}`, "params.body.barks: want true or false, got a number"},
		{"3.0.3", ref("AnyPet"), pets, `{"kind":"bird"}`, `params.body.kind: want one of "kitty", "puppy"`},
		{"3.0.3", ref("AnyPet"), pets, `{}`, "params.body.kind: is required"},
		{"3.0.3", ref("PlainPet"), pets, `{"kind":"Dog"}`, ""},
		{"3.0.3", ref("PlainPet"), pets, `{"kind":"Cat"}`, "lives: is required"},
		{"3.0.3", `{"anyOf":[{"type":"string","maxLength":3},{"type":"integer"}]}`, "", `true`, "params.body: want a string or a whole number, got a boolean"},
		{"3.0.3", `{"oneOf":[{"type":"number"},{"type":"integer"}]}`, "", `1`, "params.body: matches several of the forms of which one is allowed"},

		// discriminator without a mapping
		{"3.1.0", ref("Tool"), taggedUnions, `{"type":"function","name":"f"}`, ""},
		{"3.1.0", ref("Tool"), taggedUnions, `{"type":"search_preview"}`, ""},
		{"3.0.3", ref("Tool"), taggedUnions, `{"type":"search"}`, ""},
		{"3.1.0", ref("Tool"), taggedUnions, `{"type":"function"}`, "params: params.body.name: is required"},
		{"3.1.0", ref("Tool"), taggedUnions, `{"type":"FunctionTool"}`, `params.body.type: want one of "function", "search", "search_preview"`},
		{"3.1.0", ref("Tool"), taggedUnions, `{}`, "params.body.type: is required"},
		{"3.1.0", ref("Tool"), taggedUnions, `"function"`, "params.body: want an object, got a string"},
		{"3.1.0", ref("Input"), taggedUnions, `{"type":"message","role":"user","content":"hi"}`, ""},
		{"3.1.0", ref("Input"), taggedUnions, `{"type":"message","role":"user","content":[]}`, ""},
		{"3.1.0", ref("Input"), taggedUnions, `{"role":"user","content":"hi"}`, ""},
		{"3.1.0", ref("Input"), taggedUnions, `{"type":"output","output":"x"}`, ""},
		{"3.1.0", ref("Input"), taggedUnions, `{"type":"output","output":1}`, "params: params.body.output: want a string, got a number"},
		{"3.1.0", ref("Input"), taggedUnions, `{"type":null,"id":"i"}`, ""},
		{"3.1.0", ref("Input"), taggedUnions, `{"id":1}`, "params.body.id: want a string, got a number"},
		{"3.1.0", ref("Input"), taggedUnions, `{"type":"Message","role":"user","content":[]}`, `params.body.type: want "message", got "Message"`},
		{"3.1.0", ref("Input"), taggedUnions, `"hi"`, "params.body: want an object, got a string"},
		{"3.0.3", ref("Based"), taggedUnions, `{"side":"l","left":1}`, ""},
		{"3.0.3", ref("Based"), taggedUnions, `{"side":"r","right":"x"}`, "params.body.right: want a whole number, got a string"},
		{"3.0.3", ref("Based"), taggedUnions, `{"side":"Right"}`, `params.body.side: want one of "l", "r"`},

		// readOnly properties
		{"3.0.3", ref("UserReference"), readOnlyReference, `{"id":"P1","type":"user_reference"}`, ""},
		{"3.0.3", ref("UserReference"), readOnlyReference, `{"type":"user_reference"}`, ""},
		{"3.0.3", ref("UserReference"), readOnlyReference, `{"id":"P1"}`, "params.body.type: is required"},
		{"3.0.3", ref("UserReference"), readOnlyReference, `{"id":1,"type":"user_reference"}`, "params.body.id: want a string, got a number"},
		{"3.0.3", ref("UserReference"), readOnlyReference, `{"type":"user_reference","summary":"s"}`, "params.body.summary: is not allowed here"},
		{"3.1.0", ref("Either"), readOnlyReference, `{"id":"P1","type":"user_reference"}`, ""},
		{"3.1.0", `{"$ref":"#/components/schemas/Tag","required":["id"]}`, readOnlyReference, `{}`, ""},
		{"3.0.3", `{"type":"object","properties":{"a":` + ref("UserReference") + `,"b":` + ref("Alone") + `}}`, readOnlyReference, `{"a":{"id":"P1","type":"user_reference"},"b":{}}`, ""},
		{"3.0.3", `{"type":"object","properties":{"a":` + ref("UserReference") + `,"b":` + ref("Alone") + `}}`, readOnlyReference, `{"b":{"id":"P1"}}`, "params.body.b.id: is not allowed here"},
		{"3.0.3", `{"oneOf":[{"required":["id"]},{"required":["name"]}],"properties":{"id":{"readOnly":true},"name":{}}}`, readOnlyReference, `{"name":"x","id":"i"}`, "params.body: matches several of the forms"},

		// recursion
		{"3.0.3", ref("Tree"), tree, `{"value":1,"children":[{"value":2,"children":[{"value":3}]}],"owner":{"boss":{"trees":[{"value":4}]}}}`, ""},
		{"3.0.3", ref("Tree"), tree, `{"value":1,"children":[{"value":2,"children":[{"value":"x"}]}]}`, "params.body.children[0].children[0].value: want a whole number, got a string"},
		{"3.0.3", ref("Tree"), tree, `{"value":1,"owner":{"boss":{"trees":[{}]}}}`, "params.body.owner.boss.trees[0].value: is required"},
		{"3.1.0", ref("Tree"), tree, `{"value":1,"children":[{"value":"x"}]}`, "params.body.children[0].value: want a whole number, got a string"},

		// 3.1
		{"3.1.0", `{"type":["string","null"]}`, "", `null`, ""},
		{"3.1.0", `{"type":["string","null"]}`, "", `1`, "want null or a string, got a number"},
		{"3.1.0", `{"type":"integer","exclusiveMinimum":1}`, "", `1`, "want more than 1, got 1"},
		{"3.1.0", `{"const":"a"}`, "", `"b"`, "params.body: want \"a\", got \"b\""},
		{"3.1.0", `{"$ref":"#/components/schemas/Owner","required":["boss"]}`, tree, `{}`, "boss: is required"},
		{"3.1.0", `{"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}],"items":false}`, "", `["a",1,2]`, "params.body[2]: is not allowed here"},
		{"3.1.0", `{"type":"array","prefixItems":[{"type":"string"}]}`, "", `[1]`, "params.body[0]: want a string, got a number"},
		{"3.1.0", `{"type":"object","if":{"properties":{"a":{"const":1}},"required":["a"]},"then":{"required":["b"]}}`, "", `{"a":1}`, "b: is required"},
		{"3.1.0", `{"type":"object","patternProperties":{"^x-":{"type":"integer"}}}`, "", `{"x-a":"s"}`, "params.body.x-a: want a whole number, got a string"},
		{"3.1.0", `{"type":"object","dependentRequired":{"a":["b"]}}`, "", `{"a":1}`, "params.body.b: is required when a is given"},
		{"3.1.0", `{"type":"object","properties":{"$ref":{"type":"string"}}}`, "", `{"$ref":1}`, "params.body.$ref: want a string, got a number"},
		{"3.1.0", `{"$id":"https://elsewhere.example/x","$schema":"https://elsewhere.example/d","type":"integer"}`, "", `"x"`, "want a whole number, got a string"},
		{"3.1.0", `true`, "", `1`, ""},
		{"3.1.0", `false`, "", `1`, "is not allowed here"},
		{"3.1.0", `{"type":"object","unevaluatedProperties":false,"allOf":[{"properties":{"a":{}}}]}`, "", `{"a":1,"b":2}`, "params.body.b: unknown field"},
		{"3.0.3", `{"type":"object","properties":{"a":{"$ref":"#/components/schemas/Tree/properties/owner/properties/boss/properties/trees/items/properties/value"}}}`, tree, `{"a":"x"}`, "params.body.a: want a whole number, got a string"},
	} {
		op := loadOperation(t, bodyDocumentText(c.version, c.schema, c.components), "op")
		req, err := buildRequest(t, op, `{"body":`+c.value+`}`)
		name := c.schema + " " + c.value
		if c.want == "" {
			require.NoError(t, err, name)
			require.Empty(t, req.Warnings, name)
			require.JSONEq(t, c.value, string(req.Body))
			continue
		}
		require.ErrorContains(t, err, c.want, name)
	}
}

// Requests may not contain readOnly properties, and responses no writeOnly properties.
func TestReadOnlyAndWriteOnly(t *testing.T) {
	t.Parallel()
	op := loadOperation(t, bodyDocumentText("3.0.3", `{"type":"object","required":["id","password"],"properties":{
		"id":{"type":"integer","readOnly":true},"password":{"type":"string","writeOnly":true}}}`, ""), "op")
	check := func(text string) []string {
		v, err := DecodeJSON([]byte(text))
		require.NoError(t, err)
		return op.Check(200, "application/json; charset=utf-8", v, true, false)
	}
	require.Empty(t, check(`{"id":1}`))
	require.Equal(t, []string{"the body is not as documented: body.id: is required"}, check(`{"password":"x"}`))
	parts := loadOperation(t, bodyDocumentText("3.0.3", `{"allOf":[{"properties":{"id":{"type":"integer","readOnly":true},"password":{"type":"string","writeOnly":true}}},
		{"required":["id","password"]}]}`, ""), "op")
	require.Empty(t, parts.Check(200, "application/json", map[string]any{"id": json.Number("1")}, true, false), "the property is required in another part of the allOf")
	require.Len(t, parts.Check(200, "application/json", map[string]any{"password": "x"}, true, false), 1)
	_, err := buildRequest(t, parts, `{"body":{"password":"x"}}`)
	require.NoError(t, err)
	_, err = buildRequest(t, parts, `{"body":{"id":1}}`)
	require.ErrorContains(t, err, "params: params.body.password: is required")

	_, err = buildRequest(t, op, `{"body":{"password":"x"}}`)
	require.NoError(t, err)
	_, err = buildRequest(t, op, `{"body":{}}`)
	require.ErrorContains(t, err, "password: is required")
}

func TestResponses(t *testing.T) {
	t.Parallel()
	op := loadOperation(t, documentText("3.0.3", "/x", `{"get":{"operationId":"op","responses":{
		"200":{"description":"","content":{"application/json":{"schema":{"type":"object"}},"text/*":{},"image/png":{}}},
		"2XX":{"description":""},"4xx":{"description":"","content":{"application/problem+json":{"schema":{"type":"object","required":["title"]}}}}}}}`, ""), "op")
	list := []any{}
	require.Empty(t, op.Check(200, "text/csv", nil, false, false))
	require.Equal(t, []string{"the body is not as documented: body: want an object, got an array"}, op.Check(200, "application/json", list, true, false))
	require.Equal(t, []string{`the content type "video/mp4" is not documented: want application/json or image/png or text/*`}, op.Check(200, "video/mp4", nil, false, false))
	require.Empty(t, op.Check(204, "", nil, false, true))
	require.Equal(t, []string{"the status 302 is not documented"}, op.Check(302, "", nil, false, true))
	require.Len(t, op.Check(404, "application/problem+json", map[string]any{}, true, false), 1)
	require.Equal(t, "application/json, text/*, image/png", op.accept())
}

// Long chains of references are followed, endless ones are not.
func TestReferenceChains(t *testing.T) {
	t.Parallel()
	chain := func(section, last string, n int) string {
		parts := make([]string, 0, n+1)
		for i := range n {
			parts = append(parts, fmt.Sprintf(`"R%d":{"$ref":"#/components/%s/R%d"}`, i, section, i+1))
		}
		return `"` + section + `":{` + strings.Join(append(parts, fmt.Sprintf(`"R%d":%s`, n, last)), ",") + `}`
	}
	rest := `,"components":{` + chain("schemas", `{"type":"integer"}`, 50) + "," +
		chain("parameters", `{"name":"p","in":"query","schema":{"$ref":"#/components/schemas/R0"}}`, 50) + "," +
		chain("requestBodies", `{"required":true,"content":{"application/json":{"schema":{"$ref":"#/components/schemas/R0"}}}}`, 50) + "," +
		chain("responses", `{"description":"","content":{"application/json":{"schema":{"$ref":"#/components/schemas/R0"}}}}`, 50) + `}`
	item := `{"post":{"operationId":"op","parameters":[{"$ref":"#/components/parameters/R0"}],"requestBody":{"$ref":"#/components/requestBodies/R0"},
		"responses":{"200":{"$ref":"#/components/responses/R0"}}}}`
	op := loadOperation(t, documentText("3.0.3", "/x", item, rest), "op")
	_, err := buildRequest(t, op, `{"p":"x","body":"x"}`)
	require.ErrorContains(t, err, "params.p: want a whole number, got a string")
	require.ErrorContains(t, err, "params.body: want a whole number, got a string")
	require.Len(t, op.Check(200, "application/json", "x", true, false), 1)

	_, err = parseDocument(t, documentText("3.0.3", "/x", `{"get":{"operationId":"op","parameters":[{"$ref":"#/components/parameters/A"}]}}`,
		`,"components":{"parameters":{"A":{"$ref":"#/components/parameters/B"},"B":{"$ref":"#/components/parameters/A"}}}`)).Operation(t.Context(), "op", nil)
	require.ErrorContains(t, err, "leads to itself")
}

// Schemas of exponential size are not checked to the end.
func TestWorkLimit(t *testing.T) {
	t.Parallel()
	var doubling []string
	for i := range 60 {
		next := fmt.Sprintf(`{"$ref":"#/components/schemas/S%d"}`, i+1)
		doubling = append(doubling, fmt.Sprintf(`"S%d":{"allOf":[%s,%s]}`, i, next, next))
	}
	doubling = append(doubling, `"S60":{"type":"string"}`)
	self := `"A":{"anyOf":[{"properties":{"x":{"$ref":"#/components/schemas/A"}}},{"properties":{"x":{"$ref":"#/components/schemas/A"}}}]},"I":{"allOf":[{"$ref":"#/components/schemas/I"}]}`
	for _, c := range []struct{ schema, components, value string }{
		{`{"$ref":"#/components/schemas/S0"}`, strings.Join(doubling, ","), `"x"`},
		{`{"$ref":"#/components/schemas/A"}`, self, strings.Repeat(`{"x":`, 60) + "1" + strings.Repeat("}", 60)},
		{`{"$ref":"#/components/schemas/I"}`, self, `1`},
		{`{"$ref":"#/components/schemas/Endless"}`, taggedUnions, `{"type":"function"}`},
		{`{"type":"number"}`, "", `1e400`},
		{`{"enum":[1]}`, "", `{"a":[1e999999999]}`},
	} {
		req, err := buildRequest(t, loadOperation(t, bodyDocumentText("3.0.3", c.schema, c.components), "op"), `{"body":`+c.value+`}`)
		require.NoError(t, err)
		require.Contains(t, strings.Join(req.Warnings, ""), "too much work", c.schema)
	}
}
