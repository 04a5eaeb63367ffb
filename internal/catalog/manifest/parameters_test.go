package manifest_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/turnstone-run/turnstone/internal/catalog/manifest"
)

const propertySchema = `{
	"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://example.com/agent",
	"type": "object", "required": ["model", "temperature"],
	"properties": {
		"model": {"type": "string"},
		"temperature": {"type": "number", "minimum": 0, "maximum": 2, "default": 0.10},
		"mode": {"$ref": "#/$defs/mode"},
		"retry": {"type": "object", "properties": {"times": {"type": "integer", "default": 3}, "wait": {"type": "string", "default": "1s"}}},
		"cache": {"type": "object", "default": {"on": true}, "properties": {"on": {"type": "boolean"}, "ttl": {"type": "integer", "default": 60}}},
		"tools": {"type": "array", "maxItems": 3, "items": {"type": "object", "required": ["name"], "additionalProperties": false,
			"properties": {"name": {"type": "string", "minLength": 1}, "safe": {"type": "boolean", "default": false}}}},
		"all": {"allOf": [{"type": "object", "properties": {"x": {"default": 1}}}]},
		"either": {"anyOf": [{"type": "string"}, {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}]},
		"one": {"oneOf": [{"type": "integer", "minimum": 5}, {"type": "integer", "maximum": 7}]},
		"words": {"type": "object", "propertyNames": {"pattern": "^[a-z]+$"}},
		"set": {"type": "array", "uniqueItems": true, "contains": {"const": 1}},
		"stop": {"not": {"const": "never"}, "enum": ["now", "later", "never", null, 4]},
		"never": false
	},
	"$defs": {"mode": {"enum": ["fast", "slow"], "default": "slow"}}
}`

