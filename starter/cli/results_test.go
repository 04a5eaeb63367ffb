package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

const cheap = `[{"id":"AU164","airline":"Aurora Air","price":234,"stops":null},{"id":"DL9","price":299.50,"tags":["red eye"]}]`

// withRows runs a turn whose result has rows and a preview of them.
func withRows(b *bench) {
	b.rt.Script = func(rt *gatewaytest.Runtime, id agent.TurnID, _ agent.TurnRequest) {
		out := rt.Output(id, agent.TurnCompleted, "Two flights:\nAU164, and DL9.\n")
		out.ResultPreview = json.RawMessage(`{"type":"dataset","row_count":20,"sample":` + cheap + `}`)
		out.ToolCalls = []agent.ToolCallNote{
			{ID: "c1", Tool: "execute_pipeline", Status: "success", Ref: "cas://sha256:00", CacheHit: true},
			{ID: "c2", Tool: "send_mail", Status: "error"},
		}
		rt.Store(out.ResultRef, []byte(`{"output":"Two flights"}`))
		rt.Store(string(id), []byte(`{"output":"Two flights"}`))
		rt.StoreRows("default", out.ResultRef, cheap)
		rt.StoreRows("default", string(id), cheap)
		rt.Emit(id, agent.Event{Type: agent.EventStatus, Status: agent.StatusCompleted, Result: out})
	}
	b.rt.Store("cas://sha256:00", []byte(cheap))
	b.rt.StoreRows("default", "cas://sha256:00", cheap)
	require.Equal(b.t, 0, b.run(noInput(), "chat", "fetch", "flights"))
	b.screen = &terminal{}
}

func TestResultsGet(t *testing.T) {
	b := setup(t)
	withRows(b)
	b.rt.Store("cas://sha256:01", nil)
	b.rt.StoreRows("default", "cas://sha256:01", `[1,"two",[3],`+strings.Repeat("0,", 20)+`0]`)
	b.succeeds("results get", "turn-1", "artifact://result-of-turn-1 -o yaml", "cas://sha256:00", "cas://sha256:01", "cas://sha256:00 -o yaml",
		"turn-1 --output raw")
	golden(t, "results_get", b.screen.String())

	out := answer[agent.AgentStepOutput](b, "results", "get", "turn-1")
	require.Equal(t, "execute_pipeline", out.ToolCalls[0].Tool)
	b.show(0, "results", "get", "turn-1", "-o", "yaml")
	var fields map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(b.screen.out()), &fields))
	require.Equal(t, "turn-1", fields["turn_id"])

	b.rt.Script = func(rt *gatewaytest.Runtime, id agent.TurnID, _ agent.TurnRequest) {
		rt.Finish(id, agent.TurnFailed, "")
	}
	require.Equal(t, exitFailed, b.run(noInput(), "chat", "x"))
	require.Contains(t, b.show(0, "results", "get", "turn-2"), "error    model_error: the provider said no", "showing a failed turn succeeds")
}

func TestResultsUsage(t *testing.T) {
	b := setup(t)
	withRows(b)
	b.rt.Store("cas://sha256:02", []byte(`{"a":1,"a":2}`))
	b.rt.StoreRows("default", "cas://sha256:02", `{"a":1,"a":2}`)
	dir := t.TempDir()
	for args, text := range map[string]string{
		"results get turn-1 -o csv":                "want text, json, yaml or raw",
		"results get nothing":                      "no result",
		"results get cas://sha256:02":              "--output raw prints it as it is",
		"results get":                              "accepts 1 arg",
		"results export nothing":                   "no result",
		"results export turn-1 --format xml":       "--format is \"xml\"",
		"results export turn-1 --spreadsheet":      "--spreadsheet is for --format csv",
		"results export turn-1 -o " + dir:          "is a folder",
		"results export turn-1 -o " + dir + "/a/b": "no such file",
	} {
		require.Contains(t, b.show(exitUsage, strings.Fields(args)...), text, args)
		require.Empty(t, b.screen.out(), args)
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestResultsExport(t *testing.T) {
	b := setup(t)
	withRows(b)
	t.Chdir(t.TempDir())
	const asCSV = "id,airline,price,stops,tags\r\nAU164,Aurora Air,234,,\r\nDL9,,299.50,,\"[\"\"red eye\"\"]\"\r\n"
	for args, want := range map[string]string{
		"results export turn-1 -f csv":                          asCSV,
		"results export turn-1 --format csv -o -":               asCSV,
		"results export cas://sha256:00 -f csv":                 asCSV,
		"results export artifact://result-of-turn-1 -f ndjson":  strings.Replace(cheap[1:len(cheap)-1], "},{", "}\n{", 1) + "\n",
		"results export turn-1":                                 cheap,
		"results export turn-1 --spreadsheet --format csv -o -": asCSV,
	} {
		b.show(0, strings.Fields(args)...)
		if json.Valid([]byte(want)) {
			require.JSONEq(t, want, b.screen.out(), args)
		} else {
			require.Equal(t, want, b.screen.out(), args)
		}
		require.Equal(t, b.screen.out(), b.screen.String(), "no progress without a terminal")
	}

	require.NoError(t, os.WriteFile("old.csv", []byte("old"), 0o640))
	require.NoError(t, os.Symlink("old.csv", "link.csv"))
	for _, name := range []string{"new.csv", "old.csv", "link.csv"} {
		b.show(0, "results", "export", "turn-1", "-o", name)
		require.Empty(t, b.screen.out())
		require.Equal(t, name+": 83 bytes\n", b.screen.String())
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, asCSV, string(data))
	}
	info, err := os.Lstat("old.csv")
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode(), "the mode does not change")
	info, err = os.Lstat("link.csv")
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeSymlink, "the link is not replaced")
	require.Equal(t, 0, b.run(noInput(), "results", "export", "turn-1", "-o", "rows.JSONL"))
	data, err := os.ReadFile("rows.JSONL")
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(string(data), "\n"))
	require.Len(t, fileNames(t), 4)
}

