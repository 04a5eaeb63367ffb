package dataset_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/dataset"
)

func text(rows []dataset.Row) []string {
	all := make([]string, len(rows))
	for i, r := range rows {
		all[i] = string(r)
	}
	return all
}

func TestMedia(t *testing.T) {
	t.Parallel()
	for media, want := range map[string]dataset.Format{
		"application/json": dataset.JSON, "application/json; charset=UTF-8": dataset.JSON, "text/json": dataset.JSON,
		"application/geo+json": dataset.JSON, "Application/JSON": dataset.JSON,
		"application/x-ndjson": dataset.NDJSON, "application/ndjson": dataset.NDJSON, "application/jsonl": dataset.NDJSON,
		"application/json-seq": dataset.NDJSON, "application/geo+json-seq": dataset.NDJSON,
		"text/csv": dataset.CSV, "text/csv; charset=us-ascii; header=present": dataset.CSV,
		"text/csv; charset=utf-8; header=absent": dataset.CSVNoHeader,
	} {
		got, err := dataset.Media(media)
		require.NoError(t, err, media)
		require.Equal(t, want, got, media)
	}
	for _, media := range []string{"", "text/html", "text/csv; charset=windows-1252", "application/octet-stream", ";;"} {
		_, err := dataset.Media(media)
		require.Equal(t, "content_type", faultOf(t, err).Field, media)
	}
	for _, f := range []dataset.Format{dataset.JSON, dataset.NDJSON, dataset.CSV, dataset.CSVNoHeader} {
		got, err := dataset.Media(f.MediaType())
		require.NoError(t, err)
		require.Equal(t, f, got)
	}
}

func faultOf(t *testing.T, err error) *agent.Error {
	t.Helper()
	e, ok := errors.AsType[*agent.Error](err)
	require.True(t, ok, "want an agent.Error, got %v", err)
	require.NotEmpty(t, e.Err.Error())
	return e
}

