package results_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
	"github.com/turnstone-run/turnstone/internal/results"
)

// result stores a turn with a result's document, in its row or in the blob store.
func (w *world) result(id, document string, inBlobStore bool) (ref string) {
	w.t.Helper()
	_, err := w.Begin(w.t.Context(), turn(id, ""))
	require.NoError(w.t, err)
	f := finish(id)
	if inBlobStore {
		f.CASID = strings.TrimPrefix(w.put(document), "cas://")
	} else if document != "" {
		f.Result = json.RawMessage(document)
	}
	done, err := w.Finish(w.t.Context(), f)
	require.NoError(w.t, err)
	return done.Output.ResultRef
}

func TestReader(t *testing.T) {
	w := newWorld(t)
	rows := w.put(`[{"id":1}]`)
	missing := "cas://sha256:" + strings.Repeat("0", 64)
	r := results.Reader{Store: w.Store, Blobs: w.blobs}
	for name, test := range map[string]struct{ document, want string }{
		"rows":            {`{"output":"x","blocks":[],"data":[{"id": 2}]}`, `[{"id": 2}]`},
		"an object":       {`{"output":"x","data":{"rows":1}}`, `{"rows": 1}`},
		"a number":        {`{"data":17}`, `17`},
		"a string":        {`{"data":"a\"]}b"}`, `"a\"]}b"`},
		"original rows":   {`{"data_ref":"` + rows + `","data":[{"id":1.0}]}`, `[{"id":1}]`},
		"other members":   {`{"output":"\"data\":[9]","structured":{"data":[8]},"data_ref":"` + rows + `"}`, `[{"id":1}]`},
		"no rows":         {`{"output":"only words","blocks":[{"data":[7]}]}`, ``},
		"null":            {`{"output":"x","data":null}`, ``},
		"missing rows":    {`{"data_ref":"` + missing + `"}`, `not_found`},
		"not a result":    {`[1,2]`, ``},
		"empty":           {`{}`, ``},
		"deep in between": {`{"blocks":[[{"a":[1,{"data":2}]},"]"]],"output":"","data":[[],{"x":"{"}]}`, `[[],{"x":"{"}]`},
	} {
		for _, inBlobStore := range []bool{false, true} {
			if !inBlobStore && name == "not a result" {
				continue // a row cannot have such a document
			}
			body, err := read(r.Open(t.Context(), tenant, w.result(strings.ReplaceAll(name, " ", "-")+map[bool]string{true: "-stored"}[inBlobStore], test.document, inBlobStore)))
			switch test.want {
			case "not_found":
				require.Equal(t, agent.CodeNotFound, agent.CodeOf(err), "%s: %v", name, err)
				require.NotContains(t, err.Error(), missing)
				continue
			case "":
				test.want = "[" + test.document + "]" // the document is the only row
			}
			require.NoError(t, err, "%s %v", name, inBlobStore)
			require.JSONEq(t, test.want, body, "%s %v", name, inBlobStore)
		}
	}
	body, err := read(r.Open(t.Context(), tenant, rows))
	require.NoError(t, err)
	require.Equal(t, `[{"id":1}]`, body)
}

// A row of the table has the rows of a result or a reference to them, and the agent's answer separately.
func TestReaderOfRows(t *testing.T) {
	w := newWorld(t)
	original := w.put(`[{"b":1.0,"a":2}]`)
	missing := "cas://sha256:" + strings.Repeat("0", 64)
	r := results.Reader{Store: w.Store, Blobs: w.blobs}
	for name, c := range map[string]struct{ answer, data, cas, want string }{
		"original rows":   {`{"output":"x","data_ref":"` + original + `"}`, `[{"a":2,"b":1.0}]`, "", `[{"b":1.0,"a":2}]`},
		"in the row":      {`{"output":"x","blocks":[{"data":1}]}`, `[{"id":1}]`, "", `[{"id": 1}]`},
		"missing content": {`{"output":"x","data_ref":"` + missing + `"}`, `[{"id":1}]`, "", `[{"id": 1}]`},
		"too large":       {`{"output":"x","data_ref":"` + original + `"}`, ``, original, `[{"b":1.0,"a":2}]`},
	} {
		t.Run(name, func(t *testing.T) {
			id := strings.ReplaceAll(name, " ", "-")
			_, err := w.Begin(t.Context(), turn(id, ""))
			require.NoError(t, err)
			f := finish(id)
			f.Answer, f.Result, f.CASID = json.RawMessage(c.answer), json.RawMessage(c.data), strings.TrimPrefix(c.cas, "cas://")
			done, err := w.Finish(t.Context(), f)
			require.NoError(t, err)
			body, err := read(r.Open(t.Context(), tenant, done.Output.ResultRef))
			require.NoError(t, err)
			require.Equal(t, c.want, body)
			row, err := w.Result(t.Context(), tenant, id)
			require.NoError(t, err)
			var document struct {
				Output string          `json:"output"`
				Data   json.RawMessage `json:"data"`
			}
			require.NoError(t, json.Unmarshal(row.Document(), &document))
			require.Equal(t, "x", document.Output)
			require.Equal(t, string(row.Data), string(document.Data))
		})
	}
	row := postgres.ResultRow{S3Ref: "s3://bucket/key"}
	require.Equal(t, "s3://bucket/key", row.ContentRef(), "without a cas_id")
}

