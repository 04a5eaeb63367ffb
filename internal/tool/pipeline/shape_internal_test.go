package pipeline

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/schema"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// programOf parses steps. Steps without a source of rows get an input_ref.
func programOf(t *testing.T, steps string) *program {
	t.Helper()
	p, err := parse(fmt.Appendf(nil, `{"session_id":"s","pipeline":[%s]}`, steps))
	if err != nil {
		p, err = parse(fmt.Appendf(nil, `{"session_id":"s","input_ref":"cas://x","pipeline":[%s]}`, steps))
	}
	require.NoError(t, err, steps)
	return p
}

func documentOf(t *testing.T, steps string) document {
	t.Helper()
	d, ok := canonicalDocument(programOf(t, steps))
	require.True(t, ok, steps)
	return d
}

func textOfDocument(t *testing.T, d document) string {
	t.Helper()
	raw, err := d.encode()
	require.NoError(t, err)
	return string(raw)
}

func shapeOf(t *testing.T, d document) string {
	t.Helper()
	s, err := d.shape()
	require.NoError(t, err)
	require.Regexp(t, `^sha256:[0-9a-f]{64}$`, s)
	return s
}

func TestSameShape(t *testing.T) {
	get := func(rest string) string { return `{"step":"http_request","url":"https://h.example/f"` + rest + `}` }
	filter := func(c string) string { return `{"step":"table_filter","condition":` + c + `}` }
	test := func(field, op, value string) string {
		return fmt.Sprintf(`{"field":%q,"op":%q,"value":%s}`, field, op, value)
	}
	tests := map[string]struct {
		a, b string
		same bool
	}{
		"params":                   {get(`,"params":{"a":"x","b":1}`), get(`,"params":{"b":2,"a":"y"}`), true},
		"a query is params":        {get(`,"params":{"a":"x"}`), `{"step":"http_request","url":"https://h.example/f?a=y#top"}`, true},
		"half a query":             {get(`,"params":{"a":"x","b":"y"}`), `{"step":"http_request","url":"https://h.example/f?a=y","params":{"b":"z"}}`, true},
		"no scheme is https":       {get(``), `{"step":"http_request","url":"h.example/f"}`, true},
		"no param":                 {get(``), get(`,"params":{"a":null,"b":[]},"method":"GET"`), true},
		"a list of one":            {get(`,"params":{"a":"x"}`), get(`,"params":{"a":["y"]}`), true},
		"lists":                    {get(`,"params":{"a":["x","y"]}`), get(`,"params":{"a":["1","2","3"]}`), true},
		"a list and one":           {get(`,"params":{"a":["x","y"]}`), get(`,"params":{"a":"x"}`), false},
		"null is not given":        {`{"step":"top_k","k":1,"field":null,"params":null}`, `{"step":"top_k","k":2}`, true},
		"text and number":          {get(`,"params":{"a":"1"}`), get(`,"params":{"a":1}`), false},
		"names of params":          {get(`,"params":{"a":"x"}`), get(`,"params":{"b":"x"}`), false},
		"hosts":                    {get(``), `{"step":"http_request","url":"https://i.example/f"}`, false},
		"paths":                    {get(``), `{"step":"http_request","url":"https://h.example/g"}`, false},
		"schemes":                  {get(``), `{"step":"http_request","url":"http://h.example/f"}`, false},
		"k":                        {`{"step":"top_k","k":1}`, `{"step":"top_k","k":20.0}`, true},
		"one step more":            {`{"step":"top_k","k":1}`, `{"step":"top_k","k":1},{"step":"top_k","k":1}`, false},
		"ascending is the default": {`{"step":"table_sort","field":"a"}`, `{"step":"table_sort","order":"asc","field":"a"}`, true},
		"descending":               {`{"step":"table_sort","field":"a"}`, `{"step":"table_sort","order":"desc","field":"a"}`, false},
		"sorted fields":            {`{"step":"table_sort","field":"a"}`, `{"step":"table_sort","field":"b"}`, false},
		"compared values":          {filter(test("a", "<", "1")), filter(test("a", "<", "2.5")), true},
		"equal is equal":           {filter(test("a", "=", `"x"`)), filter(test("a", "==", `"y"`)), true},
		"operators":                {filter(test("a", "<", "1")), filter(test("a", "<=", "1")), false},
		"compared fields":          {filter(test("a", "<", "1")), filter(test("b", "<", "1")), false},
		"kinds of values":          {filter(test("a", "=", "1")), filter(test("a", "=", "true")), false},
		"null":                     {filter(test("a", "=", "null")), filter(test("a", "=", `"null"`)), false},
		"patterns":                 {filter(test("a", "matches", `"^x"`)), filter(test("a", "matches", `"^y"`)), false},
		"exists":                   {filter(test("a", "exists", "true")), filter(test("a", "exists", "false")), false},
		"in":                       {filter(test("a", "in", `["x"]`)), filter(test("a", "in", `["y","z"]`)), true},
		"in, mixed":                {filter(test("a", "in", `["x",1]`)), filter(test("a", "in", `["y",1]`)), false},
		"in, kinds":                {filter(test("a", "in", `[1]`)), filter(test("a", "in", `["1"]`)), false},
		"a list that is compared":  {filter(test("a", "=", `[1]`)), filter(test("a", "=", `[2]`)), false},
		"inner values":             {filter(`{"and":[{"not":` + test("a", "<", "1") + `},` + test("b", "=", "2") + `]}`), filter(`{"and":[{"not":` + test("a", "<", "3") + `},` + test("b", "=", "4") + `]}`), true},
		"order of parts":           {filter(`{"and":[` + test("a", "<", "1") + `,` + test("b", "<", "1") + `]}`), filter(`{"and":[` + test("b", "<", "1") + `,` + test("a", "<", "1") + `]}`), false},
		"and, or":                  {filter(`{"and":[` + test("a", "<", "1") + `]}`), filter(`{"or":[` + test("a", "<", "1") + `]}`), false},
		"selected fields":          {`{"step":"table_select","fields":["a"]}`, `{"step":"table_select","fields":["b"]}`, false},
		"groups":                   {`{"step":"groupby","by":["a"],"agg":"sum","field":"p"}`, `{"step":"groupby","by":["a"],"agg":"avg","field":"p"}`, false},
		"references":               {`{"step":"join","left":"cas://a","right":"cas://b","on":"id"}`, `{"step":"join","left":"cas://c","right":"artifact://d","on":"id","how":"inner"}`, true},
		"how":                      {`{"step":"join","right":"cas://b","on":"id"}`, `{"step":"join","right":"cas://b","on":"id","how":"left"}`, false},
		"on":                       {`{"step":"join","right":"cas://b","on":"id"}`, `{"step":"join","right":"cas://b","on":"no"}`, false},
		"jq":                       {`{"step":"jq_transform","query":".a"}`, `{"step":"jq_transform","query":".b"}`, false},
		"extracted":                {`{"step":"regex_extract","field":"a","pattern":"x"}`, `{"step":"regex_extract","field":"a","pattern":"y"}`, false},
		"formats":                  {`{"step":"parse_date","field":"a","format":"%Y"}`, `{"step":"parse_date","field":"a","format":"%y"}`, false},
		"how a text is written":    {`{"step":"table_sort","field":"A"}`, `{"step":"table_sort","field":"\u0041"}`, true},
		"a text and a list":        {filter(test("a", "=", `"x"`)), filter(test("a", "=", `["x"]`)), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a, b := shapeOf(t, documentOf(t, tt.a)), shapeOf(t, documentOf(t, tt.b))
			require.Equal(t, tt.same, a == b)
		})
	}
}

