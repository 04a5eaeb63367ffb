package offline

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite testdata/*.golden")

const flightsURL = "http://127.0.0.1:8081/flights"

// conversation has two results of earlier turns and one of a node of the workflow.
func conversed() *memory {
	return &memory{
		results: []kept{{ref: "cas://sha256:bb", columns: []string{"name", "rating"}}, {ref: "cas://sha256:aa", columns: apiColumns(apiFlights)}},
		nodes:   []kept{{ref: "artifact://0b1c", node: "fetch_data"}},
	}
}

// The golden files list prompts and, below each, what they become: one line for each step, or "not understood".
func TestPromptsBecomePipelines(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob(filepath.Join("testdata", "*.golden"))
	require.NoError(t, err)
	n := 0
	for _, path := range paths {
		golden, err := os.ReadFile(path)
		require.NoError(t, err)
		var got strings.Builder
		for line := range strings.SplitSeq(string(golden), "\n") {
			prompt, ok := strings.CutPrefix(line, "> ")
			if !ok {
				if strings.HasPrefix(line, "# ") {
					got.WriteString(line + "\n\n")
				}
				continue
			}
			n++
			got.WriteString("> " + prompt + "\n" + describe(t, prompt) + "\n")
		}
		if *update {
			require.NoError(t, os.WriteFile(path, []byte(got.String()), 0o600))
			continue
		}
		require.Equal(t, string(golden), got.String())
	}
	require.Greater(t, n, 150, "the golden files have lost their prompts")
}

func describe(t *testing.T, prompt string) string {
	t.Helper()
	mem := conversed()
	in := parseIntent(prompt, mem.known()...)
	var b strings.Builder
	raw, fetches, because := plan(&in, mem, flightsURL, nil)
	if !in.understood() || because != "" {
		b.WriteString("not understood\n")
		if in.understood() {
			b.WriteString(string(because))
		}
	} else {
		var refs []string
		for i := range fetches {
			b.WriteString("first:\n")
			writeCall(t, &b, raw)
			refs = append(refs, "cas://sha256:f"+string('1'+rune(i)))
			raw, _, because = plan(&in, mem, flightsURL, refs)
			require.Empty(t, because)
			b.WriteString("then:\n")
		}
		writeCall(t, &b, raw)
	}
	if len(in.ignored) > 0 {
		b.WriteString("ignored: " + strings.Join(in.ignored, ", ") + "\n")
	}
	return b.String()
}

func writeCall(t *testing.T, b *strings.Builder, raw json.RawMessage) {
	t.Helper()
	var args pipelineArgs
	require.NoError(t, json.Unmarshal(raw, &args))
	if args.InputRef != "" {
		b.WriteString("input_ref " + args.InputRef + "\n")
	}
	for _, s := range args.Pipeline {
		b.WriteString(string(s) + "\n")
	}
}

// sentences are the prompts of the golden files.
func sentences(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", "*.golden"))
	require.NoError(t, err)
	var out []string
	for _, path := range paths {
		golden, err := os.ReadFile(path)
		require.NoError(t, err)
		for line := range strings.SplitSeq(string(golden), "\n") {
			if prompt, ok := strings.CutPrefix(line, "> "); ok {
				out = append(out, prompt)
			}
		}
	}
	return out
}
