package pipeline_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool/pipeline"
)

// apartRun has this binary do something in a process of its own.
func apartRun(b *testing.B, dir string, args ...string) effort {
	b.Helper()
	binary, err := os.Executable()
	require.NoError(b, err)
	given := append([]string{"-test.run=^$", "-test.bench=^BenchmarkVersus$", "-test.benchtime=1x", "--", dir}, args...)
	cmd := exec.CommandContext(b.Context(), binary, given...)
	var out bytes.Buffer
	cmd.Stdout = &out // with what fails
	defer func() {
		if b.Failed() {
			b.Log(out.String())
		}
	}()
	return measure(b, cmd)
}

// apart is the other side of apartRun: a folder, then "make" for the tables, or "run" and the arguments of execute_pipeline.
func apart(b *testing.B, args []string) {
	b.Helper()
	dir := folder(args[0])
	if args[1] == "make" {
		dir.makeTables(b)
		return
	}
	kit := pipeline.New(pipeline.Config{HTTP: dir, Datasets: dir, Blobs: dir})
	res, err := kit.Tools()[0].Call(b.Context(), agent.Invocation{Tenant: "acme"}, agent.ToolCall{Args: json.RawMessage(args[2])})
	require.NoError(b, err)
	require.Nil(b, res.Failure)
	require.NoError(b, os.WriteFile(dir.file("report.json"), res.Output, 0o600))
}

// folder is an upstream and a store of files.
type folder string

func (f folder) file(name string) string { return filepath.Join(string(f), name) }

// makeTables writes each table twice: as an array, and with a row on each line.
func (f folder) makeTables(b *testing.B) {
	b.Helper()
	for name, table := range map[string]string{"flights": flights(versusRows), "seats": seats(versusRows)} {
		require.NoError(b, os.WriteFile(f.file(name+".json"), []byte(table), 0o600))
		lines := strings.ReplaceAll(strings.Trim(table, "[]"), "},{", "}\n{") + "\n"
		require.NoError(b, os.WriteFile(f.file(name+".ndjson"), []byte(lines), 0o600))
	}
}

func (f folder) Do(req *http.Request) (*http.Response, error) {
	body, err := os.Open(f.file("flights.json"))
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, Request: req}, err
}

func (f folder) Open(_ context.Context, _, ref string) (io.ReadCloser, error) {
	return os.Open(f.file(strings.TrimPrefix(ref, "cas://") + ".json"))
}

func (f folder) Put(_ context.Context, _ string, r io.Reader) (string, error) {
	out, err := os.Create(f.file("ours.out"))
	if err != nil {
		return "", err
	}
	if _, err := io.Copy(out, r); err != nil {
		return "", err
	}
	return "cas://sha256:0", out.Close()
}

// measure runs a process to its end. Its memory is the high-water mark that the kernel keeps: read all along, because with the process it
// is gone, and what wait(2) tells counts this process in.
func measure(b *testing.B, cmd *exec.Cmd) effort {
	b.Helper()
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	began := time.Now()
	require.NoError(b, cmd.Start())
	ended, peak := make(chan struct{}), make(chan int64)
	go func() {
		most, tick := int64(0), time.NewTicker(2*time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				peak <- most
				return
			case <-tick.C:
				most = max(most, highWater(cmd.Process.Pid))
			}
		}
	}()
	err := cmd.Wait()
	wall := time.Since(began)
	close(ended)
	e := effort{wall: wall, peak: <-peak}
	require.NoError(b, err, complaint.String())
	return e
}

// highWater is the most bytes of memory that a process has had; 0 when it has ended.
func highWater(pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, line, _ := strings.Cut(string(status), "VmHWM:")
	var kib int64
	_, _ = fmt.Sscanf(line, "%d kB", &kib) // of a process that ended it is missing
	return kib << 10
}

// version is what a tool calls itself.
func version(b *testing.B, tool string) string {
	b.Helper()
	out, err := exec.CommandContext(b.Context(), tool, "--version").Output()
	require.NoError(b, err)
	return strings.Fields(string(out))[0]
}
