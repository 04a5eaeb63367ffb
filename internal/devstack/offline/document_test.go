package offline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// satisfies checks a document with a validator that is not ours.
func satisfies(t require.TestingT, schema, doc string) {
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	require.NoError(t, c.AddResource("mem:///schema", value))
	compiled, err := c.Compile("mem:///schema")
	require.NoError(t, err)
	instance, err := jsonschema.UnmarshalJSON(strings.NewReader(doc))
	require.NoError(t, err, doc)
	require.NoError(t, compiled.Validate(instance), "%s\n%s", schema, doc)
}

// known are the facts of a conversation; results are what tools answered.
func known(prompt, answer string, results ...string) *facts {
	req := &request{Messages: []message{{Role: "user", text: prompt}}}
	for _, r := range results {
		req.Messages = append(req.Messages, message{Role: "tool", text: r})
	}
	return factsOf(req, &reply{text: answer, aside: answer == ""})
}

func object(properties string, required ...string) string {
	names, _ := json.Marshal(required)
	if required == nil {
		names = []byte("[]")
	}
	return fmt.Sprintf(`{"type":"object","properties":{%s},"required":%s,"additionalProperties":false}`, properties, names)
}

func TestDocumentsSatisfyTheirSchema(t *testing.T) {
	t.Parallel()
	rows := `{"rows":[{"id":"F1","price":99.5,"airline":"AA"},{"id":"F2","price":120,"airline":"UA"}],"row_count":7}`
	tests := []struct{ name, prompt, schema, want string }{
		{"counted words", "say 3 words", object(`"count":{"type":"integer"},"words":{"type":"array","items":{"type":"string"}}`, "words", "count"), `{"count":3,"words":["word1","word2","word3"]}`},
		{"words bounded", "say 3 words", object(`"words":{"type":"array","items":{"type":"string"},"maxItems":2}`, "words"), `{"words":["word1","word2"]}`},
		{"a number beside its name", "sell 4 lamps at a price of $1,250.50", object(`"price":{"type":"number"},"lamps":{"type":"integer"}`, "price", "lamps"), `{"price":1250.50,"lamps":4}`},
		{"numbers in order", "add 12 and 30", object(`"a":{"type":"integer"},"b":{"type":"integer"},"c":{"type":"integer"}`, "a", "b", "c"), `{"a":12,"b":30,"c":0}`},
		{"a number that does not fit", "it is 12", object(`"a":{"type":"integer","maximum":10}`, "a"), `{"a":0}`},
		{"strings in quotes", `greet "Ann" and "Bob"`, object(`"first":{"type":"string"},"second":{"type":"string"}`, "first", "second"), `{"first":"Ann","second":"Bob"}`},
		{"a string that is named", "the city is Rome and customer_name: Ann Lee, thanks", object(`"customerName":{"type":"string"},"city":{"type":"string"}`, "customerName", "city"), `{"customerName":"Ann Lee","city":"Rome"}`},
		{"what a flag says", "it is urgent, not paid; shipped: yes", object(`"urgent":{"type":"boolean"},"paid":{"type":"boolean"},"shipped":{"type":"boolean"},"x":{"type":"boolean"}`, "urgent", "paid", "shipped", "x"), `{"urgent":true,"paid":false,"shipped":true,"x":false}`},
		{"an enum that is mentioned", "in high priority", object(`"priority":{"enum":["low","medium","high"]}`, "priority"), `{"priority":"high"}`},
		{"an enum", "x", `{"enum":[3,1]}`, `3`},
		{"an enum within bounds", "x", `{"enum":[3,10],"minimum":5}`, `10`},
		{"an enum of two types", "x", `{"enum":["a",1],"type":"integer"}`, `1`},
		{"const", "x", object(`"kind":{"const":{"a": [1]}}`, "kind"), `{"kind":{"a": [1]}}`},
		{"placeholders", "x", object(`"city":{"type":"string"},"n":{"type":"integer"},"none":{"type":"null"},"list":{"type":"array","items":{"type":"string"}}`, "city", "n", "none", "list"), `{"city":"city","n":0,"none":null,"list":["list"]}`},
		{"lengths", "x", object(`"a":{"type":"string","minLength":4},"bcdef":{"type":"string","maxLength":2}`, "a", "bcdef"), `{"a":"a...","bcdef":"bc"}`},
		{"a pattern", "x", object(`"code":{"type":"string","pattern":"^[A-Z]{3}-[0-9]{2,}$","minLength":8}`, "code"), `{"code":"AAA-0000"}`},
		{"a pattern that the prompt knows", `take "NYC" or "x"`, object(`"code":{"type":"string","pattern":"^[A-Z]{3}$"}`, "code"), `{"code":"NYC"}`},
		{"optional only when known", "the price is 20", object(`"price":{"type":"number"},"other":{"type":"number"},"id":{"type":"string"}`, "id"), `{"price":20,"id":"id"}`},
		{"all where nothing is required", "x", `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"object","properties":{"c":{"type":"integer"}}}}}`, `{"a":"a","b":{"c":0}}`},
		{"required but not declared", "x", `{"type":"object","required":["a"],"additionalProperties":{"type":"integer"}}`, `{"a":0}`},
		{"no schema", "x", `{}`, `"text"`},
		{"nullable", "x", object(`"a":{"type":["null","integer"]},"b":{"anyOf":[{"type":"null"},{"type":"string","const":"y"}]}`, "a", "b"), `{"a":0,"b":"y"}`},
		{"references", "x", `{"type":"object","required":["a"],"properties":{"a":{"$ref":"#/$defs/p~1q"}},"$defs":{"p/q":{"type":"array","minItems":2,"items":{"$ref":"#/$defs/n"}},"n":{"type":"integer","minimum":7}}}`, `{"a":[7,7]}`},
		{"allOf", "x", `{"allOf":[{"type":"object","properties":{"a":{"type":"number"}},"required":["a"]},{"properties":{"a":{"minimum":3},"b":{"const":1}},"required":["b"]}]}`, `{"a":3,"b":1}`},
		{"types together", "x", `{"allOf":[{"type":"number"},{"type":["integer","string"],"minimum":2},{"minimum":1}]}`, `2`},
		{"a list with no end", "x", `{"$ref":"#/$defs/tree","$defs":{"tree":{"type":"object","required":["children"],"properties":{"children":{"type":"array","items":{"$ref":"#/$defs/tree"}}}}}}`, `{"children":[{"children":[{"children":[]}]}]}`},
		{"a list with an end", "x", `{"$ref":"#/$defs/l","$defs":{"l":{"type":"object","required":["next"],"properties":{"next":{"anyOf":[{"type":"null"},{"type":"object","maxProperties":0}]}}}}}`, `{"next":{}}`},
		{"the first that can be made", "x", `{"oneOf":[{"type":"string","minLength":3,"maxLength":2},{"type":"integer"}]}`, `0`},
		{"two choices", "x", `{"type":"object","anyOf":[{"required":["a"]},{"required":["b"]}],"oneOf":[{"properties":{"a":{"const":1}},"required":["a"]}]}`, `{"a":1}`},
		{"bounds", "x", object(`"a":{"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1},"b":{"type":"integer","minimum":5,"multipleOf":4},"c":{"type":"number","maximum":-1.5},"d":{"type":"number","exclusiveMinimum":2,"multipleOf":0.5}`, "a", "b", "c", "d"), `{"a":0.5,"b":8,"c":-2,"d":2.5}`},
		{"items that differ", "x", `{"type":"array","items":{"type":"string","maxLength":3},"minItems":3,"uniqueItems":true}`, `["tex","2 t","3 t"]`},
		{"numbers that differ", "x", `{"type":"array","items":{"type":"integer","minimum":2,"maximum":4},"minItems":3,"uniqueItems":true}`, `[2,3,4]`},
		{"a tuple", "x", `{"type":"array","prefixItems":[{"const":"a"},{"type":"integer"}],"items":{"type":"boolean"},"minItems":3}`, `["a",0,false]`},
		{"contains", "x", `{"type":"array","items":{"type":"integer"},"contains":{"minimum":9},"minItems":2}`, `[9,0]`},
		{"properties enough", "x", `{"type":"object","minProperties":3,"properties":{"a":{"type":"integer"}},"additionalProperties":{"type":"boolean"}}`, `{"a":0,"key1":false,"key2":false}`},
		{"a default", "x", object(`"a":{"type":"integer","default":42},"b":{"type":"string","examples":["e"]}`, "a", "b"), `{"a":42,"b":"e"}`},
		{"an answer", "x", object(`"answer":{"type":"string"},"sure":{"type":"boolean"}`, "answer"), `{"answer":"It is so."}`},
		{"rows", rows, object(`"count":{"type":"integer"},"cheapest":{"type":"object","properties":{"price":{"type":"number"}},"required":["price"]},"flights":{"type":"array","items":{"type":"object","properties":{"id":{"type":"string"},"price":{"type":"number"},"stops":{"type":"integer"}},"required":["id","price","stops"]}},"airlines":{"type":"array","items":{"type":"string"},"maxItems":3}`, "count", "flights", "airlines", "cheapest"), `{"count":7,"cheapest":{"price":99.5},"flights":[{"id":"F1","price":99.5,"stops":0},{"id":"F2","price":120,"stops":0}],"airlines":["AA","UA"]}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := known(tt.prompt, "It is so.")
			if tt.name == "rows" {
				f = known("fetch flights", "Found.", rows)
			}
			doc, err := document(json.RawMessage(tt.schema), f)
			require.NoError(t, err)
			require.Equal(t, tt.want, string(doc))
			satisfies(t, tt.schema, string(doc))
		})
	}
}

func TestFormats(t *testing.T) {
	t.Parallel()
	formats := []string{"date", "date-time", "time", "duration", "email", "hostname", "uri", "uri-reference", "uuid", "ipv4", "ipv6", "json-pointer", "regex"}
	for _, format := range formats {
		schema := fmt.Sprintf(`{"type":"array","minItems":3,"uniqueItems":true,"items":{"type":"string","format":%q}}`, format)
		doc, err := document(json.RawMessage(schema), known("no such thing", "Neither is this."))
		require.NoError(t, err, format)
		satisfies(t, schema, string(doc))
	}
	doc, err := document(json.RawMessage(object(`"when":{"type":"string","format":"date"},"to":{"type":"string","format":"email"}`, "when", "to")),
		known(`on "2025-02-03" to "Ann" and "ann@example.org"`, ""))
	require.NoError(t, err)
	require.JSONEq(t, `{"when":"2025-02-03","to":"ann@example.org"}`, string(doc))
}

func TestSchemasWithoutADocument(t *testing.T) {
	t.Parallel()
	doubling := `{"$ref":"#/$defs/a0","$defs":{`
	for i := range 18 {
		doubling += fmt.Sprintf(`"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]},`, i, i+1, i+1)
	}
	doubling += `"a18":{"type":"object"}}}`
	tests := map[string][2]string{
		"never":            {`false`, "nothing satisfies it"},
		"empty bounds":     {object(`"a":{"type":"integer","minimum":2,"maximum":1}`, "a"), "a: nothing satisfies it"},
		"empty object":     {`{"type":"object","required":["a","b"],"maxProperties":1}`, "nothing satisfies it"},
		"empty lengths":    {`{"type":"string","minLength":2,"maxLength":1}`, "nothing satisfies it"},
		"empty types":      {`{"allOf":[{"type":"string"},{"type":"integer"}]}`, "nothing satisfies it"},
		"empty enum":       {`{"type":"string","enum":[1]}`, "nothing satisfies it"},
		"no such type":     {`{"type":"text"}`, `unknown type "text"`},
		"not a schema":     {object(`"a":3`, "a"), "a: it is no schema"},
		"no list":          {`{"allOf":{}}`, "its allOf is no list of schemas"},
		"required no list": {`{"required":"a"}`, "its required is no list"},
		"no object":        {`{"properties":[]}`, "its properties are no object"},
		"elsewhere":        {`{"$ref":"https://example.com/x"}`, "does not point into it"},
		"dangling":         {`{"$ref":"#/$defs/x"}`, "points to nothing"},
		"circle":           {`{"$ref":"#"}`, "nests without end"},
		"deep circle":      {`{"$ref":"#/$defs/a","$defs":{"a":{"type":"object","required":["a"],"properties":{"a":{"$ref":"#/$defs/a"}}}}}`, "nests without end"},
		"too many items":   {`{"type":"array","minItems":100000}`, "too large"},
		"too many members": {`{"type":"object","minProperties":100000}`, "too large"},
		"too many in all":  {`{"type":"array","minItems":900,"items":{"type":"array","minItems":900,"items":{"type":"array","minItems":900}}}`, "too large"},
		"doubling":         {doubling, "too large"},
		"too few values":   {`{"type":"array","minItems":3,"uniqueItems":true,"items":{"type":"boolean"}}`, "item 2: nothing satisfies it"},
		"too long a text":  {`{"type":"string","minLength":1000000}`, "nothing satisfies it"},
		"too long":         {`{"title":"` + strings.Repeat("x", maxSchema) + `"}`, "too large"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := document(json.RawMessage(tt[0]), known("x", ""))
			require.ErrorContains(t, err, tt[1])
		})
	}
}

// schemas draws a schema that something satisfies.
func schemas(depth int) *rapid.Generator[map[string]any] {
	return rapid.Custom(func(t *rapid.T) map[string]any {
		kinds := []string{"string", "integer", "number", "boolean", "null", "enum", "pattern", "format"}
		if depth > 0 {
			kinds = append(kinds, "object", "object", "array", "anyOf", "nullable", "allOf")
		}
		switch kind := rapid.SampledFrom(kinds).Draw(t, "kind"); kind {
		case "string":
			least := rapid.IntRange(0, 20).Draw(t, "least")
			return map[string]any{"type": kind, "minLength": least, "maxLength": least + rapid.IntRange(0, 20).Draw(t, "more")}
		case "integer":
			low := rapid.IntRange(-50, 50).Draw(t, "low")
			step := rapid.IntRange(1, 9).Draw(t, "step")
			return map[string]any{"type": kind, "minimum": low, "maximum": low + step, "multipleOf": step}
		case "number":
			low := rapid.IntRange(-50, 50).Draw(t, "low")
			return map[string]any{"type": kind, "exclusiveMinimum": low, "exclusiveMaximum": float64(low) + rapid.SampledFrom([]float64{0.25, 1, 7.5}).Draw(t, "room")}
		case "enum":
			return map[string]any{"enum": rapid.SliceOfN(rapid.OneOf(rapid.Just[any]("red"), rapid.Just[any](7), rapid.Just[any](nil)), 1, 3).Draw(t, "enum")}
		case "pattern":
			return map[string]any{"type": "string", "pattern": rapid.SampledFrom([]string{`^[a-z]+$`, `^\d{3}-\d{4}$`, `^(foo|bar)x*$`, `[^a-z]`, `^v\d+(\.\d+){2}$`, `^.{3,5}$`}).Draw(t, "pattern")}
		case "format":
			return map[string]any{"type": "string", "format": rapid.SampledFrom([]string{"date", "date-time", "email", "uri", "uuid", "ipv4"}).Draw(t, "format")}
		case "object":
			properties, required := map[string]any{}, []string{}
			for _, n := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"price", "name", "count", "ok", "words", "a_b"}), 0, 4, rapid.ID[string]).Draw(t, "names") {
				properties[n] = schemas(depth-1).Draw(t, n)
				if rapid.Bool().Draw(t, "required") {
					required = append(required, n)
				}
			}
			return map[string]any{"type": kind, "properties": properties, "required": required, "additionalProperties": false}
		case "array":
			least := rapid.IntRange(0, 3).Draw(t, "least")
			return map[string]any{"type": kind, "items": schemas(depth-1).Draw(t, "items"), "minItems": least, "maxItems": least + rapid.IntRange(0, 2).Draw(t, "more")}
		case "anyOf":
			return map[string]any{"anyOf": []any{schemas(depth-1).Draw(t, "one"), schemas(depth-1).Draw(t, "other")}}
		case "nullable":
			return map[string]any{"anyOf": []any{map[string]any{"type": "null"}, schemas(depth-1).Draw(t, "some")}}
		case "allOf":
			return map[string]any{"allOf": []any{schemas(depth-1).Draw(t, "all")}, "description": "x"}
		default:
			return map[string]any{"type": kind}
		}
	})
}

