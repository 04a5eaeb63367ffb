package schema_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/schema"
)

// flights is a schema of tool arguments.
const flights = `{
	"type": "object",
	"required": ["from", "filters"],
	"additionalProperties": false,
	"properties": {
		"from": {"type": "string", "pattern": "^[A-Z]{3}$"},
		"to": {"type": ["string", "null"], "minLength": 3, "maxLength": 3},
		"limit": {"type": "integer", "minimum": 1, "maximum": 50},
		"price": {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.01},
		"below": {"exclusiveMaximum": 12345678901234567890123},
		"mode": {"const": "fast"},
		"tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": true, "minItems": 1, "maxItems": 2},
		"extra": {"type": "object", "maxProperties": 1, "propertyNames": {"pattern": "^[a-z]+$"}},
		"filters": {"type": "array", "items": {"$ref": "#/$defs/filter"}}
	},
	"dependentRequired": {"to": ["limit"]},
	"$defs": {"filter": {
		"type": "object", "required": ["op"],
		"properties": {"op": {"enum": ["eq", "ne", 7, null, true]}, "any": {"type": "array", "items": {"$ref": "#/$defs/filter"}}}
	}}
}`

func TestCheckAccepts(t *testing.T) {
	c := schema.New()
	for _, doc := range []string{
		`{"from":"JFK","filters":[]}`,
		`{"from":"JFK","to":null,"limit":50,"price":0.07,"below":12345678901234567890122.5,"mode":"fast","tags":["a","b"],"extra":{"a":1},` +
			`"filters":[{"op":"eq","any":[{"op":7,"any":[{"op":null}]},{"op":true}]}]}`,
		`{"from":"JFK","to":"LAX","limit":1e1,"filters":[{"op":7.0,"more":1}]}`,
	} {
		require.NoError(t, c.Check("args", json.RawMessage(flights), json.RawMessage(doc)))
	}
	require.NoError(t, c.Check("", json.RawMessage(`true`), json.RawMessage(`1`)))
	require.NoError(t, c.Check("", json.RawMessage(`{}`), json.RawMessage(`"x"`)))
}

