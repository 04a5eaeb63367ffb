package schema

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// hostile returns schemas and documents within the size limits that would keep a validator busy.
func hostile() map[string]struct{ schema, doc string } {
	nested := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	var doubling []string
	for i := range 60 {
		doubling = append(doubling, fmt.Sprintf(`"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]}`, i, i+1, i+1))
	}
	array := func(n int, entry string) string { return "[" + strings.Repeat(entry+",", n-1) + entry + "]" }
	return map[string]struct{ schema, doc string }{
		"recursion, twice": {`{"anyOf":[{"properties":{"a":{"$ref":"#"}},"required":["b"]},{"properties":{"a":{"$ref":"#"}},"required":["c"]}]}`, nested(60)},
		"doubling":         {`{"$ref":"#/$defs/a0","$defs":{` + strings.Join(doubling[:30], ",") + `,"a30":{}}}`, `{}`},
		"pattern on text":  {`{"allOf":` + array(200, `{"pattern":"(a|aa|b?)*c"}`) + `}`, `"` + strings.Repeat("a", 1_000_000) + `"`},
		"pattern names": {
			`{"patternProperties":{"^(x+x+)+y$":{},"(.*.*)*z":{},"[a-z]{500}q":{}}}`, `{"` + strings.Repeat("x", 400_000) + `":1,"` + strings.Repeat("x", 500_000) + `":1}`,
		},
		"equal hashes":      {`{"uniqueItems":true}`, "[" + strings.Join(trees(10, 5_000), ",") + "]"},
		"pairs":             {`{"items":{"uniqueItems":true}}`, array(10, array(20, array(400, "1")))},
		"enum of arrays":    {`{"items":{"enum":[` + array(4000, "1") + `,1]}}`, array(20, array(3999, "1"))},
		"enum of numbers":   {`{"items":{"enum":` + array(2000, "1.5e300") + `}}`, array(20_000, "2.5e300")},
		"multiples":         {`{"items":{"allOf":` + array(100, `{"multipleOf":1.000000000000000000001e-390}`) + `}}`, array(20_000, "1.00000000000000000000000000007e390")},
		"names, many times": {`{"allOf":` + array(100, `{"additionalProperties":true}`) + `}`, object(20_000)},
		"unevaluated":       {`{"unevaluatedProperties":true,"allOf":` + array(100, `{"not":{"required":["zz"]}}`) + `}`, object(10_000)},
		"lengths":           {`{"allOf":` + array(500, `{"maxLength":1}`) + `}`, `"` + strings.Repeat("é", 400_000) + `"`},
		"required":          {`{"items":{"allOf":[{"required":["` + strings.Join(numbers(2000), `","`) + `"]}]}}`, array(40_000, "{}")},
		"faults":            {`{"items":{"allOf":` + array(20, `{"type":"string"}`) + `}}`, array(30_000, "1")},
		"one fault each":    {`{"items":{"type":"string"}}`, array(30_000, "1")},
		"contains":          {`{"allOf":` + array(100, `{"contains":{"type":"string"}}`) + `}`, array(99_000, "1")},
		"names of a kind":   {`{"propertyNames":{"allOf":` + array(100, `{"maxLength":2}`) + `}}`, object(49_000)},
	}
}

func numbers(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint("n", i)
	}
	return out
}

func object(n int) string { return `{"` + strings.Join(numbers(n), `":1,"`) + `":1}` }

// trees returns n different nested arrays; arrays of the same size have the same hash.
func trees(size, n int) []string {
	if size == 0 {
		return []string{"[]"}
	}
	var out []string
	for first := range size {
		for _, a := range trees(first, n) {
			for _, b := range trees(size-1-first, n) {
				if len(out) == n {
					return out
				}
				rest := strings.TrimPrefix(b, "[")
				if rest != "]" {
					rest = "," + rest
				}
				out = append(out, "["+a+rest)
			}
		}
	}
	return out
}

func TestHostileSchemasAreFast(t *testing.T) {
	for name, tt := range hostile() {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			err := New().Check("x", json.RawMessage(tt.schema), json.RawMessage(tt.doc))
			require.Less(t, time.Since(began), 20*time.Second, "%.200v", err) // generous, for a loaded machine
			switch name {
			case "enum of arrays", "one fault each": // their size already limits the work
				require.ErrorContains(t, err, "x[0]: ")
			default:
				require.EqualError(t, err, "x: is too large to be checked against its schema")
			}
		})
	}
}

func TestLargeDocumentsAreChecked(t *testing.T) {
	schema := `{"type":"object","properties":{"rows":{"type":"array","items":{"type":"object","required":["a","b"],"properties":{
		"a":{"anyOf":[{"type":"integer","minimum":0},{"type":"null"}]},"b":{"type":"string","pattern":"^[a-z]+$","maxLength":9}}}}}}`
	doc := func(last string) string {
		return `{"rows":[` + strings.Repeat(`{"a":1,"b":"xyz"},`, 30_000) + last + `]}`
	}
	require.NoError(t, New().Check("args", json.RawMessage(schema), json.RawMessage(doc(`{"a":null,"b":"x"}`))))
	require.EqualError(t, New().Check("args", json.RawMessage(schema), json.RawMessage(doc(`{"a":-1,"b":"x"}`))), "args.rows[30000].a: want at least 0, got -1")
	tree := `{"type":"object","required":["n"],"properties":{"n":{"type":"integer"},"left":{"$ref":"#"},"right":{"$ref":"#"}}}`
	leaf := `{"n":1}`
	for range 10 {
		leaf = `{"n":1,"left":` + leaf + `,"right":` + leaf + `}`
	}
	require.NoError(t, New().Check("tree", json.RawMessage(tree), json.RawMessage(leaf)))
}