func TestReadGood(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 499) + strings.Repeat("]", 499)
	for name, c := range map[string]struct {
		format dataset.Format
		body   string
		want   []string
	}{
		"array":                 {dataset.JSON, "\ufeff [ {\"a\": 1} , 2,\"x\" ,null, [1, 2],true ] \n", []string{`{"a": 1}`, "2", `"x"`, "null", "[1, 2]", "true"}},
		"empty array":           {dataset.JSON, "[ ]", []string{}},
		"digits and order kept": {dataset.JSON, `[{"z":12345678901234567890.10,"a":1e2}]`, []string{`{"z":12345678901234567890.10,"a":1e2}`}},
		"greatest number":       {dataset.JSON, `[1.7976931348623157e308, -1.7976931348623157E+308, 1e-400]`, []string{"1.7976931348623157e308", "-1.7976931348623157E+308", "1e-400"}},
		"digits in a string":    {dataset.JSON, `["1e999","\\","\"1e999"]`, []string{`"1e999"`, `"\\"`, `"\"1e999"`}},
		"deepest":               {dataset.JSON, "[" + deep + "]", []string{deep}},
		"usual field":           {dataset.JSON, `{"items":[9],"rows":[{"a":1}],"x":[{"b":2}]}`, []string{`{"a":1}`}},
		"first of the usual":    {dataset.JSON, `{"flights":[1],"rows":{"a":[1]},"data":[2]}`, []string{"2"}},
		"escaped name":          {dataset.JSON, `{"\u0072ows":[1,2]}`, []string{"1", "2"}},
		"only array of objects": {dataset.JSON, `{"n":1,"tags":["a"],"things":[{"a":1},{"a":2}]}`, []string{`{"a":1}`, `{"a":2}`}},
		"wrapped":               {dataset.JSON, `{"ok":true,"response":{"n":1,"results":[3]}}`, []string{"3"}},
		"first wrapper":         {dataset.JSON, `{"payload":{"rows":[1]},"data":{"rows":[2]}}`, []string{"2"}},
		"wrapped object":        {dataset.JSON, `{"data":{"n": 1}}`, []string{`{"n": 1}`}},
		"wrapped once":          {dataset.JSON, `{"data":{"data":{"rows":[1]}}}`, []string{`{"data":{"rows":[1]}}`}},
		"one row":               {dataset.JSON, `{"a": {"b": [1]}}`, []string{`{"a": {"b": [1]}}`}},
		"lines":                 {dataset.NDJSON, "\ufeff{\"a\":1}\r\n\n  \n 2 \n\"x\"", []string{`{"a":1}`, "2", `"x"`}},
		"no line":               {dataset.NDJSON, "\n\n", []string{}},
		"text sequence":         {dataset.NDJSON, "\x1e{\"a\":\n1}\n\x1e2\n", []string{"{\"a\":\n1}", "2"}},
		"table": {
			dataset.CSV, "\ufeffa,b\r\n1,x\r\n\r\n,\"\"\r\n\"two\nlines\",\"q \"\"x\"\"\"\r\n",
			[]string{`{"a":1,"b":"x"}`, `{"a":null,"b":""}`, `{"a":"two\nlines","b":"q \"x\""}`},
		},
		"empty value behind line breaks": {dataset.CSV, "a,b,c\n\"x\n\ny\",,\"\"\n\n\n,\"\",\n", []string{`{"a":"x\n\ny","b":null,"c":""}`, `{"a":null,"b":"","c":null}`}},
		"table without rows":             {dataset.CSV, "a,b\n", []string{}},
		"numbers": {
			dataset.CSV, "n\n0\n-0\n007\n1.50\n.5\n5.\n1e3\n1e400\n+1\n123456789012345\n1234567890123456\n0.000123456789012345\n 1\n1_0\n0x1\n-\n1e\ntrue\nNaN\n-12.5E-3\n",
			[]string{
				`{"n":0}`, `{"n":-0}`, `{"n":"007"}`, `{"n":1.50}`, `{"n":".5"}`, `{"n":"5."}`, `{"n":1e3}`, `{"n":"1e400"}`, `{"n":"+1"}`,
				`{"n":123456789012345}`, `{"n":"1234567890123456"}`, `{"n":0.000123456789012345}`, `{"n":" 1"}`, `{"n":"1_0"}`, `{"n":"0x1"}`,
				`{"n":"-"}`, `{"n":"1e"}`, `{"n":"true"}`, `{"n":"NaN"}`, `{"n":-12.5E-3}`,
			},
		},
		"no header":       {dataset.CSVNoHeader, "1,x\n2,y\n", []string{`{"column_1":1,"column_2":"x"}`, `{"column_1":2,"column_2":"y"}`}},
		"nothing at all":  {dataset.CSVNoHeader, "", []string{}},
		"name with quote": {dataset.CSV, "\"a\"\"b\"\n1\n", []string{`{"a\"b":1}`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for how, r := range map[string]io.Reader{
				"at once": strings.NewReader(c.body), "byte by byte": iotest.OneByteReader(strings.NewReader(c.body)),
				"end with data": iotest.DataErrReader(strings.NewReader(c.body)),
			} {
				rows, err := dataset.Read(r, c.format, dataset.Limits{})
				require.NoError(t, err, how)
				require.Equal(t, c.want, text(rows), how)
			}
		})
	}
}

