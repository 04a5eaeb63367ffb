package expr_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions/expr"
)

// decoded decodes JSON with float64 numbers or, if exact is set, with json.Number.
func decoded(t testing.TB, raw string, exact bool) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(raw))
	if exact {
		d.UseNumber()
	}
	var v any
	require.NoError(t, d.Decode(&v))
	return v
}

func TestEvalObject(t *testing.T) {
	const in = `{"price":450,"fare":{"amount":450.5,"currency":"USD"},"name":"Ann","nothing":null,"tags":["a","b"],"ok":true,"type":"x",
		"string":"s","size":"L","big":9007199254740993,"a-b":1,"row_count":3}`
	for source, want := range map[string]bool{
		`price < 500`:                              true,
		`price < 450`:                              false,
		`price <= 450.0`:                           true,
		`price == 450.0`:                           true,
		`price * 2 < 900.5`:                        true,
		`price * 1.1 > 494.9`:                      true,
		`price / 4 == 112.5`:                       true,
		`price % 100 == 50`:                        true,
		`fare.amount - 0.5 == price`:               true,
		`fare.amount + price > 900`:                true,
		`-price < 0`:                               true,
		`1 + 2 * 3 == 7`:                           true,
		`fare.currency == "USD"`:                   true,
		`missing < 500`:                            false,
		`missing >= 500`:                           false,
		`!(missing < 500)`:                         false,
		`missing < 500 || price < 500`:             true,
		`fare.missing < 1`:                         false,
		`fare.missing.deeper == 1`:                 false,
		`has(fare.amount)`:                         true,
		`has(fare.missing)`:                        false,
		`has(row.price)`:                           true,
		`has(row.missing)`:                         false,
		`nothing < 500`:                            false,
		`nothing == null`:                          true,
		`price != null`:                            true,
		`"a" in tags`:                              true,
		`tags.exists(t, t == "b")`:                 true,
		`tags.all(price, price != "c")`:            true,
		`tags.map(t, t + "!")[0] == "a!"`:          true,
		`tags.filter(t, t > "a").size() == 1`:      true,
		`tags.exists_one(t, t == "b")`:             true,
		`size(tags) == 2`:                          true,
		`tags[5] == "x"`:                           false,
		`ok`:                                       true,
		`!ok`:                                      false,
		`name.startsWith("A") && name.size() == 3`: true,
		`name.matches("^A.n$")`:                    true,
		`name.lowerAscii() == "ann"`:               true,
		`tags.join("-") == "a-b"`:                  true,
		`name.replace("n", "m") == "Amm"`:          true,
		`type == "x"`:                              true,
		`string == "s"`:                            true,
		`size == "L"`:                              true,
		`row["a-b"] == 1`:                          true,
		`input.price == 450`:                       true,
		`row_count > 2`:                            true,
		`steps.fetch.total == 7`:                   true,
		`steps.other.total == 7`:                   false,
		`run.workflow_tag == "main"`:               true,
		`timestamp("2026-01-01T00:00:00Z") + duration("1h") > timestamp("2026-01-01T00:30:00Z")`: true,
		`true`: true,
	} {
		p, err := expr.Compile(source)
		require.NoError(t, err, source)
		for _, exact := range []bool{false, true} {
			data := expr.Data{
				Input: decoded(t, in, exact), Run: map[string]any{"workflow_tag": "main"},
				Steps: map[string]any{"fetch": decoded(t, `{"total":7}`, exact)},
			}
			out, err := p.Eval(t.Context(), data)
			require.NoError(t, err, source)
			require.Equal(t, expr.Outcome{True: want}, out, source)
		}
	}
	p, err := expr.Compile(`big == 9007199254740993`)
	require.NoError(t, err)
	out, err := p.Eval(t.Context(), expr.Data{Input: decoded(t, in, true)})
	require.NoError(t, err)
	require.True(t, out.True, "whole numbers keep all their digits")
}

