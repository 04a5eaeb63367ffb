package openapi

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"mime"
	"mime/multipart"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

func bodyOperation(t *testing.T, requestBody string) *Operation {
	t.Helper()
	return loadOperation(t, documentText("3.0.3", "/x/{id}", `{"post":{"operationId":"op","parameters":[{"name":"id","in":"path","required":true}],
		"requestBody":`+requestBody+`}}`, ""), "op")
}

// The request body is found among the parameters.
func TestBody(t *testing.T) {
	t.Parallel()
	const object = `{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"tags":{"type":"array","items":{"type":"string"}},
		"ro":{"type":"string","readOnly":true}}}`
	js := func(schema string) string {
		return `{"required":true,"content":{"application/json":{"schema":` + schema + `}}}`
	}
	for _, c := range []struct{ body, params, want string }{
		{js(object), `{"id":1,"name":"x","tags":["a<b"]}`, `{"name":"x","tags":["a<b"]}`},
		{js(object), `{"id":1,"body":{"name":"x","more":1}}`, `{"more":1,"name":"x"}`},
		{js(object), `{"id":1,"requestBody":{"name":"x"}}`, `{"name":"x"}`},
		{js(object), `{"id":1,"body":{"name":"x"},"requestBody":{"name":"y"}}`, "!params.requestBody: the body is given as params.body already: give one of them"},
		{js(`{"type":"array"}`), `{"id":1,"body":[],"requestBody":[]}`, "!params.requestBody: the body is given"},
		{js(`{"type":"object","properties":{"body":{"type":"string"}}}`), `{"id":1,"requestBody":{"body":"x"}}`, `{"body":"x"}`},
		{
			js(`{"type":"object","properties":{"body":{"type":"string"}}}`), `{"id":1,"requestBody":{"body":"x"},"body":"y"}`,
			"!params.body: the operation has no such parameter",
		},
		{js(object), `{"id":1,"body":{"name":"x"},"tags":[]}`, "!params.tags: the operation has no such parameter"},
		{js(object), `{"id":1,"nmae":"x","name":"y"}`, `!params.nmae: the operation has no such parameter; did you mean "name"`},
		{js(object), `{"id":1}`, "!params: params.name: is required"},
		{js(object), `{"id":1,"name":5}`, "!params.name: want a string, got a number"},
		{js(object), `{"id":1,"name":"x","ro":"y"}`, "!params.ro: is not allowed here"},
		{js(`{"type":"object"}`), `{"id":1,"any":{"thing":1.50}}`, `{"any":{"thing":1.50}}`},
		{js(`{}`), `{"id":1,"body":[1,null]}`, `[1,null]`},
		{js(`{"type":"array","items":{"type":"integer"}}`), `{"id":1,"body":[1,"x"]}`, "!params.body[1]: want a whole number, got a string"},
		{js(`{"type":"array"}`), `{"id":1}`, "!params.body is required (application/json)"},
		{js(`{"type":"array"}`), `{"id":1,"x":1}`, "!params.x: the operation has no such parameter"},
		{`{"content":{"application/json":{"schema":` + object + `}}}`, `{"id":1}`, ""},
		{js(`{"type":"object","properties":{"body":{"type":"string"},"to":{"type":"string"}}}`), `{"id":1,"body":"hello","to":"me"}`, `{"body":"hello","to":"me"}`},
		{`{"content":{"application/vnd.api+json":{}}}`, `{"id":1,"body":1}`, `1`},
		{`{"content":{"text/plain":{"schema":{"type":"string","maxLength":3}}}}`, `{"id":1,"body":"abc"}`, `abc`},
		{`{"content":{"text/plain":{"schema":{"type":"string","maxLength":3}}}}`, `{"id":1,"body":"abcd"}`, `!params.body: `},
		{`{"content":{"application/xml":{}}}`, `{"id":1,"body":{"a":1}}`, `!params.body: a list or object cannot be nested here: give the text`},
		{`{"content":{"application/octet-stream":{}}}`, `{"id":1,"body":"cas://sha256:1"}`, "stored\x00bytes"},
		{`{"content":{"application/octet-stream":{}}}`, `{"id":1,"body":{"base64":"AAE="}}`, "\x00\x01"},
		{`{"content":{"application/octet-stream":{}}}`, `{"id":1,"body":{"base64":"*"}}`, "!params.body.base64: is no base64"},
		{`{"content":{"application/octet-stream":{}}}`, `{"id":1,"body":{"ref":"cas://sha256:9"}}`, "!params.body: open"},
		{`{"content":{"application/octet-stream":{}}}`, `{"id":1,"body":[1]}`, "!params.body: give the content as text"},
		{`{"content":{"multipart/mixed":{}}}`, `{"id":1}`, "!of types that are not written: multipart/mixed"},

		{
			`{"content":{"application/x-www-form-urlencoded":{}}}`, `{"id":1,"body":{"a":"x y","b":[1,2],"c":{"d":1},"e":[{"f":1}],"g":null}}`,
			"a=x%20y&b=1&b=2&c=%7B%22d%22%3A1%7D&e=%5B%7B%22f%22%3A1%7D%5D",
		},
		{
			`{"content":{"application/x-www-form-urlencoded":{"encoding":{"expand":{"style":"deepObject","explode":true},"l":{"style":"pipeDelimited","explode":false},
			"r":{"allowReserved":true},"j":{"contentType":"application/json"}}}}}`,
			`{"id":1,"body":{"expand":["a","b.c"],"l":["x","y"],"r":"a/b","j":[1]}}`, "expand%5B0%5D=a&expand%5B1%5D=b.c&j=%5B1%5D&l=x%7Cy&r=a/b",
		},
		{
			`{"content":{"application/x-www-form-urlencoded":{"encoding":{"l":{"style":"pipeDelimited","explode":false}}}}}`,
			`{"id":1,"body":{"l":["x","y|z"]}}`, `!params.body.l[1]: holds "|"`,
		},
		{`{"content":{"application/x-www-form-urlencoded":{}}}`, `{"id":1,"body":[1]}`, "!params.body: a form is an object"},
	} {
		if strings.Contains(c.want, "not written") {
			_, err := parseDocument(t, documentText("3.0.3", "/x", `{"post":{"operationId":"op","requestBody":`+c.body+`}}`, "")).Operation(t.Context(), "op", nil)
			require.ErrorContains(t, err, c.want[1:])
			continue
		}
		req, err := bodyOperation(t, c.body).Request(t.Context(), Input{Params: decodeParams(t, c.params), Open: openStored})
		name := c.body + c.params
		if says, bad := strings.CutPrefix(c.want, "!"); bad {
			require.ErrorContains(t, err, says, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, c.want, string(req.Body), name)
		if c.want == "" {
			require.Empty(t, req.Header.Get("Content-Type"))
		}
	}
	req, err := buildRequest(t, bodyOperation(t, `{"content":{"text/plain":{},"application/x-www-form-urlencoded":{},"application/json;v=1":{}}}`), `{"id":1,"body":{}}`)
	require.NoError(t, err)
	require.Equal(t, "application/json;v=1", req.Header.Get("Content-Type"), "JSON is preferred")
}

func openStored(_ context.Context, ref string) (io.ReadCloser, error) {
	switch ref {
	case "cas://sha256:1":
		return io.NopCloser(strings.NewReader("stored\x00bytes")), nil
	case "cas://sha256:big":
		return io.NopCloser(bytes.NewReader(make([]byte, MaxBody+1))), nil
	default:
		return nil, agent.Errorf(agent.CodeNotFound, "", "there is no such content")
	}
}

// parseForm is a Node program that reads a form from standard input and lists its parts. Its parser is stricter than Go's.
const parseForm = `const chunks=[]; process.stdin.on("data",c=>chunks.push(c)).on("end",async()=>{
	const form = await new Response(Buffer.concat(chunks),{headers:{"Content-Type":process.argv[1]}}).formData();
	console.log(JSON.stringify([...form].map(([k,v])=>typeof v==="string"?k+"|"+v:k+"|"+v.name+"|"+v.type)));
})`

func TestMultipart(t *testing.T) {
	t.Parallel()
	op := bodyOperation(t, `{"content":{"application/json":{},"multipart/form-data":{"schema":{"type":"object","required":["file"],"properties":{
		"file":{"type":"string","format":"binary"},"more":{"type":"array","items":{"type":"string","format":"binary"}},
		"meta":{"type":"object"},"n":{"type":"integer"},"tags":{"type":"array","items":{"type":"string"}},"note":{"type":"string","format":"binary"}}},
		"encoding":{"file":{"contentType":"image/png, image/jpeg"},"n":{"contentType":"text/x-number"}}}}}`)
	params := `{"id":1,"body":{"file":"cas://sha256:1","more":[{"base64":"` + base64.StdEncoding.EncodeToString([]byte("two")) + `","filename":"b c\"é.txt","content_type":"text/csv"}],
		"meta":{"a":[1]},"n":5,"tags":["x","y"],"note":"plain"}}`
	req, err := op.Request(t.Context(), Input{Params: decodeParams(t, params), Open: openStored})
	require.NoError(t, err)
	_, media, err := mime.ParseMediaType(req.Header.Get("Content-Type"))
	require.NoError(t, err)
	form := multipart.NewReader(bytes.NewReader(req.Body), media["boundary"])
	var got []string
	for {
		part, err := form.NextPart()
		if err == io.EOF { //nolint:errorlint // as documented
			break
		}
		require.NoError(t, err)
		content, err := io.ReadAll(part)
		require.NoError(t, err)
		got = append(got, strings.Join([]string{part.FormName(), part.FileName(), part.Header.Get("Content-Type"), string(content)}, "|"))
	}
	require.Equal(t, []string{
		"file|file|image/png|stored\x00bytes", `meta||application/json|{"a":[1]}`, `more|b c%22é.txt|text/csv|two`, "n||text/x-number|5",
		"note|note|application/octet-stream|plain", "tags|||x", "tags|||y",
	}, got)

	if node, err := exec.LookPath("node"); err != nil {
		t.Log("NODE IS NOT HERE: its parser of forms was not tried")
	} else {
		cmd := exec.CommandContext(t.Context(), node, "-e", parseForm, req.Header.Get("Content-Type"))
		cmd.Stdin = bytes.NewReader(req.Body)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.JSONEq(t, `["file|file|image/png","meta|{\"a\":[1]}","more|b c\"é.txt|text/csv","n|5","note|note|application/octet-stream","tags|x","tags|y"]`, string(out))
	}

	for params, says := range map[string]string{
		`{"id":1,"body":{"file":"cas://sha256:9"}}`:                                              "there is no such content",
		`{"id":1,"body":{"file":"cas://sha256:big"}}`:                                            "at most",
		`{"id":1,"body":{"file":"cas://sha256:1","n":"x"}}`:                                      "params.body.n: want a whole number, got a string",
		`{"id":1,"body":{"more":["cas://sha256:1"],"file":{"base64":"","content_type":"a\nb"}}}`: "that no header may have",
	} {
		_, err := op.Request(t.Context(), Input{Params: decodeParams(t, params), Open: openStored})
		require.ErrorContains(t, err, says, params)
	}
	_, err = buildRequest(t, op, `{"id":1,"body":{"file":"cas://sha256:1"}}`)
	require.ErrorContains(t, err, "there is no stored content here")
}

func TestRequestLimits(t *testing.T) {
	t.Parallel()
	op := bodyOperation(t, `{"content":{"application/json":{}}}`)
	_, err := op.Request(t.Context(), Input{Params: map[string]any{"id": "x", "body": strings.Repeat("x", MaxBody)}})
	require.Equal(t, agent.CodeOverflow, agent.CodeOf(err))
	_, err = op.Request(t.Context(), Input{Params: map[string]any{"id": strings.Repeat("x", MaxURL)}})
	require.Equal(t, agent.CodeOverflow, agent.CodeOf(err))
	header := loadOperation(t, documentText("3.0.3", "/x", `{"get":{"operationId":"op","parameters":[{"name":"h","in":"header"}]}}`, ""), "op")
	_, err = header.Request(t.Context(), Input{Params: map[string]any{"h": strings.Repeat("x", MaxHeader+1)}})
	require.ErrorContains(t, err, "makes the headers longer than")
}