func TestReadBad(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		format      dataset.Format
		body        string
		field, says string
	}{
		"nothing":                  {dataset.JSON, " \n", "", "is empty, not JSON"},
		"a page":                   {dataset.JSON, "<html>", "", `is not JSON: it begins with "<html>"`},
		"a number":                 {dataset.JSON, "17", "", "is no JSON array or object"},
		"duplicate":                {dataset.JSON, `[{"a":1},{"b":{"c":1,"d":2,"c":3}}]`, "row 1.b.c", "is given twice in one object"},
		"duplicate, escaped":       {dataset.JSON, `[{"a":1,"\u0061":2}]`, "row 0.a", "twice"},
		"duplicate in an object":   {dataset.JSON, `{"rows":[{"a":1,"a":2}]}`, "rows[0].a", "twice"},
		"duplicate elsewhere":      {dataset.JSON, `{"rows":[1],"x":{"a":1,"a":2}}`, "x.a", "twice"},
		"duplicate at the top":     {dataset.JSON, `{"rows":[1],"rows":[2]}`, "rows", "twice"},
		"number too great":         {dataset.JSON, `[1,{"price":{"total":1e400}}]`, "row 1.price.total", "the number 1e400 is beyond what a 64-bit float holds"},
		"number in a list":         {dataset.JSON, `[[{"a/b":[0,-1E+309]}]]`, "row 0[0].a/b[1]", "-1E+309"},
		"long number":              {dataset.JSON, `[{"n":` + strings.Repeat("9", 400) + `}]`, "row 0.n", "beyond"},
		"number within":            {dataset.JSON, `{"items":[{"n":1},{"n":1e999}]}`, "row 1.n", "beyond"},
		"number of the only row":   {dataset.JSON, `{"data":{"n":1e999}}`, "data.n", "beyond"},
		"number of the document":   {dataset.JSON, `{"n":[1e999]}`, "n[0]", "beyond"},
		"too deep":                 {dataset.JSON, "[1," + strings.Repeat("[", 501) + strings.Repeat("]", 501) + "]", "row 1[0][0]…", "nested deeper than 500"},
		"far too deep":             {dataset.JSON, strings.Repeat("[", 20_000), "row 0[0][0]…", "depth"},
		"far too deep in a member": {dataset.JSON, `{"a":` + strings.Repeat("[", 20_000), "a[0][0]…", "depth"},
		"not UTF-8":                {dataset.JSON, "[{\"a\":\"x\xff\"}]", "row 0.a", "invalid UTF-8"},
		"half a surrogate pair":    {dataset.JSON, `["ok","\ud800"]`, "row 1", "surrogate"},
		"something behind":         {dataset.JSON, `[1] [2]`, "", "something follows its end"},
		"something behind 2":       {dataset.JSON, `{"a":1}{"a":2}`, "", "something follows its end"},
		"no end":                   {dataset.JSON, `[{"a":1},{"a":`, "row 1.a", "ends too early"},
		"no end of an object":      {dataset.JSON, `{"rows":[{"a":1}`, "rows", "ends too early"},
		"a comma too many":         {dataset.JSON, `[1,]`, "", "malformed JSON at byte 2"},
		"several arrays":           {dataset.JSON, `{"b":[{"x":1}],"a":[{"x":1}]}`, "", "has several arrays and none is obviously the rows: a, b"},
		"broken line":              {dataset.NDJSON, "{\"a\":1}\n\n{\"a\":}\n{", "line 3.a", "malformed JSON at byte 5"},
		"open line":                {dataset.NDJSON, "{\"a\":1\n{\"a\":2}\n", "line 1", "ends too early"},
		"two on a line":            {dataset.NDJSON, "1\n2 3\n", "line 2", "something follows its value, at byte 1"},
		"duplicate on a line":      {dataset.NDJSON, "1\n{\"a\":1,\"a\":1}", "line 2.a", "twice"},
		"number on a line":         {dataset.NDJSON, "1\n{\"a\":[1e999]}", "line 2.a[0]", "beyond"},
		"broken in a sequence":     {dataset.NDJSON, "\x1e{\"a\":\n1}\n\x1e\n{\"a\"}\n", "line 4.a", "malformed"},
		"no header":                {dataset.CSV, "", "", "is empty, not CSV"},
		"same column":              {dataset.CSV, "a,b,a\n", "line 1", `columns 1 and 3 of the header are both "a"`},
		"no name":                  {dataset.CSV, "\na,,c\n", "line 2", "column 2 of the header has no name"},
		"ragged":                   {dataset.CSV, "a,b\n1,2\n\"x\ny\",2\n1,2,3\n", "line 5", "has 3 values, the table has 2 columns"},
		"short":                    {dataset.CSV, "a,b\n1\n", "line 2", "has 1 values, the table has 2 columns"},
		"ragged, no header":        {dataset.CSVNoHeader, "1,2\n1\n", "line 2", "has 1 values"},
		"open quote":               {dataset.CSV, "a,b\n1,\"x\n2,y\n", "line 2", "is malformed CSV at line 3, column 5: a quote that is not closed"},
		"bare quote":               {dataset.CSV, "a,b\n1,x\"y\n", "line 2", "is malformed CSV, column 4: a quote within a value"},
		"not UTF-8 in a table":     {dataset.CSV, "a,b\n1,2\n1,\xff\n", "line 3", "is not UTF-8"},
		"unknown format":           {"xml", "", "format", `"xml" is unknown`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, r := range []io.Reader{strings.NewReader(c.body), iotest.OneByteReader(strings.NewReader(c.body))} {
				rows, err := dataset.Read(r, c.format, dataset.Limits{})
				require.Nil(t, rows)
				e := faultOf(t, err)
				require.Equal(t, agent.CodeInvalid, e.Code)
				if start, long := strings.CutSuffix(c.field, "…"); long {
					require.True(t, strings.HasPrefix(e.Field, start) && len(e.Field) < 250, e.Field)
				} else {
					require.Equal(t, c.field, e.Field)
				}
				require.ErrorContains(t, e.Err, c.says)
			}
		})
	}
}