func TestEvalRows(t *testing.T) {
	const flights = `[{"id":1,"price":450},{"id":2,"price":700.5},{"id":3},{"id":4,"price":null},{"id":5,"price":"cheap"},{"id":6,"price":499.99}]`
	cases := map[string]struct {
		source, in, matching string
		failing              int // number of rows whose evaluation fails
	}{
		"a list":            {`price < 500`, flights, `[1,6]`, 1},
		"an object":         {`price < 500`, `{"rows":` + flights + `,"total":6}`, `[1,6]`, 1},
		"the other way":     {`!(price < 500)`, flights, `[2]`, 1},
		"none":              {`price < 1`, flights, `[]`, 1},
		"row":               {`has(row.price)`, flights, `[1,2,4,5,6]`, 0},
		"with input":        {`id == size(input)`, flights, `[6]`, 0},
		"with others":       {`price < run.limit`, flights, `[1]`, 1},
		"no rows":           {`price < 500`, `[]`, `[]`, 0},
		"no member":         {`fare < 500`, flights, `[]`, 0},
		"members of others": {`total == 6`, `{"rows":` + flights + `,"total":6}`, `[]`, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p, err := expr.Compile(c.source)
			require.NoError(t, err)
			require.True(t, p.PerRow())
			data := expr.Data{Input: decoded(t, c.in, true), Run: map[string]any{"limit": 460}}
			out, err := p.Eval(t.Context(), data)
			require.NoError(t, err)
			require.True(t, out.PerRow)
			require.Equal(t, len(out.Matching) > 0, out.True)
			require.JSONEq(t, c.matching, ids(t, out.Matching))
			rows, ok := data.Rows()
			require.True(t, ok)
			failing := 0
			for _, row := range rows {
				holds, err := p.Row(t.Context(), row, data)
				require.Equal(t, holds, contains(out.Matching, row))
				if err != nil {
					failing++
					require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
				}
			}
			require.Equal(t, c.failing, failing)
		})
	}
}

func contains(rows []any, row any) bool {
	return slices.ContainsFunc(rows, func(r any) bool { return r.(map[string]any)["id"] == row.(map[string]any)["id"] })
}

func ids(t *testing.T, rows []any) string {
	t.Helper()
	out := make([]any, len(rows))
	for i, r := range rows {
		out[i] = r.(map[string]any)["id"]
	}
	raw, err := json.Marshal(out)
	require.NoError(t, err)
	return string(raw)
}

func TestEvalWholeInput(t *testing.T) {
	for source, want := range map[string]bool{
		`size(input) == 2`:                       true,
		`size(input) > 2`:                        false,
		`input.exists(r, r.price < 500)`:         true,
		`input.all(r, r.price < 500)`:            false,
		`size(input) > 1 && run.x == 1`:          true,
		`input.map(r, r.price).exists(p, p > 1)`: true,
	} {
		p, err := expr.Compile(source)
		require.NoError(t, err, source)
		require.False(t, p.PerRow(), source)
		out, err := p.Eval(t.Context(), expr.Data{Input: decoded(t, `[{"price":450},{"price":700}]`, true), Run: map[string]any{"x": 1}})
		require.NoError(t, err)
		require.Equal(t, expr.Outcome{True: want}, out, source)
	}
	p, err := expr.Compile(`size(input) == 0`)
	require.NoError(t, err)
	out, err := p.Eval(t.Context(), expr.Data{Input: []any{}})
	require.NoError(t, err)
	require.True(t, out.True)
}

func TestEvalScalars(t *testing.T) {
	p, err := expr.Compile(`row > 1`)
	require.NoError(t, err)
	out, err := p.Eval(t.Context(), expr.Data{Input: []any{1, 2.5, "x", nil, true}})
	require.NoError(t, err)
	require.Equal(t, []any{2.5}, out.Matching)
	out, err = p.Eval(t.Context(), expr.Data{})
	require.NoError(t, err)
	require.False(t, out.True)
	p, err = expr.Compile(`price < 1`)
	require.NoError(t, err)
	for _, in := range []any{nil, "text", 1.5, true} {
		out, err = p.Eval(t.Context(), expr.Data{Input: in})
		require.NoError(t, err)
		require.False(t, out.True)
	}
}

func TestEvalErrors(t *testing.T) {
	for source, c := range map[string]struct{ in, message string }{
		`price < 500`:      {`{"price":"450"}`, "no such overload"},
		`price < 501`:      {`[{"price":"450"},{"price":"1"}]`, "no such overload"},
		`price`:            {`{"price":"450"}`, "is of type string, want true or false"},
		`1 / price == 2`:   {`{"price":0}`, "division by zero"},
		`1.5 / price == 2`: {`{"price":0}`, "division by zero"},
		`1.5 % price == 2`: {`{"price":0}`, "modulus by zero"},
		`a.all(x, a.all(y, a.all(z, x == y || y == z || true)))`: {
			`{"a":[` + strings.Repeat("1,", 400) + `1]}`, "cost limit",
		},
		`s.replace("", s) == ""`: {`{"s":"` + strings.Repeat("x", 10_000) + `"}`, "more than 1048576 bytes"},
		`l.join(s) == ""`:        {`{"l":["` + strings.Repeat(`","`, 200) + `"],"s":"` + strings.Repeat("x", 10_000) + `"}`, "more than 1048576 bytes"},
	} {
		p, err := expr.Compile(source)
		require.NoError(t, err, source)
		_, err = p.Eval(t.Context(), expr.Data{Input: decoded(t, c.in, true)})
		require.ErrorContains(t, err, c.message, source)
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
		require.Less(t, len(err.Error()), 1000)
	}
}