// A tenant cannot distinguish content of another tenant from missing content.
func TestReaderRefuses(t *testing.T) {
	w := newWorld(t)
	r := results.Reader{Store: w.Store, Blobs: w.blobs}
	artifact, content := w.result("t1", `{"data":[1]}`, false), w.put("[1]")
	changed := func(ref string) string { // a reference of the same form that nobody has
		digits := strings.NewReplacer("0", "1", "1", "0", "a", "b", "b", "a", "2", "3", "3", "2")
		i := strings.LastIndexAny(ref, ":/") + 1
		return ref[:i] + digits.Replace(ref[i:])
	}
	for _, ref := range []string{artifact, content} {
		_, foreign := r.Open(t.Context(), "evil", ref)
		_, missing := r.Open(t.Context(), tenant, changed(ref))
		require.Equal(t, agent.CodeNotFound, agent.CodeOf(foreign))
		require.Equal(t, agent.CodeNotFound, agent.CodeOf(missing))
		require.Equal(t, strings.ReplaceAll(missing.Error(), changed(ref), ref), foreign.Error())
	}
	w.result("t2", "", false)
	empty, err := w.Result(t.Context(), tenant, "t2")
	require.NoError(t, err)
	for ref, want := range map[string]agent.Code{
		"": agent.CodeInvalid, "t1": agent.CodeInvalid, "http://x": agent.CodeInvalid, "cas://sha256:00": agent.CodeInvalid,
		"artifact://t1": agent.CodeNotFound, "artifact://": agent.CodeNotFound, "artifact://" + empty.ResultID: agent.CodeNotFound,
	} {
		_, err := r.Open(t.Context(), tenant, ref)
		require.Equal(t, want, agent.CodeOf(err), "%q: %v", ref, err)
	}
	for _, invalid := range []string{"*", "", "a/b"} {
		_, err := r.Open(t.Context(), invalid, artifact)
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err), "%q: %v", invalid, err)
	}
}

// The whole document of a stored result is verified: a change after its rows is reported when the rows end.
func TestReaderVerifiesStoredResults(t *testing.T) {
	w := newWorld(t)
	r := results.Reader{Store: w.Store, Blobs: w.blobs}
	document := `{"output":"x","data":[` + strings.Repeat(`{"price":100},`, 200_000) + `{}]}`
	ref := w.result("t1", document, true)
	body, err := read(r.Open(t.Context(), tenant, ref))
	require.NoError(t, err)
	require.Equal(t, document[len(`{"output":"x","data":`):len(document)-1], body)

	row, err := w.Result(t.Context(), tenant, ref)
	require.NoError(t, err)
	digest := strings.TrimPrefix(row.CASID, "sha256:")
	other := w.put(strings.Replace(document, `"x"`, `"y"`, 1))
	theirs, err := os.ReadFile(filepath.Join(w.dir, tenant, "sha256", other[13:15], other[15:]))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, tenant, "sha256", digest[:2], digest[2:]), theirs, 0o600))
	_, err = read(r.Open(t.Context(), tenant, ref))
	require.Equal(t, agent.CodeInternal, agent.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "corrupted")

	broken := w.result("t2", `{"output":"x","data":[1,2`, true)
	_, err = read(r.Open(t.Context(), tenant, broken))
	require.Equal(t, agent.CodeInternal, agent.CodeOf(err), "%v", err)
	for i, document := range []string{``, `{`, `{"output"`, `{"output":"x`, `{"data"`, `{"data":`, `{"data_ref":1}`} {
		_, err = read(r.Open(t.Context(), tenant, w.result(fmt.Sprint("b", i), document, true)))
		require.Equal(t, agent.CodeInternal, agent.CodeOf(err), "%q: %v", document, err)
	}
}

func TestReaderStreamsStoredResults(t *testing.T) {
	w := newWorld(t)
	r := results.Reader{Store: w.Store, Blobs: w.blobs}
	ref := w.result("t1", `{"output":"`+strings.Repeat("o", 100_000)+`","data":[`+strings.Repeat(`{"price":100},`, 1_000_000)+`{}]}`, true)
	var n int64
	allocated := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			rows, err := r.Open(b.Context(), tenant, ref)
			require.NoError(b, err)
			n, err = io.Copy(io.Discard, rows)
			require.NoError(b, err)
			require.NoError(b, rows.Close())
		}
	}).AllocedBytesPerOp()
	require.EqualValues(t, len(`[{}]`)+14*1_000_000, n)
	require.Less(t, allocated, int64(6<<20), "the rows have 14 MB")
}