func TestNotPromoted(t *testing.T) {
	for name, steps := range map[string]string{
		"effects":            `{"step":"http_request","url":"https://h.example/f","method":"POST"}`,
		"a user in a URL":    `{"step":"http_request","url":"https://me:secret@h.example/f"}`,
		"an object compared": `{"step":"table_filter","condition":{"or":[{"not":{"field":"a","op":"=","value":{"$parameter":"x"}}}]}}`,
		"too long":           `{"step":"table_filter","condition":{"field":"a","op":"contains","value":"` + strings.Repeat("x", maxDocument) + `"}}`,
		"no steps":           ``,
	} {
		_, ok := canonicalDocument(programOf(t, steps))
		require.False(t, ok, name)
	}
}

// author writes random pipelines. Those with equal random numbers for the structure have the same shape.
type author struct{ structure, literals *rand.Rand }

func (a author) pick(choices ...string) string { return choices[a.structure.IntN(len(choices))] }

func (a author) text() string {
	runes := []rune("aZ09 _-&=+%?#/\\\"'<>é漢\u2028\n😀")
	var b strings.Builder
	for range a.literals.IntN(6) {
		b.WriteRune(runes[a.literals.IntN(len(runes))])
	}
	raw, _ := json.Marshal(b.String())
	return string(raw)
}

func (a author) number() string {
	return []string{"0", "-1", "500", "499.50", "1e3", "9007199254740993", "0.10", "-0.0", "12E-2"}[a.literals.IntN(9)]
}