// fileNames returns the names of the entries of the working directory.
func fileNames(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// An export that fails leaves the file unchanged, and no other file.
func TestResultsExportIsWholeOrNothing(t *testing.T) {
	b := setup(t)
	t.Chdir(t.TempDir())
	writeFile(t, "old", "rows.json")
	first := "[" + strings.Repeat(`"0123456789",`, 50_000)
	b.rt.StoreStream("default", "burns", func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(strings.NewReader(first), iotest.ErrReader(errors.New("disk on fire")))), nil
	})
	reached := make(chan struct{}, 1)
	b.rt.StoreStream("default", "hangs", func(ctx context.Context) (io.ReadCloser, error) {
		in, out := io.Pipe()
		go func() {
			_, _ = io.WriteString(out, first)
			reached <- struct{}{}
			<-ctx.Done()
			_ = out.CloseWithError(ctx.Err())
		}()
		return in, nil
	})
	require.Equal(t, exitUnreachable, b.run(noInput(), "results", "export", "burns", "-o", "rows.json"))
	require.Contains(t, b.screen.String(), "broke off")
	require.Equal(t, exitUnreachable, b.run(noInput(), "results", "export", "burns", "-o", "new.json"))

	done := make(chan int, 1)
	go func() { done <- b.run(noInput(), "results", "export", "hangs", "-o", "rows.json") }()
	<-reached
	require.Eventually(t, func() bool { return len(fileNames(t)) == 2 }, 5*time.Second, time.Millisecond)
	b.interrupts <- os.Interrupt
	require.Equal(t, exitInterrupted, <-done)
	require.Equal(t, []string{"rows.json"}, fileNames(t))
	data, err := os.ReadFile("rows.json")
	require.NoError(t, err)
	require.Equal(t, "old", string(data))
}

// An export writes to a pipe and does not replace it by a file.
func TestResultsExportToAPipe(t *testing.T) {
	b := setup(t)
	withRows(b)
	t.Chdir(t.TempDir())
	require.NoError(t, syscall.Mkfifo("pipe", 0o600))
	read := make(chan string, 1)
	go func() {
		data, err := os.ReadFile("pipe")
		if err != nil {
			data = []byte(err.Error())
		}
		read <- string(data)
	}()
	require.Equal(t, 0, b.run(noInput(), "results", "export", "turn-1", "-o", "pipe"))
	require.JSONEq(t, cheap, <-read)
	require.Equal(t, []string{"pipe"}, fileNames(t))
}

func TestResultsExportShowsProgress(t *testing.T) {
	b := setup(t)
	withRows(b)
	for name, c := range map[string]struct {
		terminals [2]bool
		file      string
		want      bool
	}{
		"two terminals":    {[2]bool{true, true}, "", false},
		"stderr only":      {[2]bool{false, true}, "", true},
		"export to a file": {[2]bool{true, true}, "rows", true},
		"no terminal":      {[2]bool{false, false}, "rows", false},
		"stdout only":      {[2]bool{true, false}, "rows", false},
	} {
		t.Run(name, func(t *testing.T) {
			b.screen, b.terminals = &terminal{}, c.terminals
			args := []string{"results", "export", "turn-1"}
			if c.file != "" {
				args = append(args, "-o", filepath.Join(t.TempDir(), c.file))
			}
			require.Equal(t, 0, b.run(noInput(), args...))
			require.Equal(t, c.want, strings.Contains(b.screen.String(), "\r\x1b[K"), "%q", b.screen.String())
			require.NotContains(t, b.screen.out(), "\x1b")
			if c.want {
				require.Contains(t, b.screen.String(), "111 bytes")
				require.GreaterOrEqual(t, strings.Count(b.screen.String(), "\r\x1b[K"), 2, "the line is removed")
			}
		})
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 bytes", 1: "1 byte", 999: "999 bytes", 1000: "1.0 kB", 999_949: "999.9 kB", 999_950: "1.0 MB", 12_345_678: "12.3 MB",
		5_000_000_000: "5.0 GB", 7_000_000_000_000_000: "7000.0 TB",
	} {
		require.Equal(t, want, formatBytes(n))
	}
}
