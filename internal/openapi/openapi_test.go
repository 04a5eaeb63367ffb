package openapi

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

func parseURL(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	require.NoError(t, err)
	return u
}

// parseDocument parses a document whose address is https://api.example.com/docs/openapi.json.
func parseDocument(t *testing.T, text string) *Document {
	t.Helper()
	d, err := Parse([]byte(text), parseURL(t, "https://api.example.com/docs/openapi.json"))
	require.NoError(t, err)
	return d
}

// documentText returns a document with one path; version is 3.0.3 or 3.1.0, rest contains further members of the document.
func documentText(version, path, item, rest string) string {
	return `{"openapi":"` + version + `","info":{"title":"t","version":"1"},"paths":{"` + path + `":` + item + `}` + rest + `}`
}

func loadOperation(t *testing.T, text, id string) *Operation {
	t.Helper()
	op, err := parseDocument(t, text).Operation(t.Context(), id, nil)
	require.NoError(t, err)
	return op
}

func decodeParams(t *testing.T, text string) map[string]any {
	t.Helper()
	v, err := DecodeJSON([]byte(text))
	require.NoError(t, err)
	m, ok := v.(map[string]any)
	require.True(t, ok)
	return m
}

// buildRequest builds a request of an operation from parameters in JSON.
func buildRequest(t *testing.T, op *Operation, params string) (*Request, error) {
	t.Helper()
	return op.Request(t.Context(), Input{Params: decodeParams(t, params), Order: MemberOrder([]byte(params))})
}

