package openapi

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

func TestFindOperation(t *testing.T) {
	t.Parallel()
	var paths []string
	for i := range 40 {
		paths = append(paths, fmt.Sprintf(`"/w%d":{"get":{"operationId":"listWidgets%d"}}`, i, i))
	}
	text := `{"openapi":"3.1.0","info":{"title":"t","version":"1"},"paths":{` + strings.Join(paths, ",") + `,
		"/a":{"get":{"operationId":"same"}},"/b":{"post":{"operationId":"same"}},"/plain/{id}":{"delete":{}},
		"/users":{"get":{"operationId":"repos/list-for-user"}}}}`
	d := parseDocument(t, text)
	_, err := d.Operation(t.Context(), "listForUser", nil)
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
	require.Equal(t, "operation_id", agent.FailureOf(err).Field)
	require.ErrorContains(t, err, `the document has no operation "listForUser" among its 44; did you mean "repos/list-for-user"`)
	_, err = d.Operation(t.Context(), "listWidget", nil)
	require.Equal(t, 10, strings.Count(err.Error(), `"listWidgets`), err)
	_, err = d.Operation(t.Context(), "zzzzzzzz", nil)
	require.NotContains(t, err.Error(), "did you mean")

	_, err = d.Operation(t.Context(), "same", nil)
	require.ErrorContains(t, err, `"same" is the id of 2 operations: name one by its method and path: "GET /a", "POST /b"`)
	require.Empty(t, d.Method("same"))
	op, err := d.Operation(t.Context(), "post /b", nil)
	require.NoError(t, err)
	require.Equal(t, "POST", op.Method)
	_, err = d.Operation(t.Context(), "DELETE /plain/{id}", nil)
	require.NoError(t, err)
	require.Equal(t, "GET", d.Method("listWidgets3"))
	require.Empty(t, d.Method("nothing"))
}