func TestCheckNamesTheFault(t *testing.T) {
	c := schema.New()
	long := strings.Repeat("é", 500)
	tests := map[string]struct{ doc, field, message string }{
		"required":       {`{"filters":[]}`, "args.from", "is required"},
		"deep":           {`{"from":"JFK","filters":[{"op":"eq"},{"op":"eq","any":[{"op":"="}]}]}`, "args.filters[1].any[0].op", `want one of "eq", "ne", 7, null, true, got "="`},
		"unknown":        {`{"from":"JFK","filters":[],"form":1}`, "args.form", "unknown field: want one of below, extra, filters, from, limit, mode, price, tags, to"},
		"type":           {`{"from":["JFK"],"filters":[]}`, "args.from", "want a string, got an array"},
		"types":          {`{"from":"JFK","filters":[],"to":1,"limit":1}`, "args.to", "want null or a string, got a number"},
		"fraction":       {`{"from":"JFK","filters":[],"limit":1.5}`, "args.limit", "want a whole number, got 1.5"},
		"text":           {`{"from":"JFK","filters":[],"limit":"5"}`, "args.limit", "want a whole number, got a string"},
		"minimum":        {`{"from":"JFK","filters":[],"limit":0}`, "args.limit", "want 1 to 50, got 0"},
		"maximum":        {`{"from":"JFK","filters":[],"limit":51}`, "args.limit", "want 1 to 50, got 51"},
		"exclusive":      {`{"from":"JFK","filters":[],"price":0}`, "args.price", "want more than 0, got 0"},
		"exact":          {`{"from":"JFK","filters":[],"below":12345678901234567890123}`, "args.below", "want less than 12345678901234567890123, got 12345678901234567890123"},
		"multiple":       {`{"from":"JFK","filters":[],"price":0.005}`, "args.price", "want a multiple of 0.01, got 0.005"},
		"pattern":        {`{"from":"jfk","filters":[]}`, "args.from", `does not match the pattern ^[A-Z]{3}$, got "jfk"`},
		"too short":      {`{"from":"JFK","filters":[],"to":"é","limit":1}`, "args.to", "has 1 characters, want at least 3"},
		"empty":          {`{"from":"JFK","filters":[],"to":"","limit":1}`, "args.to", "is empty"},
		"too long":       {`{"from":"JFK","filters":[],"to":"LAXX","limit":1}`, "args.to", "has 4 characters, at most 3 are allowed"},
		"dependent":      {`{"from":"JFK","filters":[],"to":"LAX"}`, "args.limit", "is required when to is given"},
		"const":          {`{"from":"JFK","filters":[],"mode":"slow"}`, "args.mode", `want "fast", got "slow"`},
		"unique":         {`{"from":"JFK","filters":[],"tags":["a","a"]}`, "args.tags", "entries 0 and 1 are the same"},
		"too few":        {`{"from":"JFK","filters":[],"tags":[]}`, "args.tags", "has 0 entries, want at least 1"},
		"too many":       {`{"from":"JFK","filters":[],"tags":["a","b","c"]}`, "args.tags", "has 3 entries, at most 2 are allowed"},
		"too many names": {`{"from":"JFK","filters":[],"extra":{"a":1,"b":1}}`, "args.extra", "has 2 fields, at most 1 are allowed"},
		"name":           {`{"from":"JFK","filters":[{"op":"eq","x":{"A":1}}],"extra":{"A":1}}`, "args.extra.A", `the name is not allowed: does not match the pattern ^[a-z]+$, got "A"`},
		"not an object":  {`[]`, "args", "want an object, got an array"},
		"null":           {`null`, "args", "want an object, got null"},
		"a secret":       {`{"from":"` + long + `","filters":[]}`, "args.from", `got "` + strings.Repeat("é", 50)},
		"odd names":      {`{"from":"JFK","filters":[],"a.b [x]":1}`, `args["a.b [x]"]`, "unknown field"},
		"long name":      {`{"from":"JFK","filters":[],"` + strings.Repeat("n", 5000) + `":1}`, "args." + strings.Repeat("n", 64) + "…", "unknown field"},
		"no name":        {`{"from":"JFK","filters":[],"":1}`, "args", `"": unknown field`},

		"cut off":         {`{"from":"JFK"`, "args", "malformed JSON: it ends too early"},
		"nothing":         {``, "args", "malformed JSON: it ends too early"},
		"twice":           {`{"from":"JFK","filters":[{"op":1,"op":2}]}`, "args.filters[0].op", "is given twice"},
		"trailing":        {`{} {}`, "args", "malformed JSON: there is more after the value"},
		"no JSON":         {`{"from":JFK}`, "args.from", "malformed JSON at byte 8"},
		"invalid UTF-8":   {"{\"from\":\"\xff\"}", "args.from", "malformed JSON at byte"},
		"large exponent":  {`{"from":"JFK","filters":[],"limit":1e999999999}`, "args.limit", "has an exponent beyond 400"},
		"larger exponent": {`{"from":"JFK","filters":[],"limit":1e99999999999999999999999}`, "args.limit", "has an exponent beyond 400"},
		"small exponent":  {`{"from":"JFK","filters":[],"limit":1E-401}`, "args.limit", "has an exponent beyond 400"},
		"too many digits": {`{"from":"JFK","filters":[],"limit":` + strings.Repeat("1", 401) + `}`, "args.limit", "has more than 400 digits"},
		"too deep":        {strings.Repeat(`{"a":`, 101) + "1" + strings.Repeat("}", 101), "args.a.a.a.a.a.a.a.a", "is nested more than 100 deep"},
		"far too deep":    {strings.Repeat(`[`, 100_000), "args[0][0][0][0][0][0][0][0]", "is nested more than 100 deep"},
		"too large":       {`{"from":"` + strings.Repeat("x", schema.MaxDocument) + `"}`, "args", "has 1048587 bytes, at most 1048576 are allowed"},
		"too many values": {`[` + strings.Repeat("1,", 100_000) + `1]`, "args", "has too many values"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := c.Check("args", json.RawMessage(flights), json.RawMessage(tt.doc))
			var e *agent.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, agent.CodeInvalid, e.Code)
			require.Equal(t, tt.field, e.Field, "%v", err)
			require.ErrorContains(t, err, tt.message)
			require.LessOrEqual(t, len(err.Error()), 1024)
			require.True(t, utf8.ValidString(err.Error()))
			require.NotContains(t, err.Error(), strings.Repeat("é", 101), "echoes more than 100 characters")
		})
	}
}