func TestCompileRefuses(t *testing.T) {
	for source, message := range map[string]string{
		``:                               "is empty",
		"  \n":                           "is empty",
		`price <`:                        "1:8: Syntax error",
		`price = 3`:                      "Syntax error",
		`price + 1 == `:                  "Syntax error",
		`"text"`:                         "is of type string, want true or false",
		`1`:                              "is of type int",
		`nosuch(price)`:                  "undeclared reference to 'nosuch'",
		`"a".matches("(")`:               "invalid matches argument",
		`duration("x") < duration("1h")`: "invalid duration argument",
		`"a" < 1`:                        "found no matching overload",
		strings.Repeat("a", 5000):        "is 5000 bytes, at most 4096",
		strings.Repeat("(", 300):         "recursion",
		`a.all(b, b.all(c, c.all(d, d.all(e, e.all(f, f)))))`: "nesting",
		`"a".indexOf("b") == 1`:                               "undeclared reference to 'indexOf'",
	} {
		_, err := expr.Compile(source)
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err), source)
		require.ErrorContains(t, err, message, source)
		require.Less(t, len(err.Error()), 2000)
	}
}

func TestRender(t *testing.T) {
	const one = `{"price":450,"half":0.5,"big":12345678901,"name":"Ann & <b>","nothing":null,"tags":["a",1,null],"o":{"b":1,"a":{"x":2.5}},"ok":true}`
	const rows = `{"rows":[{"price":450,"airline":"AA"},{"price":480,"airline":"UA"}]}`
	for text, c := range map[string]struct{ in, want string }{
		``:                                       {one, ``},
		`plain`:                                  {one, `plain`},
		`a } b {c} }}`:                           {one, `a } b {c} }}`},
		`{{price}}`:                              {one, `450`},
		`Now {{ price }} USD`:                    {one, `Now 450 USD`},
		`{{half}}{{big * 2}}`:                    {one, `0.524691357802`},
		`{{price / 4}}`:                          {one, `112.5`},
		`{{name}}`:                               {one, `Ann & <b>`},
		`[{{nothing}}{{gone}}]`:                  {one, `[]`},
		`{{gone.deeper}}!`:                       {one, `!`},
		`{{tags}} {{o}}`:                         {one, `["a",1,null] {"a":{"x":2.5},"b":1}`},
		`{{ok}} {{!ok}}`:                         {one, `true false`},
		`{{ price > 400 ? "dear" : "cheap" }}`:   {one, `dear`},
		`{{run.workflow_tag}}/{{steps.fetch.n}}`: {one, `main/7`},
		`{{ "{{" }}`:                             {one, `{{`},
		`{{airline}} {{row.price}}`:              {rows, `AA 450`},
		`{{size(input.rows)}}`:                   {rows, `2`},
		`{{input.rows.map(r, r.airline).join(", ")}}`: {rows, `AA, UA`},
		`{{ "%.2f".format([price]) }}`:                {rows, `450.00`},
		`{{airline}}!`:                                {`[]`, `!`},
		`{{input}}`:                                   {`"text"`, `text`},
		`{{duration("90s")}}`:                         {`null`, `90s`},
	} {
		p, err := expr.CompileTemplate(text)
		require.NoError(t, err, text)
		got, err := p.Render(t.Context(), expr.Data{
			Input: decoded(t, c.in, true), Run: map[string]any{"workflow_tag": "main"}, Steps: map[string]any{"fetch": map[string]any{"n": 7}},
		})
		require.NoError(t, err, text)
		require.Equal(t, c.want, got, text)
	}
}