// The examples of the specification's table (3.0.4 and 3.1.1, "Style Examples"), and others.
func TestStyles(t *testing.T) {
	t.Parallel()
	const list, object = `["blue","black","brown"]`, `{"R":100,"G":200,"B":150}`
	for _, c := range []struct{ in, style, explode, value, want string }{
		{"path", "", "", `"blue"`, "blue"},
		{"path", "simple", "false", list, "blue,black,brown"},
		{"path", "simple", "true", list, "blue,black,brown"},
		{"path", "simple", "false", object, "R,100,G,200,B,150"},
		{"path", "simple", "true", object, "R=100,G=200,B=150"},
		{"path", "label", "", `"blue"`, ".blue"},
		{"path", "label", "", `""`, "!params.color: has a segment"},
		{"path", "label", "false", list, ".blue,black,brown"},
		{"path", "label", "true", list, ".blue.black.brown"},
		{"path", "label", "false", object, ".R,100,G,200,B,150"},
		{"path", "label", "true", object, ".R=100.G=200.B=150"},
		{"path", "matrix", "", `"blue"`, ";color=blue"},
		{"path", "matrix", "", `""`, ";color"},
		{"path", "matrix", "false", list, ";color=blue,black,brown"},
		{"path", "matrix", "true", list, ";color=blue;color=black;color=brown"},
		{"path", "matrix", "false", object, ";color=R,100,G,200,B,150"},
		{"path", "matrix", "true", object, ";R=100;G=200;B=150"},
		{"path", "", "", `"a/b?c#d%é"`, "a%2Fb%3Fc%23d%25%C3%A9"},
		{"path", "form", "", `"x"`, "!the style"},
		{"path", "", "", `""`, "!params.color: is empty"},
		{"path", "", "", `".."`, "!params.color: has a segment"},
		{"path", "", "", `"../../admin"`, "!params.color: has a segment"},
		{"path", "", "", `"%2e%2e"`, "!params.color: has a segment"},
		{"path", "", "", `"..\\admin"`, "!params.color: has a segment"},
		{"path", "", "", `"a..b"`, "a..b"},

		{"query", "", "", `"blue"`, "color=blue"},
		{"query", "", "", `""`, "color="},
		{"query", "", "", `true`, "color=true"},
		{"query", "", "", `1.50e3`, "color=1.50e3"},
		{"query", "form", "true", list, "color=blue&color=black&color=brown"},
		{"query", "form", "false", list, "color=blue,black,brown"},
		{"query", "form", "true", object, "R=100&G=200&B=150"},
		{"query", "form", "false", object, "color=R,100,G,200,B,150"},
		{"query", "form", "", list, "color=blue&color=black&color=brown"},
		{"query", "form", "", `[]`, ""},
		{"query", "spaceDelimited", "", list, "color=blue%20black%20brown"},
		{"query", "spaceDelimited", "false", object, "color=R%20100%20G%20200%20B%20150"},
		{"query", "pipeDelimited", "", list, "color=blue%7Cblack%7Cbrown"},
		{"query", "pipeDelimited", "true", list, "color=blue&color=black&color=brown"},
		{"query", "spaceDelimited", "false", `["a","b c"]`, `!params.color[1]: holds " ", which divides the values here`},
		{"query", "spaceDelimited", "true", `["a","b c"]`, "color=a&color=b%20c"},
		{"query", "pipeDelimited", "false", `["a|b","c"]`, `!params.color[0]: holds "|"`},
		{"query", "pipeDelimited", "true", `["a|b"]`, "color=a%7Cb"},
		{"query", "pipeDelimited", "false", `{"R":"1|G|2"}`, `!params.color.R: holds "|"`},
		{"query", "pipeDelimited", "false", `{"R|G":1}`, `!params.color.R|G: holds "|"`},
		{"query", "pipeDelimited", "false", `["a,b","c d"]`, "color=a%2Cb%7Cc%20d"},
		{"query", "form", "false", `["a,b","c"]`, "color=a%2Cb,c"},
		{"path", "simple", "false", `["a,b","c"]`, "a%2Cb,c"},
		{"path", "label", "true", `["a","b.c"]`, `!params.color[1]: holds "."`},
		{"path", "label", "true", `{"a":1.5}`, `!params.color.a: holds "."`},
		{"path", "label", "false", `["a","b.c"]`, ".a,b.c"},
		{"path", "matrix", "true", `["a;b"]`, ";color=a%3Bb"},
		{"header", "", "", `["a","b,c"]`, `!params.color[1]: holds ","`},
		{"header", "simple", "true", `{"a":"b,c"}`, `!params.color.a: holds ","`},
		{"header", "", "", `"a,b"`, "a,b"},

		{"query", "deepObject", "true", object, "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150"},
		{"query", "deepObject", "", `{"a":{"b":[1,{"c":"x y"}]},"n":null}`, "color%5Ba%5D%5Bb%5D%5B0%5D=1&color%5Ba%5D%5Bb%5D%5B1%5D%5Bc%5D=x%20y"},
		{"query", "form", "", `{"a":{"b":1}}`, "!params.color.a: a list or object cannot be nested"},
		{"query", "form", "", `["a",["b"]]`, "!params.color[1]: a list or object cannot be nested"},
		{"query", "form", "", `"a&admin=1+2"`, "color=a%26admin%3D1%2B2"},

		{"header", "", "", list, "blue,black,brown"},
		{"header", "simple", "false", object, "R,100,G,200,B,150"},
		{"header", "simple", "true", object, "R=100,G=200,B=150"},
		{"header", "", "", `"a b/c"`, "a b/c"},
		{"header", "", "", `"a\r\nX-Evil: 1"`, "!params.color: has characters that no header may have"},

		{"cookie", "", "", `"blue"`, "color=blue"},
		{"cookie", "form", "false", list, "color=blue,black,brown"},
		{"cookie", "form", "true", list, "color=blue; color=black; color=brown"},
		{"cookie", "", "", `"a; admin=1"`, "color=a%3B%20admin%3D1"},
	} {
		name := strings.Join([]string{c.in, c.style, c.explode, c.value}, " ")
		p := `{"name":"color","in":"` + c.in + `","required":true`
		if c.style != "" {
			p += `,"style":"` + c.style + `"`
		}
		if c.explode != "" {
			p += `,"explode":` + c.explode
		}
		path := "/x"
		if c.in == "path" {
			path = "/x/{color}"
		}
		op := loadOperation(t, documentText("3.0.3", path, `{"get":{"operationId":"op","parameters":[`+p+`}],"responses":{}}}`, ""), "op")
		req, err := buildRequest(t, op, `{"color":`+c.value+`}`)
		if says, bad := strings.CutPrefix(c.want, "!"); bad {
			require.ErrorContains(t, err, says, name)
			require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
			continue
		}
		require.NoError(t, err, name)
		got := map[string]string{
			"path": strings.TrimPrefix(req.URL.EscapedPath(), "/x/"), "query": req.URL.RawQuery, "header": req.Header.Get("Color"), "cookie": req.Cookie,
		}
		require.Equal(t, c.want, got[c.in], name)
	}
}

func TestAllowReserved(t *testing.T) {
	t.Parallel()
	op := loadOperation(t, documentText("3.0.3", "/x", `{"get":{"operationId":"op","parameters":[{"name":"q","in":"query","allowReserved":true}]}}`, ""), "op")
	req, err := buildRequest(t, op, `{"q":"a/b:c?d&e=f#g+h%"}`)
	require.NoError(t, err)
	require.Equal(t, "q=a/b:c?d%26e=f%23g%2Bh%25", req.URL.RawQuery, "characters that would end the value are escaped")

	list := loadOperation(t, documentText("3.0.3", "/x", `{"get":{"operationId":"op","parameters":[{"name":"q","in":"query","allowReserved":true,"explode":false}]}}`, ""), "op")
	_, err = buildRequest(t, list, `{"q":["a","b,c"]}`)
	require.ErrorContains(t, err, `params.q[1]: holds ","`)
	_, err = buildRequest(t, list, `{"q":"a,b"}`)
	require.NoError(t, err, "a comma in a single value is allowed")
}