func TestCheckNamesUpToFiveFaults(t *testing.T) {
	c := schema.New()
	item := `{"type":"object","required":["a"],"properties":{"b":{"type":"string"}},"additionalProperties":false}`
	s := json.RawMessage(`{"type":"array","items":` + item + `}`)
	err := c.Check("rows", s, json.RawMessage(`[{"b":1,"c":1},{"a":1}]`))
	require.EqualError(t, err, "rows[0].a: is required; rows[0].b: want a string, got a number; rows[0].c: unknown field: want one of b; "+
		"rows[1].a: unknown field: want one of b")
	err = c.Check("", s, json.RawMessage(`[{},{},{},{},{},{},{},{},{},{},{},{}]`))
	require.EqualError(t, err, "[0].a: is required; [1].a: is required; [2].a: is required; [3].a: is required; [4].a: is required; and 7 more")

	// The length is limited for long names and values, too.
	long := strings.Repeat("x", 200)
	var required, members []string
	for i := range 30 {
		required = append(required, fmt.Sprintf("%q", fmt.Sprint(long, i)))
		members = append(members, fmt.Sprintf(`"k%d%s":{"enum":[%q]}`, i, long, long))
	}
	s = json.RawMessage(`{"required":[` + strings.Join(required, ",") + `],"additionalProperties":{"enum":[1]}}`)
	err = c.Check(long, s, json.RawMessage(`{`+strings.Join(members, ",")+`}`))
	require.Error(t, err)
	require.LessOrEqual(t, len(err.Error()), 1024)
	require.Regexp(t, `; and \d+ more$`, err.Error())
}

func TestCheckIsDeterministic(t *testing.T) {
	s := json.RawMessage(`{"properties":{"a":{"type":"string"},"b":{"type":"string"},"c":{"type":"string"},"d":{"type":"string"},"e":{"type":"string"},"f":{"type":"string"},"g":{"type":"string"}}}`)
	doc := json.RawMessage(`{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1}`)
	first := schema.New().Check("x", s, doc)
	for range 20 {
		require.EqualError(t, schema.New().Check("x", s, doc), first.Error())
	}
}

func TestCheckExplainsClosestAlternative(t *testing.T) {
	shapes := `{"oneOf":[
		{"type":"object","required":["kind","radius"],"properties":{"kind":{"const":"circle"},"radius":{"type":"number"}},"additionalProperties":false},
		{"type":"object","required":["kind","width","height"],"properties":{"kind":{"const":"box"},"width":{"type":"number"},"height":{"type":"number"}},"additionalProperties":false},
		{"type":"array","items":{"type":"integer"}},
		{"type":"string","enum":["none"]}]}`
	tests := map[string]string{
		`{"kind":"box","radius":1}`: "shape.height: is required; shape.radius: unknown field: want one of height, kind, width; shape.width: is required",
		`{"kind":"circle"}`:         "shape.radius: is required",
		`[1,"2"]`:                   "shape[1]: want a whole number, got a string",
		`"all"`:                     `shape: want "none", got "all"`,
		`1`:                         "shape: want an object or an array or a string, got a number",
	}
	for doc, want := range tests {
		require.EqualError(t, schema.New().Check("shape", json.RawMessage(shapes), json.RawMessage(doc)), want)
	}
	require.EqualError(t, schema.New().Check("x", json.RawMessage(`{"oneOf":[{"minimum":1},{"minimum":2}]}`), json.RawMessage(`3`)),
		"x: matches several of the forms of which one is allowed")
	require.EqualError(t, schema.New().Check("x", json.RawMessage(`{"not":{"type":"string"}}`), json.RawMessage(`""`)), "x: is what the schema forbids")
	require.EqualError(t, schema.New().Check("x", json.RawMessage(`{"contains":{"const":1}}`), json.RawMessage(`[2]`)), "x: lacks an entry that the schema asks for")
	require.EqualError(t, schema.New().Check("x", json.RawMessage(`{"properties":{"a":false},"unevaluatedProperties":false}`), json.RawMessage(`{"a":1,"b":2}`)),
		"x.a: is not allowed here; x.b: unknown field")
}