func TestParse(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"a":`, 300) + "1" + strings.Repeat("}", 300)
	for text, says := range map[string]string{
		``:                                    "the document is empty",
		`<html>`:                              "begins like a web page",
		`{"a":`:                               "is not well-formed JSON",
		`{} {}`:                               "something behind the first value",
		`[]`:                                  "is no object",
		`just text`:                           "is no object",
		"a: [":                                "is not well-formed YAML",
		`{"swagger":"2.0"}`:                   "the document is Swagger 2.0: only OpenAPI 3.0 and 3.1",
		`swagger: 2.0`:                        "the document is Swagger 2",
		`{"openapi":"2.0"}`:                   `openapi is "2.0"`,
		`{"openapi":"4.0.0"}`:                 `openapi is "4.0.0"`,
		`{"info":{}}`:                         `openapi is ""`,
		deep:                                  "is nested more than 250 deep",
		"? [a]\n: b":                          "line 1: a key is no scalar",
		"a: &a [*a]":                          "refers to what it is a part of",
		"[" + strings.Repeat(",", 3_000_001):  "has more than 3000000 values",
		strings.Repeat("- a\n", 1_500_001):    "has more than 1500000 values",
		strings.Repeat(" ", MaxBytes+1) + "{": "bytes, at most",
		aliasBomb():                           "once its aliases are written out",
	} {
		_, err := Parse([]byte(text), nil)
		require.Error(t, err, clip.Bytes(text, 50))
		require.ErrorContains(t, err, says)
		require.Contains(t, []agent.Code{agent.CodeInvalid, agent.CodeOverflow}, agent.CodeOf(err))
		require.Less(t, len(err.Error()), 400)
	}
}

// aliasBomb returns a few hundred bytes of YAML that expand to 10^9 values.
func aliasBomb() string {
	var b strings.Builder
	b.WriteString("openapi: 3.0.0\na0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := range 9 {
		fmt.Fprintf(&b, "a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 9), i)
	}
	return b.String()
}

func TestYAML(t *testing.T) {
	t.Parallel()
	d := parseDocument(t, `
openapi: 3.1
info: {title: t, version: 1.0}
x-common: &common
  get: &get
    operationId: first
    parameters:
      - {name: when, in: query, schema: {type: string, enum: [2024-01-02, yes, null]}}
      - {name: n, in: query, schema: {type: integer, minimum: 0x10, maximum: 1_000}}
    responses:
      200: {description: ok}
paths:
  /a: *common
  /b:
    <<: *common
    get:
      <<: *get
      operationId: second
`)
	for _, id := range []string{"first", "second"} {
		op, err := d.Operation(t.Context(), id, nil)
		require.NoError(t, err)
		_, err = buildRequest(t, op, `{"when":"2024-01-02","n":16}`)
		require.NoError(t, err, "dates are strings")
		_, err = buildRequest(t, op, `{"when":"2024-01-03","n":15}`)
		require.ErrorContains(t, err, `params.when: want one of "2024-01-02", "yes", null`)
		require.ErrorContains(t, err, `params.n: `)
		require.Empty(t, op.Check(200, "", nil, false, true))
		require.NotEmpty(t, op.Check(201, "", nil, false, true))
	}
}

// Faults in other parts of the document do not affect an operation; faults in its own parts are reported.
func TestUnreachedFaultsAreIgnored(t *testing.T) {
	t.Parallel()
	rest := `,"components":{"schemas":{"Broken":{"$ref":"#/nowhere"},"Odd":{"type":7,"required":true,"properties":[],"pattern":"(?!x)","maximum":"a"},
		"Loop":{"$ref":"#/components/schemas/Loop2"},"Loop2":{"$ref":"#/components/schemas/Loop"}},
		"parameters":{"P":{"in":"body"}},"securitySchemes":"none"}`
	item := `{"get":{"operationId":"good","parameters":[{"name":"odd","in":"query","schema":{"$ref":"#/components/schemas/Odd"}}],
		"responses":{"200":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/Broken"}}}},"201":{"$ref":"#/nowhere"}}},
		"post":{"operationId":"bad","requestBody":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/Broken"}}}}},
		"put":{"operationId":"worse","parameters":[{"$ref":"#/components/parameters/P"}]},
		"patch":{"operationId":"missing","security":[{"other":[]}]},
		"options":{"operationId":"loop","parameters":[{"name":"a","in":"query","schema":{"$ref":"#/components/schemas/Loop"}}]},
		"head":{"operationId":"twice","parameters":[{"name":"a","in":"query"},{"name":"a","in":"query"}]},
		"delete":{"operationId":"away","parameters":[{"$ref":"other.json#/P"}]},
		"trace":{"operationId":"hole"}}`
	d := parseDocument(t, documentText("3.0.3", "/x/{hole}", item, rest))
	_, err := d.Operation(t.Context(), "good", nil)
	require.NoError(t, err)
	for id, says := range map[string]string{
		"bad":     `operation "bad": requestBody: application/json: the reference "#/nowhere" leads to nothing`,
		"worse":   `operation "worse": parameters[0] has no name, or no place that is known`,
		"missing": `names the scheme "other", which the document does not have`,
		"twice":   `has two parameters "a" in query`,
		"away":    `the reference "other.json#/P" is to another file`,
	} {
		_, err := d.Operation(t.Context(), id, nil)
		require.ErrorContains(t, err, says, id)
	}
	op, err := d.Operation(t.Context(), "hole", nil)
	require.NoError(t, err)
	_, err = buildRequest(t, op, `{}`)
	require.ErrorContains(t, err, `the path "/x/{hole}" has {hole}, but the operation no such parameter`)

	req, err := buildRequest(t, loadOperation(t, documentText("3.0.3", "/x", item, rest), "loop"), `{"a":1}`)
	require.NoError(t, err, "an endless schema is not checked")
	require.Contains(t, strings.Join(req.Warnings, ""), "too much work")
}

func TestExternalFiles(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"https://api.example.com/docs/params.yaml":     "Id: {name: id, in: path, required: true, schema: {$ref: 'schemas/id.json#/defs/Id'}}\n",
		"https://api.example.com/docs/schemas/id.json": `{"defs":{"Id":{"$ref":"#/defs/Real"},"Real":{"type":"integer","x":{"$ref":"../openapi.json#/paths"}}}}`,
		"https://api.example.com/docs/item.json":       `{"get":{"operationId":"far","parameters":[{"$ref":"params.yaml#/Id"}]}}`,
	}
	var asked []string
	fetch := func(_ context.Context, u *url.URL, maxBytes int) ([]byte, error) {
		require.Positive(t, maxBytes)
		asked = append(asked, u.String())
		text, ok := files[u.String()]
		if !ok {
			return nil, agent.Errorf(agent.CodeNotFound, "", "no such file")
		}
		return []byte(text), nil
	}
	d := parseDocument(t, documentText("3.0.3", "/x/{id}", `{"$ref":"item.json"}`, ""))
	op, err := d.Operation(t.Context(), "far", fetch)
	require.NoError(t, err)
	_, err = buildRequest(t, op, `{"id":"x"}`)
	require.ErrorContains(t, err, "params.id: want a whole number, got a string")
	require.Len(t, asked, 3)

	// an operation that is itself a reference
	files["https://api.example.com/docs/op.json"] = `{"operationId":"farOp","parameters":[{"$ref":"params.yaml#/Id"}]}`
	refs := parseDocument(t, documentText("3.0.3", "/x/{id}", `{"get":{"$ref":"op.json"},"put":{"$ref":"#/x-ops/near"},"post":{"$ref":"https://evil.example/op.json"},
		"delete":{"$ref":"#/x-ops/none"},"patch":{"$ref":"#/x-ops/text"}}`, `,"x-ops":{"near":{"operationId":"nearOp","parameters":[{"$ref":"params.yaml#/Id"}]},"text":"x"}`))
	require.Equal(t, "PUT", refs.Method("nearOp"))
	require.Empty(t, refs.Method("farOp"), "its file has not been read")
	for id, method := range map[string]string{"farOp": "GET", "GET /x/{id}": "GET", "nearOp": "PUT"} {
		op, err := refs.Operation(t.Context(), id, fetch)
		require.NoError(t, err, id)
		require.Equal(t, method, op.Method)
		_, err = buildRequest(t, op, `{"id":"x"}`)
		require.ErrorContains(t, err, "params.id: want a whole number, got a string", id)
	}
	for id, says := range map[string]string{
		"POST /x/{id}":   `operation "POST /x/{id}": the reference "https://evil.example/op.json" leaves the origin`,
		"DELETE /x/{id}": `operation "DELETE /x/{id}": the reference "#/x-ops/none" leads to nothing`,
		"PATCH /x/{id}":  `operation "PATCH /x/{id}": is a reference to something that is no operation`,
	} {
		_, err := refs.Operation(t.Context(), id, fetch)
		require.ErrorContains(t, err, says)
	}

	for ref, says := range map[string]string{
		"http://api.example.com/docs/a.json":     "leaves the origin",
		"https://evil.example/a.json":            "leaves the origin",
		"//evil.example/a.json":                  "leaves the origin",
		"https://u:p@api.example.com/a.json":     "leaves the origin",
		"file:///etc/passwd":                     "leaves the origin",
		"https://api.example.com:8443/a.json":    "leaves the origin",
		"missing.json":                           "no such file",
		"params.yaml#Id":                         "to an anchor",
		"params.yaml#/Nothing":                   "leads to nothing",
		"http://%zz":                             "is no URL",
		"https://api.example.com@evil.example/a": "leaves the origin",
	} {
		d := parseDocument(t, documentText("3.0.3", "/x", `{"get":{"operationId":"op","parameters":[{"$ref":"`+ref+`"}]}}`, ""))
		_, err := d.Operation(t.Context(), "op", fetch)
		require.ErrorContains(t, err, says, ref)
	}
	nowhere, err := Parse([]byte(documentText("3.0.3", "/x", `{"get":{"operationId":"op","parameters":[{"$ref":"params.yaml#/Id"}]}}`, "")), nil)
	require.NoError(t, err)
	_, err = nowhere.Operation(t.Context(), "op", fetch)
	require.ErrorContains(t, err, "the document has no address")

	var many []string
	for i := range 40 {
		many = append(many, fmt.Sprintf(`{"$ref":"f%d.json"}`, i))
	}
	d = parseDocument(t, documentText("3.0.3", "/x", `{"get":{"operationId":"op","parameters":[`+strings.Join(many, ",")+`]}}`, ""))
	count := 0
	_, err = d.Operation(t.Context(), "op", func(context.Context, *url.URL, int) ([]byte, error) {
		count++
		return fmt.Appendf(nil, `{"name":"p%d","in":"query"}`, count), nil
	})
	require.Equal(t, agent.CodeOverflow, agent.CodeOf(err))
	require.Equal(t, maxFiles, count)
}

// A document caches few operations, because each may contain most of the schemas.
func TestOperationCache(t *testing.T) {
	t.Parallel()
	var paths []string
	for i := range maxOperations + 10 {
		paths = append(paths, fmt.Sprintf(`"/p%d":{"get":{"operationId":"op%d","parameters":[{"name":"a","in":"query","schema":{"type":"string"}}]}}`, i, i))
	}
	d := parseDocument(t, `{"openapi":"3.1.0","paths":{`+strings.Join(paths, ",")+`}}`)
	first, err := d.Operation(t.Context(), "op0", nil)
	require.NoError(t, err)
	for i := range maxOperations + 10 {
		again, err := d.Operation(t.Context(), "op0", nil)
		require.NoError(t, err)
		require.Same(t, first, again, "an operation in use is not removed")
		_, err = d.Operation(t.Context(), fmt.Sprintf("op%d", i), nil)
		require.NoError(t, err)
	}
	require.Equal(t, maxOperations, d.cached.Len())
	require.Equal(t, maxOperations*first.weight, d.weight)
	d.cache("large", &Operation{weight: maxWeight - 1})
	require.Equal(t, 2, d.cached.Len())
	d.cache("larger", &Operation{weight: 2 * maxWeight})
	require.Equal(t, 1, d.cached.Len(), "the newest operation is never removed")
	require.Equal(t, 2*maxWeight, d.weight)
}
