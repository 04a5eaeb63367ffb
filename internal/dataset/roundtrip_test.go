package dataset_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/dataset"
)

func opener(body []byte) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
}

// random makes any JSON.
func random(r *rand.Rand, depth int) any {
	switch n := r.IntN(9); {
	case n < 3:
		return randomText(r)
	case n < 5:
		return json.Number(fmt.Sprint(r.Int64()>>r.IntN(64), ".", r.IntN(100)))
	case n == 5:
		return r.IntN(2) == 0
	case n == 6 || depth == 0:
		return nil
	case n == 7:
		list := make([]any, r.IntN(4))
		for i := range list {
			list[i] = random(r, depth-1)
		}
		return list
	default:
		object := map[string]any{}
		for range r.IntN(5) {
			object[randomText(r)] = random(r, depth-1)
		}
		return object
	}
}

func randomText(r *rand.Rand) string {
	alphabet := []string{"a", "b", `"`, `\`, ",", "\n", " ", "=", "é", "😀", "{", "]", "\x00", "null", "1", ":"}
	var b strings.Builder
	for range r.IntN(5) {
		b.WriteString(alphabet[r.IntN(len(alphabet))])
	}
	return b.String()
}

// What was JSON and becomes NDJSON is the same JSON again.
func TestRoundTripNDJSON(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		values := make([]any, r.IntN(6))
		for i := range values {
			values[i] = random(r, 4)
		}
		body, err := json.MarshalIndent(values, "", " ")
		require.NoError(t, err)
		rows, err := dataset.ReadJSON(bytes.NewReader(body), dataset.Limits{})
		require.NoError(t, err, string(body))
		var stored, lines, again bytes.Buffer
		require.NoError(t, dataset.Write(&stored, rows))
		require.NoError(t, dataset.Export(&lines, opener(stored.Bytes()), dataset.NDJSON))
		rows, err = dataset.ReadNDJSON(&lines, dataset.Limits{})
		require.NoError(t, err)
		require.NoError(t, dataset.Write(&again, rows))
		require.Equal(t, stored.String(), again.String())
		require.JSONEq(t, string(body), again.String())
	}
}

// A table of two columns and more reads back as it was: numbers, texts, empty ones and null.
func TestRoundTripCSV(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		var body bytes.Buffer
		columns := 2 + r.IntN(4)
		values := make([]map[string]any, 1+r.IntN(5))
		for i := range values {
			values[i] = map[string]any{}
			for c := range columns {
				values[i][fmt.Sprintf("c%d %s", c, `,"`)] = [...]any{nil, "", randomText(r), r.IntN(1e9), float64(r.IntN(1e6)) / 100, "007", -1e-7}[r.IntN(7)]
			}
			for name, v := range values[i] {
				if s, ok := v.(string); ok && strings.Trim(s, "1") == "" && s != "" {
					values[i][name] = json.Number(s) // "1" reads as a number
				}
			}
		}
		require.NoError(t, json.NewEncoder(&body).Encode(values))
		var table, again bytes.Buffer
		require.NoError(t, dataset.Export(&table, opener(body.Bytes()), dataset.CSV))
		rows, err := dataset.Read(bytes.NewReader(table.Bytes()), dataset.CSV, dataset.Limits{})
		require.NoError(t, err, table.String())
		var stored bytes.Buffer
		require.NoError(t, dataset.Write(&stored, rows))
		require.JSONEq(t, body.String(), stored.String(), table.String())
		require.NoError(t, dataset.Export(&again, opener(stored.Bytes()), dataset.CSV))
		require.Equal(t, table.String(), again.String())
	}
}

func FuzzJSON(f *testing.F) {
	for _, s := range []string{`[{"a":1e5},[],"x\u00e9"]`, `{"data":{"items":[1]}}`, `{"a":[{}]}`, `{"rows":1}`, "[1,", `{"a":{"b":[1e400]}}`, "\ufeff[]"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		rows, err := dataset.ReadJSON(bytes.NewReader(body), dataset.Limits{Rows: 1000, Bytes: 1 << 20})
		reads(t, body, rows, err)
		var b bytes.Buffer
		exported := dataset.Export(&b, opener(body), dataset.JSON)
		if err == nil {
			require.NoError(t, exported)
			var stored bytes.Buffer
			require.NoError(t, dataset.Write(&stored, rows))
			require.Equal(t, stored.String(), b.String())
			require.NoError(t, dataset.Export(io.Discard, opener(body), dataset.CSV))
		}
	})
}

func FuzzNDJSON(f *testing.F) {
	for _, s := range []string{"{\"a\":1}\n2\n", "\x1e{\"a\":\n1}\n\x1e2", "\n\n1", "{\"a\"", "1 2"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		rows, err := dataset.ReadNDJSON(bytes.NewReader(body), dataset.Limits{Rows: 1000, Bytes: 1 << 20})
		reads(t, body, rows, err)
	})
}

func FuzzCSV(f *testing.F) {
	for _, s := range []string{"a,b\n1,\"x\ny\"\n", "a\n\"\"\n", "\ufeffa,b\r\n,\"\"\r\n", "a,a", "a\n\"", "a,b\n\n\n\"\n\",\n", "\n\ufeffa,b\r\n,"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		rows, err := dataset.Read(bytes.NewReader(body), dataset.CSV, dataset.Limits{Rows: 1000, Bytes: 1 << 20})
		reads(t, body, rows, err)
		if err != nil || len(rows) == 0 {
			return
		}
		var stored, table, again bytes.Buffer
		require.NoError(t, dataset.Write(&stored, rows))
		require.NoError(t, dataset.Export(&table, opener(stored.Bytes()), dataset.CSV))
		back, err := dataset.Read(&table, dataset.CSV, dataset.Limits{})
		require.NoError(t, err)
		require.NoError(t, dataset.Write(&again, back))
		if len(dataset.Fields(rows[:1], 0)) > 1 {
			require.Equal(t, stored.String(), again.String())
		}
	})
}

// reads checks what holds for every body: rows are JSON with fields, or the error says what is wrong.
func reads(t *testing.T, body []byte, rows []dataset.Row, err error) {
	t.Helper()
	if err != nil {
		require.Nil(t, rows)
		require.Contains(t, []agent.Code{agent.CodeInvalid, agent.CodeOverflow}, agent.CodeOf(err), "%q: %v", body, err)
		return
	}
	for _, row := range rows {
		require.True(t, json.Valid(row), "%q", row)
		var v any
		require.NoError(t, json.Unmarshal(row, &v))
	}
	dataset.Fields(rows, 0)
}