func (a author) boolean() string { return []string{"true", "false"}[a.literals.IntN(2)] }

func (a author) scalar() string {
	switch a.structure.IntN(3) {
	case 0:
		return a.text()
	case 1:
		return a.number()
	default:
		return a.boolean()
	}
}

func (a author) list(minLen int, element func() string) string {
	var parts []string
	for range minLen + a.literals.IntN(3) {
		parts = append(parts, element())
	}
	return "[" + strings.Join(parts, ",") + "]"
}

func (a author) condition(depth int) string {
	if depth > 0 {
		switch a.structure.IntN(4) {
		case 0:
			return fmt.Sprintf(`{"and":[%s,%s]}`, a.condition(depth-1), a.condition(depth-1))
		case 1:
			return fmt.Sprintf(`{"or":[%s]}`, a.condition(depth-1))
		case 2:
			return fmt.Sprintf(`{"not":%s}`, a.condition(depth-1))
		}
	}
	field := a.pick("price", "price.total", "a b", "Größe")
	switch a.structure.IntN(5) {
	case 0:
		return fmt.Sprintf(`{"field":%q,"op":%q,"value":%s}`, field, a.pick("<", "<=", ">", ">="), a.number())
	case 1:
		return fmt.Sprintf(`{"field":%q,"op":"in","value":%s}`, field, a.list(1, a.text))
	case 2:
		return fmt.Sprintf(`{"field":%q,"op":"contains","value":%s}`, field, a.text())
	case 3:
		return fmt.Sprintf(`{"field":%q,"op":%q,"value":%s}`, field, a.pick("matches", "exists"), "true")
	default:
		return fmt.Sprintf(`{"field":%q,"op":%q,"value":%s}`, field, a.pick("=", "==", "!="), a.scalar())
	}
}

func (a author) steps() string {
	var steps []string
	switch a.structure.IntN(3) {
	case 0:
		var params []string
		for _, name := range []string{"origin", "departureDate", "filter[x]", "q", "ünï"}[:a.structure.IntN(6)] {
			value := a.scalar()
			if a.structure.IntN(4) == 0 {
				value = a.list(2, a.number)
			}
			params = append(params, fmt.Sprintf("%q:%s", name, value))
		}
		steps = append(steps, fmt.Sprintf(`{"step":"http_request","url":%q,"params":{%s}}`, "h.example/v1/"+a.pick("flights", "f%20x", "")+a.pick("", "?z=1", "?q=2&q=3"), strings.Join(params, ",")))
	case 1:
		steps = append(steps, fmt.Sprintf(`{"step":"join","left":"cas://%d","right":"cas://%d","on":"id"}`, a.literals.IntN(9), a.literals.IntN(9)))
	}
	for range 1 + a.structure.IntN(4) {
		switch a.structure.IntN(4) {
		case 0:
			steps = append(steps, fmt.Sprintf(`{"step":"top_k","k":%d}`, 1+a.literals.IntN(50)))
		case 1:
			steps = append(steps, fmt.Sprintf(`{"condition":%s,"step":"table_filter"}`, strings.ReplaceAll(a.condition(3), `"op":"matches","value":true`, `"op":"matches","value":"^x"`)))
		case 2:
			steps = append(steps, fmt.Sprintf(`{"step":"table_sort","field":%q,"order":%q}`, a.pick("a", "b"), a.pick("asc", "desc")))
		default:
			steps = append(steps, fmt.Sprintf(`{"step":"join","right":"cas://%d","on":"id","left":null}`, a.literals.IntN(9)))
		}
	}
	return strings.Join(steps, ",")
}

// argumentsOf returns the arguments with which a composite runs a pipeline of its shape.
func argumentsOf(t *testing.T, r *recipe, d document) json.RawMessage {
	t.Helper()
	places, err := r.pipeline.literals()
	require.NoError(t, err)
	values, err := d.literals()
	require.NoError(t, err)
	require.Len(t, values, len(places))
	args := map[string]json.RawMessage{}
	for i := range places {
		if places[i].kind == literalParameter {
			args[parameterName(places[i].value)] = values[i].value
		}
	}
	if !d.hasSource() {
		args[inputRef] = json.RawMessage(`"cas://x"`)
	}
	raw, err := tool.EncodeJSON(args)
	require.NoError(t, err)
	return raw
}

func recipeOf(t *testing.T, c *agent.Composite) *recipe {
	t.Helper()
	r, err := readRecipe(c)
	require.NoError(t, err)
	return r
}

