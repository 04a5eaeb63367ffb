package openapi

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// largeDocumentText returns a document like those of large services, with 1,500 operations and about 5 MB: path-level parameters as in GitHub's,
// expandable fields (an ID or an object) as in Stripe's, deepObject form bodies, circular schemas and pages of results.
func largeDocumentText() string {
	var paths, schemas []string
	filler := strings.Repeat("What this is about is told at length, as such documents do. ", 19)
	for i := range 500 {
		next := (i + 1) % 500
		paths = append(paths, fmt.Sprintf(`"/v1/things%[1]d":{"get":{"operationId":"things/list-%[1]d","description":%[3]q,"parameters":[
{"$ref":"#/components/parameters/limit"},{"name":"expand","in":"query","style":"deepObject","explode":true,"schema":{"type":"array","items":{"type":"string","maxLength":5000}}},
{"name":"created","in":"query","style":"deepObject","schema":{"anyOf":[{"type":"object","properties":{"gt":{"type":"integer"},"lt":{"type":"integer"}}},{"type":"integer"}]}}],
"responses":{"200":{"description":"ok","content":{"application/json":{"schema":{"type":"object","required":["data","has_more"],"properties":{"has_more":{"type":"boolean"},
"data":{"type":"array","items":{"$ref":"#/components/schemas/thing%[1]d"}}}}}}},"default":{"$ref":"#/components/responses/error"}}},
"post":{"operationId":"things/create-%[1]d","description":%[3]q,"requestBody":{"required":true,"content":{"application/x-www-form-urlencoded":{
"encoding":{"metadata":{"style":"deepObject","explode":true}},"schema":{"type":"object","required":["amount"],"properties":{"amount":{"type":"integer"},
"metadata":{"type":"object","additionalProperties":{"type":"string"}},"currency":{"type":"string"}}}}}},
"responses":{"200":{"description":"ok","content":{"application/json":{"schema":{"$ref":"#/components/schemas/thing%[1]d"}}}}}}},
"/v1/things%[1]d/{id}":{"parameters":[{"name":"id","in":"path","required":true,"schema":{"type":"string"}}],
"get":{"operationId":"things/get-%[1]d","description":%[3]q,"responses":{"200":{"description":"ok","content":{"application/json":{"schema":{"$ref":"#/components/schemas/thing%[1]d"}}}}}}}`,
			i, next, filler))
		schemas = append(schemas, fmt.Sprintf(`"thing%[1]d":{"type":"object","description":%[3]q,"required":["id","object"],"properties":{
"id":{"type":"string","maxLength":5000},"object":{"type":"string","enum":["thing%[1]d"]},"description":{"type":"string","nullable":true},
"owner":{"anyOf":[{"type":"string"},{"$ref":"#/components/schemas/thing%[2]d"},{"$ref":"#/components/schemas/deleted"}],"x-expansionResources":{"oneOf":[]}},
"parent":{"nullable":true,"allOf":[{"$ref":"#/components/schemas/thing%[1]d"}]},
"source":{"oneOf":[{"$ref":"#/components/schemas/card"},{"$ref":"#/components/schemas/account"}],"discriminator":{"propertyName":"kind","mapping":{"card":"#/components/schemas/card"}}},
"lines":{"type":"array","items":{"$ref":"#/components/schemas/thing%[2]d"}}}}`, i, next, filler+filler+filler+filler))
	}
	schemas = append(schemas,
		`"deleted":{"type":"object","required":["deleted"],"properties":{"deleted":{"type":"boolean","enum":[true]}}}`,
		`"card":{"type":"object","required":["kind","last4"],"properties":{"kind":{"type":"string"},"last4":{"type":"string"}}}`,
		`"account":{"type":"object","required":["kind"],"properties":{"kind":{"type":"string"},"iban":{"type":"string"}}}`)
	return `{"openapi":"3.0.0","info":{"title":"large","version":"1"},"servers":[{"url":"https://api.example.com/"}],"paths":{` + strings.Join(paths, ",") +
		`},"components":{"parameters":{"limit":{"name":"limit","in":"query","schema":{"type":"integer","maximum":100}}},
"responses":{"error":{"description":"e","content":{"application/json":{"schema":{"type":"object"}}}}},"schemas":{` + strings.Join(schemas, ",") + `}}}`
}

func TestLargeDocument(t *testing.T) {
	t.Parallel()
	text := largeDocumentText()
	require.Greater(t, len(text), 5_000_000)
	began := time.Now()
	d := parseDocument(t, text)
	require.Less(t, time.Since(began), 20*time.Second)
	require.Len(t, d.entries, 1500)

	op, err := d.Operation(t.Context(), "things/list-7", nil)
	require.NoError(t, err)
	req, err := buildRequest(t, op, `{"limit":3,"expand":["data.owner"],"created":{"gt":5}}`)
	require.NoError(t, err)
	require.Equal(t, "https://api.example.com/v1/things7?limit=3&expand%5B0%5D=data.owner&created%5Bgt%5D=5", req.URL.String())
	_, err = buildRequest(t, op, `{"limit":300,"created":"soon"}`)
	require.ErrorContains(t, err, "params.limit: ")
	require.ErrorContains(t, err, "params.created: want an object or a whole number, got a string")

	answer := func(text string) []string {
		v, err := DecodeJSON([]byte(text))
		require.NoError(t, err)
		return op.Check(200, "application/json", v, true, false)
	}
	require.Empty(t, answer(`{"has_more":false,"data":[{"id":"a","object":"thing7","description":null,"parent":null,"owner":{"id":"b","object":"thing8"},
		"source":{"kind":"card","last4":"1"},"lines":[{"id":"c","object":"thing8","owner":"x","source":{"kind":"account"}}]}]}`))
	require.Equal(t, []string{"the body is not as documented: body.data[0].source.last4: is required"},
		answer(`{"has_more":false,"data":[{"id":"a","object":"thing7","source":{"kind":"card"}}]}`))

	create, err := d.Operation(t.Context(), "things/create-7", nil)
	require.NoError(t, err)
	req, err = buildRequest(t, create, `{"amount":5,"metadata":{"order":"a b"}}`)
	require.NoError(t, err)
	require.Equal(t, "amount=5&metadata%5Border%5D=a%20b", string(req.Body))

	get, err := d.Operation(t.Context(), "things/get-7", nil)
	require.NoError(t, err)
	req, err = buildRequest(t, get, `{"id":"x"}`)
	require.NoError(t, err)
	require.Equal(t, "/v1/things7/x", req.URL.Path)
}