func TestRenderURL(t *testing.T) {
	in := decoded(t, `{"id":"a/b..c?c=d&e #","base":"https://x.example/y","n":3,"up":"..","deep":"a/../b","back":"a\\..","dot":".","file":"v1.2..3","none":""}`, true)
	for text, want := range map[string]string{
		`https://x.example/{{id}}?n={{n}}`:       `https://x.example/a%2Fb..c%3Fc%3Dd%26e%20%23?n=3`,
		`{{base}}/{{n}}`:                         `https://x.example/y/3`,
		`https://x.example/{{file}}.json`:        `https://x.example/v1.2..3.json`,
		`https://x.example/a?from={{up}}/{{up}}`: `https://x.example/a?from=../..`,
		`https://x.example/a/../{{n}}/b`:         `https://x.example/a/../3/b`,
		`https://x.example/{{up}}.{{n}}`:         `https://x.example/...3`,
	} {
		p, err := expr.CompileTemplate(text)
		require.NoError(t, err)
		got, err := p.RenderURL(t.Context(), expr.Data{Input: in})
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, text := range []string{
		`https://x.example/{{up}}`, `https://x.example/a/{{up}}/b`, `https://x.example/a/{{deep}}`, `https://x.example/{{back}}`, `https://x.example/a/{{dot}}?x=1`,
		`https://x.example/a/{{dot}}{{dot}}/b`, `https://x.example/a/.{{dot}}#x`, `https://x.example/a/{{dot}}.`, `https://x.example/.{{none}}./`,
		`{{base}}/{{up}}`, `https://x.example/{{n}}/%2e{{dot}}/x`,
	} {
		p, err := expr.CompileTemplate(text)
		require.NoError(t, err)
		got, err := p.RenderURL(t.Context(), expr.Data{Input: in})
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err), "%s: %s", text, got)
		require.ErrorContains(t, err, "leads to another place")
		require.Empty(t, got)
	}
	p, err := expr.CompileTemplate(`https://x.example/{{gone}}`)
	require.NoError(t, err)
	_, err = p.RenderURL(t.Context(), expr.Data{Input: in})
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	require.ErrorContains(t, err, "not there")
}

func TestCompileTemplateRefuses(t *testing.T) {
	for text, message := range map[string]string{
		`a {{b`:                                 "{{ is not closed by }}",
		`{{}}`:                                  "{{}}: is empty",
		`{{ price + }}`:                         "{{ price + }}: 1:",
		strings.Repeat("x", 70_000):             "is 70000 bytes, at most 65536",
		strings.Repeat("{{a}}", 101):            "more than 100 expressions",
		`{{` + strings.Repeat("x", 5000) + `}}`: "at most 4096",
	} {
		_, err := expr.CompileTemplate(text)
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err), text)
		require.ErrorContains(t, err, message)
		require.Less(t, len(err.Error()), 1000)
	}
	p, err := expr.CompileTemplate(strings.Repeat(`{{s}}`, 100))
	require.NoError(t, err)
	_, err = p.Render(t.Context(), expr.Data{Input: map[string]any{"s": strings.Repeat("x", 20_000)}})
	require.Equal(t, agent.CodeOverflow, agent.CodeOf(err))
	p, err = expr.CompileTemplate(`{{ "a" * 3 }}`)
	require.NoError(t, err)
	_, err = p.Render(t.Context(), expr.Data{})
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
}

func TestCancelledContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p, err := expr.Compile(`price < 500`)
	require.NoError(t, err)
	_, err = p.Eval(ctx, expr.Data{Input: decoded(t, `[{"price":1}]`, true)})
	require.Equal(t, agent.CodeCancelled, agent.CodeOf(err))
	tmpl, err := expr.CompileTemplate(`{{ input.map(x, x) }}`)
	require.NoError(t, err)
	_, err = tmpl.Render(ctx, expr.Data{Input: make([]any, 1000)})
	require.Equal(t, agent.CodeCancelled, agent.CodeOf(err))
}

func TestWithRows(t *testing.T) {
	for in, want := range map[string]string{
		`[1,2,3]`:              `[2]`,
		`{"rows":[1,2],"n":3}`: `{"rows":[2],"n":3}`,
	} {
		data := expr.Data{Input: decoded(t, in, true)}
		raw, err := json.Marshal(data.WithRows([]any{2}))
		require.NoError(t, err)
		require.JSONEq(t, want, string(raw))
		again, err := json.Marshal(data.Input)
		require.NoError(t, err)
		require.JSONEq(t, in, string(again), "the input is not changed")
	}
}

func FuzzExpressions(f *testing.F) {
	for _, s := range []string{`price < 500`, `a.b[0].c * 2 == 3.5 && has(row.x)`, `input.map(r, r.a).join(",")`, `"%s".format([a])`, `{"a": b}["a"]`, `a{b: 1}`, `x ? y : z`, `.a.b`} {
		f.Add(s, `{"price":1,"a":{"b":[{"c":1}]}}`)
	}
	f.Fuzz(func(t *testing.T, source, input string) {
		var in any
		if json.Unmarshal([]byte(input), &in) != nil {
			in = input
		}
		data := expr.Data{Input: in}
		if p, err := expr.Compile(source); err == nil {
			out, err := p.Eval(t.Context(), data)
			if err == nil && out.PerRow {
				rows, _ := data.Rows()
				require.LessOrEqual(t, len(out.Matching), len(rows))
				require.Equal(t, len(out.Matching) > 0, out.True)
			}
		} else {
			require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
		}
		if p, err := expr.CompileTemplate(source); err == nil {
			_, _ = p.Render(t.Context(), data)
			_, _ = p.RenderURL(t.Context(), data)
		} else {
			require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
		}
	})
}
