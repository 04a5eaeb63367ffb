package gateway_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	threeFlights = `[{"id":"A","price":1.50,"tags":["x"]},{"id":"=B","price":null},{"price":3,"id":"ü,\"","more":true}]`
	digest       = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
)

func TestDataFormats(t *testing.T) {
	d := startGateway(t, nil)
	d.rt.StoreRows("default", "turn-42", threeFlights)
	const (
		asCSV    = "id,price,tags,more\r\nA,1.50,\"[\"\"x\"\"]\",\r\n=B,,,\r\n\"ü,\"\"\",3,,true\r\n"
		asNDJSON = `{"id":"A","price":1.50,"tags":["x"]}` + "\n" + `{"id":"=B","price":null}` + "\n" + `{"price":3,"id":"ü,\"","more":true}` + "\n"
	)
	cases := map[string]struct{ query, accept, media, name, want string }{
		"JSON":              {"", "", "application/json", "turn-42.json", threeFlights},
		"any":               {"", "*/*", "application/json", "turn-42.json", threeFlights},
		"CSV":               {"?format=csv", "", "text/csv; charset=utf-8", "turn-42.csv", asCSV},
		"NDJSON":            {"?format=ndjson", "", "application/x-ndjson", "turn-42.ndjson", asNDJSON},
		"accept CSV":        {"", "text/html, text/csv;q=0.9, application/json", "text/csv; charset=utf-8", "turn-42.csv", asCSV},
		"refuse CSV":        {"", "text/csv;q=0, application/x-ndjson", "application/x-ndjson", "turn-42.ndjson", asNDJSON},
		"accept NDJSON":     {"", "application/x-ndjson", "application/x-ndjson", "turn-42.ndjson", asNDJSON},
		"accept no header":  {"", "text/csv; header=absent", "text/csv; charset=utf-8; header=absent", "turn-42.csv", asCSV[len("id,price,tags,more\r\n"):]},
		"parameter wins":    {"?format=json", "text/csv", "application/json", "turn-42.json", threeFlights},
		"for a spreadsheet": {"?format=csv&spreadsheet=true", "", "text/csv; charset=utf-8", "turn-42.csv", strings.Replace(asCSV, "=B", `"'=B"`, 1)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a := d.send("GET", "/v1/results/turn-42/data"+c.query, "", "Accept", c.accept)
			require.Equal(t, 200, a.status, "%s", a.body)
			if strings.HasPrefix(c.media, "application/json") {
				require.JSONEq(t, c.want, string(a.body))
			} else {
				require.Equal(t, c.want, string(a.body))
			}
			require.Equal(t, c.media, a.header.Get("Content-Type"))
			require.Equal(t, "attachment; filename="+c.name, a.header.Get("Content-Disposition"))
			require.Equal(t, "no-store", a.header.Get("Cache-Control"))
			require.Equal(t, "Accept", a.header.Get("Vary"))

			head := d.send("HEAD", "/v1/results/turn-42/data"+c.query, "", "Accept", c.accept)
			require.Equal(t, 200, head.status)
			require.Empty(t, head.body)
			require.Equal(t, c.media, head.header.Get("Content-Type"))
		})
	}
}

