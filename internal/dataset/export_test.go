package dataset_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/dataset"
)

// document counts how often it is open.
type document struct {
	body          string
	opened, alive int
}

func (d *document) open() (io.ReadCloser, error) {
	d.opened++
	d.alive++
	return &reader{Reader: strings.NewReader(d.body), of: d}, nil
}

type reader struct {
	io.Reader
	of *document
}

func (r *reader) Close() error { r.of.alive--; return nil }

func export(t *testing.T, body string, f dataset.Format, o ...dataset.Option) string {
	t.Helper()
	var b bytes.Buffer
	d := &document{body: body}
	require.NoError(t, dataset.Export(&b, d.open, f, o...))
	require.Zero(t, d.alive, "closed")
	require.LessOrEqual(t, d.opened, 3)
	return b.String()
}

func TestExport(t *testing.T) {
	t.Parallel()
	const stored = `[ {"id": 1, "name": "a, \"b\"", "tags": ["x", 1]}, {"new": null, "id": 12345678901234567890, "name": ""}, {"name": "two\nlines"} ]`
	//nolint:testifylint // it must be this text
	require.Equal(t, `[{"id":1,"name":"a, \"b\"","tags":["x",1]},{"new":null,"id":12345678901234567890,"name":""},{"name":"two\nlines"}]`, export(t, stored, dataset.JSON))
	//nolint:testifylint // it must be this text
	require.Equal(t, `{"id":1,"name":"a, \"b\"","tags":["x",1]}`+"\n"+`{"new":null,"id":12345678901234567890,"name":""}`+"\n"+`{"name":"two\nlines"}`+"\n",
		export(t, stored, dataset.NDJSON))
	table := `1,"a, ""b""","[""x"",1]",` + "\r\n" + `12345678901234567890,"",,` + "\r\n" + `,"two` + "\n" + `lines",,` + "\r\n"
	require.Equal(t, "id,name,tags,new\r\n"+table, export(t, stored, dataset.CSV))
	require.Equal(t, table, export(t, stored, dataset.CSVNoHeader))

	for _, body := range []string{`[]`, `{"rows":[]}`} {
		require.Equal(t, "[]", export(t, body, dataset.JSON))
		require.Empty(t, export(t, body, dataset.NDJSON))
		require.Empty(t, export(t, body, dataset.CSV))
	}
	require.Equal(t, "value\r\n1\r\nx\r\n\"\"\r\n\"[1,2]\"\r\ntrue\r\n", export(t, `[1,"x",null,[1, 2],true]`, dataset.CSV))
	require.Equal(t, "a,value\r\n1,\r\n,2\r\n", export(t, `[{"a":1},2]`, dataset.CSV))
	require.Equal(t, `{"a":1}`+"\n", export(t, `{"n":[1,2],"data":{"x":{},"items":[{"a":1}]}}`, dataset.NDJSON), "the rule of rows")
	require.Equal(t, "a,b\r\n1,\" x\"\r\n", export(t, `{"a":1,"b":" x"}`, dataset.CSV), "the one row")
	require.Equal(t, `[{"n":1}]`, export(t, `{"data":{"n":1}}`, dataset.JSON))
}

func TestExportForSpreadsheets(t *testing.T) {
	t.Parallel()
	const stored = `[{"=a":"=1+1","n":-1},{"=a":"@x","n":"-1"},{"=a":"\tx","n":"+1"},{"=a":"a=1","n":"="}]`
	require.Equal(t, "=a,n\r\n=1+1,-1\r\n@x,-1\r\n\"\tx\",+1\r\na=1,=\r\n", export(t, stored, dataset.CSV))
	require.Equal(t, "\"'=a\",n\r\n\"'=1+1\",-1\r\n\"'@x\",\"'-1\"\r\n\"'\tx\",\"'+1\"\r\na=1,\"'=\"\r\n", export(t, stored, dataset.CSV, dataset.ForSpreadsheets()))
}