func TestContentParameter(t *testing.T) {
	t.Parallel()
	op := loadOperation(t, documentText("3.0.3", "/x", `{"get":{"operationId":"op","parameters":[
		{"name":"filter","in":"query","content":{"application/json":{"schema":{"type":"object","properties":{"n":{"type":"integer"}}}}}}]}}`, ""), "op")
	req, err := buildRequest(t, op, `{"filter":{"n":1,"a":[{"b":"<"}]}}`)
	require.NoError(t, err)
	require.JSONEq(t, `{"a":[{"b":"<"}],"n":1}`, req.URL.Query().Get("filter"))
	_, err = buildRequest(t, op, `{"filter":{"n":"x"}}`)
	require.ErrorContains(t, err, "params.filter.n: want a whole number, got a string")
}

const users = `{"parameters":[{"$ref":"#/components/parameters/Id"},{"name":"X-Trace","in":"header","schema":{"type":"string","maxLength":3}}],
"get":{"operationId":"getUser","parameters":[
 {"name":"id","in":"query","schema":{"type":"integer"}},{"name":"id","in":"path","required":true,"schema":{"type":"integer"}},
 {"name":"sort","in":"query","required":true,"description":"How the\n rows are ordered","schema":{"type":"string","enum":["asc","desc"]}},
 {"name":"Authorization","in":"header","required":true,"schema":{"type":"string"}},{"name":"accept","in":"header","required":true,"schema":{"$ref":"#/nowhere"}},
 {"name":"CONTENT-TYPE","in":"header","required":true,"schema":{"type":"string"}},{"name":"Host","in":"header","schema":{"type":"string"}},
 {"name":"api_key","in":"query","required":true,"schema":{"type":"string"}}],
 "responses":{"default":{"description":""}}}}`

const usersRest = `,"security":[{"key":[]}],"components":{"parameters":{"Id":{"name":"id","in":"path","required":true,"schema":{"type":"string"}}},
"securitySchemes":{"key":{"type":"apiKey","in":"query","name":"api_key"}}},"servers":[{"url":"/v2/"}]`

func TestParameters(t *testing.T) {
	t.Parallel()
	op := loadOperation(t, documentText("3.0.3", "/users/{id}", users, usersRest), "getUser")
	req, err := buildRequest(t, op, `{"path.id":7,"query.id":8,"sort":"asc","X-Trace":"abc","header.X-Trace":null}`)
	require.NoError(t, err)
	require.Equal(t, "https://api.example.com/v2/users/7?id=8&sort=asc", req.URL.String(), "the operation overrides the parameter of the path")
	require.Equal(t, "abc", req.Header.Get("X-Trace"))

	req, err = buildRequest(t, op, `{"path.id":7,"sort":"asc","Authorization":"Bearer x","Accept":"text/html","header.content-type":"text/html"}`)
	require.NoError(t, err)
	require.Equal(t, http.Header{"Accept": {"application/json, */*;q=0.5"}}, req.Header)
	require.Equal(t, []string{
		"params.Accept is ignored: the runtime sets that header", "params.Authorization is ignored: the runtime sets that header",
		"params.header.content-type is ignored: the runtime sets that header",
	}, req.Warnings)

	for params, says := range map[string][]string{
		`{}`: {
			`params.path.id is required (path, integer)`, `params.sort is required (query, string: How the rows are ordered)`,
		},
		`{"id":1,"sort":"asc"}`:                          {`params.id: there are several parameters of that name: give "query.id", "path.id"`},
		`{"path.id":"x","sort":"up"}`:                    {`params.id: want a whole number, got a string`, `params.sort: want one of "asc", "desc"`},
		`{"path.id":1,"sort":"asc","srot":1}`:            {`params.srot: the operation has no such parameter; did you mean "sort"?`},
		`{"path.id":1,"sort":"asc","Host":"x"}`:          {`params.Host: is set by the runtime`},
		`{"path.id":1,"sort":"asc","query.api_key":1}`:   {`params.query.api_key: is set by the runtime`},
		`{"path.id":1,"sort":"asc","X-Trace":"abcd"}`:    {`params.X-Trace: `, `3`},
		`{"path.id":1,"sort":"asc","header.Cookie":"a"}`: {`params.header.Cookie: the operation has no such parameter`},
	} {
		_, err := buildRequest(t, op, params)
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err), params)
		require.Equal(t, "params", agent.FailureOf(err).Field)
		for _, text := range says {
			require.ErrorContains(t, err, text, params)
		}
		require.NotContains(t, err.Error(), "api_key is required")
		require.NotContains(t, strings.ToLower(err.Error()), "authorization")
	}
	req, err = op.Request(t.Context(), Input{Params: decodeParams(t, `{"path.id":"x","sort":"up"}`), Unchecked: true})
	require.NoError(t, err)
	require.Equal(t, "/v2/users/x", req.URL.Path)
}