func TestAnySchemaIsSatisfied(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		schema, err := json.Marshal(schemas(3).Draw(t, "schema"))
		require.NoError(t, err)
		prompt := rapid.SampledFrom([]string{"say 4 words", `the price is 20, name: "Ann", not ok, 3 counts of 7`, "red", ""}).Draw(t, "prompt")
		rows := rapid.SampledFrom([]string{`{"rows":[{"price":3,"name":"F1","ok":true},{"price":"x","words":["a"]}]}`, `{"rows":[1,2]}`, `no`}).Draw(t, "rows")
		doc, err := document(schema, known(prompt, "Yes.", rows))
		require.NoError(t, err, "%s", schema)
		satisfies(t, string(schema), string(doc))
		again, err := document(schema, known(prompt, "Yes.", rows))
		require.NoError(t, err)
		require.Equal(t, string(doc), string(again))
	})
}

// Whatever is asked for, what is made is JSON, within bounds, or an error.
func FuzzDocument(f *testing.F) {
	for _, s := range []string{
		object(`"a":{"$ref":"#/properties/b"},"b":{"type":"string","pattern":"^a{3,}[^b]$"}`, "a", "b"), `{"anyOf":[{"$ref":"#"},{"type":"array","uniqueItems":true,"minItems":3}]}`,
		`{"type":"number","multipleOf":1e-9,"minimum":1e30}`, `{"allOf":[{"enum":[1,2]},{"enum":[2]}]}`, `{"type":["x",null],"required":["\u0000"]}`,
	} {
		f.Add([]byte(s), `the a is "b" and 3 c, not d`, `{"rows":[{"a":1}],"row_count":2}`)
	}
	f.Fuzz(func(t *testing.T, schema []byte, prompt, result string) {
		if !json.Valid(schema) {
			return
		}
		doc, err := document(bytes.TrimSpace(schema), known(prompt, "Yes.", result))
		if err != nil {
			return
		}
		require.True(t, json.Valid(doc), "%s", doc)
		require.LessOrEqual(t, len(doc), schemaBudget)
	})
}