func TestExportBad(t *testing.T) {
	t.Parallel()
	columns := "[{"
	for i := range dataset.MaxColumns {
		columns += fmt.Sprintf(`"c%d":1,`, i)
	}
	for name, c := range map[string]struct {
		body string
		f    dataset.Format
		code agent.Code
		says string
	}{
		"broken row":       {`[{"a":1},{"a":}]`, dataset.NDJSON, agent.CodeInvalid, "row 1: is malformed"},
		"broken row, CSV":  {`[{"a":1},{"a":}]`, dataset.CSV, agent.CodeInvalid, "row 1: is malformed"},
		"no document":      {`x`, dataset.JSON, agent.CodeInvalid, "is not JSON"},
		"no table":         {`1`, dataset.CSV, agent.CodeInvalid, "is no JSON array or object"},
		"unknown format":   {`[]`, "xlsx", agent.CodeInvalid, `format: "xlsx" is unknown`},
		"too many columns": {columns + `"more":1}]`, dataset.CSV, agent.CodeOverflow, "has more than 1000 columns"},
		"ambiguous":        {`{"a":[{}],"b":[{}]}`, dataset.JSON, agent.CodeInvalid, "several arrays"},
	} {
		d := &document{body: c.body}
		err := dataset.Export(io.Discard, d.open, c.f)
		require.Equal(t, c.code, agent.CodeOf(err), name)
		require.ErrorContains(t, err, c.says, name)
		require.Zero(t, d.alive, name)
	}
	gone := errors.New("gone")
	err := dataset.Export(io.Discard, func() (io.ReadCloser, error) { return nil, gone }, dataset.JSON)
	require.ErrorIs(t, err, gone)
	full := errors.New("disk full")
	for _, f := range []dataset.Format{dataset.JSON, dataset.NDJSON, dataset.CSV} {
		require.ErrorIs(t, dataset.Export(failing{full}, (&document{body: `[{"a":1}]`}).open, f), full)
	}
}

// A row that never ends is refused before it fills the memory; what is beside the rows may be long.
func TestExportBoundsRows(t *testing.T) {
	t.Parallel()
	endless := func(before, after string, n int64) func() (io.ReadCloser, error) {
		return func() (io.ReadCloser, error) {
			return io.NopCloser(io.MultiReader(strings.NewReader(before), io.LimitReader(filler{}, n), strings.NewReader(after))), nil
		}
	}
	const bound = 1 << 20
	for before, after := range map[string]string{`[1,"`: `"]`, `{"rows":[1,"`: `"]}`} {
		err := dataset.Export(io.Discard, endless(before, after, 3*bound), dataset.NDJSON, dataset.WithRowBytes(bound))
		require.Equal(t, agent.CodeOverflow, agent.CodeOf(err), before)
		require.NoError(t, dataset.Export(io.Discard, endless(before, after, bound/2), dataset.NDJSON, dataset.WithRowBytes(bound)))
	}
	var b bytes.Buffer
	require.NoError(t, dataset.Export(&b, func() (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(strings.NewReader(`{"list":[0`), io.LimitReader(&cycle{of: ",1"}, 2*bound), strings.NewReader(`],"rows":[1]}`))), nil
	}, dataset.NDJSON, dataset.WithRowBytes(bound)))
	require.Equal(t, "1\n", b.String())
	rows := "[" + strings.Repeat(`"0123456789",`, 10_000) + "1]"
	require.NoError(t, dataset.Export(io.Discard, (&document{body: rows}).open, dataset.CSV, dataset.WithRowBytes(32<<10)), "the bound is each row's")
}

type filler struct{}

func (filler) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// cycle repeats a text without end.
type cycle struct {
	of string
	at int
}

func (c *cycle) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = c.of[c.at]
		c.at = (c.at + 1) % len(c.of)
	}
	return len(p), nil
}

// An export of 40 MB keeps no more than a few rows. Not parallel: it measures the heap.
func TestExportStreams(t *testing.T) {
	const size, row = 40 << 20, `,{"id":1234567890,"name":"somebody"}`
	open := func() (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(strings.NewReader("[0"), io.LimitReader(&cycle{of: row}, int64(size/len(row)*len(row))), strings.NewReader("]"))), nil
	}
	runtime.GC()
	var before, m runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, f := range []dataset.Format{dataset.NDJSON, dataset.CSV} {
		peak := uint64(0)
		var n int64
		w := writerFunc(func(p []byte) (int, error) {
			if n += int64(len(p)); n>>22 != (n-int64(len(p)))>>22 {
				runtime.ReadMemStats(&m)
				peak = max(peak, m.HeapAlloc)
			}
			return len(p), nil
		})
		require.NoError(t, dataset.Export(w, open, f))
		require.Greater(t, n, int64(20<<20))
		require.Less(t, peak, before.HeapAlloc+(8<<20), "%s: heap in bytes", f)
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