// fillRecipe returns the pipeline that a composite runs for arguments.
func fillRecipe(t *testing.T, r *recipe, args json.RawMessage) (*program, document) {
	t.Helper()
	raw, err := r.executeArguments(args, "s", schema.New())
	require.NoError(t, err, "%s", args)
	p, err := parse(raw)
	require.NoError(t, err, "%s", raw)
	d, ok := canonicalDocument(p)
	require.True(t, ok)
	return p, d
}

func requestURL(p *program) string {
	if r, ok := p.steps[0].step.(*httpRequest); ok {
		return r.url.String()
	}
	return ""
}

// TestCompositeReproducesPipelines checks that a composite with the literals of any pipeline of its shape as arguments runs that pipeline, with
// the same request.
func TestCompositeReproducesPipelines(t *testing.T) {
	t.Parallel()
	for seed := range uint64(120) {
		steps := func(literals uint64) string {
			return author{rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, literals))}.steps()
		}
		programs, docs := make([]*program, 3), make([]document, 3)
		for i := range docs {
			programs[i] = programOf(t, steps(uint64(i)+2))
			docs[i] = documentOf(t, steps(uint64(i)+2))
			require.Equal(t, shapeOf(t, docs[0]), shapeOf(t, docs[i]), "seed %d", seed)
			require.Equal(t, textOfDocument(t, docs[i]), textOfDocument(t, documentOf(t, strings.Trim(textOfDocument(t, docs[i]), "[]"))), "seed %d: it is canonical", seed)
		}
		c, ok := buildComposite(docs[:2])
		require.True(t, ok, "seed %d", seed)
		require.Regexp(t, `^[a-z][a-z0-9_]{0,59}$`, c.Name)
		require.LessOrEqual(t, len(c.Description), maxDescription)
		first := recipeOf(t, &c)
		for i := range 2 {
			p, d := fillRecipe(t, first, argumentsOf(t, first, docs[i]))
			require.Equal(t, textOfDocument(t, docs[i]), textOfDocument(t, d), "seed %d", seed)
			require.Equal(t, requestURL(programs[i]), requestURL(p), "seed %d", seed)
		}
		next, ok := extendComposite(&c, docs)
		if !ok {
			next = c
		} else {
			require.EqualValues(t, 2, next.Version)
		}
		second := recipeOf(t, &next)
		for i := range 3 {
			p, d := fillRecipe(t, second, argumentsOf(t, second, docs[i]))
			require.Equal(t, textOfDocument(t, docs[i]), textOfDocument(t, d), "seed %d", seed)
			require.Equal(t, requestURL(programs[i]), requestURL(p), "seed %d", seed)
		}
		for i := range 2 {
			_, d := fillRecipe(t, second, argumentsOf(t, first, docs[i]))
			require.Equal(t, textOfDocument(t, docs[i]), textOfDocument(t, d), "seed %d: earlier callers stay right", seed)
		}
		_, again := extendComposite(&next, docs)
		require.False(t, again, "seed %d: there is nothing more to grow", seed)
	}
}

// FuzzShape checks that the canonical form of any pipeline means the same, is stable, and can become a composite.
func FuzzShape(f *testing.F) {
	f.Add([]byte(`{"session_id":"s","pipeline":[{"step":"http_request","url":"h.example/f?a=%zz&b=1;c&b=2","params":{"b":[3,"x"],"a":null}},{"step":"top_k","k":3}]}`))
	f.Add([]byte(`{"session_id":"s","input_ref":"x","pipeline":[{"step":"table_filter","condition":{"not":{"and":[{"field":"a","op":"in","value":["1"]},{"field":"b","op":"==","value":{"$parameter":"a"}}]}}}]}`))
	f.Add([]byte(`{"session_id":"s","pipeline":[{"step":"join","left":"a","right":"b","on":"a=b,c","how":"inner"},{"step":"groupby","by":["x"],"fields":["sum(price) as t"]}]}`))
	f.Fuzz(func(t *testing.T, args []byte) {
		p, err := parse(args)
		if err != nil {
			return
		}
		d, ok := canonicalDocument(p)
		if !ok {
			return
		}
		c, ok := buildComposite([]document{d})
		if !ok {
			return
		}
		r := recipeOf(t, &c)
		again, same := fillRecipe(t, r, argumentsOf(t, r, d))
		require.Equal(t, textOfDocument(t, d), textOfDocument(t, same))
		require.Equal(t, shapeOf(t, d), shapeOf(t, same))
		require.Equal(t, requestURL(p), requestURL(again))
		require.True(t, json.Valid(c.Parameters))
	})
}
