package pipeline_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

// versusRows is how long the table of BenchmarkVersus is.
const versusRows = 1_000_000

// BenchmarkVersus does the same work with a pipeline, jq and SQLite, side by side, compares what they answer and prints a table of time
// and memory. Each is a process of its own that reads a file and writes one, so that all are measured alike; ours is this binary, told by
// arguments what to do. It takes minutes: `task bench:pipeline`.
func BenchmarkVersus(b *testing.B) {
	if flag.NArg() > 0 {
		apart(b, flag.Args())
		return
	}
	for _, tool := range []string{"jq", "sqlite3"} {
		_, err := exec.LookPath(tool)
		require.NoError(b, err, "%s is needed: apt-get install %[1]s", tool)
	}
	dir := b.TempDir()
	apartRun(b, dir, "make")

	var table strings.Builder
	for _, c := range contests() {
		b.Run(c.name, func(b *testing.B) {
			var ours, jq, sqlite effort
			for b.Loop() {
				ours, jq, sqlite = c.ours(b, dir), c.jq(b, dir), c.sqlite(b, dir)
			}
			b.ReportMetric(0, "ns/op") // of all three together: says nothing
			b.ReportMetric(jq.ratio(ours), "jq/ours")
			b.ReportMetric(sqlite.ratio(ours), "sqlite/ours")
			fmt.Fprintf(&table, "| `%s` | %s, step %s | %s (%.1f×) | %s, query %s (%.1f×) |\n", c.name,
				ours, ms(ours.inner), jq, jq.ratio(ours), sqlite, ms(sqlite.inner), sqlite.ratio(ours))
		})
	}
	load, err := os.ReadFile("/proc/loadavg")
	require.NoError(b, err)
	fmt.Fprintf(os.Stdout, "\n%d rows; %s, SQLite %s; load average %s\n| Primitive | Ours | jq | SQLite |\n|---|---|---|---|\n%s\n", versusRows,
		version(b, "jq"), version(b, "sqlite3"), strings.Join(strings.Fields(string(load))[:3], " "), table.String())
}

// effort is what a process took.
type effort struct {
	wall  time.Duration // from start to end
	inner time.Duration // of that, in the step or query itself; jq does not tell
	peak  int64         // bytes of resident memory
}

// ratio is how many times as long as another it took.
func (e effort) ratio(other effort) float64 { return e.wall.Seconds() / other.wall.Seconds() }

func (e effort) String() string { return fmt.Sprintf("%s / %d MB", ms(e.wall), e.peak/1_000_000) }

func ms(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) + " ms" }

// ours runs the pipeline in a process, and keeps what it answers for comparison.
func (c *contest) ours(b *testing.B, dir string) effort {
	b.Helper()
	e := apartRun(b, dir, "run", c.args)
	var report struct {
		Steps []struct {
			MS int64 `json:"ms"`
		} `json:"steps"`
	}
	raw, err := os.ReadFile(filepath.Join(dir, "report.json"))
	require.NoError(b, err)
	require.NoError(b, json.Unmarshal(raw, &report))
	for _, s := range report.Steps {
		e.inner += time.Duration(s.MS) * time.Millisecond
	}
	c.answer = digest(b, filepath.Join(dir, "ours.out"), c.unordered)
	require.Positive(b, c.answer.rows)
	return e
}

func (c *contest) jq(b *testing.B, dir string) effort {
	b.Helper()
	name := filepath.Join(dir, "jq.out")
	out, err := os.Create(name)
	require.NoError(b, err)
	cmd := exec.CommandContext(b.Context(), "jq", append([]string{"-c"}, c.jqArgs...)...)
	cmd.Dir, cmd.Stdout = dir, out
	e := measure(b, cmd)
	require.NoError(b, out.Close())
	require.Equal(b, c.answer, digest(b, name, c.unordered), "jq has another answer")
	return e
}

func (c *contest) sqlite(b *testing.B, dir string) effort {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), "sqlite3", "-batch", "-bail", ":memory:")
	var timer bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stdin = dir, &timer, strings.NewReader(c.script())
	e := measure(b, cmd)
	var seconds float64
	_, err := fmt.Sscanf(timer.String(), "Run Time: real %f", &seconds)
	require.NoError(b, err, timer.String())
	e.inner = time.Duration(seconds * float64(time.Second))
	require.Equal(b, c.answer, digest(b, filepath.Join(dir, "sqlite.out"), c.unordered), "SQLite has another answer")
	return e
}

// answer tells two results apart.
type answer struct {
	rows int
	sum  uint64
}

// digest reads an array of rows, or one row after the other, and removes the file. Numbers are compared by their first ten digits, since jq
// and SQLite compute with floats.
func digest(b *testing.B, name string, unordered bool) answer {
	b.Helper()
	f, err := os.Open(name)
	require.NoError(b, err)
	defer func() { require.NoError(b, os.Remove(name)) }()
	defer f.Close()
	dec := jsontext.NewDecoder(bufio.NewReaderSize(f, 1<<20))
	if dec.PeekKind() == '[' {
		_, err := dec.ReadToken()
		require.NoError(b, err)
	}
	a, outside, hash := answer{}, dec.StackDepth(), fnv.New64a()
	var number []byte
	for {
		token, err := dec.ReadToken()
		if err == io.EOF || err == nil && dec.StackDepth() < outside { //nolint:errorlint // the decoder returns it bare
			return a
		}
		if err != nil {
			require.NoError(b, err, name)
		}
		_, _ = hash.Write([]byte{byte(token.Kind())})
		switch token.Kind() {
		case '0':
			n, err := token.Float()
			require.NoError(b, err)
			number = strconv.AppendFloat(number[:0], n, 'g', 10, 64)
			_, _ = hash.Write(number)
		case '"':
			_, _ = io.WriteString(hash, token.String())
		default: // its kind is all of it
		}
		if dec.StackDepth() > outside {
			continue
		}
		a.rows++
		if unordered {
			a.sum += hash.Sum64()
		} else {
			a.sum = a.sum*31 + hash.Sum64()
		}
		hash.Reset()
	}
}