// An export of a million lines with a mistake near its end names the line.
func TestBrokenLineFarDown(t *testing.T) {
	t.Parallel()
	var body strings.Builder
	for i := 1; i <= 1_000_000; i++ {
		if i == 900_000 {
			body.WriteString("{\"id\":900000,\"price\":}\n")
			continue
		}
		fmt.Fprintf(&body, "{\"id\":%d}\n", i)
	}
	rows, err := dataset.ReadNDJSON(strings.NewReader(body.String()), dataset.Limits{})
	require.Nil(t, rows)
	require.EqualError(t, err, "line 900000.price: is malformed JSON at byte 21: invalid character '}' at start of value")
}

func TestLimits(t *testing.T) {
	t.Parallel()
	for f, body := range map[dataset.Format]string{dataset.JSON: `[1,2,3]`, dataset.NDJSON: "1\n2\n3\n", dataset.CSV: "a\n1\n2\n3\n"} {
		rows, err := dataset.Read(strings.NewReader(body), f, dataset.Limits{Rows: 3, Bytes: int64(len(body))})
		require.NoError(t, err, f)
		require.Len(t, rows, 3)
		_, err = dataset.Read(strings.NewReader(body), f, dataset.Limits{Rows: 2})
		require.Equal(t, agent.CodeOverflow, agent.CodeOf(err), f)
		require.EqualError(t, err, "has more than 2 rows")
		_, err = dataset.Read(strings.NewReader(body), f, dataset.Limits{Bytes: int64(len(body)) - 1})
		require.Equal(t, agent.CodeOverflow, agent.CodeOf(err), f)
		require.ErrorContains(t, err, fmt.Sprintf("is larger than %d bytes", len(body)-1))
	}
	_, err := dataset.ReadJSON(strings.NewReader(`{"rows":[1,2,3]}`), dataset.Limits{Rows: 2})
	require.EqualError(t, err, "has more than 2 rows")
	_, err = dataset.ReadJSON(strings.NewReader(`{"rows":[1,2,3]}`), dataset.Limits{Bytes: 10})
	require.EqualError(t, err, "is larger than 10 bytes")

	wide := strings.Repeat("x", 1000) + "\n" + strings.Repeat("1\n", 1000)
	_, err = dataset.Read(strings.NewReader(wide), dataset.CSV, dataset.Limits{Bytes: 5000})
	require.EqualError(t, err, "as JSON is larger than 40000 bytes")
	header := "a0" + strings.Repeat(",a", dataset.MaxColumns)
	_, err = dataset.Read(strings.NewReader(header), dataset.CSV, dataset.Limits{})
	require.Equal(t, agent.CodeOverflow, agent.CodeOf(err))
}