func TestParametersFillsInDefaults(t *testing.T) {
	cases := map[string]struct{ in, want string }{
		"the outermost":     {`{"model":"m"}`, `{"cache":{"on":true,"ttl":60},"mode":"slow","model":"m","temperature":0.1}`},
		"nested":            {`{"model":"m","retry":{"times":1},"cache":{"on":false}}`, `{"cache":{"on":false,"ttl":60},"mode":"slow","model":"m","retry":{"times":1,"wait":"1s"},"temperature":0.1}`},
		"in lists":          {`{"model":"m","tools":[{"name":"a"},{"name":"b","safe":true}]}`, `{"cache":{"on":true,"ttl":60},"mode":"slow","model":"m","temperature":0.1,"tools":[{"name":"a","safe":false},{"name":"b","safe":true}]}`},
		"through allOf":     {`{"model":"m","all":{}}`, `{"all":{"x":1},"cache":{"on":true,"ttl":60},"mode":"slow","model":"m","temperature":0.1}`},
		"nothing overrides": {`{"model":"m","temperature":2,"mode":"fast","cache":{"on":true,"ttl":0}}`, `{"cache":{"on":true,"ttl":0},"mode":"fast","model":"m","temperature":2}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, faults := manifest.Parameters(json.RawMessage(propertySchema), json.RawMessage(c.in))
			require.Empty(t, faults)
			require.Equal(t, c.want, string(got))
			again, faults := manifest.Parameters(json.RawMessage(propertySchema), got)
			require.Empty(t, faults)
			require.Equal(t, c.want, string(again), "defaults are filled in once")
		})
	}
}

func TestParametersNamesTheField(t *testing.T) {
	cases := map[string]struct{ in, want string }{
		"all at once":   {`{"temperature":3,"modle":"m","mode":"medium"}`, "model: is required\ntemperature: want 0 to 2, got 3\nmodle: unknown field; did you mean \"model\"?\nmode: want one of fast, slow"},
		"in a list":     {`{"model":"m","tools":[{"name":""},{"nam":"x"},7]}`, "tools[0].name: is empty\ntools[1].name: is required\ntools[1].nam: unknown field; did you mean \"name\"?\ntools[2]: want an object, got a number"},
		"anyOf, type":   {`{"model":"m","either":7}`, "either: want a string or an object, got a number"},
		"anyOf, inside": {`{"model":"m","either":{"id":"x"}}`, "either.id: want a whole number, got a string"},
		"oneOf":         {`{"model":"m","one":6}`, "one: matches several of the forms of which one is allowed"},
		"names":         {`{"model":"m","words":{"Upper":1}}`, "words.Upper: the name is not allowed: does not match the pattern ^[a-z]+$"},
		"lists":         {`{"model":"m","set":[2,2]}`, "set: entries 0 and 1 are the same"},
		"contains":      {`{"model":"m","set":[2]}`, "set: lacks an entry that the schema asks for"},
		"not":           {`{"model":"m","stop":"never"}`, "stop: is what the schema forbids"},
		"enum":          {`{"model":"m","stop":"soon"}`, "stop: want one of now, later, never, nothing, 4"},
		"false":         {`{"model":"m","never":1}`, "never: is not allowed here"},
		"null":          {`{"model":null}`, "model: want a string, got nothing"},
		"no object":     {`[]`, "want one document"},
		"a string":      {`"x"`, "want an object, got a string"},
		"malformed":     {`{"model":`, "malformed JSON: ends too early"},
		"twice":         {`{"model":"m","model":"n"}`, "model: is given twice"},
		"too precise":   {`{"model":"m","temperature":9007199254740993}`, "temperature: has more digits than JSON keeps: put it in quotes"},
		"required":      {``, "model: is required"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, faults := manifest.Parameters(json.RawMessage(propertySchema), json.RawMessage(c.in))
			require.Nil(t, got)
			require.EqualError(t, faults, c.want)
		})
	}
}

// The validator visits objects in random order and sometimes reports a property name without its path.
func TestParametersRefusedName(t *testing.T) {
	p, faults := manifest.NewProperties(json.RawMessage(propertySchema))
	require.Empty(t, faults)
	for range 50 {
		_, faults = p.Parameters(json.RawMessage(`{"model":"m","all":{},"retry":{},"words":{"Upper":1},"cache":{}}`))
		require.EqualError(t, faults, "words.Upper: the name is not allowed: does not match the pattern ^[a-z]+$")
	}
}

func TestConcurrentParameters(t *testing.T) {
	p, faults := manifest.NewProperties(json.RawMessage(propertySchema))
	require.Empty(t, faults)
	var all errgroup.Group
	for range 8 {
		all.Go(func() error {
			_, faults := p.Parameters(json.RawMessage(`{"model":"m","tools":[{"name":"a"}]}`))
			return faults.Err()
		})
	}
	require.NoError(t, all.Wait())
	_, faults = manifest.NewProperties(json.RawMessage(`{"type":"object","properties":{"a":{"type":"x"}}}`))
	require.EqualError(t, faults, "properties.a.type: want one of array, boolean, integer, null, number, object, string")
}

func TestParametersOfANodeWithoutSchema(t *testing.T) {
	for _, none := range []string{"", "null", " {} ", "{}"} {
		got, faults := manifest.Parameters(nil, json.RawMessage(none))
		require.Empty(t, faults)
		require.Equal(t, "{}", string(got))
	}
	_, faults := manifest.Parameters(nil, json.RawMessage(`{"a":1}`))
	require.EqualError(t, faults, "a: unknown field")
	_, faults = manifest.Parameters(json.RawMessage(`{"type":"array"}`), nil)
	require.EqualError(t, faults, "the node's properties are no usable schema: type: want \"object\"")
	for _, open := range []string{
		`{"type":"object"}`, `{"type":"object","properties":{"b":{}},"additionalProperties":true}`, `{"type":"object","properties":{"b":{}},"patternProperties":{"^a":{}}}`,
	} {
		got, faults := manifest.Parameters(json.RawMessage(open), json.RawMessage(`{"a":1}`))
		require.Empty(t, faults, open)
		require.JSONEq(t, `{"a":1}`, string(got))
	}
}

func TestCheckSchema(t *testing.T) {
	object := func(property string) string { return `{"type":"object","properties":{"a":` + property + `}}` }
	cases := map[string]struct{ schema, want string }{
		"no schema":      {`7`, "want a JSON Schema of an object, got a number"},
		"malformed":      {`{`, "malformed JSON: ends too early"},
		"no type":        {`{}`, `type: want "object"`},
		"several types":  {`{"type":["object","null"]}`, `type: want "object"`},
		"remote":         {object(`{"$ref":"https://example.com/x"}`), "properties.a.$ref: want #/… to a schema of this document: others are not read"},
		"file":           {object(`{"$ref":"/etc/passwd"}`), "properties.a.$ref: want #/… to a schema of this document: others are not read"},
		"in a list":      {object(`{"anyOf":[{},{"items":{"$ref":"x.json"}}]}`), "properties.a.anyOf[1].items.$ref: want #/… to a schema of this document: others are not read"},
		"itself":         {object(`{"$ref":"#"}`), "properties.a.$ref: refers to itself: recursive schemas are not supported"},
		"id inside":      {object(`{"$id":"https://example.com/x"}`), "properties.a.$id: is not supported"},
		"draft":          {`{"$schema":"http://json-schema.org/draft-04/schema#","type":"object"}`, "$schema: want https://json-schema.org/draft/2020-12/schema, or leave it out"},
		"meta, remote":   {`{"$schema":"https://example.com/meta","type":"object"}`, "$schema: want https://json-schema.org/draft/2020-12/schema, or leave it out"},
		"keyword":        {object(`{"minLength":-1}`), "properties.a.minLength: want at least 0, got -1"},
		"regexp":         {object(`{"pattern":"a{9999}"}`), "properties.a.pattern: is no regular expression"},
		"default":        {object(`{"type":"array","items":{"type":"string"},"default":["x",7]}`), "properties.a.default[1]: want a string, got a number: put it in quotes"},
		"default of ref": {`{"type":"object","properties":{"a":{"$ref":"#/$defs/~0a~1b c"}},"$defs":{"~a/b c":{"type":"string","default":1}}}`, "$defs.~a/b c.default: want a string, got a number: put it in quotes"},
		"large":          {`{"type":"object","description":"` + strings.Repeat("x", 256<<10) + `"}`, "the schema has 262178 bytes, at most 262144 are allowed"},
		"many":           {`{"type":"object","properties":{` + schemaMembers(3000) + `}}`, "is too large: more than 5000 values with what its references name"},
		"exponential":    {exponential(40), "is too large: more than 5000 values with what its references name"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			faults := manifest.CheckSchema(json.RawMessage(c.schema))
			require.EqualError(t, faults, c.want)
		})
	}
	for name, schema := range map[string]string{
		"of this test": propertySchema, "draft 7": `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","definitions":{"a":{"type":"string"}},"properties":{"x":{"$ref":"#/definitions/a"}}}`,
		"a property named like a keyword": `{"type":"object","properties":{"$ref":{"type":"string"},"default":{"type":"object","properties":{"x":{"default":"$ref"}}}}}`,
		"data named like a keyword":       `{"type":"object","properties":{"a":{"const":{"$ref":"https://example.com"},"default":{"$ref":"https://example.com"}}}}`,
		"wide":                            `{"type":"object","properties":{` + schemaMembers(1500) + `}}`,
		"shared":                          exponential(5),
	} {
		require.NoError(t, manifest.CheckSchema(json.RawMessage(schema)).Err(), name)
	}
}

func schemaMembers(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`"p%d":{"type":"string"}`, i)
	}
	return strings.Join(list, ",")
}

// exponential returns a schema that a validator would walk 2^n times.
func exponential(n int) string {
	defs := make([]string, n)
	for i := range defs {
		defs[i] = fmt.Sprintf(`"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, i+1, i+1)
	}
	return fmt.Sprintf(`{"type":"object","properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{%s,"d%d":{}}}`, strings.Join(defs, ","), n)
}

// Small schemas and documents may still require much work.
func TestParametersBoundsTheWork(t *testing.T) {
	wide := json.RawMessage(`{"type":"object","properties":{"a":{"type":"array","items":{"allOf":[` + strings.Repeat(`{"minimum":0},`, 1000) + `{}]}}}}`)
	list := json.RawMessage(`{"a":[` + strings.Repeat("1,", 2000) + `1]}`)
	_, faults := manifest.Parameters(wide, list)
	require.EqualError(t, faults, "are too many to be checked against this schema")
	growing := json.RawMessage(`{"type":"object","properties":{"a":{"type":"array","items":{"type":"object","properties":{"x":{"default":[` + strings.Repeat("1,", 4000) + `1]}}}}}}`)
	_, faults = manifest.Parameters(growing, json.RawMessage(`{"a":[`+strings.Repeat("{},", 1000)+`{}]}`))
	require.EqualError(t, faults, "are too many to be checked against this schema")
}