func TestCheckSchema(t *testing.T) {
	c := schema.New()
	require.NoError(t, c.CheckSchema("output_schema", json.RawMessage(flights)))
	for _, draft := range []string{
		"https://json-schema.org/draft/2020-12/schema", "https://json-schema.org/draft/2019-09/schema", "http://json-schema.org/draft-07/schema#",
		"http://json-schema.org/draft-06/schema#", "http://json-schema.org/draft-04/schema#",
	} {
		require.NoError(t, c.CheckSchema("s", json.RawMessage(`{"$schema":"`+draft+`","type":"object","properties":{"a":{"$ref":"#/definitions/b"}},"definitions":{"b":{"type":"string"}}}`)))
	}
	require.NoError(t, c.CheckSchema("s", json.RawMessage(`{"$id":"https://example.com/s","type":"object","properties":{"a":{"$ref":"#b"},"c":{"$ref":"/t"}},`+
		`"$defs":{"b":{"$anchor":"b"},"c":{"$id":"/t","type":"object"}}}`)))

	chained := func(n int) string {
		var defs []string
		for i := range n {
			defs = append(defs, fmt.Sprintf(`"a%d":{"$ref":"#/$defs/a%d"}`, i, i+1))
		}
		return `{"type":"object","$ref":"#/$defs/a0","$defs":{` + strings.Join(defs, ",") + fmt.Sprintf(`,"a%d":{}}}`, n)
	}
	require.NoError(t, c.CheckSchema("s", json.RawMessage(chained(62))))
	tests := map[string]struct{ schema, field, message string }{
		"no object":       {`{"type":"array"}`, "s.type", `want "object"`},
		"one of types":    {`{"type":["object","null"]}`, "s.type", `want "object"`},
		"no type":         {`{}`, "s.type", `want "object"`},
		"true":            {`true`, "s.type", `want "object"`},
		"no schema":       {`[]`, "s", "want a JSON Schema, got an array"},
		"null":            {`null`, "s", "want a JSON Schema, got null"},
		"nothing":         {``, "s", "malformed JSON: it ends too early"},
		"unknown type":    {`{"type":"object","properties":{"a":{"type":"text"}}}`, "s.properties.a.type", `want one of "array", "boolean", "integer", "null", "number", "object", "string", got "text"`},
		"wrong keyword":   {`{"type":"object","properties":{"a":{"minLength":-1}}}`, "s.properties.a.minLength", "want at least 0, got -1"},
		"properties":      {`{"type":"object","properties":[]}`, "s.properties", "want an object, got an array"},
		"twice":           {`{"type":"object","type":"object"}`, "s.type", "is given twice"},
		"remote":          {`{"type":"object","properties":{"a":{"$ref":"https://example.com/schema.json"}}}`, "s", "refers to https://example.com/schema.json: other documents are not read"},
		"a file":          {`{"type":"object","$ref":"file:///etc/passwd"}`, "s", "refers to file:///etc/passwd: other documents are not read"},
		"relative":        {`{"type":"object","$ref":"other.json"}`, "s", "other documents are not read"},
		"missing":         {`{"type":"object","$ref":"#/$defs/a"}`, "s", "has a $ref to what is not there"},
		"missing anchor":  {`{"type":"object","$ref":"#a"}`, "s", "has a $ref to what is not there"},
		"unknown draft":   {`{"$schema":"https://example.com/draft","type":"object"}`, "s", "refers to https://example.com/draft: other documents are not read"},
		"endless":         {`{"type":"object","$ref":"#"}`, "s", "refers to itself without end"},
		"endless behind":  {`{"type":"object","properties":{"a":{"anyOf":[{"$ref":"#/properties/a"}]}}}`, "s", "refers to itself without end"},
		"long chain":      {chained(64), "s", "applies more than 64 schemas to one value"},
		"dynamic":         {`{"type":"object","properties":{"a":{"$dynamicRef":"#x"}},"$defs":{"x":{"$dynamicAnchor":"x"}}}`, "s.properties.a", "$dynamicRef and $recursiveRef are not supported"},
		"look-ahead":      {`{"type":"object","properties":{"a/b":{"pattern":"^(?!a)"}}}`, `s.properties.a/b.pattern`, "the pattern is not supported: invalid or unsupported Perl syntax: (?! (patterns are RE2"},
		"back-reference":  {`{"type":"object","patternProperties":{"(a)\\1":true}}`, `s.patternProperties.(a)\1`, "patterns are RE2"},
		"draft 7 pattern": {`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{"pattern":"["}}}`, "s.properties.a.pattern", "is no regular expression: the pattern is not supported: missing closing ]"},
		"large pattern":   {`{"type":"object","properties":{"a":{"pattern":"(abcdefghij){1000}"}}}`, "s.properties.a.pattern", "the pattern is too large"},
		"long pattern":    {`{"type":"object","properties":{"a":{"pattern":"` + strings.Repeat("a", 1001) + `"}}}`, "s.properties.a.pattern", "a pattern has at most 1000 bytes"},
		"many patterns":   {`{"type":"object","allOf":[` + strings.Repeat(`{"pattern":"a{999}b{999}c{999}"},`, 20) + `true]}`, "s.allOf[", "the pattern is too large"},
		"large number":    {`{"type":"object","properties":{"a":{"minimum":1e1000000000}}}`, "s.properties.a.minimum", "has an exponent beyond 400"},
		"too large":       {`{"type":"object","description":"` + strings.Repeat("x", schema.MaxSchema) + `"}`, "s", "at most 262144 are allowed"},
		"too many values": {`{"type":"object","allOf":[` + strings.Repeat(`{},`, 5000) + `{}]}`, "s", "has too many values"},
		"too deep":        {strings.Repeat(`{"not":`, 101) + "{}" + strings.Repeat("}", 101), "s.not.not.not.not.not.not.not.not", "is nested more than 100 deep"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := c.CheckSchema("s", json.RawMessage(tt.schema))
			var e *agent.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, agent.CodeInvalid, e.Code)
			if strings.HasSuffix(tt.field, "[") {
				require.Contains(t, e.Field, tt.field)
			} else {
				require.Equal(t, tt.field, e.Field, "%v", err)
			}
			require.ErrorContains(t, err, tt.message)
			require.LessOrEqual(t, len(err.Error()), 1024)
			if strings.HasPrefix(tt.message, `want "object"`) {
				return // Check accepts such a schema
			}
			err = c.Check("args", json.RawMessage(tt.schema), json.RawMessage(`{}`))
			require.ErrorAs(t, err, &e)
			require.Equal(t, "args", e.Field)
			require.ErrorContains(t, err, "args: cannot be checked: its schema is of no use: ")
			require.LessOrEqual(t, len(err.Error()), 1024)
		})
	}
}

// Schemas never read files, not even existing ones.
func TestSchemasReadNoFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "schema.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"type":"object"}`), 0o600))
	for _, ref := range []string{"file://" + file, "file://" + file + "#", "file://" + file + "#/type"} {
		err := schema.New().CheckSchema("s", json.RawMessage(`{"type":"object","$ref":"`+ref+`"}`))
		require.ErrorContains(t, err, "other documents are not read")
	}
}