// A result is found by a reference with or without escaped slashes, by the id of its turn, and by the id of its job.
func TestDataOfWhatNamesIt(t *testing.T) {
	d := startGateway(t, nil)
	d.rt.Script = answerWith("done")
	d.rt.StoreRows("default", "artifact://7f", `[1]`)
	d.rt.StoreRows("default", "cas://"+digest, `[2]`)
	d.rt.StoreRows("default", "turn-1", `[3]`)
	d.rt.StoreRows("default", "..x", `[4]`)
	for path, want := range map[string]struct{ body, name string }{
		"artifact://7f":         {"[1]", "7f.json"},
		"artifact%3A%2F%2F7f":   {"[1]", "7f.json"},
		"cas://" + digest:       {"[2]", digest[7:] + ".json"},
		"cas%3A%2F%2F" + digest: {"[2]", digest[7:] + ".json"},
		digest:                  {"[2]", digest[7:] + ".json"},
		"turn-1":                {"[3]", "turn-1.json"},
		"..x":                   {"[4]", "x.json"},
	} {
		a := d.send("GET", "/v1/results/"+path+"/data", "")
		require.Equal(t, 200, a.status, "%s: %s", path, a.body)
		require.Equal(t, want.body, strings.TrimSpace(string(a.body)), path)
		require.Equal(t, "attachment; filename="+want.name, a.header.Get("Content-Disposition"))
	}

	// A job id may hold characters that other ids may not.
	a := d.send("POST", "/test/chat", `{"job_id":"nightly run","prompt":"go"}`)
	require.Equal(t, 200, a.status, "%s", a.body)
	ran := a.header.Get("Turnstone-Turn-Id")
	d.rt.StoreRows("default", "artifact://result-of-"+ran, `[5]`)
	a = d.send("GET", "/v1/results/nightly%20run/data", "")
	require.Equal(t, 200, a.status, "%s", a.body)
	require.Equal(t, "attachment; filename=nightly-run.json", a.header.Get("Content-Disposition"))
	a = d.send("GET", "/v1/results/nightly%20run", "")
	require.Equal(t, 200, a.status)
	require.Equal(t, ran, a.header.Get("Turnstone-Turn-Id"))
}

func TestDataFaults(t *testing.T) {
	d := startGateway(t, nil)
	d.rt.StoreRows("acme", "turn-1", `[{"a":1}]`)
	d.rt.StoreRows("default", "broken", `[{"a":1},{"a":1,"a":2}]`)
	d.rt.StoreStream("default", "away", func(context.Context) (io.ReadCloser, error) {
		return nil, agent.Errorf(agent.CodeUnavailable, "", "storage is away")
	})
	cases := map[string]struct {
		path        string
		status      int
		kind, field string
	}{
		"unknown":       {"nothing/data", 404, "not_found", ""},
		"no id":         {"data", 404, "not_found", ""},
		"empty id":      {"/data", 404, "not_found", ""},
		"control":       {"a%00b/data", 404, "not_found", ""},
		"long":          {strings.Repeat("x", 300) + "/data", 404, "not_found", ""},
		"format":        {"turn-1/data?format=xml", 400, "invalid", "format"},
		"no CSV":        {"turn-1/data?format=json&spreadsheet=true", 400, "invalid", "spreadsheet"},
		"no truth":      {"turn-1/data?format=csv&spreadsheet=perhaps", 400, "invalid", "spreadsheet"},
		"tenant":        {"turn-1/data?tenant=a/b", 400, "invalid", "tenant"},
		"not rows":      {"broken/data", 400, "invalid", "row 1.a"},
		"not rows, CSV": {"broken/data?format=csv", 400, "invalid", "row 1.a"},
		"away":          {"away/data", 503, "unavailable", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a := d.send("GET", "/v1/results/"+c.path, "")
			require.Equal(t, c.status, a.status, "%s", a.body)
			f := a.failure(t)
			require.Equal(t, []string{c.kind, c.field}, []string{f.Type, f.Field}, f.Message)
			require.Empty(t, a.header.Get("Content-Disposition"))
		})
	}
	require.Equal(t, 200, d.send("GET", "/v1/results/turn-1/data", "", "Turnstone-Tenant", "acme").status)
	require.Equal(t, 404, d.send("HEAD", "/v1/results/nothing/data", "").status)
}

func TestDataWithoutRows(t *testing.T) {
	d := startGateway(t, nil)
	d.rt.StoreRows("default", "none", `[]`)
	for format, want := range map[string]string{"json": "[]", "csv": "", "ndjson": ""} {
		a := d.send("GET", "/v1/results/none/data?format="+format, "")
		require.Equal(t, 200, a.status)
		require.Equal(t, want, strings.TrimSpace(string(a.body)))
		require.Equal(t, "attachment; filename=none."+format, a.header.Get("Content-Disposition"))
	}
}