func TestLenientValues(t *testing.T) {
	t.Parallel()
	op := loadOperation(t, documentText("3.0.3", "/x", `{"get":{"operationId":"op","parameters":[
		{"name":"n","in":"query","schema":{"type":"integer"}},{"name":"s","in":"query","schema":{"type":"string"}},
		{"name":"b","in":"query","schema":{"type":"boolean"}},{"name":"l","in":"query","schema":{"type":"array","items":{"type":"string"}}}]}}`, ""), "op")
	req, err := buildRequest(t, op, `{"n":"5","s":7,"b":"true","l":"x"}`)
	require.NoError(t, err)
	require.Equal(t, "n=5&s=7&b=true&l=x", req.URL.RawQuery)
	_, err = buildRequest(t, op, `{"n":"five"}`)
	require.ErrorContains(t, err, "params.n: want a whole number, got a string")
}

func TestServers(t *testing.T) {
	t.Parallel()
	doc := func(servers string) string {
		return documentText("3.0.3", "/x", `{"get":{"operationId":"op"}}`, `,"servers":`+servers)
	}
	variables := `[{"url":"https://{region}.example.com:{port}/v{version}/","variables":{"region":{"default":"eu","enum":["eu","us"]},
		"port":{"default":"443"},"version":{"default":"1"}}},{"url":"https://second.example.com"}]`
	for _, c := range []struct {
		servers string
		choice  Server
		want    string
	}{
		{`[]`, Server{}, "https://api.example.com/x"},
		{`[{"url":"/base"}]`, Server{}, "https://api.example.com/base/x"},
		{`[{"url":"../v3"}]`, Server{}, "https://api.example.com/v3/x"},
		{`[{"url":"//other.example.com/b/"}]`, Server{}, "https://other.example.com/b/x"},
		{`[{"url":"https://h.example?tenant=1"}]`, Server{}, "https://h.example/x?tenant=1"},
		{variables, Server{}, "https://eu.example.com:443/v1/x"},
		{variables, Server{Variables: map[string]string{"region": "us", "version": "2"}}, "https://us.example.com:443/v2/x"},
		{variables, Server{Variables: map[string]string{"region": "moon"}}, `!servers: the variable "region" is "moon": want one of "eu", "us"`},
		{variables, Server{Variables: map[string]string{"zone": "a"}}, `!has no variable "zone"`},
		{variables, Server{URL: "https://{where}.test/", Variables: map[string]string{"where": "here"}}, "https://here.test/x"},
		{`[{"url":"https://{x}/"}]`, Server{}, `!has a variable {x} without a value`},
		{`[{"url":"file:///etc"}]`, Server{}, `!is no http or https URL`},
		{`[{"url":"gopher://h/"}]`, Server{}, `!is no http or https URL`},
		{`[{"url":"https://h.example/%zz"}]`, Server{}, `!is no URL`},
	} {
		req, err := loadOperation(t, doc(c.servers), "op").Request(t.Context(), Input{Server: c.choice})
		if says, bad := strings.CutPrefix(c.want, "!"); bad {
			require.ErrorContains(t, err, says, c.servers)
			continue
		}
		require.NoError(t, err, c.servers)
		require.Equal(t, c.want, req.URL.String())
	}
	d, err := Parse([]byte(doc(`[{"url":"/base"}]`)), nil)
	require.NoError(t, err)
	op, err := d.Operation(t.Context(), "op", nil)
	require.NoError(t, err)
	_, err = op.Request(t.Context(), Input{})
	require.ErrorContains(t, err, "is relative, and the document has no address")

	nearest := documentText("3.0.3", "/x", `{"servers":[{"url":"https://path.example"}],"get":{"operationId":"a"},
		"put":{"operationId":"b","servers":[{"url":"https://op.example"}]}}`, `,"servers":[{"url":"https://doc.example"}]`)
	for id, want := range map[string]string{"a": "https://path.example/x", "b": "https://op.example/x"} {
		req, err := loadOperation(t, nearest, id).Request(t.Context(), Input{})
		require.NoError(t, err)
		require.Equal(t, want, req.URL.String())
	}
}
