package schema_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/schema"
)

// For any schema and document, the error is nil or short, and the same every time.
func FuzzCheck(f *testing.F) {
	f.Add([]byte(flights), []byte(`{"from":"JFK","filters":[{"op":"eq","any":[{"op":"x"}]}],"extra":{"A":1},"tags":["a","a"]}`))
	for _, s := range []string{
		`{"anyOf":[{"properties":{"a":{"$ref":"#"}},"required":["b"]},{"properties":{"a":{"$ref":"#"}},"required":["c"]}]}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","dependencies":{"a":["b"],"c":{"properties":{"d":{"format":"date"}}}},"items":[{}],"additionalItems":false}`,
		`{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,"items":{"$recursiveRef":"#"}}`,
		`{"$schema":"http://json-schema.org/draft-04/schema#","id":"http://x/y","minimum":1,"exclusiveMinimum":true,"definitions":{"a":{"id":"#b"}}}`,
		`{"$id":"https://example.com/s","properties":{"a":{"$ref":"#b"},"c":{"$ref":"/t"}},"$defs":{"b":{"$anchor":"b"},"c":{"$id":"/t"}}}`,
		`{"$ref":"#/x/y","x":{"y":{"$ref":"#/z/0"}},"z":[{"not":{}}]}`,
		`{"propertyNames":{"pattern":"^a"},"unevaluatedProperties":false,"if":{"required":["a"]},"then":{"maxProperties":1},"else":{"minProperties":2}}`,
		`{"prefixItems":[{"const":{"a":[1]}}],"contains":{"enum":[[],{}]},"minContains":2,"maxContains":3,"unevaluatedItems":{"multipleOf":0.1}}`,
		`{"$ref":"https://json-schema.org/draft/2020-12/schema"}`, `{"$dynamicRef":"#a","$dynamicAnchor":"a"}`, `{"pattern":"(?=a)"}`, `{"minimum":1e400}`,
		`{"$id":"turnstone:///schema"}`, `{"$id":"#a"}`, `{"allOf":[{"$id":"a"},{"$id":"a"}]}`, `{"$anchor":"a","not":{"$anchor":"a"}}`, `{"$ref":"%"}`, `{"$ref":"#/%25/~"}`,
		`{"contentEncoding":"base64","contentMediaType":"application/json","contentSchema":{"type":"object"}}`, `{"$vocabulary":{"x":true}}`, `{"multipleOf":0}`,
	} {
		f.Add([]byte(s), []byte(`{"a":[1,{"b":"c"},[]],"c":{"d":"2020-01-01"}}`))
		f.Add([]byte(s), []byte(`[{"a":[1]},1.10,"x",null,[1,2]]`))
		f.Add([]byte(s), []byte(s))
	}
	f.Fuzz(func(t *testing.T, s, doc []byte) {
		c := schema.New()
		err := c.Check("args", s, doc)
		if err == nil {
			require.True(t, json.Valid(doc))
			return
		}
		var e *agent.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, agent.CodeInvalid, e.Code)
		require.True(t, strings.HasPrefix(e.Field, "args"), "%q", e.Field)
		require.NotEmpty(t, e.Err.Error())
		require.LessOrEqual(t, len(err.Error()), 1024)
		require.True(t, utf8.ValidString(err.Error()), "%q", err)
		if !strings.Contains(err.Error(), "its schema is of no use") { // the library reports any one of several schema faults
			require.EqualError(t, schema.New().Check("args", s, doc), err.Error())
		}
		if err := c.CheckSchema("", s); err != nil {
			require.LessOrEqual(t, len(err.Error()), 1024)
		}
	})
}