// A body that cannot be read to its end is an error of whoever sends it, not of what it says.
func TestReaderFails(t *testing.T) {
	t.Parallel()
	lost := errors.New("connection lost")
	for body, f := range map[string]dataset.Format{
		`[1,2`: dataset.JSON, `{"rows":[1`: dataset.JSON, "1\n2": dataset.NDJSON, "a\n1\n2": dataset.CSV, "1": dataset.CSVNoHeader,
	} {
		_, err := dataset.Read(io.MultiReader(strings.NewReader(body), iotest.ErrReader(lost)), f, dataset.Limits{})
		require.ErrorIs(t, err, lost, f)
		require.Equal(t, agent.CodeInternal, agent.CodeOf(err), "no fault of the body's")
	}
}

// Rows are copies: nothing that is read later changes them.
func TestRowsAreKept(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 300_000)
	var want []string
	for i := range 5000 {
		want = append(want, fmt.Sprintf(`{"id":%d,"name":"n%d"}`, i, i))
		if i%2500 == 7 {
			want = append(want, `{"long":"`+long+`"}`)
		}
	}
	for f, sep := range map[dataset.Format]string{dataset.JSON: ",", dataset.NDJSON: "\n"} {
		body := strings.Join(want, sep)
		if f == dataset.JSON {
			body = "[" + body + "]"
		}
		rows, err := dataset.Read(strings.NewReader(body), f, dataset.Limits{})
		require.NoError(t, err)
		require.Equal(t, want, text(rows))
		_ = append(rows[0], "overflow"...) // a row's capacity is its own
		require.Equal(t, want, text(rows))
	}
}

func TestFields(t *testing.T) {
	t.Parallel()
	rows := []dataset.Row{
		dataset.Row(`{"b":1,"a":null,"o":{"x":[1,{"y":"}"}]}}`), dataset.Row(`[1]`), dataset.Row(`{"a":"x","l":[],"b":2.5,"t":true}`),
		dataset.Row(`{"b":"two","n":null,"o":null,"\u0061":"y"}`),
	}
	require.Equal(t, []agent.DatasetField{
		{Name: "b", Type: "mixed"},
		{Name: "a", Type: "string"},
		{Name: "o", Type: "object"},
		{Name: "l", Type: "array"},
		{Name: "t", Type: "boolean"},
		{Name: "n", Type: "null"},
	}, dataset.Fields(rows, 0))
	require.Equal(t, []agent.DatasetField{{Name: "b", Type: "number"}, {Name: "a", Type: "null"}, {Name: "o", Type: "object"}}, dataset.Fields(rows, 1))
	require.Empty(t, dataset.Fields([]dataset.Row{dataset.Row("1")}, 0))

	many := map[string]int{}
	for i := range 60 {
		many[fmt.Sprintf("f%d", i)] = i
	}
	wide, err := json.Marshal(many)
	require.NoError(t, err)
	require.Len(t, dataset.Fields([]dataset.Row{wide}, 0), 50)
}

// Check refuses of a row what reading it would.
func TestCheck(t *testing.T) {
	t.Parallel()
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for row, says := range map[string]string{
		`{"a":1e308,"b":["]",-1.5]}`: "", deep(500): "", "null": "",
		`{"a":{"b":[0,1e309]}}`: "a.b[1]: the number 1e309 is beyond what a 64-bit float holds",
		deep(501):               "is nested deeper than 500",
	} {
		_, readErr := dataset.ReadJSON(strings.NewReader("["+row+"]"), dataset.Limits{})
		err := dataset.Check(dataset.Row(row))
		if says == "" {
			require.NoError(t, readErr)
			require.NoError(t, err)
			continue
		}
		require.Error(t, readErr)
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
		require.ErrorContains(t, err, says)
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	require.NoError(t, dataset.Write(&b, []dataset.Row{dataset.Row("{ \"a b\" : [ 1 ,\n\"x \\\" y\" ] }"), nil, dataset.Row("2")}))
	require.Equal(t, `[{"a b":[1,"x \" y"]},null,2]`, b.String()) //nolint:testifylint // it must be this text
	b.Reset()
	require.NoError(t, dataset.Write(&b, nil))
	require.Equal(t, "[]", b.String())
	full := errors.New("disk full")
	require.ErrorIs(t, dataset.Write(failing{full}, []dataset.Row{dataset.Row("1")}), full)
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
